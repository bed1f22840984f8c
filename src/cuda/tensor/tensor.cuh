/* Kernel sums on tensor cores: what the mma.sync and the wgmma kernels share.
 * || Coordinates are whitened and scaled by sqrt(log2 e), so that the exponent to base 2 is
 *   t = x.y - |x|^2/2 - |y|^2/2.
 * Each coordinate is split into two FP16 terms, x = hi + lo. The high parts lie on a grid of 2^-g. It is chosen so
 * that their products, multiples of 2^-2g, add up exactly in FP32 however much -|x|^2/2 - |y|^2/2 cancels; these
 * two norms are rounded to a grid of their own, on which their sum is exact. hi.hi comes first and leaves a small
 * number, to which lo.hi + (hi + lo).lo is added without loss, with hi + lo rounded to FP16. What lo omits moves a
 * point by 1e-6; the norms are those of the points so moved. That rounding loses at most a quarter of lo.lo, which
 * is d 4^-g / 12 for a point that meets itself.
 * || Targets are the rows of a tile, sources its columns. Padding: rows have offset 0, coordinates 0 and no
 * result; columns have offset -inf, so that their kernel is 0. */
#ifndef FK_CUDA_TENSOR_CUH
#define FK_CUDA_TENSOR_CUH

#include <cuda_fp16.h>
#include <stdint.h>

enum {
  FK_TENSOR_ROWS = 384, /* rows and columns are padded to multiples of these */
  FK_TENSOR_COLS = 128,
  FK_TENSOR_WIDE = 64,    /* points of more dimensions have kernels of their own, which read them slice by slice */
  FK_TENSOR_FLUSH = 4096, /* most columns of one FP32 sum, which is then added to FP64 */
  FK_TENSOR_LEAST_SLOT = 512,   /* fewest columns that are worth a block: twice the time to start one */
  FK_TENSOR_VALUE_FLUSH = 1024, /* as FK_TENSOR_FLUSH, for sums in the tensor cores, which truncate */
  FK_TENSOR_LONGEST = 1 << 17,  /* as FK_TENSOR_FLUSH, for sums that leave tensor cores for FP32 */
  FK_TENSOR_SHORT = 64          /* as FK_TENSOR_FLUSH, for short sums: a thread has a quarter of them */
};

/* An entry of a list of stages: the number of the stage in its slot, and a bit for each of a block's four
 * warpgroups that it is near to. */
enum { FK_LIST_WIDTH = 16 }; /* FP16 terms: points with more have no lists */
enum : uint32_t { FK_LIST_STAGE = 0x0fffffff, FK_LIST_ALL = 0xf0000000 };

/* Kernels that are summed with values go through FP16, as 2^(t + raise) <= 2^raise. */
enum { FK_TENSOR_RAISE = 15 };

/* Exponent of the power of two by which a row with this kernel sum is raised further: an integer, so that sums
 * stay on their grid. If the kernel sum is below the range of floats, the rest of the sum is in FP64 (sources
 * outside all frames). Then, and for 0, the row is left to the pass for the tails, because FP16 could add no
 * digits. */
static __device__ __forceinline__ int fk_raise_of_mass(double mass) {
  int exponent = 0;
  if (mass >= 0x1p-126) frexp(mass, &exponent);
  return exponent;
}

/* For each FK_TENSOR_UNIT rows, which share a part: these rows meet only the columns first .. end - 1, and of
 * these not column r + self. Columns of a part are whole stages. */
enum { FK_TENSOR_UNIT = 256 };
struct fk_tensor_part {
  int first, end;
  int64_t self;
};

/* Points split into FP16 terms, point-major. */
struct fk_tensor_points {
  const __half *hi, *lo; /* n_pad x k, k = 16 ceil(d / 16); zero padded */
  const float *offset;   /* n_pad; -|x|^2/2 and what else is added to the exponent */
  int64_t n, n_pad;
  int k;
};

/* Values that are summed with the kernels: n_values columns, then the ones (or mantissas of the weights), whose
 * sum is the kernel sum; zero padded. If the values are the coordinates and there are no weights, hi and lo are
 * those of the points, NULL here, and the kernel sum adds the rounded kernels. */
struct fk_tensor_values {
  const __half *hi, *lo; /* n_pad x width, width = 8 ceil((n_values + 1) / 8) */
  int n_values, width;
};

struct fk_tensor_task {
  struct fk_tensor_points rows, cols;
  bool single;         /* add the rounding errors of FP16 kernels; not with coordinates */
  bool low_low;        /* add lo.lo */
  bool coarse;         /* columns and coordinates have no low parts */
  const float *weight; /* for kernel sums only: n_pad weights of the columns; NULL: ones */
  /* For sums with weights only: FP32 sums run over FK_TENSOR_SHORT columns at most, as conjugate gradients need.
   */
  bool short_sums;
  const void *row_stages; /* wgmma, for short sums and for many dimensions: the rows packed like columns */
  /* Kernel sum and values: the kernel goes through FP16 as 2^(t + shift), with the shift included in the rows'
   * offsets. */
  bool has_values;
  struct fk_tensor_values values;
  /* k * (factor0 + factor1 t), the Laplace correction; factor0 NULL: k alone. t is the exponent as it leaves the
   * accumulator, so factor0 of a row includes a term that cancels what its offset added. */
  const float *factor0; /* n_pad, of the rows */
  float factor1;
  const float *col_factor;   /* n_pad, of the columns, added to factor0 (for weights in their offsets); or NULL */
  int64_t self;              /* row r omits column r + self; INT64_MIN: omits none */
  const struct fk_tensor_part *parts; /* of all rows, whose slots are runs of their part's columns; NULL: rows
                                       * meet all columns */
  int64_t first_row, n_rows; /* rows of this launch: multiples of FK_TENSOR_ROWS, except the last ones */
  /* Columns are summed in `slots` runs of cols_per_slot (a multiple of FK_TENSOR_UNIT), each into its own part of
   *   acc[slot][0 .. n_values][n_rows_pad]   (0: the kernel sum; FP64)
   * which is overwritten, except slots beyond the columns of a part. n_rows_pad: n_rows rounded up to a multiple
   * of FK_TENSOR_ROWS. */
  int slots;
  int64_t cols_per_slot;
  double *acc;
  /* wgmma, for many dimensions: store the exponents, [row of the launch][column], with rows ld_exponents apart, in
   * place of sums; NULL: sums. */
  float *exponents;
  int64_t ld_exponents;
  /* wgmma: the stages that are near to each block of rows of the launch, [block][stage], each slot's in order from
   * its first stage on, and their number, [slot][block]; NULL: all stages. Kernel sums begin at the rows'
   * `ground`, which is subtracted again: terms too small to change it do not count, listed or not. */
  const uint32_t *list;
  const int *listed;
  const float *ground;
};

#endif

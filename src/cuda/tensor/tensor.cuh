/* Kernel sums on tensor cores: what the mma.sync and the wgmma kernels share.
 *
 * Coordinates are whitened and scaled by sqrt(log2 e), so that the exponent of base 2 is
 *   t = x.y - |x|^2/2 - |y|^2/2.
 * Each is split in two halves of fp16, x = hi + lo. The high parts lie on a grid of 2^-g, chosen so that their
 * products, multiples of 2^-2g, add up exactly in FP32 however much -|x|^2/2 - |y|^2/2 cancels; those two are
 * rounded to a grid of their own, on which their sum is exact. hi.hi goes first: it leaves a small number, to
 * which lo.hi + (hi + lo).lo is added without loss, hi + lo rounded to one half. What lo leaves out moves a point
 * by 1e-6, and the norms are those of the points so moved. Of lo.lo, d 4^-g / 12 for a point that meets itself, a
 * quarter at most is lost by that rounding.
 *
 * Targets are the rows of a tile, sources its columns. Padding: rows have offset 0 and no coordinates, and are
 * not read; columns have offset -inf, so that their kernel is 0.
 */
#ifndef FK_CUDA_TENSOR_CUH
#define FK_CUDA_TENSOR_CUH

#include <cuda_fp16.h>
#include <stdint.h>

enum {
  FK_TENSOR_ROWS = 384, /* rows and columns are padded to multiples of these */
  FK_TENSOR_COLS = 128,
  FK_TENSOR_WIDE = 64,    /* halves; points of more have kernels of their own, which take them slice by slice */
  FK_TENSOR_FLUSH = 4096, /* columns that one FP32 sum may run over; then it goes into a second level in FP64 */
  FK_TENSOR_LEAST_SLOT = 512,   /* columns that are worth a block, twice what it takes to begin one */
  FK_TENSOR_VALUE_FLUSH = 1024, /* the same for sums in the tensor cores, which truncate */
  FK_TENSOR_LONGEST = 1 << 17,  /* the same where they are in FP32 after those */
  FK_TENSOR_SHORT = 64          /* the same where sums are to be short: a thread has a quarter of them */
};

/* An entry of a list of stages: which of the slot, and a bit for each of a block's four warpgroups that it is near
 * to. */
enum { FK_LIST_WIDTH = 16 }; /* halves: points of more have none */
enum : uint32_t { FK_LIST_STAGE = 0x0fffffff, FK_LIST_ALL = 0xf0000000 };

/* Kernels that are summed with values go through fp16, as 2^(t + raise) <= 2^raise. */
enum { FK_TENSOR_RAISE = 15 };

/* By which power of two a row of that mass is raised further: a whole number, so that sums stay on their grid. Masses
 * below those of floats are of what is summed in double beside (frames' rest); they, and 0, leave the row to the tail
 * pass, for what halves could add to them has no digits. */
static __device__ __forceinline__ int fk_raise_of_mass(double mass) {
  int exponent = 0;
  if (mass >= 0x1p-126) frexp(mass, &exponent);
  return exponent;
}

/* Rows that meet the columns first .. end - 1 alone, and of these not column r + self: of each FK_TENSOR_UNIT
 * rows, which are of one part. Its columns are whole stages. */
enum { FK_TENSOR_UNIT = 256 };
struct fk_tensor_part {
  int first, end;
  int64_t self;
};

/* Points split in halves, point-major. */
struct fk_tensor_points {
  const __half *hi, *lo; /* n_pad x k, k = 16 ceil(d / 16); zero padded */
  const float *offset;   /* n_pad; -|x|^2/2 and what else is added to the exponent */
  int64_t n, n_pad;
  int k;
};

/* What is summed beside the kernels: n_values columns and then the ones (or mantissas of the weights) whose sum is
 * the mass; zero padded. Where the values are the coordinates and there are no weights, hi and lo are those of
 * the points, NULL here, and the mass is the sum of the rounded kernel values. */
struct fk_tensor_values {
  const __half *hi, *lo; /* n_pad x width, width = 8 ceil((n_values + 1) / 8) */
  int n_values, width;
};

struct fk_tensor_task {
  struct fk_tensor_points rows, cols;
  bool single;         /* what rounding to fp16 takes off the kernels is added, but not with coordinates */
  bool low_low;        /* lo.lo is added */
  bool coarse;         /* columns and coordinates have no low parts */
  const float *weight; /* mass alone: n_pad weights of the columns, NULL: ones */
  /* Of weights alone: FP32 sums over FK_TENSOR_SHORT columns at most, as those that conjugate gradients go by. */
  bool short_sums;
  const void *row_stages; /* wgmma, of short sums and of many dimensions: the rows packed as columns are */
  /* Mass and values: the kernel goes through fp16 as 2^(t + shift), the shift being part of the rows' offsets. */
  bool has_values;
  struct fk_tensor_values values;
  /* k * (factor0 + factor1 t), the Laplace correction; factor0 NULL: k alone. Of the exponent as it comes out of
   * the accumulator, so that factor0 of a row takes off what its offset has added. */
  const float *factor0; /* n_pad of the rows */
  float factor1;
  const float *col_factor;   /* n_pad of the columns, added to factor0 (weights in their offsets), or NULL */
  int64_t self;              /* row r does not meet column r + self; INT64_MIN: meets all */
  const struct fk_tensor_part *parts; /* of all rows, and slots are runs of their columns; NULL: rows meet all */
  int64_t first_row, n_rows; /* the rows of this launch, multiples of FK_TENSOR_ROWS but for the last */
  /* Columns are summed in `slots` runs of cols_per_slot (a multiple of FK_TENSOR_UNIT), each into its own part of
   *   acc[slot][0 .. n_values][n_rows_pad]   (0: the mass; FP64)
   * which is written, not added to, but for slots that a part does not reach. n_rows_pad: n_rows, up to a
   * multiple of FK_TENSOR_ROWS. */
  int slots;
  int64_t cols_per_slot;
  double *acc;
  /* In place of sums the exponents themselves, of wide points by wgmma: [row of the launch][column], their rows
   * ld_exponents apart; NULL: sums. */
  float *exponents;
  int64_t ld_exponents;
  /* wgmma: the stages that are near to each block of rows of the launch, [block][stage], from a slot's first on in
   * their order, and how many they are, [slot][block]; NULL: all. Sums of the mass begin at the rows' `ground`,
   * which is taken off again: terms too small to change that are no part of them, listed or not. */
  const uint32_t *list;
  const int *listed;
  const float *ground;
};

#endif

/* Packs whitened points for tensor cores: as FP16 terms (tensor_pack.cu) and as doubles (dmma_pack.cu). */
#ifndef FK_CUDA_PACK_CUH
#define FK_CUDA_PACK_CUH

#include "../tensor/sums_dmma.cuh"
#include "../tensor/tensor.cuh"
#include "points.cuh"

/* ---- halves (tensor_pack.cu) ------------------------------------------------------------------ */

/* The grids to which high parts (2^-g) and norms (2^-norm) are rounded. */
struct fk_tensor_grid {
  int g, norm;
  double row_limit;   /* largest |x|^2 of a row */
  double scale;       /* of the coordinates */
  double step, steps; /* 2^-g and 2^g */
  bool low_low;       /* lo.lo is large enough to matter */
};
/* radius2: the largest |u|^2, in bandwidths; rows2: that of the rows; 0: rows further out are recomputed. Returns
 * false if the points are too wide. */
bool fk_tensor_grid_choose(double radius2, double rows2, int d, bool single, struct fk_tensor_grid *grid);
/* The largest radius of sources whose rows reach `reach` further out. */
double fk_tensor_radius(double reach, int d, bool single);

struct fk_tensor_pack {
  struct fk_tensor_grid grid;
  const double *weight; /* of sources, or NULL */
  double weight_scale;
  bool weight_in_offset; /* the weight's power of two is in the offset, its mantissa in the values */
  bool coarse;           /* high parts are the nearest FP16 numbers */
  bool high_norms;       /* norms of rows are those of their high parts */
  bool stays;            /* do not move points to where their norms are on the grid; `weight` corrects the rest */
  const int *list;       /* index of each column; below 0: padding; NULL: all columns, in order */
};
/* Where packed columns go: n_pad x k FP16 terms, and n_pad of the other numbers that are wanted. */
struct fk_tensor_cols {
  __half *hi, *lo;
  float *offset, *weight, *col_factor; /* weight and col_factor: NULL if not wanted */
  float factor1;
  int64_t n_pad;
  int k;
};
cudaError_t fk_tensor_pack_cols(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_cols *to, cudaStream_t stream);
/* Where packed rows go. */
struct fk_tensor_rows {
  __half *hi, *lo;
  float *offset, *factor0; /* factor0: NULL if not wanted */
  double *undo; /* factor of the sums that removes the shift and the rounding of the offset; NaN: the row is too
                 * far out for the grid */
  int64_t n_pad;
  int k;
  const double *mass; /* kernel sums of an earlier pass: exponents are raised so that the kernels sum to about
                       * 2^shift; NULL: none */
  int shift;
  double factor[2];
};
cudaError_t fk_tensor_pack_rows(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_rows *to, cudaStream_t stream);
/* Packs columns first on of values, [..][ld], of n points, multiplied by `scale`, and the column of ones last, to
 * to->hi and to->lo. */
struct fk_tensor_columns {
  const double *values;
  int64_t ld, n, n_pad;
  double scale;
  int first;
};
cudaError_t fk_tensor_pack_values(const struct fk_tensor_columns *from, const struct fk_tensor_pack *pack,
                                  const struct fk_tensor_values *to, cudaStream_t stream);

/* ---- doubles (dmma_pack.cu) ------------------------------------------------------------------- */

/* weights: divided by `scale`, they go to the offset, or to `weight` if that is wanted; NULL: ones. */
struct fk_dmma_cols {
  struct fk_dmma_points to;
  double *offset, *weight;
  const double *weights;
  double scale;
};
cudaError_t fk_dmma_pack_cols(const struct fk_cuda_points *points, const struct fk_dmma_cols *cols,
                              cudaStream_t stream);
/* undo: the factor of a row's sums. */
struct fk_dmma_rows {
  struct fk_dmma_points to;
  double *magic, *norm, *undo;
};
cudaError_t fk_dmma_pack_rows(const struct fk_cuda_points *points, const struct fk_dmma_rows *rows,
                              cudaStream_t stream);

#endif

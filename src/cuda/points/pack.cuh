/* Whitened points packed for tensor cores: as halves (tensor_pack.cu), and as doubles (dmma_pack.cu). */
#ifndef FK_CUDA_PACK_CUH
#define FK_CUDA_PACK_CUH

#include "../tensor/sums_dmma.cuh"
#include "../tensor/tensor.cuh"
#include "points.cuh"

/* ---- halves (tensor_pack.cu) ------------------------------------------------------------------ */

/* The grids of the high parts, 2^-g, and of the norms, 2^-norm. */
struct fk_tensor_grid {
  int g, norm;
  double row_limit;   /* of |x|^2 of the rows */
  double scale;       /* of the coordinates */
  double step, steps; /* 2^-g and 2^g */
  bool low_low;       /* lo.lo is large enough to be seen */
};
/* radius2: the largest |u|^2, in kernel standard deviations; rows2: that of the rows, 0: rows further out are to
 * be done again. False where the points are too wide. */
bool fk_tensor_grid_choose(double radius2, double rows2, int d, bool single, struct fk_tensor_grid *grid);
/* The largest radius of sources whose rows come from `reach` further out. */
double fk_tensor_radius(double reach, int d, bool single);

struct fk_tensor_pack {
  struct fk_tensor_grid grid;
  const double *weight; /* of sources, or NULL */
  double weight_scale;
  bool weight_in_offset; /* its power of two, with the mantissa in the values */
  bool coarse;           /* high parts are the nearest halves */
  bool high_norms;       /* the norms of rows are those of their high parts */
  bool stays;      /* points are not moved to where their norms are on the grid: what that leaves is in `weight` */
  const int *list; /* of columns, those below 0 are none; NULL: all are some */
};
/* Where packed columns go: n_pad x k halves, and n_pad of the others, those of them that are wanted. */
struct fk_tensor_cols {
  __half *hi, *lo;
  float *offset, *weight, *col_factor; /* weight and col_factor: NULL where they are not wanted */
  float factor1;
  int64_t n_pad;
  int k;
};
cudaError_t fk_tensor_pack_cols(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_cols *to, cudaStream_t stream);
/* And packed rows. */
struct fk_tensor_rows {
  __half *hi, *lo;
  float *offset, *factor0; /* factor0: NULL where it is not wanted */
  double *undo; /* what sums are multiplied with to take off shift and the offset's rounding; NaN: too far out for
                   the grid */
  int64_t n_pad;
  int k;
  const double *mass; /* of an earlier pass: the exponent is raised so that the kernels sum to about 2^shift; NULL:
                         none */
  int shift;
  double factor[2];
};
cudaError_t fk_tensor_pack_rows(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_rows *to, cudaStream_t stream);
/* Columns first on of values, [..][ld], times scale, of n points, and last the ones, to to->hi and to->lo. */
struct fk_tensor_columns {
  const double *values;
  int64_t ld, n, n_pad;
  double scale;
  int first;
};
cudaError_t fk_tensor_pack_values(const struct fk_tensor_columns *from, const struct fk_tensor_pack *pack,
                                  const struct fk_tensor_values *to, cudaStream_t stream);

/* ---- doubles (dmma_pack.cu) ------------------------------------------------------------------- */

/* weights: divided by `scale` they go to the offset, or to `weight` where that is wanted; NULL: ones. */
struct fk_dmma_cols {
  struct fk_dmma_points to;
  double *offset, *weight;
  const double *weights;
  double scale;
};
cudaError_t fk_dmma_pack_cols(const struct fk_cuda_points *points, const struct fk_dmma_cols *cols,
                              cudaStream_t stream);
/* undo: what the sums of a row are to be multiplied with. */
struct fk_dmma_rows {
  struct fk_dmma_points to;
  double *magic, *norm, *undo;
};
cudaError_t fk_dmma_pack_rows(const struct fk_cuda_points *points, const struct fk_dmma_rows *rows,
                              cudaStream_t stream);

#endif

/* Gaussian sums in FP64 on tensor cores. */
#ifndef FK_CUDA_SUMS_DMMA_CUH
#define FK_CUDA_SUMS_DMMA_CUH

#include "../device/common.cuh"

/* Points scaled by sqrt(log2 e): [k][ld][8], eight coordinates of a point adjacent, zero padded, where k = ceil(d
 * / 8). */
struct fk_dmma_points {
  double *octets;
  int64_t ld;
  int k;
};
struct fk_dmma_task {
  struct fk_dmma_points rows, cols;
  const double *offset; /* of the columns: -|x|^2/2 and the logarithm of a weight; far below all others in the
                         * padding */
  const double *magic;  /* of the rows: EXP2_MAGIC (exp2.cuh) - |y|^2/2, rounded as that constant does */
  /* With a polynomial of t, else NULL: of the rows -|y|^2/2, and weights of the columns that are not in the
   * offset. */
  const double *norm, *weight;
  double factor[3];
  const double *values; /* [n_values][cols.ld] */
  int n_values;
  int64_t self; /* row r omits column r + self, which may not exist */
  int64_t n_cols, first_row, rows_here, ld_acc;
  int slots;
  int64_t cols_per_slot;
  double *acc; /* [slot][1 + n_values][ld_acc], overwritten */
};
cudaError_t fk_dmma_launch(const struct fk_dmma_task *task, cudaStream_t stream);

#endif

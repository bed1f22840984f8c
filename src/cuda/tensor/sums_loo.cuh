/* Leave-one-out sums of an SD-KDE on tensor cores, by mma.sync, for every GPU since Ampere. core/loo.h has the
 * formula, here without local factors and with a score of bandwidth H / 2. Row i sums w_j 2^(f^2 t) over the
 * columns j, with f = 1 / (1 - eps), eps = v_i 2^(2 s): t is the exponent of x_i and the mean a_j, s that of x_i
 * and x_j less log2(S_j) / 2, which is in the offsets of the sources. With equal weights eps is at most 1/2, since
 * S_j has the kernels of both i and j.
 * || Offsets are on a grid, which is coarse for points that reach far. What that takes off exponents is added to t
 * and s before they are multiplied; otherwise it is a factor of the sum, or of the column's weight. */
#ifndef FK_CUDA_SUMS_LOO_CUH
#define FK_CUDA_SUMS_LOO_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>

/* Columns that do not count have this offset, which is finite so that f^2 t is no NaN, and weight 0. */
#define FK_LOO_FAR -1e30f

struct fk_loo_numbers {
  float s, t; /* to be added to 2 s, with log2 of v_i for a row, at most about 3; and to t */
};

struct fk_loo_tensor {
  struct fk_tensor_task means;   /* kernel sums at the rows, with the means a_j as columns, with weights */
  struct fk_tensor_task sources; /* the same, with the points x_j as columns */
  const struct fk_loo_numbers *rows, *columns;
};
/* For points of at most FK_LOO_WIDE dimensions: with more, rounding errors exceed what single precision promises.
 */
enum { FK_LOO_WIDE = 16 };
cudaError_t fk_loo_tensor_launch(const struct fk_loo_tensor *task, cudaStream_t stream);

#endif

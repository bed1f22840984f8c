/* Leave-one-out sums of an SD-KDE on tensor cores, by mma.sync, for every GPU since Ampere. core/loo.h has the
 * formula, here without local factors and with a score of bandwidth H / 2. Row i sums w_j 2^(f^2 t) over the
 * columns j, with f = 1 / (1 - eps), eps = v_i 2^(2 s): t is the exponent of x_i and the mean a_j, s that of x_i
 * and x_j less log2(S_j) / 2, which is in the offsets of the sources. With equal weights eps is at most 1/2, since
 * S_j has the kernels of both i and j. */
#ifndef FK_CUDA_SUMS_LOO_CUH
#define FK_CUDA_SUMS_LOO_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>

struct fk_loo_tensor {
  struct fk_tensor_task means;   /* kernel sums at the rows, with the means a_j as columns and their weights */
  struct fk_tensor_task sources; /* the same, with the points x_j as columns */
  const float *log_weight; /* of the rows: log2 of v_i, at most about 3, and of what rounding has taken off 2 s */
};
/* For points of at most FK_TENSOR_WIDE dimensions. */
cudaError_t fk_loo_tensor_launch(const struct fk_loo_tensor *task, cudaStream_t stream);

#endif

/* Leave-one-out sums of an SD-KDE on tensor cores, by mma.sync, for every GPU since Ampere. core/loo.h has the
 * formula, here for equal weights and a score of bandwidth H / 2. Row i sums 2^(f^2 t) over the columns j, with
 * f = 1 / (1 - eps), eps = 2^(2 s): t is the exponent of x_i and the mean a_j, s that of x_i and x_j less
 * log2(S_j) / 2, which is in the offsets of the sources. eps is at most 1/2, since S_j has the kernels of both i
 * and j. */
#ifndef FK_CUDA_SUMS_LOO_CUH
#define FK_CUDA_SUMS_LOO_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>

struct fk_loo_tensor {
  /* Kernel sums at the rows, with the means a_j as columns; `self` is INT64_MIN or the first row's own source. */
  struct fk_tensor_task means;
  struct fk_tensor_task sources; /* the same, with the points x_j as columns */
  const double *undo;            /* of the rows: see struct fk_tensor_rows */
};
/* For points of at most FK_TENSOR_WIDE dimensions. */
cudaError_t fk_loo_tensor_launch(const struct fk_loo_tensor *task, cudaStream_t stream);

#endif

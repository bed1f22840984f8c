/* The tasks of tensor.cuh by mma.sync, from Ampere on. */
#ifndef FK_CUDA_SUMS_MMA_CUH
#define FK_CUDA_SUMS_MMA_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>

cudaError_t fk_mma_launch(const struct fk_tensor_task *task, cudaStream_t stream);
/* Most columns of values, besides the ones, in a launch; and the width to which their tiles are padded. */
enum { FK_MMA_VALUES = 64 };
int fk_mma_value_width(int n_values, int k);

#endif

/* The tasks of tensor.cuh on mma.sync, from Ampere on. */
#ifndef FK_CUDA_SUMS_MMA_CUH
#define FK_CUDA_SUMS_MMA_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>

cudaError_t fk_mma_launch(const struct fk_tensor_task *task, cudaStream_t stream);
/* Columns of values beside the ones in one launch, and the width that their tiles are padded to. */
enum { FK_MMA_VALUES = 64 };
int fk_mma_value_width(int n_values, int k);

#endif

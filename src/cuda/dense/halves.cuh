/* The product of dense.cu on tensor cores: see FK_HALVES in core/dense.h. */
#ifndef FK_CUDA_DENSE_HALVES_CUH
#define FK_CUDA_DENSE_HALVES_CUH

#include "../../core/dense.h"
#include "../device/libraries.cuh"

enum fk_status fk_cuda_halves_gemm(struct fk_cuda_context *context, struct fk_blas blas, double alpha,
                                   const struct fk_dense *A, const struct fk_dense *B, double beta,
                                   const struct fk_dense *C, struct fk_error *err);
#endif

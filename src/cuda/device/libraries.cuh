/* cuBLAS and cuSOLVER, loaded at their first use where they are found, or our own functions. A build whose toolkit
 * lacks their headers omits the code that needs them. */
#ifndef FK_CUDA_LIBRARIES_CUH
#define FK_CUDA_LIBRARIES_CUH

#include "common.cuh"

#if __has_include(<cublas_v2.h>) && __has_include(<cusolverDn.h>)
#define FK_CUDA_LIBRARIES
#include <cublas_v2.h>
#include <cusolverDn.h>

/* The functions in use, as X(member, function). */
#define FK_CUBLAS(X)                                                                                              \
  X(create, cublasCreate)                                                                                         \
  X(destroy, cublasDestroy)                                                                                       \
  X(stream, cublasSetStream)                                                                                      \
  X(workspace, cublasSetWorkspace)                                                                                \
  X(name, cublasGetStatusString)                                                                                  \
  X(dgemm, cublasDgemm_64)                                                                                        \
  X(dgemm_batch, cublasDgemmStridedBatched_64)                                                                    \
  X(gemm, cublasGemmEx_64)                                                                                        \
  X(gemm_batch, cublasGemmStridedBatchedEx_64)                                                                    \
  X(sgemm, cublasSgemm_64)                                                                                        \
  X(dgemv, cublasDgemv_64)                                                                                        \
  X(sgemv, cublasSgemv_64)                                                                                        \
  X(dsyrk, cublasDsyrk_64)                                                                                        \
  X(ssyrk, cublasSsyrk_64)                                                                                        \
  X(dtrmm, cublasDtrmm_64)                                                                                        \
  X(strmm, cublasStrmm_64)                                                                                        \
  X(dtrsm, cublasDtrsm_64)                                                                                        \
  X(strsm, cublasStrsm_64)                                                                                        \
  X(dtrsv, cublasDtrsv_64)                                                                                        \
  X(strsv, cublasStrsv_64)
#define FK_CUSOLVER(X)                                                                                            \
  X(create, cusolverDnCreate)                                                                                     \
  X(destroy, cusolverDnDestroy)                                                                                   \
  X(stream, cusolverDnSetStream)                                                                                  \
  X(params, cusolverDnCreateParams)                                                                               \
  X(params_free, cusolverDnDestroyParams)                                                                         \
  X(potrf_bytes, cusolverDnXpotrf_bufferSize)                                                                     \
  X(potrf, cusolverDnXpotrf)                                                                                      \
  X(trtri_bytes, cusolverDnXtrtri_bufferSize)                                                                     \
  X(trtri, cusolverDnXtrtri)                                                                                      \
  X(syevd_bytes, cusolverDnXsyevd_bufferSize)                                                                     \
  X(syevd, cusolverDnXsyevd)                                                                                      \
  X(dlauum_numbers, cusolverDnDlauum_bufferSize)                                                                  \
  X(slauum_numbers, cusolverDnSlauum_bufferSize)                                                                  \
  X(dlauum, cusolverDnDlauum)                                                                                     \
  X(slauum, cusolverDnSlauum)

#define FK_MEMBER(member, function) decltype(&function) member;
struct fk_cublas {
  FK_CUBLAS(FK_MEMBER)
};
struct fk_cusolver {
  FK_CUSOLVER(FK_MEMBER)
};
#undef FK_MEMBER
/* Set by the two functions below: those of the libraries or, where they are missing, our own of algebra/. Ours
 * have no syevd. */
extern struct fk_cublas fk_cublas;
extern struct fk_cusolver fk_cusolver;
extern const struct fk_cublas fk_own_cublas;
extern const struct fk_cusolver fk_own_cusolver;

/* The context's handles, made at the first use, on its stream. */
enum fk_status fk_cuda_blas(struct fk_cuda_context *context, cublasHandle_t *handle, struct fk_error *err);
enum fk_status fk_cuda_solver(struct fk_cuda_context *context, cusolverDnHandle_t *handle, struct fk_error *err);

enum fk_status fk_cublas_fail(struct fk_error *err, cublasStatus_t code, const char *call, int device);
enum fk_status fk_cusolver_fail(struct fk_error *err, cusolverStatus_t code, const char *call, int device);

/* Like FK_CUDA_TRY, for calls of these libraries. */
#define FK_CUBLAS_TRY(call)                                                                                       \
  do {                                                                                                            \
    cublasStatus_t code_ = (call);                                                                                \
    if (code_ != CUBLAS_STATUS_SUCCESS) return fk_cublas_fail(err, code_, #call, context->device);                \
  } while (0)
#define FK_CUSOLVER_TRY(call)                                                                                     \
  do {                                                                                                            \
    cusolverStatus_t code_ = (call);                                                                              \
    if (code_ != CUSOLVER_STATUS_SUCCESS) return fk_cusolver_fail(err, code_, #call, context->device);            \
  } while (0)

#endif
#endif

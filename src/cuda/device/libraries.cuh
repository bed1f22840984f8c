/* cuBLAS and cuSOLVER, loaded at their first use where they are found, or our own functions. Their headers are not
 * needed: what is declared here of them is the same in all versions from CUDA 12.0 on. */
#ifndef FK_CUDA_LIBRARIES_CUH
#define FK_CUDA_LIBRARIES_CUH

#include <library_types.h>

#include "common.cuh"

/* ---- what is used of the libraries ------------------------------------------------------------ */

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_EXECUTION_FAILED = 5
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
typedef struct cublasContext *cublasHandle_t;
typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct cusolverDnParams *cusolverDnParams_t;

/* Parameters of functions of both types of numbers, and of products of any type. */
#define FK_GEMM(T)                                                                                                \
  (cublasHandle_t, cublasOperation_t, cublasOperation_t, int64_t, int64_t, int64_t, const T *, const T *,         \
   int64_t, const T *, int64_t, const T *, T *, int64_t)
#define FK_GEMM_BATCH(T)                                                                                          \
  (cublasHandle_t, cublasOperation_t, cublasOperation_t, int64_t, int64_t, int64_t, const T *, const T *,         \
   int64_t, long long, const T *, int64_t, long long, const T *, T *, int64_t, long long, int64_t)
#define FK_GEMM_ANY                                                                                               \
  (cublasHandle_t, cublasOperation_t, cublasOperation_t, int64_t, int64_t, int64_t, const void *, const void *,   \
   cudaDataType, int64_t, const void *, cudaDataType, int64_t, const void *, void *, cudaDataType, int64_t,       \
   cublasComputeType_t, cublasGemmAlgo_t)
#define FK_GEMM_ANY_BATCH                                                                                         \
  (cublasHandle_t, cublasOperation_t, cublasOperation_t, int64_t, int64_t, int64_t, const void *, const void *,   \
   cudaDataType, int64_t, long long, const void *, cudaDataType, int64_t, long long, const void *, void *,        \
   cudaDataType, int64_t, long long, int64_t, cublasComputeType_t, cublasGemmAlgo_t)
#define FK_GEMV(T)                                                                                                \
  (cublasHandle_t, cublasOperation_t, int64_t, int64_t, const T *, const T *, int64_t, const T *, int64_t,        \
   const T *, T *, int64_t)
#define FK_SYRK(T)                                                                                                \
  (cublasHandle_t, cublasFillMode_t, cublasOperation_t, int64_t, int64_t, const T *, const T *, int64_t,          \
   const T *, T *, int64_t)
#define FK_TRMM(T)                                                                                                \
  (cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int64_t, int64_t,     \
   const T *, const T *, int64_t, const T *, int64_t, T *, int64_t)
#define FK_TRSM(T)                                                                                                \
  (cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int64_t, int64_t,     \
   const T *, const T *, int64_t, T *, int64_t)
#define FK_TRSV(T)                                                                                                \
  (cublasHandle_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int64_t, const T *, int64_t, T *,       \
   int64_t)
#define FK_LAUUM(T) (cusolverDnHandle_t, cublasFillMode_t, int, T *, int, T *, int, int *)
#define FK_LAUUM_NUMBERS(T) (cusolverDnHandle_t, cublasFillMode_t, int, T *, int, int *)

/* The functions in use, as X(member, function, parameters). Each returns the status of its library. */
#define FK_CUBLAS(X)                                                                                              \
  X(create, cublasCreate_v2, (cublasHandle_t *))                                                                  \
  X(destroy, cublasDestroy_v2, (cublasHandle_t))                                                                  \
  X(stream, cublasSetStream_v2, (cublasHandle_t, cudaStream_t))                                                   \
  X(workspace, cublasSetWorkspace_v2, (cublasHandle_t, void *, size_t))                                           \
  X(dgemm, cublasDgemm_v2_64, FK_GEMM(double))                                                                    \
  X(sgemm, cublasSgemm_v2_64, FK_GEMM(float))                                                                     \
  X(dgemm_batch, cublasDgemmStridedBatched_64, FK_GEMM_BATCH(double))                                             \
  X(gemm, cublasGemmEx_64, FK_GEMM_ANY)                                                                           \
  X(gemm_batch, cublasGemmStridedBatchedEx_64, FK_GEMM_ANY_BATCH)                                                 \
  X(dgemv, cublasDgemv_v2_64, FK_GEMV(double))                                                                    \
  X(sgemv, cublasSgemv_v2_64, FK_GEMV(float))                                                                     \
  X(dsyrk, cublasDsyrk_v2_64, FK_SYRK(double))                                                                    \
  X(ssyrk, cublasSsyrk_v2_64, FK_SYRK(float))                                                                     \
  X(dtrmm, cublasDtrmm_v2_64, FK_TRMM(double))                                                                    \
  X(strmm, cublasStrmm_v2_64, FK_TRMM(float))                                                                     \
  X(dtrsm, cublasDtrsm_v2_64, FK_TRSM(double))                                                                    \
  X(strsm, cublasStrsm_v2_64, FK_TRSM(float))                                                                     \
  X(dtrsv, cublasDtrsv_v2_64, FK_TRSV(double))                                                                    \
  X(strsv, cublasStrsv_v2_64, FK_TRSV(float))
#define FK_CUSOLVER(X)                                                                                            \
  X(create, cusolverDnCreate, (cusolverDnHandle_t *))                                                             \
  X(destroy, cusolverDnDestroy, (cusolverDnHandle_t))                                                             \
  X(stream, cusolverDnSetStream, (cusolverDnHandle_t, cudaStream_t))                                              \
  X(params, cusolverDnCreateParams, (cusolverDnParams_t *))                                                       \
  X(params_free, cusolverDnDestroyParams, (cusolverDnParams_t))                                                   \
  X(potrf_bytes, cusolverDnXpotrf_bufferSize,                                                                     \
    (cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t, cudaDataType, const void *, int64_t,      \
     cudaDataType, size_t *, size_t *))                                                                           \
  X(potrf, cusolverDnXpotrf,                                                                                      \
    (cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t, cudaDataType, void *, int64_t,            \
     cudaDataType, void *, size_t, void *, size_t, int *))                                                        \
  X(trtri_bytes, cusolverDnXtrtri_bufferSize,                                                                     \
    (cusolverDnHandle_t, cublasFillMode_t, cublasDiagType_t, int64_t, cudaDataType, void *, int64_t, size_t *,    \
     size_t *))                                                                                                   \
  X(trtri, cusolverDnXtrtri,                                                                                      \
    (cusolverDnHandle_t, cublasFillMode_t, cublasDiagType_t, int64_t, cudaDataType, void *, int64_t, void *,      \
     size_t, void *, size_t, int *))                                                                              \
  X(dlauum_numbers, cusolverDnDlauum_bufferSize, FK_LAUUM_NUMBERS(double))                                        \
  X(slauum_numbers, cusolverDnSlauum_bufferSize, FK_LAUUM_NUMBERS(float))                                         \
  X(dlauum, cusolverDnDlauum, FK_LAUUM(double))                                                                   \
  X(slauum, cusolverDnSlauum, FK_LAUUM(float))

#define FK_MEMBER(member, function, parameters) cublasStatus_t(*member) parameters;
struct fk_cublas {
  FK_CUBLAS(FK_MEMBER)
};
#undef FK_MEMBER
#define FK_MEMBER(member, function, parameters) cusolverStatus_t(*member) parameters;
struct fk_cusolver {
  FK_CUSOLVER(FK_MEMBER)
};
#undef FK_MEMBER
extern const struct fk_cublas fk_own_cublas;
extern const struct fk_cusolver fk_own_cusolver;

/* Functions and what they are called with: those of the libraries or, where these are missing, our own of
 * algebra/. */
struct fk_blas {
  const struct fk_cublas *f;
  cublasHandle_t handle;
};
struct fk_solver {
  const struct fk_cusolver *f;
  cusolverDnHandle_t handle;
};

/* Each context makes its handles when they are first used, on its stream. `order` is the largest side of the
 * matrices: small ones (fk_costs.dense.own) are given to our own functions, because the libraries take 0.2 s to
 * start, and those of FK_ANY_ORDER never are. FK_OWN_ORDER is small. */
enum { FK_ANY_ORDER = -1, FK_OWN_ORDER = 0 };
/* Our functions solve triangular systems of up to so many columns faster than the libraries. */
enum { FK_FEW_COLUMNS = 32 };
enum fk_status fk_cuda_blas(struct fk_cuda_context *context, int64_t order, struct fk_blas *blas,
                            struct fk_error *err);
enum fk_status fk_cuda_solver(struct fk_cuda_context *context, int64_t order, struct fk_solver *solver,
                              struct fk_error *err);

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

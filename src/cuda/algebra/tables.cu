/* The members of cuBLAS's and cuSOLVER's tables (device/libraries.cuh) for small matrices and where these
 * libraries are missing: the modes that this package uses. */
#include <stdlib.h>

#include "views.cuh"

/* ---- handles ---------------------------------------------------------------------------------- */

static struct fk_algebra *create(void) {
  struct fk_algebra *algebra = (struct fk_algebra *)calloc(1, sizeof *algebra);
  int device;
  const bool fine =
      algebra && cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&algebra->multiprocessors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&algebra->shared_most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
          cudaSuccess;
  if (fine) return algebra;
  free(algebra);
  return NULL;
}

static cublasStatus_t blas_create(cublasHandle_t *handle) {
  *handle = (cublasHandle_t)create();
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
static cublasStatus_t blas_destroy(cublasHandle_t handle) {
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t blas_stream(cublasHandle_t handle, cudaStream_t stream) {
  ((struct fk_algebra *)handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t blas_workspace(cublasHandle_t handle, void *workspace, size_t bytes) {
  struct fk_algebra *algebra = (struct fk_algebra *)handle;
  algebra->workspace = workspace, algebra->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

static cusolverStatus_t solver_create(cusolverDnHandle_t *handle) {
  *handle = (cusolverDnHandle_t)create();
  return *handle ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
static cusolverStatus_t solver_destroy(cusolverDnHandle_t handle) {
  free(handle);
  return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t solver_stream(cusolverDnHandle_t handle, cudaStream_t stream) {
  ((struct fk_algebra *)handle)->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t solver_params(cusolverDnParams_t *params) {
  static char none;
  *params = (cusolverDnParams_t)&none;
  return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t solver_params_free(cusolverDnParams_t params) {
  (void)params;
  return CUSOLVER_STATUS_SUCCESS;
}

/* ---- cuBLAS ----------------------------------------------------------------------------------- */

static cublasStatus_t started(void) {
  return cudaGetLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
static cusolverStatus_t solver_started(void) {
  return cudaGetLastError() == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

/* n x d after the transposition. */
template <typename T>
static fk_view<T> view(T *at, int64_t n, int64_t d, int64_t ld, cublasOperation_t op = CUBLAS_OP_N) {
  return op == CUBLAS_OP_N ? fk_view<T>{at, n, d, 1, ld} : fk_view<T>{at, n, d, ld, 1};
}

template <typename T>
static cublasStatus_t gemm_batch(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                                 int64_t n, int64_t k, const T *alpha, const T *A, int64_t lda, long long next_a,
                                 const T *B, int64_t ldb, long long next_b, const T *beta, T *C, int64_t ldc,
                                 long long next_c, int64_t count) {
  fk_product((struct fk_algebra *)handle, *alpha, view(A, m, k, lda, op_a), view(B, k, n, ldb, op_b), *beta,
             view(C, m, n, ldc), FK_ALL, {next_a, next_b, next_c, count});
  return started();
}

template <typename T>
static cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                           int64_t n, int64_t k, const T *alpha, const T *A, int64_t lda, const T *B, int64_t ldb,
                           const T *beta, T *C, int64_t ldc) {
  return gemm_batch(handle, op_a, op_b, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);
}

static cublasStatus_t halves_batch(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                   int64_t m, int64_t n, int64_t k, const void *alpha, const void *A,
                                   cudaDataType type_a, int64_t lda, long long next_a, const void *B,
                                   cudaDataType type_b, int64_t ldb, long long next_b, const void *beta, void *C,
                                   cudaDataType type_c, int64_t ldc, long long next_c, int64_t count,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  const struct fk_algebra *algebra = (const struct fk_algebra *)handle;
  const float a = *(const float *)alpha, b = *(const float *)beta;
  const auto x = view((const __half *)A, k, m, lda), y = view((const __half *)B, k, n, ldb);
  const struct fk_batch batch = {next_a, next_b, next_c, count};
  if (op_a != CUBLAS_OP_T || op_b != CUBLAS_OP_N || type_a != CUDA_R_16F || type_b != CUDA_R_16F ||
      compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool fine = type_c == CUDA_R_32F
                        ? fk_product_halves(algebra, a, x, y, b, view((float *)C, m, n, ldc), batch)
                        : fk_product_halves(algebra, a, x, y, b, view((__half *)C, m, n, ldc), batch);
  return fine ? started() : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t halves(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                             int64_t n, int64_t k, const void *alpha, const void *A, cudaDataType type_a,
                             int64_t lda, const void *B, cudaDataType type_b, int64_t ldb, const void *beta,
                             void *C, cudaDataType type_c, int64_t ldc, cublasComputeType_t compute,
                             cublasGemmAlgo_t algorithm) {
  return halves_batch(handle, op_a, op_b, m, n, k, alpha, A, type_a, lda, 0, B, type_b, ldb, 0, beta, C, type_c,
                      ldc, 0, 1, compute, algorithm);
}

template <typename T>
static cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int64_t m, int64_t n, const T *alpha,
                           const T *A, int64_t lda, const T *x, int64_t step_x, const T *beta, T *y,
                           int64_t step_y) {
  const int64_t rows = op == CUBLAS_OP_N ? m : n, depth = op == CUBLAS_OP_N ? n : m;
  if (op == CUBLAS_OP_N && step_x == 1 && step_y == 1)
    fk_multiply_vector((struct fk_algebra *)handle, *alpha, view(A, m, n, lda), x, *beta, y);
  else
    fk_product<T>((struct fk_algebra *)handle, *alpha, view(A, rows, depth, lda, op),
                  {x, depth, 1, step_x, depth * step_x}, *beta, {y, rows, 1, step_y, rows * step_y});
  return started();
}

template <typename T>
static cublasStatus_t syrk(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op, int64_t n,
                           int64_t k, const T *alpha, const T *A, int64_t lda, const T *beta, T *C, int64_t ldc) {
  const auto x = view(A, n, k, lda, op);
  fk_product((struct fk_algebra *)handle, *alpha, x, x.turned(), *beta, view(C, n, n, ldc),
             fill == CUBLAS_FILL_MODE_LOWER ? FK_LOWER : FK_ABOVE);
  return started();
}

/* A triangle and what it meets, from the left. */
template <typename T>
struct sides {
  fk_view<const T> L;
  bool lower;
  fk_view<T> B;

  sides(cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, int64_t m, int64_t n, const T *A,
        int64_t lda, T *to, int64_t ld) {
    const int64_t order = side == CUBLAS_SIDE_LEFT ? m : n;
    L = view(A, order, order, lda, op), B = view(to, m, n, ld);
    lower = (fill == CUBLAS_FILL_MODE_LOWER) == (op == CUBLAS_OP_N);
    if (side == CUBLAS_SIDE_LEFT) return;
    L = L.turned(), B = B.turned(), lower = !lower;
  }
};

template <typename T>
static cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                           cublasOperation_t op, cublasDiagType_t diagonal, int64_t m, int64_t n, const T *alpha,
                           const T *A, int64_t lda, T *B, int64_t ldb) {
  const struct sides<T> s(side, fill, op, m, n, A, lda, B, ldb);
  if (diagonal != CUBLAS_DIAG_NON_UNIT) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m > 0 && n > 0) fk_solve((struct fk_algebra *)handle, s.L, s.lower, *alpha, s.B);
  return started();
}

/* In place: C is B. */
template <typename T>
static cublasStatus_t trmm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                           cublasOperation_t op, cublasDiagType_t diagonal, int64_t m, int64_t n, const T *alpha,
                           const T *A, int64_t lda, const T *B, int64_t ldb, T *C, int64_t ldc) {
  const struct sides<T> s(side, fill, op, m, n, A, lda, C, ldc);
  if (diagonal != CUBLAS_DIAG_NON_UNIT || B != C || ldb != ldc) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m > 0 && n > 0) fk_multiply((struct fk_algebra *)handle, s.L, s.lower, *alpha, s.B);
  return started();
}

template <typename T>
static cublasStatus_t trsv(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op,
                           cublasDiagType_t diagonal, int64_t n, const T *A, int64_t lda, T *x, int64_t step) {
  const T one = 1;
  if (step != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  return trsm(handle, CUBLAS_SIDE_LEFT, fill, op, diagonal, n, 1, &one, A, lda, x, n);
}

/* ---- cuSOLVER --------------------------------------------------------------------------------- */

/* Nothing needs a workspace. */
static cusolverStatus_t no_bytes(size_t *there, size_t *here) {
  *there = *here = 0;
  return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t no_numbers(int *numbers) {
  *numbers = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

static cusolverStatus_t potrf_bytes(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t,
                                    cudaDataType, const void *, int64_t, cudaDataType, size_t *there,
                                    size_t *here) {
  return no_bytes(there, here);
}
static cusolverStatus_t trtri_bytes(cusolverDnHandle_t, cublasFillMode_t, cublasDiagType_t, int64_t, cudaDataType,
                                    void *, int64_t, size_t *there, size_t *here) {
  return no_bytes(there, here);
}
template <typename T>
static cusolverStatus_t lauum_numbers(cusolverDnHandle_t, cublasFillMode_t, int, T *, int, int *numbers) {
  return no_numbers(numbers);
}

/* The lower triangle; an upper one is that of the transposed matrix. */
template <typename T>
static fk_view<T> triangle(cublasFillMode_t fill, void *A, int64_t n, int64_t ld) {
  return view((T *)A, n, n, ld, fill == CUBLAS_FILL_MODE_LOWER ? CUBLAS_OP_N : CUBLAS_OP_T);
}

static cusolverStatus_t potrf(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t fill, int64_t n,
                              cudaDataType type, void *A, int64_t lda, cudaDataType, void *, size_t, void *,
                              size_t, int *info) {
  const struct fk_algebra *algebra = (const struct fk_algebra *)handle;
  if (type == CUDA_R_64F)
    fk_cholesky(algebra, triangle<double>(fill, A, n, lda), info);
  else
    fk_cholesky(algebra, triangle<float>(fill, A, n, lda), info);
  return solver_started();
}

static cusolverStatus_t trtri(cusolverDnHandle_t handle, cublasFillMode_t fill, cublasDiagType_t, int64_t n,
                              cudaDataType type, void *A, int64_t lda, void *, size_t, void *, size_t, int *info) {
  const struct fk_algebra *algebra = (const struct fk_algebra *)handle;
  cudaMemsetAsync(info, 0, sizeof *info, algebra->stream);
  if (type == CUDA_R_64F)
    fk_invert(algebra, triangle<double>(fill, A, n, lda));
  else
    fk_invert(algebra, triangle<float>(fill, A, n, lda));
  return solver_started();
}

template <typename T>
static cusolverStatus_t lauum(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *A, int lda, T *, int,
                              int *info) {
  const struct fk_algebra *algebra = (const struct fk_algebra *)handle;
  cudaMemsetAsync(info, 0, sizeof *info, algebra->stream);
  fk_square(algebra, triangle<T>(fill, A, n, lda));
  return solver_started();
}

/* ---- tables ----------------------------------------------------------------------------------- */

const struct fk_cublas fk_own_cublas = {
    .create = blas_create,
    .destroy = blas_destroy,
    .stream = blas_stream,
    .workspace = blas_workspace,
    .dgemm = gemm<double>,
    .sgemm = gemm<float>,
    .dgemm_batch = gemm_batch<double>,
    .gemm = halves,
    .gemm_batch = halves_batch,
    .dgemv = gemv<double>,
    .sgemv = gemv<float>,
    .dsyrk = syrk<double>,
    .ssyrk = syrk<float>,
    .dtrmm = trmm<double>,
    .strmm = trmm<float>,
    .dtrsm = trsm<double>,
    .strsm = trsm<float>,
    .dtrsv = trsv<double>,
    .strsv = trsv<float>,
};

const struct fk_cusolver fk_own_cusolver = {
    .create = solver_create,
    .destroy = solver_destroy,
    .stream = solver_stream,
    .params = solver_params,
    .params_free = solver_params_free,
    .potrf_bytes = potrf_bytes,
    .potrf = potrf,
    .trtri_bytes = trtri_bytes,
    .trtri = trtri,
    .dlauum_numbers = lauum_numbers<double>,
    .slauum_numbers = lauum_numbers<float>,
    .dlauum = lauum<double>,
    .slauum = lauum<float>,
};

/* Dense operations on a device, by cuBLAS and cuSOLVER or our own functions; its twin is core/dense_host.c. */
#include <limits.h>
#include <stdlib.h>

#include "dense.cuh"
#include "halves.cuh"

/* ---- a device --------------------------------------------------------------------------------- */

static enum fk_status enter(int device, struct fk_cuda_context **entered, struct fk_error *err) {
  struct fk_opts opts = {};
  struct fk_cuda_context *context;
  int count;
  opts.devices[0] = device;
  opts.n_devices = 1;
  FK_TRY(fk_cuda_contexts(&opts, &context, &count, err));
  FK_CUDA_TRY(cudaSetDevice(context->device));
  *entered = context;
  return FK_STATUS_OK;
}

static cublasSideMode_t side(unsigned flags) { return flags & FK_RIGHT ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT; }
static cublasFillMode_t triangle(unsigned flags) {
  return flags & FK_UPPER ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}
static cublasOperation_t transposed(unsigned flags, unsigned flag) {
  return flags & flag ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Columns are aligned to what tensor cores read fastest. */
enum { COLUMN_BYTES = 128 };

static enum fk_status device_alloc(int device, struct fk_dense *A, struct fk_error *err) {
  struct fk_cuda_context *context;
  struct fk_cuda_buffer buffer = {};
  size_t bytes;
  A->data = NULL;
  A->ld = fk_padded(fk_larger(A->n, 1), COLUMN_BYTES / (int64_t)fk_type_size(A->type));
  FK_TRY(fk_dense_bytes(A, &bytes, err));
  FK_TRY(enter(device, &context, err));
  FK_TRY(fk_cuda_dense_leave(context, fk_cuda_reserve(context, &buffer, bytes, err)));
  A->data = buffer.data;
  A->place = context->id;
  return FK_STATUS_OK;
}

static void device_free(int device, struct fk_dense *A) {
  struct fk_cuda_context *context = fk_cuda_context_in_use(device);
  struct fk_cuda_buffer buffer = {A->data, (size_t)(A->ld * A->d) * fk_type_size(A->type)};
  if (A->data && context && context->id == A->place && cudaSetDevice(device) == cudaSuccess)
    fk_cuda_drop(context, &buffer);
  A->data = NULL;
}

static enum fk_status copy_matrix(struct fk_cuda_context *context, const struct fk_dense *from,
                                  const struct fk_dense *to, struct fk_error *err) {
  FK_CUDA_TRY(fk_cuda_dense_move(from, to, context->stream));
  return FK_CUDA_STATUS(cudaStreamSynchronize(context->stream));
}

/* Copies to the device or back. */
static enum fk_status device_move(int device, const struct fk_dense *from, const struct fk_dense *to,
                                  struct fk_error *err) {
  struct fk_cuda_context *context;
  FK_TRY(fk_dense_check_copy(from, to, err));
  if (from->n == 0 || from->d == 0) return FK_STATUS_OK;
  FK_TRY(enter(device, &context, err));
  return fk_cuda_dense_leave(context, copy_matrix(context, from, to, err));
}

/* ---- cuBLAS ----------------------------------------------------------------------------------- */

struct blas {
  struct fk_cuda_context *context;
  struct fk_blas of;
};

/* The largest side of the matrices; some may be NULL. */
static int64_t order_of(const struct fk_dense *A, const struct fk_dense *B, const struct fk_dense *C) {
  int64_t order = 0;
  for (const struct fk_dense *X : {A, B, C})
    if (X) order = fk_larger(order, fk_larger(X->n, X->d));
  return order;
}

static enum fk_status enter_blas(int device, int64_t order, struct blas *blas, struct fk_error *err) {
  FK_TRY(enter(device, &blas->context, err));
  return fk_cuda_dense_leave(blas->context, fk_cuda_blas(blas->context, order, &blas->of, err));
}

static enum fk_status device_ready(int device, const struct fk_dense *A, int64_t order, struct fk_error *err) {
  struct blas blas;
  struct fk_solver solver;
  bool lost = A && !A->data;
  if (!lost) FK_TRY(enter_blas(device, order, &blas, err));
  if (!lost) FK_TRY(fk_cuda_dense_leave(blas.context, fk_cuda_solver(blas.context, order, &solver, err)));
  if (!lost && (!A || A->place == blas.context->id)) return FK_STATUS_OK;
  return fk_fail(err, FK_STATUS_LOST, "a matrix on CUDA device %d is lost: the device was freed, or failed",
                 device);
}

/* A routine for double and for float. */
#define FOR_BOTH(routine)                                                                                         \
  static auto routine(const struct fk_blas &blas, double) { return blas.f->d##routine; }                          \
  static auto routine(const struct fk_blas &blas, float) { return blas.f->s##routine; }
FOR_BOTH(gemm)
FOR_BOTH(gemv)
FOR_BOTH(syrk)
FOR_BOTH(trmm)
FOR_BOTH(trsm)
FOR_BOTH(trsv)

/* Calls call() with a number of the matrix's type. */
template <typename F>
static auto by_type(const struct fk_dense *A, F call) {
  return A->type == FK_DOUBLE ? call(0.0) : call(0.0f);
}

/* Calls call() with functions for matrices of this order and a number of the type of A. */
template <typename F>
static enum fk_status run_blas(int device, int64_t order, const struct fk_dense *A, const char *name,
                               struct fk_error *err, F call) {
  struct blas blas;
  FK_TRY(enter_blas(device, order, &blas, err));
  const cublasStatus_t code = by_type(A, [&](auto number) { return call(blas.of, number); });
  if (code == CUBLAS_STATUS_SUCCESS) return FK_STATUS_OK;
  return fk_cuda_dense_leave(blas.context, fk_cublas_fail(err, code, name, blas.context->device));
}

static enum fk_status device_gemm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                  const struct fk_dense *B, double beta, const struct fk_dense *C,
                                  struct fk_error *err) {
  const int64_t order = order_of(A, B, C);
  FK_TRY(fk_dense_check_gemm(flags, A, B, C, err));
  if (flags & FK_HALVES && A->n > 0) {
    struct blas blas;
    FK_TRY(enter_blas(device, order, &blas, err));
    return fk_cuda_dense_leave(blas.context,
                               fk_cuda_halves_gemm(blas.context, blas.of, alpha, A, B, beta, C, err));
  }
  return run_blas(device, order, C, "gemm", err, [&](const struct fk_blas &blas, auto number) {
    using T = decltype(number);
    const T a = (T)alpha, b = (T)beta;
    if (C->d == 1 && !(flags & FK_TRANSPOSED_B) && A->n > 0 && A->d > 0) /* gemv: the time is that of reading A */
      return gemv(blas, number)(blas.handle, transposed(flags, FK_TRANSPOSED), A->n, A->d, &a, (T *)A->data, A->ld,
                                (T *)B->data, 1, &b, (T *)C->data, 1);
    return gemm(blas, number)(blas.handle, transposed(flags, FK_TRANSPOSED), transposed(flags, FK_TRANSPOSED_B),
                              C->n, C->d, flags & FK_TRANSPOSED ? A->n : A->d, &a, (T *)A->data, A->ld,
                              (T *)B->data, B->ld, &b, (T *)C->data, C->ld);
  });
}

static enum fk_status device_syrk(int device, unsigned flags, double alpha, const struct fk_dense *A, double beta,
                                  const struct fk_dense *C, struct fk_error *err) {
  FK_TRY(fk_dense_check_syrk(flags, A, C, err));
  return run_blas(device, order_of(A, C, NULL), C, "syrk", err, [&](const struct fk_blas &blas, auto number) {
    using T = decltype(number);
    const T a = (T)alpha, b = (T)beta;
    return syrk(blas, number)(blas.handle, triangle(flags), transposed(flags, FK_TRANSPOSED), C->n,
                              flags & FK_TRANSPOSED ? A->n : A->d, &a, (T *)A->data, A->ld, &b, (T *)C->data,
                              C->ld);
  });
}

static enum fk_status device_trmm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                  const struct fk_dense *B, struct fk_error *err) {
  FK_TRY(fk_dense_check_triangle(flags, A, B, err));
  return run_blas(device, order_of(A, B, NULL), B, "trmm", err, [&](const struct fk_blas &blas, auto number) {
    using T = decltype(number);
    const T a = (T)alpha;
    return trmm(blas, number)(blas.handle, side(flags), triangle(flags), transposed(flags, FK_TRANSPOSED),
                              CUBLAS_DIAG_NON_UNIT, B->n, B->d, &a, (T *)A->data, A->ld, (T *)B->data, B->ld,
                              (T *)B->data, B->ld);
  });
}

static enum fk_status device_trsm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                  const struct fk_dense *B, struct fk_error *err) {
  FK_TRY(fk_dense_check_triangle(flags, A, B, err));
  /* our functions take 0.5 to 0.9 times as long as cuBLAS for few columns, and 1.05 times at an order of 30000 */
  const bool few = !(flags & FK_RIGHT) && B->d > 1 && B->d <= FK_FEW_COLUMNS;
  return run_blas(device, few ? FK_OWN_ORDER : order_of(A, B, NULL), B, "trsm", err,
                  [&](const struct fk_blas &blas, auto number) {
                    using T = decltype(number);
                    const T a = (T)alpha;
                    if (B->d == 1 && !(flags & FK_RIGHT) && alpha == 1)
                      return trsv(blas, number)(blas.handle, triangle(flags), transposed(flags, FK_TRANSPOSED),
                                                CUBLAS_DIAG_NON_UNIT, B->n, (T *)A->data, A->ld, (T *)B->data, 1);
                    return trsm(blas, number)(blas.handle, side(flags), triangle(flags),
                                              transposed(flags, FK_TRANSPOSED), CUBLAS_DIAG_NON_UNIT, B->n, B->d,
                                              &a, (T *)A->data, A->ld, (T *)B->data, B->ld);
                  });
}

/* Calls call() with the context and a number of the matrix's type, to launch our own kernels. */
template <typename F>
static enum fk_status run_kernels(int device, const struct fk_dense *A, const char *name, struct fk_error *err,
                                  F call) {
  struct fk_cuda_context *context;
  FK_TRY(enter(device, &context, err));
  by_type(A, [&](auto number) { call(context, number); });
  cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return FK_STATUS_OK;
  return fk_cuda_dense_leave(context, fk_cuda_fail(err, code, name, context->device));
}

/* ---- triangles -------------------------------------------------------------------------------- */

enum { SQUARE = 32, SQUARE_ROWS = 8 };

/* A block has a square of B. It reads only the triangle of A: the other one may belong to another matrix. */
template <typename T>
static __global__ void transpose_kernel(const T *A, int64_t ld_a, const T *s, T *B, int64_t ld_b, int64_t n,
                                        bool upper) {
  __shared__ T square[SQUARE][SQUARE + 1];
  const int64_t row = (int64_t)blockIdx.x * SQUARE, column = (int64_t)blockIdx.y * SQUARE;
  const int tx = threadIdx.x, ty = threadIdx.y;
  if (upper ? row < column : row > column) return;
  for (int k = ty; k < SQUARE; k += SQUARE_ROWS) {
    const int64_t i = row + k, j = column + tx;
    if (i < n && j < n && (upper ? i >= j : i <= j)) square[k][tx] = A[j + i * ld_a];
  }
  __syncthreads();
  for (int k = ty; k < SQUARE; k += SQUARE_ROWS) {
    const int64_t i = row + tx, j = column + k;
    if (i < n && j < n && (upper ? i >= j : i <= j)) B[i + j * ld_b] = square[tx][k] * (s ? s[j] : (T)1);
  }
}

static enum fk_status device_transpose(int device, unsigned flags, const struct fk_dense *A,
                                       const struct fk_dense *s, const struct fk_dense *B, struct fk_error *err) {
  FK_TRY(fk_dense_check_transpose(A, s, B, err));
  if (B->n == 0) return FK_STATUS_OK;
  return run_kernels(device, A, "transpose", err, [&](struct fk_cuda_context *context, auto number) {
    using T = decltype(number);
    const unsigned squares = fk_blocks(B->n, SQUARE);
    transpose_kernel<<<dim3(squares, squares), dim3(SQUARE, SQUARE_ROWS), 0, context->stream>>>(
        (const T *)A->data, A->ld, s ? (const T *)s->data : NULL, (T *)B->data, B->ld, B->n,
        (flags & FK_UPPER) != 0);
  });
}

/* ---- rows ------------------------------------------------------------------------------------- */

template <typename T>
static __global__ void scale_kernel(const T *A, int64_t ld_a, const T *s, T *B, int64_t ld_b, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (i < n) B[i + j * ld_b] = A[i + j * ld_a] * s[i];
}

static enum fk_status device_scale(int device, const struct fk_dense *A, const struct fk_dense *s,
                                   const struct fk_dense *B, struct fk_error *err) {
  enum { MOST = 65535 };
  FK_TRY(fk_dense_check_scale(A, s, B, err));
  if (B->n == 0 || B->d == 0) return FK_STATUS_OK;
  return run_kernels(device, A, "scale", err, [&](struct fk_cuda_context *context, auto number) {
    using T = decltype(number);
    for (int64_t first = 0; first < B->d; first += MOST) {
      const struct fk_dense from = fk_dense_part(A, 0, first, B->n, 1), to = fk_dense_part(B, 0, first, B->n, 1);
      const dim3 grid(fk_blocks(B->n, FK_THREADS), (unsigned)fk_smaller(MOST, B->d - first));
      scale_kernel<<<grid, FK_THREADS, 0, context->stream>>>((const T *)from.data, from.ld, (const T *)s->data,
                                                             (T *)to.data, to.ld, to.n);
    }
  });
}

/* ---- columns ---------------------------------------------------------------------------------- */

enum { SUMMING = 256 }; /* threads that sum a column */

/* A block has a column; partial sums are added in a fixed order. */
template <typename T>
static __global__ void __launch_bounds__(SUMMING)
    squares_kernel(const T *A, int64_t ld, int64_t n, bool upper, T *s) {
  __shared__ T sums[SUMMING];
  const int64_t j = blockIdx.x, end = upper ? j + 1 : n;
  T sum = 0;
  for (int64_t i = (upper ? 0 : j) + threadIdx.x; i < end; i += SUMMING) sum += A[i + j * ld] * A[i + j * ld];
  sums[threadIdx.x] = sum;
  for (int half = SUMMING / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) s[j] = sums[0];
}

static enum fk_status device_squares(int device, unsigned flags, const struct fk_dense *A,
                                     const struct fk_dense *s, struct fk_error *err) {
  FK_TRY(fk_dense_check_square(A, s, err));
  if (A->n == 0) return FK_STATUS_OK;
  return run_kernels(device, A, "squares", err, [&](struct fk_cuda_context *context, auto number) {
    using T = decltype(number);
    squares_kernel<<<(unsigned)A->n, SUMMING, 0, context->stream>>>((const T *)A->data, A->ld, A->n,
                                                                    (flags & FK_UPPER) != 0, (T *)s->data);
  });
}

/* ---- cuSOLVER --------------------------------------------------------------------------------- */

/* A cuSOLVER call, its workspace and its status. */
struct solver {
  struct fk_cuda_context *context;
  struct fk_solver of;
  cusolverDnParams_t params;
  struct fk_cuda_arena arena;
  char *there, *here; /* workspace on the device and on the host */
  size_t bytes_there, bytes_here;
  int *info;
  unsigned long long *pivot;
};

/* Calls call() with a solver, for a square matrix. */
template <typename F>
static enum fk_status run_solver(int device, const struct fk_dense *A, struct fk_error *err, F call) {
  struct solver solver = {};
  FK_TRY(fk_dense_check_square(A, NULL, err));
  if (A->n == 0) return FK_STATUS_OK;
  FK_TRY(enter(device, &solver.context, err));
  enum fk_status status = fk_cuda_solver(solver.context, A->n, &solver.of, err);
  if (!status && solver.of.f->params(&solver.params) != CUSOLVER_STATUS_SUCCESS)
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  if (!status) status = call(&solver);
  if (solver.params) solver.of.f->params_free(solver.params);
  fk_cuda_arena_free(solver.context, &solver.arena);
  free(solver.here);
  return fk_cuda_dense_leave(solver.context, status);
}

/* Allocates the workspace that was asked for. */
static enum fk_status take_workspace(struct solver *solver, struct fk_error *err) {
  struct fk_cuda_context *context = solver->context;
  FK_TRY(fk_cuda_take(context, &solver->arena, (int64_t)solver->bytes_there, &solver->there, err));
  FK_TRY(fk_cuda_take(context, &solver->arena, 1, &solver->info, err));
  FK_TRY(fk_cuda_take(context, &solver->arena, 1, &solver->pivot, err));
  solver->here = (char *)malloc(solver->bytes_here + 1);
  if (!solver->here) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  return FK_STATUS_OK;
}

static enum fk_status read_info(const struct solver *solver, int *info, struct fk_error *err) {
  struct fk_cuda_context *context = solver->context;
  FK_CUDA_TRY(cudaMemcpyAsync(info, solver->info, sizeof *info, cudaMemcpyDeviceToHost, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  if (*info >= 0) return FK_STATUS_OK;
  return fk_fail(err, FK_STATUS_INTERNAL, "cuSOLVER refused argument %d", -*info);
}

static cudaDataType number_type(const struct fk_dense *A) {
  return A->type == FK_DOUBLE ? CUDA_R_64F : CUDA_R_32F;
}

/* Finds the first diagonal element, counted from 1, that is not positive. NaN need not show in cuSOLVER's info. */
template <typename T>
static __global__ void pivot_kernel(const T *A, int64_t n, int64_t ld, unsigned long long *pivot) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && !(A[i + i * ld] > 0)) atomicMin(pivot, (unsigned long long)(i + 1));
}

template <typename T>
static cudaError_t find_pivot(const T *numbers, const struct fk_dense *A, const struct solver *solver) {
  cudaStream_t stream = solver->context->stream;
  pivot_kernel<<<fk_blocks(A->n, FK_THREADS), FK_THREADS, 0, stream>>>(numbers, A->n, A->ld, solver->pivot);
  return cudaGetLastError();
}

static enum fk_status factor(struct solver *solver, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                             struct fk_error *err) {
  struct fk_cuda_context *context = solver->context;
  const cudaDataType type = number_type(A);
  unsigned long long first = 0;
  int info = 0;
  FK_CUSOLVER_TRY(solver->of.f->potrf_bytes(solver->of.handle, solver->params, triangle(flags), A->n, type,
                                            A->data, A->ld, type, &solver->bytes_there, &solver->bytes_here));
  FK_TRY(take_workspace(solver, err));
  FK_CUSOLVER_TRY(solver->of.f->potrf(solver->of.handle, solver->params, triangle(flags), A->n, type, A->data,
                                      A->ld, type, solver->there, solver->bytes_there, solver->here,
                                      solver->bytes_here, solver->info));
  FK_CUDA_TRY(cudaMemsetAsync(solver->pivot, 0xff, sizeof first, context->stream));
  FK_CUDA_TRY(A->type == FK_DOUBLE ? find_pivot((const double *)A->data, A, solver)
                                   : find_pivot((const float *)A->data, A, solver));
  FK_CUDA_TRY(cudaMemcpyAsync(&first, solver->pivot, sizeof first, cudaMemcpyDeviceToHost, context->stream));
  FK_TRY(read_info(solver, &info, err));
  if (info > 0)
    *pivot = info;
  else if (first <= (unsigned long long)A->n)
    *pivot = (int64_t)first;
  return FK_STATUS_OK;
}

static enum fk_status device_potrf(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                                   struct fk_error *err) {
  *pivot = 0;
  return run_solver(device, A, err, [&](struct solver *solver) { return factor(solver, flags, A, pivot, err); });
}

static enum fk_status invert(struct solver *solver, unsigned flags, const struct fk_dense *A,
                             struct fk_error *err) {
  struct fk_cuda_context *context = solver->context;
  const cudaDataType type = number_type(A);
  const cublasDiagType_t diagonal = CUBLAS_DIAG_NON_UNIT;
  int info = 0;
  FK_CUSOLVER_TRY(solver->of.f->trtri_bytes(solver->of.handle, triangle(flags), diagonal, A->n, type, A->data,
                                            A->ld, &solver->bytes_there, &solver->bytes_here));
  FK_TRY(take_workspace(solver, err));
  FK_CUSOLVER_TRY(solver->of.f->trtri(solver->of.handle, triangle(flags), diagonal, A->n, type, A->data, A->ld,
                                      solver->there, solver->bytes_there, solver->here, solver->bytes_here,
                                      solver->info));
  return read_info(solver, &info, err);
}

static enum fk_status device_trtri(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  return run_solver(device, A, err, [&](struct solver *solver) { return invert(solver, flags, A, err); });
}

/* ---- L'L -------------------------------------------------------------------------------------- */

/* cuSOLVER counts in int, including the numbers of its workspace: n must be small enough for n^2. */
enum { LAUUM_MOST = 1 << 15 };

static enum fk_status multiply_dense(struct solver *solver, unsigned flags, const struct fk_dense *A,
                                     struct fk_error *err) {
  struct fk_cuda_context *context = solver->context;
  const int n = (int)A->n, ld = (int)A->ld;
  const bool is_double = A->type == FK_DOUBLE;
  double *f64 = (double *)A->data;
  float *f32 = (float *)A->data;
  int numbers = 0, info = 0;
  FK_CUSOLVER_TRY(is_double
                      ? solver->of.f->dlauum_numbers(solver->of.handle, triangle(flags), n, f64, ld, &numbers)
                      : solver->of.f->slauum_numbers(solver->of.handle, triangle(flags), n, f32, ld, &numbers));
  solver->bytes_there = fk_type_size(A->type) * (size_t)numbers;
  FK_TRY(take_workspace(solver, err));
  FK_CUSOLVER_TRY(is_double ? solver->of.f->dlauum(solver->of.handle, triangle(flags), n, f64, ld,
                                                   (double *)solver->there, numbers, solver->info)
                            : solver->of.f->slauum(solver->of.handle, triangle(flags), n, f32, ld,
                                                   (float *)solver->there, numbers, solver->info));
  return read_info(solver, &info, err);
}

static enum fk_status device_lauum(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  if (A->n > LAUUM_MOST || A->ld > INT_MAX)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "a matrix of order %.0f is too large for cuSOLVER", (double)A->n);
  return run_solver(device, A, err, [&](struct solver *solver) { return multiply_dense(solver, flags, A, err); });
}

const struct fk_dense_ops fk_dense_cuda = {
    .name = "cuda",
    .ready = device_ready,
    .alloc = device_alloc,
    .free = device_free,
    .send = device_move,
    .fetch = device_move,
    .gemm = device_gemm,
    .syrk = device_syrk,
    .trmm = device_trmm,
    .trsm = device_trsm,
    .potrf = device_potrf,
    .lauum = device_lauum,
    .trtri = device_trtri,
    .squares = device_squares,
    .transpose = device_transpose,
    .scale = device_scale,
    .copy = fk_cuda_dense_copy,
    .turn = fk_cuda_dense_turn,
    .wait = fk_cuda_dense_wait,
    .alloc_here = fk_cuda_dense_alloc_here,
    .free_here = fk_cuda_dense_free_here,
    .room = fk_cuda_dense_room,
};

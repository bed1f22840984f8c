/* A chunk of K's rows by tiles in FP64: K' of some rows as a matrix, which cuBLAS multiplies with v and with
 * W (K v + w). Kernels of few dimensions come from differences. Of many, products of the points come from cuBLAS,
 * too, and a pair whose distance would have lost too many digits in them is done again by differences.
 */
#include "libraries.cuh"
#include "normal.cuh"
#include "sums_fma.cuh"

#ifdef FK_CUDA_LIBRARIES

enum { ROWS = 16, DEPTH = 16, GRAM_DIMENSION = 16 /* more: products by cuBLAS */ };

struct tile {
  struct fk_fma_task<double> form;                           /* of the kernel */
  const double *columns, *column_square, *rows, *row_square; /* [d][ld], |u|^2 */
  int64_t ld_columns, ld_rows, n_columns, n_rows, d;
  double scale2;   /* t = -scale2 |x - y|^2 */
  double limit;    /* of |u|^2, for products */
  double *kernels; /* n_columns x n_rows, ld */
  int64_t ld;
};

/* -|x - y|^2, or x'y. */
template <enum kernel_code CODE>
static __device__ double exponent_of_pair(const struct tile &a, int64_t column, int64_t row) {
  double t = 0;
  for (int64_t k = 0; k < a.d; k++)
    add_coordinate<CODE>(a.rows[k * a.ld_rows + row], a.columns[k * a.ld_columns + column], t);
  return t;
}

/* The same from a product, where that tells it: the distance has an error of about 2^-52 of both squares, which
 * the root of a small one multiplies. */
template <enum kernel_code CODE>
static __device__ double exponent_of_product(const struct tile &a, int64_t column, int64_t row, double product) {
  if (CODE == PRODUCT) return product;
  double both = a.column_square[column] + a.row_square[row], distance2 = both - 2 * product;
  bool rough = both > a.limit ? !(distance2 > both / 16) : CODE == ROOT && !(distance2 > 1e-6 * both * both);
  return rough ? exponent_of_pair<CODE>(a, column, row) : fmin(-distance2, 0.0);
}

template <enum kernel_code CODE>
static __device__ __forceinline__ double kernel_at(const struct tile &a, double exponent) {
  return kernel_of<double, CODE>(a.form, CODE == PRODUCT ? exponent : exponent * a.scale2, 0.0);
}

template <enum kernel_code CODE>
static __global__ void __launch_bounds__(NARROW_THREADS) product_kernel(const struct tile a) {
  int64_t column = (int64_t)blockIdx.x * NARROW_THREADS + threadIdx.x;
  if (column >= a.n_columns) return;
  for (int64_t row = (int64_t)blockIdx.y * ROWS; row < a.n_rows && row < (int64_t)(blockIdx.y + 1) * ROWS; row++) {
    double *at = a.kernels + row * a.ld + column;
    *at = kernel_at<CODE>(a, exponent_of_product<CODE>(a, column, row, *at));
  }
}

/* A thread has a column and ROWS rows. */
template <enum kernel_code CODE>
static __global__ void __launch_bounds__(NARROW_THREADS) difference_kernel(const struct tile a) {
  __shared__ double rows[DEPTH][ROWS];
  int64_t column = (int64_t)blockIdx.x * NARROW_THREADS + threadIdx.x, first = (int64_t)blockIdx.y * ROWS;
  double t[ROWS] = {};
  for (int64_t k0 = 0; k0 < a.d; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < DEPTH * ROWS; i += NARROW_THREADS) {
      int64_t k = k0 + i / ROWS, row = first + i % ROWS;
      rows[i / ROWS][i % ROWS] = k < a.d && row < a.n_rows ? a.rows[k * a.ld_rows + row] : 0;
    }
    __syncthreads();
    int depth = (int)(a.d - k0 < DEPTH ? a.d - k0 : DEPTH);
    for (int k = 0; k < depth && column < a.n_columns; k++) {
      double x = a.columns[(k0 + k) * a.ld_columns + column];
#pragma unroll
      for (int r = 0; r < ROWS; r++) add_coordinate<CODE>(rows[k][r], x, t[r]);
    }
  }
  if (column >= a.n_columns) return;
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (first + r < a.n_rows) a.kernels[(first + r) * a.ld + column] = kernel_at<CODE>(a, t[r]);
}

template <enum kernel_code CODE>
static cudaError_t launch_tile(const struct tile *a, cudaStream_t stream) {
  dim3 grid(fk_blocks(a->n_columns, NARROW_THREADS), fk_blocks(a->n_rows, ROWS));
  if (a->d > GRAM_DIMENSION)
    product_kernel<CODE><<<grid, NARROW_THREADS, 0, stream>>>(*a);
  else
    difference_kernel<CODE><<<grid, NARROW_THREADS, 0, stream>>>(*a);
  return cudaGetLastError();
}

static cudaError_t launch_kernels(const struct tile *a, cudaStream_t stream) {
  switch (kernel_code_of(&a->form)) {
    case PLAIN: return launch_tile<PLAIN>(a, stream);
    case ROOT: return launch_tile<ROOT>(a, stream);
    case CAUCHY: return launch_tile<CAUCHY>(a, stream);
    case IMQ: return launch_tile<IMQ>(a, stream);
    case PRODUCT: return launch_tile<PRODUCT>(a, stream);
    case GENERAL: break;
  }
  return cudaErrorInvalidValue;
}

/* u = W (u + w), [t][ld] */
static __global__ void residual_kernel(double *u, int64_t ld, int64_t n, int64_t t,
                                       const struct fk_normal_numbers numbers) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int64_t c = blockIdx.y; c < t; c += gridDim.y) {
    double x = u[c * ld + i];
    if (numbers.w) x += numbers.w[c * numbers.ld + i];
    if (numbers.weights) x *= numbers.weights[i];
    u[c * ld + i] = x;
  }
}

/* K' u to the product, and before that K v to u. */
static enum fk_status multiply(struct fk_normal_device *device, cublasHandle_t blas, const struct tile *a,
                               double *u, const struct fk_normal_numbers *numbers, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const int64_t m = a->n_columns, n = a->n_rows, t = device->job->t;
  const double one = 1, zero = 0;
  if (!device->v)
    FK_CUDA_TRY(cudaMemsetAsync(u, 0, sizeof *u * (size_t)(n * t), context->stream));
  else if (t == 1)
    FK_CUBLAS_TRY(fk_cublas.dgemv(blas, CUBLAS_OP_T, m, n, &one, a->kernels, a->ld, device->v, 1, &zero, u, 1));
  else
    FK_CUBLAS_TRY(fk_cublas.dgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, t, m, &one, a->kernels, a->ld, device->v, m,
                                  &zero, u, n));
  dim3 grid(fk_blocks(n, NARROW_THREADS), (unsigned)fk_smaller(t, 64));
  residual_kernel<<<grid, NARROW_THREADS, 0, context->stream>>>(u, n, n, t, *numbers);
  FK_CUDA_TRY(cudaGetLastError());
  if (t == 1)
    FK_CUBLAS_TRY(
        fk_cublas.dgemv(blas, CUBLAS_OP_N, m, n, &one, a->kernels, a->ld, u, 1, &one, device->product, 1));
  else
    FK_CUBLAS_TRY(fk_cublas.dgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, t, n, &one, a->kernels, a->ld, u, n, &one,
                                  device->product, m));
  return FK_STATUS_OK;
}

static struct tile tile_of(const struct fk_normal_device *device) {
  const struct fk_normal_job *job = device->job;
  const struct fk_normal_points *x = device->columns;
  struct tile a = {};
  a.form.form = job->kernel.type;
  for (int i = 0; i < 3; i++) a.form.factor[i] = job->kernel.factor[i];
  a.columns = x->u, a.column_square = x->square;
  a.ld_columns = x->room, a.n_columns = job->m, a.d = job->d;
  a.scale2 = job->kernel.scale * job->kernel.scale;
  a.limit = fk_costs.limits.gram_f64;
  a.ld = fk_padded(job->m, 16);
  return a;
}

enum fk_status fk_normal_tiles(struct fk_normal_device *device, const struct fk_normal_view *rows,
                               const struct fk_normal_numbers *numbers, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_points *points = rows->points;
  const int64_t step = fk_smaller(fk_normal_tile(device->job, device->progress->attempt), rows->n);
  const double one = 1, zero = 0;
  struct tile a = tile_of(device);
  cublasHandle_t blas;
  double *u;
  FK_TRY(fk_cuda_blas(context, &blas, err));
  FK_TRY(fk_cuda_room(context, &device->tile_buffer, a.ld * step, &a.kernels, err));
  FK_TRY(fk_cuda_room(context, &device->residual_buffer, step * device->job->t, &u, err));
  a.ld_rows = points->room;
  for (int64_t first = 0; first < rows->n; first += step) {
    const double *w = numbers->w, *weights = numbers->weights;
    struct fk_normal_numbers here = {w ? w + first : NULL, weights ? weights + first : NULL, numbers->ld};
    a.rows = points->u + rows->row + first;
    a.row_square = points->square + rows->row + first;
    a.n_rows = fk_smaller(step, rows->n - first);
    if (a.d > GRAM_DIMENSION)
      FK_CUBLAS_TRY(fk_cublas.dgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, a.n_columns, a.n_rows, a.d, &one, a.columns,
                                    a.ld_columns, a.rows, a.ld_rows, &zero, a.kernels, a.ld));
    FK_CUDA_TRY(launch_kernels(&a, context->stream));
    FK_TRY(multiply(device, blas, &a, u, &here, err));
  }
  return FK_STATUS_OK;
}

#else

enum fk_status fk_normal_tiles(struct fk_normal_device *, const struct fk_normal_view *,
                               const struct fk_normal_numbers *, struct fk_error *err) {
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "this build has no cuBLAS");
}

#endif

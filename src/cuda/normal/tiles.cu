/* A chunk of K's rows by tiles: K' of some rows as an FP64 matrix, which cuBLAS multiplies with v and with W (K v
 * + w).
 * || In single precision, kernels come from FP16 products on tensor cores (struct fk_normal_points): hi.hi, which
 * is exact, and what it lacks, for which FP16 is enough. Subtracting |x|^2/2 + |y|^2/2 is exact except for the
 * remainders. Points on the grid (precision "fast") have no more than hi.hi. In double, kernels of few dimensions
 * come from direct distances. For many dimensions, cuBLAS computes the products of the points, too, and a pair
 * whose distance would lose too many digits is recomputed by direct distances. Sums of absolute differences never
 * come from products. */
#include "../exact/kernel_tile.cuh"
#include "normal.cuh"
#include "../fma/sums.cuh"

enum { ROWS = 16, DEPTH = 16, AT_ONCE = 8 /* rows whose products are read together */ };

/* What kernels come from: the first two in double, the last in single precision. */
enum source { DIFFERENCES, PRODUCTS, HALVES };

struct tile {
  struct fk_fma_task<double> form;                           /* of the kernel */
  const double *columns, *column_square, *rows, *row_square; /* [d][ld], |u|^2 */
  int64_t ld_columns, ld_rows, n_columns, n_rows, d;
  double scale2;   /* t = -scale2 |x - y|^2; for sums of absolute differences their scale */
  double limit;    /* of |u|^2, for products */
  double *kernels; /* n_columns x n_rows, ld; 0 in the padding, from n_columns to ld */
  int64_t ld;
  const double *v; /* for one column, K v computed with the kernels; NULL: none or several columns */
  double *sums;    /* [FK_NORMAL_STRIPS][n_rows] */
};

static bool uses_products(const struct tile *a) {
  return a->d > FK_NORMAL_GRAM && fk_form_metric(a->form.form) != FK_METRIC_ABSOLUTE;
}

static void take_form(struct tile *a, const struct fk_kernel_form *form) {
  fk_fma_takes_form(&a->form, form);
  a->scale2 = fk_form_metric(form->type) == FK_METRIC_ABSOLUTE ? form->scale : form->scale * form->scale;
}

/* For single precision; kernels, n_columns, n_rows, ld: see the tile. */
struct half_tile {
  struct fk_fma_task<float> form;
  const __half *columns, *rows; /* [point][3][k] */
  const float2 *column_norm, *row_norm;
  int k;
  float scale2; /* t = -scale2 |x - y|^2/2 of the points as packed */
  float *high;  /* products, laid out like the kernels: hi.hi, and what it lacks */
  __half *low;  /* NULL: 0 */
};

/* -|x - y|^2, -sum |x_k - y_k|, or x'y. */
template <enum kernel_code CODE>
static __device__ double exponent_of_pair(const struct tile &a, int64_t column, int64_t row) {
  double t = 0;
  for (int64_t k = 0; k < a.d; k++)
    add_coordinate<CODE>(a.rows[k * a.ld_rows + row], a.columns[k * a.ld_columns + column], t);
  return t;
}

/* Would the root, or another power, of a small squared distance magnify its error, which is about 2^-52 of both
 * squares? */
template <enum kernel_code CODE>
static __device__ bool magnifies(double distance2, double both) {
  if (CODE == ROOT) return !(distance2 > 1e-6 * both * both);
  return CODE == STRETCHED && !(distance2 > 1e-4 * both * fmax(both, 1.0));
}

/* Returns the exponent of a pair from the product x'y, or by exponent_of_pair() if that would be inaccurate: the
 * distance has an error of about 2^-52 of both squares, which the root of a small distance would magnify. */
template <enum kernel_code CODE>
static __device__ double exponent_of_product(const struct tile &a, int64_t column, int64_t row, double product) {
  if (CODE == PRODUCT) return product;
  double both = a.column_square[column] + a.row_square[row], distance2 = both - 2 * product;
  bool rough = both > a.limit ? !(distance2 > both / 16) : magnifies<CODE>(distance2, both);
  return rough ? exponent_of_pair<CODE>(a, column, row) : fmin(-distance2, 0.0);
}

template <enum kernel_code CODE>
static __device__ __forceinline__ double kernel_at(const struct tile &a, const double *powers, double exponent) {
  return kernel_of<double, CODE>(a.form, powers, CODE == PRODUCT ? exponent : exponent * a.scale2, 0.0);
}

/* -|x - y|^2/2 */
static __device__ float exponent_of_halves(const struct half_tile &h, int64_t column, int64_t row) {
  const __half *x = h.columns + column * 3 * h.k, *y = h.rows + row * 3 * h.k;
  float t = 0;
  for (int k = 0; k < h.k; k++) {
    float z = (__half2float(y[k]) - __half2float(x[k])) + (__half2float(y[h.k + k]) - __half2float(x[h.k + k]));
    t -= z * z;
  }
  return t / 2;
}

/* ---- a column's kernels with ROWS rows, those of them that there are ---------------------------- */

template <enum kernel_code CODE>
static __device__ __forceinline__ void kernels_of_halves(const struct tile &a, const struct half_tile &h,
                                                         int64_t column, int64_t first, int rows,
                                                         double (&kernel)[ROWS]) {
  const float2 x = h.column_norm[column];
#pragma unroll
  for (int r0 = 0; r0 < ROWS; r0 += AT_ONCE) {
    float high[AT_ONCE], low[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int64_t at = (first + (r0 + i < rows ? r0 + i : 0)) * a.ld + column;
      high[i] = h.high[at];
      low[i] = h.low ? __half2float(h.low[at]) : 0;
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int64_t row = first + (r0 + i < rows ? r0 + i : 0);
      const float2 y = h.row_norm[row];
      const float both = x.x + y.x;
      float t = (high[i] - both) + (low[i] - (x.y + y.y));
      /* the root of a short distance would show the error */
      if ((CODE == ROOT && !(-t > both / 1024)) || (CODE == STRETCHED && !(-t > both / 64)))
        t = exponent_of_halves(h, column, row);
      kernel[r0 + i] = kernel_of<float, CODE>(h.form, NULL, fminf(t, 0) * h.scale2, 0);
    }
  }
}

template <enum kernel_code CODE>
static __device__ __forceinline__ void kernels_of_products(const struct tile &a, const double *powers,
                                                           int64_t column, int64_t first, int rows,
                                                           double (&kernel)[ROWS]) {
#pragma unroll
  for (int r0 = 0; r0 < ROWS; r0 += AT_ONCE) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      kernel[r0 + i] = a.kernels[(first + (r0 + i < rows ? r0 + i : 0)) * a.ld + column];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      kernel[r0 + i] = kernel_at<CODE>(
          a, powers, exponent_of_product<CODE>(a, column, first + (r0 + i < rows ? r0 + i : 0), kernel[r0 + i]));
  }
}

/* To be called by all threads of the block, including those beyond the columns. */
template <enum kernel_code CODE>
static __device__ __forceinline__ void kernels_of_differences(const struct tile &a, const double *powers,
                                                              int64_t column, int64_t first, int rows,
                                                              double (&kernel)[ROWS]) {
  __shared__ double y[DEPTH][ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) kernel[r] = 0;
  for (int64_t k0 = 0; k0 < a.d; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < DEPTH * ROWS; i += NARROW_THREADS) {
      int64_t k = k0 + i / ROWS;
      y[i / ROWS][i % ROWS] = k < a.d && i % ROWS < rows ? a.rows[k * a.ld_rows + first + i % ROWS] : 0;
    }
    __syncthreads();
    int depth = (int)(a.d - k0 < DEPTH ? a.d - k0 : DEPTH);
    for (int k = 0; k < depth && column < a.n_columns; k++) {
      double x = a.columns[(k0 + k) * a.ld_columns + column];
#pragma unroll
      for (int r = 0; r < ROWS; r++) add_coordinate<CODE>(y[k][r], x, kernel[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) kernel[r] = kernel_at<CODE>(a, powers, kernel[r]);
}

/* ---- a tile ----------------------------------------------------------------------------------- */

/* Adds the block's sums over all its threads, in a fixed order. */
static __device__ __forceinline__ void store_sums(const struct tile &a, int64_t first, int rows,
                                                  double (&sum)[ROWS]) {
  __shared__ double of_warp[NARROW_THREADS / 32][ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    for (int step = 16; step > 0; step /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][r] = sum[r];
  }
  __syncthreads();
  if ((int)threadIdx.x >= rows) return;
  double all = 0;
  for (int warp = 0; warp < NARROW_THREADS / 32; warp++) all += of_warp[warp][threadIdx.x];
  a.sums[(int64_t)blockIdx.x * a.n_rows + first + threadIdx.x] = all;
}

/* A block has ROWS rows and columns at a fixed stride; a thread has one column at a time. */
template <enum kernel_code CODE, enum source SOURCE, bool SUMS>
static __global__ void __launch_bounds__(NARROW_THREADS)
    tile_kernel(const struct tile a, const struct half_tile h) {
  const int64_t first = (int64_t)blockIdx.y * ROWS;
  const int rows = (int)(a.n_rows - first < ROWS ? a.n_rows - first : ROWS);
  const double *powers = SOURCE == HALVES ? NULL : exp2_table();
  double sum[ROWS] = {};
  for (int64_t begin = (int64_t)blockIdx.x * NARROW_THREADS; begin < a.ld; begin += gridDim.x * NARROW_THREADS) {
    const int64_t column = begin + threadIdx.x;
    const bool inside = column < a.n_columns;
    double kernel[ROWS] = {};
    if (SOURCE == DIFFERENCES)
      kernels_of_differences<CODE>(a, powers, column, first, rows, kernel);
    else if (inside && SOURCE == PRODUCTS)
      kernels_of_products<CODE>(a, powers, column, first, rows, kernel);
    else if (inside)
      kernels_of_halves<CODE>(a, h, column, first, rows, kernel);
    const double v = SUMS && inside ? a.v[column] : 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (r < rows && column < a.ld) a.kernels[(first + r) * a.ld + column] = inside ? kernel[r] : 0;
      if (SUMS && inside) sum[r] += kernel[r] * v;
    }
  }
  if (SUMS) store_sums(a, first, rows, sum);
}

template <enum kernel_code CODE, enum source SOURCE>
static cudaError_t launch_tile(const struct tile *a, const struct half_tile *h, cudaStream_t stream) {
  dim3 grid(FK_NORMAL_STRIPS, fk_blocks(a->n_rows, ROWS));
  if (a->v)
    tile_kernel<CODE, SOURCE, true><<<grid, NARROW_THREADS, 0, stream>>>(*a, *h);
  else
    tile_kernel<CODE, SOURCE, false><<<grid, NARROW_THREADS, 0, stream>>>(*a, *h);
  return cudaGetLastError();
}

/* h->columns NULL: in double */
template <enum kernel_code CODE>
static cudaError_t launch_source(const struct tile *a, const struct half_tile *h, cudaStream_t stream) {
  if constexpr (CODE != ABSOLUTE) {
    if constexpr (CODE != PRODUCT && CODE != GENERAL)
      if (h->columns) return launch_tile<CODE, HALVES>(a, h, stream);
    if (uses_products(a)) return launch_tile<CODE, PRODUCTS>(a, h, stream);
  }
  return launch_tile<CODE, DIFFERENCES>(a, h, stream);
}

static cudaError_t launch_kernels(const struct tile *a, const struct half_tile *h, cudaStream_t stream) {
  return with_code(&a->form, [&](auto code) { return launch_source<code_in<decltype(code)>>(a, h, stream); });
}

/* u[0] = W (u[0] + u[1] + ... + w), from the parts of K v, [part][t][n] */
static __global__ void residual_kernel(double *u, int64_t parts, int64_t n, int64_t t,
                                       const struct fk_normal_numbers numbers) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int64_t c = blockIdx.y; c < t; c += gridDim.y) {
    double x = 0;
    for (int64_t part = 0; part < parts; part++) x += u[(part * t + c) * n + i];
    if (numbers.sums) numbers.sums[c * numbers.ld + i] = x;
    if (numbers.w) x += numbers.w[c * numbers.ld + i];
    if (numbers.weights) x *= numbers.weights[i];
    u[c * n + i] = x;
  }
}

/* Adds K' u to the product. Computes K v for u first, unless it came with the tile. */
static enum fk_status multiply_tile(struct fk_normal_device *device, struct fk_blas blas, const struct tile *a,
                                    const struct fk_normal_tile *tile, double *u,
                                    const struct fk_normal_numbers *numbers, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const int64_t m = a->n_columns, n = a->n_rows, t = device->job->t;
  const int64_t parts = device->v ? tile->parts : 0, run = tile->run;
  const double one = 1, zero = 0;
  if (parts && !a->v)
    FK_CUBLAS_TRY(blas.f->dgemm_batch(blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, n, t, run, &one, a->kernels, a->ld,
                                      run, device->v, device->ld_v, run, &zero, u, n, n * t, parts));
  dim3 grid(fk_blocks(n, NARROW_THREADS), (unsigned)fk_smaller(t, 64));
  residual_kernel<<<grid, NARROW_THREADS, 0, context->stream>>>(u, parts, n, t, *numbers);
  FK_CUDA_TRY(cudaGetLastError());
  if (t == 1)
    FK_CUBLAS_TRY(
        blas.f->dgemv(blas.handle, CUBLAS_OP_N, m, n, &one, a->kernels, a->ld, u, 1, &one, device->product, 1));
  else
    FK_CUBLAS_TRY(blas.f->dgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, m, t, n, &one, a->kernels, a->ld, u, n,
                                &one, device->product, m));
  return FK_STATUS_OK;
}

/* Computes the products that kernels come from. */
static enum fk_status multiply_points(struct fk_cuda_context *context, struct fk_blas blas, const struct tile *a,
                                      const struct half_tile *h, struct fk_error *err) {
  const cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
  const int64_t m = a->n_columns, n = a->n_rows;
  if (!h->columns) {
    const double one = 1, zero = 0;
    if (uses_products(a))
      FK_CUBLAS_TRY(blas.f->dgemm(blas.handle, N, T, m, n, a->d, &one, a->columns, a->ld_columns, a->rows,
                                  a->ld_rows, &zero, a->kernels, a->ld));
    return FK_STATUS_OK;
  }
  const float one = 1, zero = 0;
  const int64_t k = h->k;
  FK_CUBLAS_TRY(blas.f->gemm(blas.handle, T, N, m, n, k, &one, h->columns, CUDA_R_16F, 3 * k, h->rows, CUDA_R_16F,
                             3 * k, &zero, h->high, CUDA_R_32F, a->ld, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  if (!h->low) return FK_STATUS_OK;
  FK_CUBLAS_TRY(blas.f->gemm(blas.handle, T, N, m, n, 2 * k, &one, h->columns, CUDA_R_16F, 3 * k, h->rows + k,
                             CUDA_R_16F, 3 * k, &zero, h->low, CUDA_R_16F, a->ld, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
  return FK_STATUS_OK;
}

static enum fk_status fill_tile(struct fk_cuda_context *context, struct fk_blas blas,
                                const struct fk_kernel_tile *tile, struct fk_error *err) {
  const struct half_tile none = {};
  struct tile a = {};
  take_form(&a, &tile->form);
  a.columns = tile->columns.u, a.ld_columns = tile->columns.ld, a.n_columns = tile->columns.n;
  a.rows = tile->rows.u, a.ld_rows = tile->rows.ld, a.n_rows = tile->rows.n;
  a.column_square = tile->column_square, a.row_square = tile->row_square;
  a.d = tile->rows.d;
  a.limit = fk_costs.limits.gram_f64;
  a.kernels = tile->kernels, a.ld = tile->ld;
  FK_TRY(multiply_points(context, blas, &a, &none, err));
  return FK_CUDA_STATUS(launch_kernels(&a, &none, context->stream));
}

const struct fk_kernel_tile_ops fk_kernel_tiles = {fill_tile};

static struct half_tile half_tile_of(const struct fk_normal_device *device) {
  const struct fk_normal_points *x = device->columns;
  const struct fk_kernel_form *kernel = &device->job->kernel;
  struct half_tile h = {};
  fk_fma_takes_form(&h.form, kernel);
  h.columns = x->parts, h.column_norm = x->norm;
  h.k = x->form.k;
  h.scale2 = (float)(2 * kernel->scale * kernel->scale / (x->form.grid.scale * x->form.grid.scale));
  return h;
}

static struct tile tile_of(const struct fk_normal_device *device) {
  const struct fk_normal_job *job = device->job;
  const struct fk_normal_points *x = device->columns;
  struct tile a = {};
  take_form(&a, &job->kernel);
  a.columns = x->u, a.column_square = x->square;
  a.ld_columns = x->room, a.n_columns = job->m, a.d = job->d;
  a.limit = fk_costs.limits.normal_f64;
  a.ld = device->ld_v;
  return a;
}

enum fk_status fk_normal_tiles(struct fk_normal_device *device, const struct fk_normal_view *rows,
                               const struct fk_normal_numbers *numbers, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_points *points = rows->points;
  const struct fk_normal_tile tile = fk_normal_tile(device->job, device->progress->attempt);
  const int64_t step = fk_smaller(tile.rows, rows->n);
  const bool single = device->job->way == FK_NORMAL_TILES;
  struct tile a = tile_of(device);
  struct half_tile h = {};
  struct fk_blas blas;
  double *u;
  FK_TRY(fk_cuda_blas(context, device->job->t == 1 ? device->job->m : FK_ANY_ORDER, &blas, err));
  FK_TRY(fk_cuda_room(context, &device->tile_buffer, a.ld * step, &a.kernels, err));
  FK_TRY(fk_cuda_room(context, &device->residual_buffer, step * device->job->t * tile.parts, &u, err));
  if (device->job->t == 1) a.v = device->v, a.sums = u;
  if (single) {
    h = half_tile_of(device);
    FK_TRY(fk_cuda_room(context, &device->high_buffer, a.ld * step, &h.high, err));
    if (!points->form.rough) FK_TRY(fk_cuda_room(context, &device->low_buffer, a.ld * step, &h.low, err));
  }
  a.ld_rows = points->room;
  for (int64_t first = 0; first < rows->n; first += step) {
    const double *w = numbers->w, *weights = numbers->weights;
    double *sums = numbers->sums ? numbers->sums + first : NULL;
    struct fk_normal_numbers here = {w ? w + first : NULL, weights ? weights + first : NULL, numbers->ld, sums};
    a.n_rows = fk_smaller(step, rows->n - first);
    if (single) {
      h.rows = points->parts + (rows->row + first) * 3 * h.k;
      h.row_norm = points->norm + rows->row + first;
    } else {
      a.rows = points->u + rows->row + first;
      a.row_square = points->square + rows->row + first;
    }
    FK_TRY(multiply_points(context, blas, &a, &h, err));
    FK_CUDA_TRY(launch_kernels(&a, &h, context->stream));
    FK_TRY(multiply_tile(device, blas, &a, &tile, u, &here, err));
  }
  return FK_STATUS_OK;
}

/* Sums with more values than a launch takes: kernels are evaluated once, as a matrix of some rows and columns at a
 * time, which cuBLAS multiplies with all values and with the ones whose sum is the mass.
 *
 * In single precision the kernel of wide points stores exponents (sums_wgmma_wide.cu). Of a row's in a run of
 * columns a warp makes kernels, two halves each in the place of a float, raised by what the largest of them
 * allows; so no pass for the masses comes before. Tensor cores cut at every step: hi lo + lo hi, which are small,
 * are summed apart from hi hi, and sums of runs go on in FP64. In double kernels are those of normal products.
 *
 * cuBLAS may add in another order for another shape: that of its products goes by the sizes of the task alone, and
 * rows that are not there are computed, too.
 */
#include <float.h>
#include <math.h>

#include "job.cuh"
#include "kernel_tile.cuh"
#include "mma.cuh"

#ifdef FK_CUDA_LIBRARIES

enum {
  MOST_RUN = 2048,                 /* columns of an FP32 sum; a warp has a row's in registers */
  MOST_ROWS = 44 * FK_TENSOR_ROWS, /* 66 blocks of the kernel for exponents: two waves fill 132 processors */
  THREADS = 256,
  WARP = 32,
  GROUP = 4, /* columns that a lane has side by side */
  GROUPS = MOST_RUN / (WARP * GROUP)
};

/* Columns are in `runs` of `run` each, padded with zeros; a matrix has `rows` and `at_once` of the runs. */
struct plan {
  int64_t rows, run, runs, at_once;
};

struct pass {
  struct fk_cuda_job *job;
  struct plan plan;
  cublasHandle_t blas;
  int64_t widths; /* the mass and the values */
  bool halves;
  void *kernels; /* [row][at_once][run], halves as [row][at_once][lo, hi][run] */
  void *values;  /* [width][runs][run], halves as [width][runs][hi, lo][run] */
  void *sums;    /* [at_once][width][row] */
  /* of halves: what sums of a row and run are multiplied with, [at_once][row] */
  double *scales;
  /* in double: |u|^2, and rows of which there are fewer than `rows` */
  double *column_square, *row_square, *rows;
};

/* What is done next. */
struct piece {
  int64_t first_row, rows, first_run, runs;
};

/* ---- when, and how much at once --------------------------------------------------------------- */

static bool has_blas(struct fk_cuda_context *context) {
  struct fk_error none = {FK_STATUS_OK, ""};
  cublasHandle_t blas;
  return fk_cuda_blas(context, &blas, &none) == FK_STATUS_OK;
}

/* Those of halves come from wgmma. */
static bool makes_kernels(const struct fk_cuda_job *job) {
  struct fk_tensor_task t = {};
  t.rows.k = t.cols.k = FK_TENSOR_WIDE + 16;
  if (!fk_on_tensor_cores(job->method)) return job->method != FK_METHOD_SINGLE;
  return !fk_cuda_is_lowered_to("mma") && fk_wgmma_supports(&t);
}

bool fk_job_takes_matrix(const struct fk_cuda_job *job) {
  const double pairs = (double)job->task->sources.n * (double)fk_n_targets(job->task);
  return job->n_values > FK_MMA_VALUES && pairs > fk_costs.exact_cuda.matrix_pairs && !job->by_frames &&
         !job->apart && !job->shifted && makes_kernels(job) && has_blas(job->context);
}

static struct plan plan_of(const struct fk_cuda_job *job, int64_t widths, bool halves) {
  const int64_t n = job->sources->points.n, m = fk_n_targets(job->task);
  struct plan p;
  p.run = fk_padded(fk_pieces(n, fk_pieces(n, MOST_RUN)), FK_TENSOR_COLS);
  p.runs = fk_pieces(n, p.run);
  /* rows that are done again are few */
  p.rows = job->rows ? FK_TENSOR_ROWS : fk_padded(fk_pieces(m, fk_pieces(m, MOST_ROWS)), FK_TENSOR_ROWS);
  p.at_once = fk_smaller(fk_larger(MOST_ROWS / p.rows, 1), p.runs);
  const double each = (halves ? 4.0 : 8.0) * (double)(p.run + widths) + 8;
  while (each * (double)(p.rows * p.at_once) > job->partial_bytes && p.at_once > 1) p.at_once = p.at_once / 2;
  while (each * (double)p.rows > job->partial_bytes && p.rows > FK_TENSOR_ROWS)
    p.rows = fk_padded(p.rows / 2, FK_TENSOR_ROWS);
  return p;
}

/* ---- values ----------------------------------------------------------------------------------- */

struct values {
  const double *of, *weights; /* [..][ld], NULL: ones */
  double weight_scale;
  int64_t n, ld, run;
};

static __device__ __forceinline__ double value_at(const struct values &v, int64_t i, int64_t width,
                                                  double weight) {
  return width == 0 ? weight : weight * v.of[(width - 1) * v.ld + i];
}

/* Weights are mantissas, whose powers of two are in the exponents. */
static __global__ void halves_of_values_kernel(const struct values v, __half *to, int64_t padded) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  int exponent;
  if (i >= padded) return;
  const double weight = v.weights && i < v.n ? frexp(v.weights[i] / v.weight_scale, &exponent) : 1,
               value = i < v.n ? value_at(v, i, blockIdx.y, weight) : 0;
  const __half hi = __double2half(value);
  __half *at = to + 2 * (blockIdx.y * padded + i / v.run * v.run) + i % v.run;
  at[0] = hi;
  at[v.run] = __double2half(value - (double)__half2float(hi));
}

static __global__ void values_kernel(const struct values v, double *to, int64_t padded) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= padded) return;
  const double weight = v.weights && i < v.n ? v.weights[i] / v.weight_scale : 1;
  to[blockIdx.y * padded + i] = i < v.n ? value_at(v, i, blockIdx.y, weight) : 0;
}

static enum fk_status pack_values(struct pass *pass, struct fk_error *err) {
  struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_sources *s = job->sources;
  const bool columns = job->task->values == FK_VALUES_COLUMNS;
  const int64_t padded = pass->plan.runs * pass->plan.run;
  const struct values v = {columns ? s->columns : s->points.u,
                           s->weights,
                           job->weight_scale,
                           s->points.n,
                           s->points.ld,
                           pass->plan.run};
  const dim3 grid(fk_blocks(padded, THREADS), (unsigned)pass->widths);
  FK_TRY(fk_cuda_reserve(context, &job->matrix_values,
                         (size_t)(padded * pass->widths) * (pass->halves ? 2 * sizeof(__half) : sizeof(double)),
                         err));
  pass->values = job->matrix_values.data;
  if (pass->halves)
    halves_of_values_kernel<<<grid, THREADS, 0, context->stream>>>(v, (__half *)pass->values, padded);
  else
    values_kernel<<<grid, THREADS, 0, context->stream>>>(v, (double *)pass->values, padded);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

/* ---- kernels in halves ------------------------------------------------------------------------ */

/* Exponents of a matrix, [row][ld] with a run at a time, in whose place the kernels come. */
struct exponents {
  float *of;
  int64_t ld, rows, ld_scales, run, n; /* n: columns that there are */
  const float *factor0, *col_factor;   /* as those of struct fk_tensor_task; NULL: none */
  float factor1;
  double *scales; /* [run][row] */
};

/* A lane's exponents of a row in a run; absent ones are far away. */
static __device__ __forceinline__ float load_exponents(float (&t)[GROUPS][GROUP], const struct exponents &e,
                                                       const float *from, int64_t first_column, int lane) {
  float largest = -INFINITY;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int at = GROUP * (WARP * g + lane);
    const float4 x = at < e.run ? *(const float4 *)(from + at) : make_float4(0, 0, 0, 0);
    const float x4[GROUP] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
      t[g][i] = at < e.run && first_column + at + i < e.n ? x4[i] : -INFINITY;
      largest = fmaxf(largest, t[g][i]);
    }
  }
  for (int step = WARP / 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  return largest;
}

/* A warp has a row's exponents in a run in registers. The largest kernel becomes 2^14 at most: halves reach to
 * 2^16. With a factor of |f| <= |factor0| + |factor1 t| it is 2^(t - largest) f that is bounded. */
template <bool FACTOR>
static __global__ void __launch_bounds__(THREADS, FACTOR ? 1 : 2) halves_kernel(const struct exponents e) {
  const int lane = threadIdx.x % WARP;
  const int64_t row = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
  if (row >= e.rows) return;
  const int64_t first_column = blockIdx.y * e.run;
  float *exponents = e.of + row * e.ld + first_column, t[GROUPS][GROUP];
  const float largest = fmaxf(load_exponents(t, e, exponents, first_column, lane), -0x1p24f),
              factor0 = FACTOR ? e.factor0[row] : 1;
  float most = ceilf(largest) - 14;
  if (FACTOR) most += ceilf(log2f(fmaxf(1, fabsf(factor0) + fabsf(e.factor1) * (fabsf(largest) + 3))));
  uint2 *lo = (uint2 *)exponents, *hi = lo + e.run / GROUP;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int at = WARP * g + lane;
    if (GROUP * at >= e.run) continue;
    float kernel[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
      kernel[i] = exp2_fast(t[g][i] - most);
      if (!FACTOR) continue;
      const int64_t column = first_column + GROUP * at + i;
      const float own = e.col_factor && column < e.n ? e.col_factor[column] : 0;
      if (kernel[i] != 0) kernel[i] *= fmaf(e.factor1, t[g][i], factor0 + own);
    }
    const uint2 high = {pack_halves(kernel[0], kernel[1]), pack_halves(kernel[2], kernel[3])};
    hi[at] = high;
    lo[at] = {pack_rest(kernel[0], kernel[1], high.x), pack_rest(kernel[2], kernel[3], high.y)};
  }
  if (lane == 0) e.scales[blockIdx.y * e.ld_scales + row] = exp2((double)most);
}

/* Blocks of the kernel for exponents: 256 rows each, of columns in stages of FK_TENSOR_COLS, in waves of one a
 * processor, which begin in the time of a stage. */
static void cut_columns(const struct fk_cuda_context *context, struct fk_tensor_task *t) {
  const int64_t stages = fk_pieces(t->cols.n_pad, FK_TENSOR_COLS), row_blocks = fk_pieces(t->n_rows, 256);
  int64_t best = INT64_MAX;
  for (int64_t slots = 1; slots <= stages; slots++) {
    const int64_t each = fk_pieces(stages, slots), used = fk_pieces(stages, each);
    const int64_t time = fk_pieces(row_blocks * used, context->multiprocessors) * (each + 1);
    if (time >= best) continue;
    best = time;
    t->slots = (int)used;
    t->cols_per_slot = each * FK_TENSOR_COLS;
  }
}

static enum fk_status make_halves(const struct pass *pass, const struct piece *piece, struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct plan *plan = &pass->plan;
  const int64_t first = piece->first_run * plan->run;
  struct fk_tensor_task t = job->tensor, before = t;
  before.cols.n_pad = first;
  const char *columns = (const char *)job->sources->wgmma_columns + fk_wgmma_pack_bytes(&before);
  t.cols.n_pad = fk_smaller(t.cols.n_pad - first, piece->runs * plan->run);
  if (t.self != INT64_MIN) t.self -= first;
  t.first_row = piece->first_row, t.n_rows = piece->rows;
  t.exponents = (float *)pass->kernels, t.ld_exponents = plan->at_once * plan->run;
  cut_columns(context, &t);
  FK_CUDA_TRY(fk_wgmma_launch(&t, columns, context->stream));

  struct exponents e = {t.exponents, t.ld_exponents, piece->rows, plan->rows, plan->run, t.cols.n - first};
  e.factor0 = t.factor0 ? t.factor0 + piece->first_row : NULL;
  e.col_factor = t.col_factor ? t.col_factor + first : NULL;
  e.factor1 = t.factor1;
  e.scales = pass->scales;
  const dim3 grid(fk_blocks(piece->rows, THREADS / WARP), (unsigned)piece->runs);
  if (e.factor0)
    halves_kernel<true><<<grid, THREADS, 0, context->stream>>>(e);
  else
    halves_kernel<false><<<grid, THREADS, 0, context->stream>>>(e);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

static enum fk_status multiply_halves(const struct pass *pass, const struct piece *piece, struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct plan *p = &pass->plan;
  const int64_t both = 2 * p->run, ld = both * p->at_once, ld_values = both * p->runs;
  const __half *lo = (const __half *)pass->kernels, *hi = lo + p->run;
  const __half *values = (const __half *)pass->values + piece->first_run * both;
  const float one = 1, zero = 0;
  FK_CUBLAS_TRY(fk_cublas.gemm_batch(pass->blas, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, pass->widths, both, &one, lo,
                                     CUDA_R_16F, ld, both, values, CUDA_R_16F, ld_values, both, &zero, pass->sums,
                                     CUDA_R_32F, p->rows, p->rows * pass->widths, piece->runs, CUBLAS_COMPUTE_32F,
                                     CUBLAS_GEMM_DEFAULT));
  FK_CUBLAS_TRY(fk_cublas.gemm_batch(pass->blas, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, pass->widths, p->run, &one, hi,
                                     CUDA_R_16F, ld, both, values, CUDA_R_16F, ld_values, both, &one, pass->sums,
                                     CUDA_R_32F, p->rows, p->rows * pass->widths, piece->runs, CUBLAS_COMPUTE_32F,
                                     CUBLAS_GEMM_DEFAULT));
  return FK_STATUS_OK;
}

/* ---- kernels in double ------------------------------------------------------------------------ */

static __global__ void square_kernel(const struct fk_cuda_points points, double *square) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  double sum = 0;
  if (i >= points.n) return;
  for (int64_t k = 0; k < points.d; k++) sum += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  square[i] = sum;
}

static enum fk_status find_squares(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   double *square, struct fk_error *err) {
  square_kernel<<<fk_blocks(points->n, THREADS), THREADS, 0, context->stream>>>(*points, square);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

/* Row r is source own[r], or r + meets, of which `first` is the matrix' first column. */
static __global__ void leave_out_kernel(double *kernels, int64_t ld, int64_t rows, int64_t columns,
                                        const int64_t *own, int64_t meets, int64_t first) {
  const int64_t r = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const int64_t column = (own ? own[r] : r + meets) - first;
  if (column >= 0 && column < columns) kernels[r * ld + column] = 0;
}

/* As many rows as the plan has, the last ones 0. */
static enum fk_status take_rows(const struct pass *pass, const struct piece *piece, struct fk_cuda_points *rows,
                                struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_cuda_points *y = &pass->job->targets;
  const int64_t count = pass->plan.rows;
  const size_t number = sizeof(double);
  *rows = (struct fk_cuda_points){y->u + piece->first_row, count, y->ld, y->d};
  if (piece->rows == count) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaMemsetAsync(pass->rows, 0, number * (size_t)(count * y->d), context->stream));
  FK_CUDA_TRY(cudaMemcpy2DAsync(pass->rows, number * (size_t)count, rows->u, number * (size_t)y->ld,
                                number * (size_t)piece->rows, (size_t)y->d, cudaMemcpyDeviceToDevice,
                                context->stream));
  rows->u = pass->rows;
  rows->ld = count;
  return FK_STATUS_OK;
}

static enum fk_status make_doubles(const struct pass *pass, const struct piece *piece, struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct plan *plan = &pass->plan;
  const int64_t first = piece->first_run * plan->run;
  struct fk_kernel_tile tile = {job->form, job->sources->points};
  tile.columns.u += first;
  tile.columns.n = fk_smaller(tile.columns.n - first, piece->runs * plan->run);
  tile.column_square = pass->column_square + first;
  tile.row_square = pass->row_square;
  tile.kernels = (double *)pass->kernels;
  tile.ld = plan->at_once * plan->run;
  FK_TRY(take_rows(pass, piece, &tile.rows, err));
  FK_TRY(find_squares(context, &tile.rows, pass->row_square, err));
  FK_TRY(fk_kernel_tile(context, pass->blas, &tile, err));
  if (!job->task->exclude_self) return FK_STATUS_OK;
  const int64_t *own = job->rows ? job->self + piece->first_row : NULL;
  leave_out_kernel<<<fk_blocks(piece->rows, THREADS), THREADS, 0, context->stream>>>(
      tile.kernels, tile.ld, piece->rows, tile.columns.n, own, job->meets + piece->first_row,
      job->sources->first + first);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

static enum fk_status multiply_doubles(const struct pass *pass, const struct piece *piece, struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct plan *p = &pass->plan;
  const double one = 1, zero = 0, *values = (const double *)pass->values + piece->first_run * p->run;
  FK_CUBLAS_TRY(fk_cublas.dgemm_batch(pass->blas, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, pass->widths, p->run, &one,
                                      (const double *)pass->kernels, p->run * p->at_once, p->run, values,
                                      p->run * p->runs, p->run, &zero, (double *)pass->sums, p->rows,
                                      p->rows * pass->widths, piece->runs));
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

/* Of rows at `result`, in the order of the runs. */
struct sums {
  int64_t rows, runs, ld, stride; /* stride: from one run to the next */
  const double *scales, *undo;    /* [run][ld], [row]; NULL: 1 */
  bool first;                     /* the result holds nothing yet */
  double *result;
  int64_t ld_result;
};

template <typename T>
static __global__ void add_kernel(const struct sums s, const T *sums) {
  const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x, width = blockIdx.y;
  if (row >= s.rows) return;
  double sum = 0, *to = s.result + width * s.ld_result + row;
  for (int64_t run = 0; run < s.runs; run++)
    sum += (double)sums[run * s.stride + width * s.ld + row] * (s.scales ? s.scales[run * s.ld + row] : 1);
  if (s.undo) sum *= s.undo[row];
  *to = s.first ? sum : *to + sum;
}

static enum fk_status add_sums(const struct pass *pass, const struct piece *piece, double *result,
                               struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const int64_t rows = pass->plan.rows;
  struct sums s = {piece->rows, piece->runs, rows, rows * pass->widths, pass->scales};
  s.undo = pass->halves ? job->undo + piece->first_row : NULL;
  s.first = piece->first_run == 0 && job->sources->first == job->source_begin;
  s.result = result + piece->first_row;
  s.ld_result = job->ld_result;
  const dim3 grid(fk_blocks(s.rows, THREADS), (unsigned)pass->widths);
  if (pass->halves)
    add_kernel<<<grid, THREADS, 0, context->stream>>>(s, (const float *)pass->sums);
  else
    add_kernel<<<grid, THREADS, 0, context->stream>>>(s, (const double *)pass->sums);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

/* ---- a pass ----------------------------------------------------------------------------------- */

static enum fk_status take_room(struct pass *pass, struct fk_error *err) {
  struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *x = &job->sources->points;
  const struct plan *p = &pass->plan;
  const int64_t rows = p->rows * p->at_once;
  const size_t number = pass->halves ? sizeof(float) : sizeof(double);
  FK_TRY(fk_cuda_reserve(context, &job->matrix_buffer, number * (size_t)(rows * p->run), err));
  FK_TRY(fk_cuda_reserve(context, &job->matrix_sums, number * (size_t)(rows * pass->widths), err));
  pass->kernels = job->matrix_buffer.data;
  pass->sums = job->matrix_sums.data;
  if (pass->halves) return fk_cuda_room(context, &job->matrix_scales, rows, &pass->scales, err);
  FK_TRY(fk_cuda_room(context, &job->matrix_scales, x->ld + p->rows * (x->d + 1), &pass->column_square, err));
  pass->row_square = pass->column_square + x->ld;
  pass->rows = pass->row_square + p->rows;
  return find_squares(context, x, pass->column_square, err);
}

static enum fk_status do_piece(const struct pass *pass, const struct piece *piece, double *result,
                               struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  FK_TRY(pass->halves ? make_halves(pass, piece, err) : make_doubles(pass, piece, err));
  FK_TRY(pass->halves ? multiply_halves(pass, piece, err) : multiply_doubles(pass, piece, err));
  FK_TRY(add_sums(pass, piece, result, err));
  const int64_t n = job->sources->points.n, first = piece->first_run * pass->plan.run;
  const double columns = (double)fk_smaller(n - first, piece->runs * pass->plan.run);
  return fk_cuda_tick(job->progress, job->context, job->progress_per_pair * (double)piece->rows * columns, err);
}

enum fk_status fk_job_sum_matrix(struct fk_cuda_job *job, double *result, struct fk_error *err) {
  struct pass pass = {job};
  pass.widths = 1 + job->n_values;
  pass.halves = fk_on_tensor_cores(job->method);
  pass.plan = plan_of(job, pass.widths, pass.halves);
  FK_TRY(fk_cuda_blas(job->context, &pass.blas, err));
  if (pass.halves) {
    FK_TRY(fk_job_pack_sources(job, true, err));
    FK_TRY(fk_job_pack_targets(job, true, err));
  }
  FK_TRY(pack_values(&pass, err));
  FK_TRY(take_room(&pass, err));
  const struct plan *plan = &pass.plan;
  for (int64_t row = 0; row < job->targets.n; row += plan->rows)
    for (int64_t run = 0; run < plan->runs; run += plan->at_once) {
      const struct piece piece = {row, fk_smaller(plan->rows, job->targets.n - row), run,
                                  fk_smaller(plan->at_once, plan->runs - run)};
      FK_TRY(do_piece(&pass, &piece, result, err));
    }
  return FK_STATUS_OK;
}

#else

bool fk_job_takes_matrix(const struct fk_cuda_job *) { return false; }
enum fk_status fk_job_sum_matrix(struct fk_cuda_job *, double *, struct fk_error *err) {
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "this build has no cuBLAS");
}

#endif

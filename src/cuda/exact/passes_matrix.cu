/* A pass by kernel matrices; see matrix_pass.cuh. */
#include <math.h>

#include "matrix_pass.cuh"

enum {
  MOST_ROWS = 88 * FK_TENSOR_ROWS, /* 132 blocks of the kernel that stores exponents, one per multiprocessor */
  MOST_BLOCKS = 65535
};

static dim3 grid_of(int64_t along, int64_t values) {
  return dim3(fk_blocks(along, FK_THREADS), (unsigned)fk_smaller(values, MOST_BLOCKS));
}

/* ---- when, and how much at once --------------------------------------------------------------- */

static bool has_blas(struct fk_cuda_context *context) {
  struct fk_error none = {FK_STATUS_OK, ""};
  struct fk_blas blas;
  return fk_cuda_blas(context, FK_ANY_ORDER, &blas, &none) == FK_STATUS_OK;
}

/* FP16 kernels come from wgmma. */
static bool makes_kernels(const struct fk_cuda_job *job, enum fk_cuda_method method) {
  struct fk_tensor_task t = {};
  t.rows.k = t.cols.k = FK_TENSOR_WIDE + 16;
  if (!fk_on_tensor_cores(method)) return method != FK_METHOD_SINGLE;
  return job->context->capability == 90 && !fk_cuda_is_lowered_to("mma") && fk_wgmma_supports(&t);
}

/* Seconds for a pair's kernel in FP16 with `values` values. */
static double kernel_seconds(double d, double values) {
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  return fmax(1, (d + values) / c->tensor_width) / c->tensor;
}

/* Without matrices, kernels are evaluated for the kernel sums, and again for every FK_MMA_VALUES values, each of
 * which costs as much as 1.5 coordinates. */
static bool pays_in_halves(double d, double values) {
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  const double groups = ceil(values / FK_MMA_VALUES);
  const double again = kernel_seconds(d, 0) + groups * kernel_seconds(d, 1.5 * FK_MMA_VALUES);
  const double once = kernel_seconds(fmax(d, FK_TENSOR_WIDE + 1), 0) + c->matrix + c->matrix_value * values;
  return once < again;
}

/* A matrix is read or written three times. Computing its kernels by direct distances takes far longer. */
static bool pays_in_double(double d, double values, bool products) {
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  const double groups = ceil(values / FK_MMA_VALUES);
  const double again = (groups * (d + c->gaussian_f64) + values) / c->tensor_f64;
  const double once = 2 * (d + values) / c->gemm + c->gaussian_f64 / c->tensor_f64 + 24 / c->memory;
  return !products || once < again;
}

static bool matrix_pays(enum fk_cuda_method method, double d, double values) {
  return fk_on_tensor_cores(method) ? pays_in_halves(d, values)
                                    : pays_in_double(d, values, method == FK_METHOD_DMMA);
}

bool fk_job_takes_matrix(const struct fk_cuda_job *job, const struct fk_cuda_sources *s,
                         const struct fk_job_way *way) {
  const double pairs = (double)job->task->sources.n * (double)fk_n_targets(job->task);
  bool all = !way->framed && !way->ordered && !job->shifted && !way->doubled;
  return all && job->n_values > FK_MMA_VALUES && pairs > fk_costs.exact_cuda.matrix_pairs &&
         matrix_pays(way->method, s->points.d, job->n_values) && makes_kernels(job, way->method) &&
         has_blas(job->context);
}

/* Plans runs of columns and chunks of rows that fit into memory and keep the device busy. */
static struct fk_matrix_plan plan_of(const struct fk_cuda_job *job, int64_t n, bool halves) {
  const int64_t m = fk_n_targets(job->task);
  struct fk_matrix_plan p;
  p.run = fk_padded(fk_pieces(n, fk_pieces(n, FK_MATRIX_RUN)), FK_TENSOR_COLS);
  p.runs = fk_pieces(n, p.run);
  /* rows to recompute are few */
  p.rows = job->rows ? FK_TENSOR_ROWS : fk_padded(fk_pieces(m, fk_pieces(m, MOST_ROWS)), FK_TENSOR_ROWS);
  p.at_once = fk_smaller(fk_larger(MOST_ROWS / p.rows, 1), p.runs);
  const double each = (halves ? 4.0 : 8.0) * (double)(p.run + job->n_values) + 16;
  while (each * (double)(p.rows * p.at_once) > job->partial_bytes && p.at_once > 1) p.at_once = p.at_once / 2;
  while (each * (double)p.rows > job->partial_bytes && p.rows > FK_TENSOR_ROWS)
    p.rows = fk_padded(p.rows / 2, FK_TENSOR_ROWS);
  return p;
}

/* ---- values ----------------------------------------------------------------------------------- */

struct matrix_values {
  const double *of, *weights; /* [count][ld]; [n], NULL: ones */
  double weight_scale;
  int64_t count, n, ld, run, padded;
};

/* Weights are mantissas here; their powers of two are in the exponents. */
static __global__ void halves_kernel(const struct matrix_values v, __half *to, float *weights) {
  const int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  int exponent;
  if (i >= v.padded) return;
  const double weight = i >= v.n ? 0 : v.weights ? frexp(v.weights[i] / v.weight_scale, &exponent) : 1;
  if (blockIdx.y == 0) weights[i] = (float)weight;
  for (int64_t c = blockIdx.y; c < v.count; c += gridDim.y) {
    const double value = i < v.n ? weight * v.of[c * v.ld + i] : 0;
    const __half hi = __double2half(value);
    __half *at = to + 2 * (c * v.padded + i / v.run * v.run) + i % v.run;
    at[0] = hi;
    at[v.run] = __double2half(value - (double)__half2float(hi));
  }
}

static __global__ void doubles_kernel(const struct matrix_values v, double *to, double *weights) {
  const int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (i >= v.padded) return;
  const double weight = i >= v.n ? 0 : v.weights ? v.weights[i] / v.weight_scale : 1;
  if (blockIdx.y == 0) weights[i] = weight;
  for (int64_t c = blockIdx.y; c < v.count; c += gridDim.y)
    to[c * v.padded + i] = i < v.n ? weight * v.of[c * v.ld + i] : 0;
}

/* The values, followed by the weights. */
static enum fk_status pack_values(struct fk_matrix_pass *pass, struct fk_error *err) {
  struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_sources *s = pass->view.sources;
  struct matrix_values v = {job->task->values == FK_VALUES_COLUMNS ? s->columns : s->points.u, s->weights};
  v.weight_scale = job->weight_scale;
  v.count = job->n_values, v.n = s->points.n, v.ld = s->points.ld;
  v.run = pass->plan.run, v.padded = pass->plan.runs * v.run;
  const size_t number = pass->halves ? 2 * sizeof(__half) : sizeof(double);
  const size_t bytes = number * (size_t)(v.padded * v.count);
  FK_TRY(fk_cuda_reserve(context, &job->rooms[FK_ROOM_MATRIX_VALUES], bytes + number * (size_t)v.padded, err));
  pass->values = job->rooms[FK_ROOM_MATRIX_VALUES].data;
  pass->weights = (char *)pass->values + bytes;
  const dim3 grid = grid_of(v.padded, v.count);
  if (pass->halves)
    halves_kernel<<<grid, FK_THREADS, 0, context->stream>>>(v, (__half *)pass->values, (float *)pass->weights);
  else
    doubles_kernel<<<grid, FK_THREADS, 0, context->stream>>>(v, (double *)pass->values, (double *)pass->weights);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- sums ------------------------------------------------------------------------------------- */

/* Sums of the rows at `result`, added in the order of the runs. */
struct matrix_sums {
  int64_t rows, runs, mass_runs, ld, count; /* [run][count][ld], masses [mass_runs][ld] */
  const double *masses;
  const double *scales, *undo; /* [run][ld]: factors of the sums of a row; NULL: 1 */
  bool first;                  /* the result is written, not added to */
  double *result;              /* [0: kernel sum; 1 + value][ld_result] */
  int64_t ld_result;
};

template <typename T>
static __global__ void add_kernel(const struct matrix_sums s, const T *sums) {
  const int64_t row = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (row >= s.rows) return;
  const double undo = s.undo ? s.undo[row] : 1;
  for (int64_t width = blockIdx.y; width <= s.count; width += gridDim.y) {
    double sum = 0, *to = s.result + width * s.ld_result + row;
    if (width == 0)
      for (int64_t run = 0; run < s.mass_runs; run++) sum += s.masses[run * s.ld + row];
    else
      for (int64_t run = 0; run < s.runs; run++)
        sum +=
            (double)sums[(run * s.count + width - 1) * s.ld + row] * (s.scales ? s.scales[run * s.ld + row] : 1);
    *to = s.first ? sum * undo : *to + sum * undo;
  }
}

static enum fk_status add_sums(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                               struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  struct matrix_sums s = {piece->rows, piece->runs, pass->halves ? piece->runs : 1, pass->plan.rows,
                          job->n_values};
  s.masses = pass->masses;
  s.scales = pass->halves ? pass->scales : NULL;
  s.undo = pass->halves ? pass->packed.undo + piece->first_row : NULL;
  s.first = piece->first_run == 0 && pass->view.first;
  s.result = pass->view.result + piece->first_row;
  s.ld_result = pass->view.ld_result;
  const dim3 grid = grid_of(s.rows, 1 + s.count);
  if (pass->halves)
    add_kernel<<<grid, FK_THREADS, 0, context->stream>>>(s, (const float *)pass->sums);
  else
    add_kernel<<<grid, FK_THREADS, 0, context->stream>>>(s, (const double *)pass->sums);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- a pass ----------------------------------------------------------------------------------- */

static enum fk_status take_room(struct fk_matrix_pass *pass, struct fk_error *err) {
  struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct fk_matrix_plan *p = &pass->plan;
  const size_t number = pass->halves ? sizeof(float) : sizeof(double), rows = (size_t)(p->rows * p->at_once);
  FK_TRY(fk_cuda_reserve(context, &job->rooms[FK_ROOM_MATRIX], number * rows * (size_t)p->run, err));
  FK_TRY(fk_cuda_reserve(context, &job->rooms[FK_ROOM_MATRIX_SUMS], number * rows * (size_t)job->n_values, err));
  pass->kernels = job->rooms[FK_ROOM_MATRIX].data;
  pass->sums = job->rooms[FK_ROOM_MATRIX_SUMS].data;
  return pass->halves ? fk_matrix_halves_room(pass, err) : fk_matrix_doubles_room(pass, err);
}

static enum fk_status do_piece(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                               struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  FK_TRY(pass->halves ? fk_matrix_halves(pass, piece, err) : fk_matrix_doubles(pass, piece, err));
  FK_TRY(add_sums(pass, piece, err));
  const int64_t left = pass->view.sources->points.n - piece->first_run * pass->plan.run;
  const double columns = (double)fk_smaller(left, piece->runs * pass->plan.run);
  return fk_cuda_tick(job->progress, job->context, job->progress_per_pair * (double)piece->rows * columns, err);
}

enum fk_status fk_job_sum_matrix(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  struct fk_matrix_pass pass = {job, view};
  const struct fk_matrix_plan *plan = &pass.plan;
  const int64_t rows = view.targets.n;
  pass.halves = fk_on_tensor_cores(view.way.method);
  pass.plan = plan_of(job, view.sources->points.n, pass.halves);
  FK_TRY(fk_cuda_blas(job->context, FK_ANY_ORDER, &pass.blas, err));
  if (pass.halves) {
    FK_TRY(fk_job_pack_sources(job, view, 0, &pass.packed, err));
    FK_TRY(fk_job_pack_targets(job, view, &pass.packed, err));
  }
  FK_TRY(pack_values(&pass, err));
  FK_TRY(take_room(&pass, err));
  for (int64_t row = 0; row < rows; row += plan->rows)
    for (int64_t run = 0; run < plan->runs; run += plan->at_once) {
      const struct fk_matrix_piece piece = {row, fk_smaller(plan->rows, rows - row), run,
                                            fk_smaller(plan->at_once, plan->runs - run)};
      FK_TRY(do_piece(&pass, &piece, err));
    }
  return FK_STATUS_OK;
}

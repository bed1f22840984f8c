/* Leave-one-out sums of an SD-KDE on tensor cores: packs the points and launches tensor/sums_loo.cu. */
#include <math.h>

#include "../device/devices.cuh"
#include "../near/frames.cuh"
#include "../points/pack.cuh"
#include "../tensor/sums_loo.cuh"
#include "finish.cuh"
#include "loo.cuh"
#include "sources.cuh"

enum { ROWS_PER_LAUNCH = 43 * FK_TENSOR_ROWS, MOST_SLOTS = 64, THREADS = 256 };

/* Sources reach as far as their terms allow. Rows that are less than FK_FRAME_REACH from the end are NaN: sources
 * beyond the end have no part in the others. */
struct loo_reach {
  struct fk_tensor_grid grid;
  double end2; /* the largest |u|^2 of sources and means */
};

static enum fk_status find_radius2(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   double *radius2, struct fk_error *err) {
  FK_TRY(fk_cuda_find_radius2(context, points, err));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  *radius2 = fmax(*radius2, fk_cuda_radius2(context, points));
  return FK_STATUS_OK;
}

static enum fk_status choose_reach(struct fk_cuda_context *context, const struct fk_loo_points *points,
                                   struct loo_reach *reach, bool *fits, struct fk_error *err) {
  const int d = points->sources.d;
  double columns2 = 0, rows2 = 0;
  FK_TRY(find_radius2(context, &points->sources, &columns2, err));
  FK_TRY(find_radius2(context, &points->means, &columns2, err));
  FK_TRY(find_radius2(context, &points->held_out, &rows2, err));
  reach->end2 = INFINITY;
  *fits = fk_tensor_grid_choose(columns2, fmax(rows2, 1), d, true, &reach->grid);
  if (*fits) return FK_STATUS_OK;
  const double end = 0.999 * fk_tensor_radius(-FK_FRAME_REACH, d, true), inner = end - FK_FRAME_REACH;
  reach->end2 = end * end;
  *fits = fk_tensor_grid_choose(reach->end2, inner * inner, d, true, &reach->grid);
  return FK_STATUS_OK;
}

struct loo_job {
  struct fk_loo_tensor task;
  const double *undo; /* of the rows: see struct fk_tensor_rows */
};

/* ---- packed ----------------------------------------------------------------------------------- */

/* The members of fk_tensor_points, to be written. */
struct loo_terms {
  __half *hi, *lo;
  float *offset;
  int64_t n, n_pad;
  int k;
};

static struct fk_tensor_points points_of(const struct loo_terms &t) {
  return {t.hi, t.lo, t.offset, t.n, t.n_pad, t.k};
}

/* What the columns of a task are made of, beside `points`; and beyond which |u|^2 they are omitted. */
struct loo_columns {
  const double *log_mass, *weight; /* NULL: nothing to subtract from exponents; no weights */
  double log_scale, end2;
  int norm;
  float *to_weight;
};

static __global__ void adjust_kernel(const struct fk_cuda_points points, const struct loo_columns of,
                                     const struct loo_terms to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (of.to_weight && i < to.n_pad) of.to_weight[i] = i < to.n ? (float)(of.weight[i] * exp(-of.log_scale)) : 0.0f;
  if (i >= to.n) return;
  double square = 0;
  for (int k = 0; k < points.d; k++) square += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  const bool counts = square <= of.end2 && !(of.weight && of.weight[i] == 0);
  double by = of.log_mass ? (of.log_mass[i] - of.log_scale) * FK_LOG2E / 2 : 0;
  to.offset[i] = counts ? (float)((double)to.offset[i] - ldexp(rint(ldexp(by, of.norm)), -of.norm)) : -INFINITY;
  for (int k = 0; k < to.k && !counts; k++) to.hi[i * to.k + k] = to.lo[i * to.k + k] = __half(0.0f);
}

static enum fk_status pack_columns(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   const struct fk_tensor_grid *grid, const struct loo_columns *of,
                                   const struct loo_terms *to, struct fk_error *err) {
  const struct fk_tensor_pack pack = {.grid = *grid, .weight_scale = 1};
  const struct fk_tensor_cols cols = {
      .hi = to->hi, .lo = to->lo, .offset = to->offset, .n_pad = to->n_pad, .k = to->k};
  FK_CUDA_TRY(fk_tensor_pack_cols(points, &pack, &cols, context->stream));
  adjust_kernel<<<fk_blocks(to->n_pad, THREADS), THREADS, 0, context->stream>>>(*points, *of, *to);
  return FK_CUDA_STATUS(cudaGetLastError());
}

static __global__ void row_weights_kernel(const double *undo, const double *weight, double log_scale, int64_t n,
                                          float *log_weight) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  log_weight[i] = (float)(2 * log2(undo[i]) + (weight ? log2(weight[i]) - log_scale * FK_LOG2E : 0));
}

static enum fk_status pack_rows(struct fk_cuda_context *context, const struct fk_loo_points *points,
                                const struct fk_tensor_grid *grid, const struct fk_tensor_rows *to,
                                float *log_weight, struct fk_error *err) {
  const struct fk_tensor_pack pack = {.grid = *grid, .weight_scale = 1};
  const int64_t m = points->held_out.n;
  FK_CUDA_TRY(fk_tensor_pack_rows(&points->held_out, &pack, to, context->stream));
  row_weights_kernel<<<fk_blocks(m, THREADS), THREADS, 0, context->stream>>>(to->undo, points->score_weight,
                                                                             points->log_scale, m, log_weight);
  return FK_CUDA_STATUS(cudaGetLastError());
}

static struct loo_terms carve_terms(struct carver *c, int64_t n, int k) {
  const int64_t n_pad = fk_padded(n, FK_TENSOR_ROWS);
  struct loo_terms t = {.n = n, .n_pad = n_pad, .k = k};
  t.hi = carve<__half>(c, n_pad * k), t.lo = carve<__half>(c, n_pad * k), t.offset = carve<float>(c, n_pad);
  return t;
}

/* The task but for its rows of a launch. */
static enum fk_status pack_all(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                               const struct fk_loo_points *points, const struct loo_reach *reach,
                               struct loo_job *job, struct fk_error *err) {
  const int k = (int)fk_padded(points->sources.d, 16);
  const int64_t n = points->sources.n, m = points->held_out.n, n_pad = fk_padded(n, FK_TENSOR_ROWS),
                m_pad = fk_padded(m, FK_TENSOR_ROWS);
  struct fk_tensor_task *t = &job->task.means;
  t->cols_per_slot = fk_padded(fk_larger(fk_pieces(n, MOST_SLOTS), 1024), FK_TENSOR_UNIT);
  t->slots = (int)fk_pieces(n, t->cols_per_slot);
  const int64_t partial = (int64_t)t->slots * ROWS_PER_LAUNCH,
                bytes = (2 * n_pad + m_pad) * (4 * k + 4) + 4 * n_pad + 12 * m_pad + 8 * partial + 13 * 256;
  char *block;
  FK_TRY(fk_cuda_take(context, arena, bytes, &block, err));
  struct carver c = {block};
  t->acc = carve<double>(&c, partial);
  double *undo = carve<double>(&c, m_pad);
  float *log_weight = carve<float>(&c, m_pad), *weight = points->weight ? carve<float>(&c, n_pad) : NULL;
  const struct loo_terms rows = carve_terms(&c, m, k), means = carve_terms(&c, n, k),
                         sources = carve_terms(&c, n, k);
  struct loo_columns of = {NULL, points->weight, points->log_scale, reach->end2, reach->grid.norm, weight};
  FK_TRY(pack_columns(context, &points->means, &reach->grid, &of, &means, err));
  of.log_mass = points->log_mass, of.to_weight = NULL;
  FK_TRY(pack_columns(context, &points->sources, &reach->grid, &of, &sources, err));
  const struct fk_tensor_rows to = {
      .hi = rows.hi, .lo = rows.lo, .offset = rows.offset, .undo = undo, .n_pad = m_pad, .k = k};
  FK_TRY(pack_rows(context, points, &reach->grid, &to, log_weight, err));
  t->rows = points_of(rows), t->cols = points_of(means), t->weight = weight;
  t->single = true, t->low_low = reach->grid.low_low, t->self = points->first_self;
  job->undo = undo, job->task.log_weight = log_weight;
  job->task.sources = *t, job->task.sources.cols = points_of(sources);
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

static enum fk_status sum_rows(struct fk_cuda_context *context, struct loo_job *job,
                               const struct fk_loo_range *range, double *result, struct fk_error *err) {
  struct fk_tensor_task *t = &job->task.means;
  for (int64_t done = 0; done < range->count; done += ROWS_PER_LAUNCH) {
    t->first_row = range->first + done, t->n_rows = fk_smaller(ROWS_PER_LAUNCH, range->count - done);
    FK_CUDA_TRY(fk_loo_tensor_launch(&job->task, context->stream));
    struct fk_finish finish = {.acc = t->acc, .slots = t->slots, .widths = 1, .rows = t->n_rows};
    finish.ld_acc = fk_padded(t->n_rows, FK_TENSOR_ROWS), finish.undo = job->undo + t->first_row;
    finish.value_scale = 1, finish.first = true, finish.result = result + done, finish.ld_result = t->n_rows;
    FK_CUDA_TRY(fk_finish_slots(&finish, context->stream));
    FK_TRY(fk_cuda_tick(range->progress, context, (double)t->n_rows, err));
  }
  return FK_STATUS_OK;
}

enum fk_status fk_loo_by_tensor(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                const struct fk_loo_points *points, const struct fk_loo_range *range,
                                double *result, bool *done, struct fk_error *err) {
  struct loo_reach reach;
  struct loo_job job = {};
  *done = false;
  if (context->capability < 80 || points->sources.d > FK_TENSOR_WIDE || fk_cuda_is_lowered_to("difference"))
    return FK_STATUS_OK;
  FK_TRY(choose_reach(context, points, &reach, done, err));
  if (!*done) return FK_STATUS_OK;
  FK_TRY(pack_all(context, arena, points, &reach, &job, err));
  return sum_rows(context, &job, range, result, err);
}

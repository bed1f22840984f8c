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

/* Subtracts log2(S_j) / 2 from the offsets, if there is log_mass, and leaves out points beyond the end. */
static __global__ void adjust_kernel(const struct fk_cuda_points points, const double *log_mass, double end2,
                                     int norm, const struct loo_terms to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points.n) return;
  double square = 0;
  for (int k = 0; k < points.d; k++) square += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  double by = log_mass ? ldexp(rint(ldexp(log_mass[i] * FK_LOG2E / 2, norm)), -norm) : 0;
  to.offset[i] = square <= end2 ? (float)((double)to.offset[i] - by) : -INFINITY;
  for (int k = 0; k < to.k && !(square <= end2); k++) to.hi[i * to.k + k] = to.lo[i * to.k + k] = __half(0.0f);
}

static enum fk_status pack_columns(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   const double *log_mass, const struct loo_reach *reach,
                                   const struct loo_terms *to, struct fk_error *err) {
  const struct fk_tensor_pack pack = {.grid = reach->grid, .weight_scale = 1};
  const struct fk_tensor_cols cols = {
      .hi = to->hi, .lo = to->lo, .offset = to->offset, .n_pad = to->n_pad, .k = to->k};
  FK_CUDA_TRY(fk_tensor_pack_cols(points, &pack, &cols, context->stream));
  adjust_kernel<<<fk_blocks(points->n, THREADS), THREADS, 0, context->stream>>>(*points, log_mass, reach->end2,
                                                                                reach->grid.norm, *to);
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
                               struct fk_loo_tensor *task, struct fk_error *err) {
  const int k = (int)fk_padded(points->sources.d, 16);
  const int64_t n = points->sources.n, m = points->held_out.n, m_pad = fk_padded(m, FK_TENSOR_ROWS);
  struct fk_tensor_task *t = &task->means;
  t->cols_per_slot = fk_padded(fk_larger(fk_pieces(n, MOST_SLOTS), 1024), FK_TENSOR_UNIT);
  t->slots = (int)fk_pieces(n, t->cols_per_slot);
  const int64_t partial = (int64_t)t->slots * ROWS_PER_LAUNCH;
  char *block;
  FK_TRY(fk_cuda_take(context, arena,
                      (2 * fk_padded(n, FK_TENSOR_ROWS) + m_pad) * (4 * k + 4) + 8 * (partial + m_pad) + 12 * 256,
                      &block, err));
  struct carver c = {block};
  t->acc = carve<double>(&c, partial);
  double *undo = carve<double>(&c, m_pad);
  const struct loo_terms rows = carve_terms(&c, m, k), means = carve_terms(&c, n, k),
                         sources = carve_terms(&c, n, k);
  FK_TRY(pack_columns(context, &points->means, NULL, reach, &means, err));
  FK_TRY(pack_columns(context, &points->sources, points->log_mass, reach, &sources, err));
  const struct fk_tensor_pack pack = {.grid = reach->grid, .weight_scale = 1};
  const struct fk_tensor_rows to = {
      .hi = rows.hi, .lo = rows.lo, .offset = rows.offset, .undo = undo, .n_pad = m_pad, .k = k};
  FK_CUDA_TRY(fk_tensor_pack_rows(&points->held_out, &pack, &to, context->stream));
  t->rows = points_of(rows), t->cols = points_of(means);
  t->single = true, t->low_low = reach->grid.low_low, t->self = points->first_self;
  task->undo = undo, task->sources = *t, task->sources.cols = points_of(sources);
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

static enum fk_status sum_rows(struct fk_cuda_context *context, struct fk_loo_tensor *task,
                               const struct fk_loo_range *range, double *result, struct fk_error *err) {
  struct fk_tensor_task *t = &task->means;
  for (int64_t done = 0; done < range->count; done += ROWS_PER_LAUNCH) {
    t->first_row = range->first + done, t->n_rows = fk_smaller(ROWS_PER_LAUNCH, range->count - done);
    FK_CUDA_TRY(fk_loo_tensor_launch(task, context->stream));
    struct fk_finish finish = {.acc = t->acc, .slots = t->slots, .widths = 1, .rows = t->n_rows};
    finish.ld_acc = fk_padded(t->n_rows, FK_TENSOR_ROWS), finish.undo = task->undo + t->first_row;
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
  struct fk_loo_tensor task = {};
  *done = false;
  if (context->capability < 80 || points->sources.d > FK_TENSOR_WIDE || fk_cuda_is_lowered_to("difference"))
    return FK_STATUS_OK;
  FK_TRY(choose_reach(context, points, &reach, done, err));
  if (!*done) return FK_STATUS_OK;
  FK_TRY(pack_all(context, arena, points, &reach, &task, err));
  return sum_rows(context, &task, range, result, err);
}

/* Leave-one-out sums of an SD-KDE on tensor cores: packs the points and launches tensor/sums_loo.cu. */
#include <math.h>

#include "../device/devices.cuh"
#include "../near/frames.cuh"
#include "../points/pack.cuh"
#include "../tensor/sums_loo.cuh"
#include "finish.cuh"
#include "loo.cuh"
#include "sources.cuh"

enum { ROWS_PER_LAUNCH = 43 * FK_TENSOR_ROWS, MOST_SLOTS = 64 };

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

/* The members of fk_tensor_points, to be written. rest: 2 to the power of what the grid takes off the offset. */
struct loo_terms {
  __half *hi, *lo;
  float *offset, *rest;
  int64_t n, n_pad;
  int k;
};

struct loo_job {
  struct fk_loo_tensor task;
  double *undo; /* of the rows: see struct fk_tensor_rows */
  struct fk_loo_numbers *row_numbers, *column_numbers;
  struct loo_terms rows, means, sources;
};

static struct fk_tensor_points points_of(const struct loo_terms &t) {
  return {t.hi, t.lo, t.offset, t.n, t.n_pad, t.k};
}

static enum fk_status pack_columns(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   const struct fk_tensor_grid *grid, const struct loo_terms *to,
                                   struct fk_error *err) {
  const struct fk_tensor_pack pack = {.grid = *grid, .weight_scale = 1, .stays = true};
  const struct fk_tensor_cols cols = {
      .hi = to->hi, .lo = to->lo, .offset = to->offset, .weight = to->rest, .n_pad = to->n_pad, .k = to->k};
  return FK_CUDA_STATUS(fk_tensor_pack_cols(points, &pack, &cols, context->stream));
}

static __device__ double square_of(const struct fk_cuda_points &points, int64_t i) {
  double square = 0;
  for (int k = 0; k < points.d; k++) square += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  return square;
}

static __device__ void leave_column_out(const struct loo_terms &of, int64_t j) {
  of.offset[j] = FK_LOO_FAR;
  for (int k = 0; k < of.k; k++) of.hi[j * of.k + k] = of.lo[j * of.k + k] = __half(0.0f);
}

/* Subtracts log2(S_j) / 2 from the offsets of the sources, makes the weights of the means, in place of their
 * `rest`, and leaves out columns without weight or beyond `end2`. */
static __global__ void columns_kernel(const struct fk_loo_points points, double end2, int norm,
                                      const struct loo_terms sources, const struct loo_terms means,
                                      struct fk_loo_numbers *numbers) {
  int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= sources.n_pad) return;
  const double weight = j >= sources.n ? 0 : points.weight ? points.weight[j] * exp(-points.log_scale) : 1;
  const bool near = weight > 0 && square_of(points.sources, j) <= end2,
             counts = near && square_of(points.means, j) <= end2;
  const double log_mass = near ? (points.log_mass[j] - points.log_scale) * FK_LOG2E / 2 : 0;
  const double kept = ldexp(rint(ldexp(log_mass, norm)), -norm);
  sources.offset[j] = (float)((double)sources.offset[j] - kept);
  numbers[j].s = near ? (float)(2 * (log2((double)sources.rest[j]) - (log_mass - kept))) : 0.0f;
  numbers[j].t = counts ? log2f(means.rest[j]) : 0.0f;
  means.rest[j] = counts ? (float)weight * means.rest[j] : 0.0f;
  if (!near) leave_column_out(sources, j);
  if (!counts) leave_column_out(means, j);
}

static __global__ void rows_kernel(const struct fk_loo_points points, const double *undo,
                                   struct fk_loo_numbers *numbers) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points.held_out.n) return;
  const double *weight = points.score_weight, rest = log2(undo[i]);
  numbers[i].s = (float)(2 * rest + (weight ? log2(weight[i]) - points.log_scale * FK_LOG2E : 0));
  numbers[i].t = (float)rest;
}

static struct loo_terms carve_terms(struct carver *c, int64_t n, int k) {
  const int64_t n_pad = fk_padded(n, FK_TENSOR_ROWS);
  struct loo_terms t = {.n = n, .n_pad = n_pad, .k = k};
  t.hi = carve<__half>(c, n_pad * k), t.lo = carve<__half>(c, n_pad * k);
  t.offset = carve<float>(c, n_pad), t.rest = carve<float>(c, n_pad);
  return t;
}

/* What launches write or need beside the task. */
static enum fk_status make_room(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                const struct fk_loo_points *points, struct loo_job *job, struct fk_error *err) {
  const int64_t n = points->sources.n, n_pad = fk_padded(n, FK_TENSOR_ROWS),
                m_pad = fk_padded(points->held_out.n, FK_TENSOR_ROWS);
  const int k = (int)fk_padded(points->sources.d, 16);
  struct fk_tensor_task *t = &job->task.means;
  t->cols_per_slot = fk_padded(fk_larger(fk_pieces(n, MOST_SLOTS), 1024), FK_TENSOR_UNIT);
  t->slots = (int)fk_pieces(n, t->cols_per_slot);
  const int64_t partial = (int64_t)t->slots * ROWS_PER_LAUNCH,
                bytes = (2 * n_pad + m_pad) * (4 * k + 8) + 8 * n_pad + 16 * m_pad + 8 * partial + 16 * 256;
  char *block;
  FK_TRY(fk_cuda_take(context, arena, bytes, &block, err));
  struct carver c = {block};
  t->acc = carve<double>(&c, partial);
  job->undo = carve<double>(&c, m_pad);
  job->row_numbers = carve<struct fk_loo_numbers>(&c, m_pad);
  job->column_numbers = carve<struct fk_loo_numbers>(&c, n_pad);
  job->rows = carve_terms(&c, points->held_out.n, k);
  job->means = carve_terms(&c, n, k), job->sources = carve_terms(&c, n, k);
  return FK_STATUS_OK;
}

/* The task but for its rows of a launch. */
static enum fk_status pack_all(struct fk_cuda_context *context, const struct fk_loo_points *points,
                               const struct loo_reach *reach, struct loo_job *job, struct fk_error *err) {
  const struct loo_terms *rows = &job->rows;
  struct fk_tensor_task *t = &job->task.means;
  FK_TRY(pack_columns(context, &points->means, &reach->grid, &job->means, err));
  FK_TRY(pack_columns(context, &points->sources, &reach->grid, &job->sources, err));
  columns_kernel<<<fk_blocks(job->sources.n_pad, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      *points, reach->end2, reach->grid.norm, job->sources, job->means, job->column_numbers);
  FK_CUDA_TRY(cudaGetLastError());
  const struct fk_tensor_pack pack = {.grid = reach->grid, .weight_scale = 1};
  const struct fk_tensor_rows to = {.hi = rows->hi,
                                    .lo = rows->lo,
                                    .offset = rows->offset,
                                    .undo = job->undo,
                                    .n_pad = rows->n_pad,
                                    .k = rows->k};
  FK_CUDA_TRY(fk_tensor_pack_rows(&points->held_out, &pack, &to, context->stream));
  rows_kernel<<<fk_blocks(rows->n, FK_THREADS), FK_THREADS, 0, context->stream>>>(*points, job->undo,
                                                                                  job->row_numbers);
  FK_CUDA_TRY(cudaGetLastError());
  t->rows = points_of(*rows), t->cols = points_of(job->means), t->weight = job->means.rest;
  t->single = true, t->low_low = reach->grid.low_low, t->self = points->first_self;
  job->task.sources = *t, job->task.sources.cols = points_of(job->sources);
  job->task.rows = job->row_numbers, job->task.columns = job->column_numbers;
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
  if (context->capability < 80 || points->sources.d > FK_LOO_WIDE || fk_cuda_is_lowered_to("difference"))
    return FK_STATUS_OK;
  FK_TRY(choose_reach(context, points, &reach, done, err));
  if (!*done) return FK_STATUS_OK;
  FK_TRY(make_room(context, arena, points, &job, err));
  FK_TRY(pack_all(context, points, &reach, &job, err));
  return sum_rows(context, &job, range, result, err);
}

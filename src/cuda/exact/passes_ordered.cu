/* A pass over sources in the order of a curve (order.cuh). The sources in order replace the job's sources. Targets
 * come along the same curve, so that lists tell which blocks are near (lists.cuh). Sums go back to the rows' own
 * places. */
#include <stdlib.h>

#include "job.cuh"

/* ---- sources ---------------------------------------------------------------------------------- */

/* Tests and benchmarks ask for lists by FLASHKERNEL_CUDA_LISTS. */
static bool is_asked(void) { return fk_cuda_lists_wish("always") || fk_cuda_lists_wish("all"); }

bool fk_job_may_order(const struct fk_cuda_job *job, const struct fk_cuda_sources *s) {
  const int64_t n = s->points.n;
  bool whole = job->source_chunk >= job->task->sources.n && n == job->task->sources.n;
  bool able = job->context->capability == 90 && s->points.d <= FK_LIST_WIDTH && n <= INT32_MAX;
  bool many = (double)n >= fk_costs.exact_cuda.order_points || is_asked();
  return whole && able && many && s->rows2 == 0 && !fk_cuda_lists_wish("never") && !fk_cuda_is_lowered_to("mma");
}

/* Depends on the sizes of the call, not on the cache of earlier calls. */
bool fk_may_be_ordered(const struct fk_task *task) {
  const double n = (double)task->sources.n, m = (double)fk_n_targets(task);
  return is_asked() || (m >= fk_costs.exact_cuda.order_targets && n * m >= fk_costs.exact_cuda.order_pairs);
}

static enum fk_status find_order(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  if (!is_asked() && s->kept_guess > fk_costs.exact_cuda.order_guess) return FK_STATUS_OK;
  FK_TRY(fk_cuda_order_find(context, &s->points, &s->order, err));
  const struct fk_pick all = {s->order.order, s->points.n};
  FK_TRY(fk_job_pick_points(context, s, &all, &s->in_order, err));
  s->in_order->radius2 = s->radius2;
  s->in_order->frames.radius = s->frames.radius;
  FK_TRY(fk_cuda_lists_kept(context, &s->in_order->points, &s->order.kept, err));
  if (!is_asked() && s->order.kept > fk_costs.exact_cuda.order_kept) fk_cuda_order_drop(s);
  return FK_STATUS_OK;
}

enum fk_status fk_job_order_sources(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool *ordered,
                                    struct fk_error *err) {
  *ordered = false;
  if (!fk_job_may_order(job, s) || !fk_may_be_ordered(job->task)) return FK_STATUS_OK;
  if (!s->order_sought) {
    enum fk_status status = find_order(job, s, err);
    if (status) fk_cuda_order_drop(s);
    FK_TRY(status);
    s->order_sought = true;
  }
  *ordered = s->in_order != NULL;
  return FK_STATUS_OK;
}

enum fk_status fk_job_find_places(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const int64_t n = job->sources->points.n;
  if (job->places) return FK_STATUS_OK;
  job->places = (int64_t *)malloc(sizeof *job->places * (size_t)n);
  if (!job->places) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the places of sums");
  int *narrow = (int *)job->places;
  FK_CUDA_TRY(cudaMemcpyAsync(narrow, job->sources->order.order, sizeof *narrow * (size_t)n,
                              cudaMemcpyDeviceToHost, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  for (int64_t i = n; i-- > 0;) job->places[i] = narrow[i];
  return FK_STATUS_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* If the targets are all of the sources, they take the order of the sources, which they may have already. */
static enum fk_status order_rows(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  const struct fk_job_chunk *chunk = &job->chunk;
  const struct fk_cuda_order *order = &view.sources->order;
  const struct fk_cuda_points *rows = &view.targets;
  struct fk_row_order *to = &job->chunk.order;
  bool all = !job->task->targets.data && rows->n == view.sources->points.n;
  FK_TRY(fk_job_room(job, FK_ROOM_ORDER, 2 * rows->ld + fk_pieces(rows->ld, 2), &to->least, err));
  to->key = (uint64_t *)(to->least + rows->ld);
  to->list = (int *)(to->key + rows->ld);
  if (!all && !chunk->by_places) return fk_cuda_order_rows(job->context, order, rows, to->key, to->list, err);
  to->key = order->key + (chunk->by_places ? chunk->first : 0);
  to->list = chunk->by_places ? NULL : order->order;
  return FK_STATUS_OK;
}

/* view: its rows and sources are in order. */
static cudaError_t find_least(const struct fk_cuda_job *job, const struct fk_pass_view view,
                              const struct fk_cuda_order *order) {
  const struct fk_job_chunk *chunk = &job->chunk;
  struct fk_least least = {view.targets, view.sources->points, chunk->order.key, order->key};
  least.weight = view.sources->weights;
  least.weight_scale = job->weight_scale;
  least.own = !job->task->exclude_self ? INT64_MIN : chunk->by_places ? chunk->first : 0;
  least.least = chunk->order.least;
  return fk_order_least(&least, job->context->stream);
}

/* ---- a pass ----------------------------------------------------------------------------------- */

enum fk_status fk_job_sum_ordered(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_job_chunk *chunk = &job->chunk;
  const struct fk_cuda_sources *whole = view.sources;
  const int widths = fk_pass_widths(job, view);
  const bool known = chunk->order_known;
  FK_CUDA_TRY(
      cudaMemsetAsync(view.result, 0, sizeof(double) * (size_t)(view.ld_result * widths), context->stream));
  FK_TRY(fk_job_pick_numbers(job, whole, whole->order.order, whole->in_order, err));
  if (!known) FK_TRY(order_rows(job, view, err));
  const struct fk_pick pick = {chunk->order.list, view.targets.n};
  struct fk_pass_view part = fk_pass_of_sources(view, whole->in_order);
  FK_TRY(fk_job_pick_rows(job, view, &pick, FK_ROOM_ROWS_IN_ORDER, &part, err));
  if (!known) FK_CUDA_TRY(find_least(job, part, &whole->order));
  chunk->order_known = true;
  part.least = chunk->order.least;
  part.kept = whole->order.kept;
  FK_TRY(part.way.framed ? fk_job_sum_frames(job, part, err) : fk_job_sum(job, part, err));
  struct fk_scatter scatter = {part.result, part.ld_result, pick.list, pick.count, view.result, view.ld_result};
  return FK_CUDA_STATUS(fk_frames_scatter(&scatter, widths, context->stream));
}

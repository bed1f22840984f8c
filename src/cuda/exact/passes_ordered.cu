/* A pass over sources in order (order.cuh): they take the place of the job's sources, and its targets come along
 * the same curve, so that lists tell which blocks of both are near (lists.cuh). Sums go back to where their rows
 * are. */
#include <stdlib.h>

#include "job.cuh"

/* ---- sources ---------------------------------------------------------------------------------- */

/* What is wished for tests and benches. */
static bool is_asked(void) { return fk_cuda_lists_wish("always") || fk_cuda_lists_wish("all"); }

bool fk_job_may_order(const struct fk_cuda_job *job) {
  const struct fk_cuda_sources *s = job->sources;
  const int64_t n = s->points.n;
  bool whole = job->source_chunk >= job->task->sources.n && n == job->task->sources.n;
  bool able = job->context->capability == 90 && s->points.d <= FK_LIST_WIDTH && n <= INT32_MAX;
  bool many = (double)n >= fk_costs.exact_cuda.order_points || is_asked();
  return whole && able && many && s->rows2 == 0 && !fk_cuda_lists_wish("never") && !fk_cuda_is_lowered_to("mma");
}

/* By the sizes of the call, whatever earlier ones have left on the device. */
bool fk_may_be_ordered(const struct fk_task *task) {
  const double n = (double)task->sources.n, m = (double)fk_n_targets(task);
  return is_asked() || (m >= fk_costs.exact_cuda.order_targets && n * m >= fk_costs.exact_cuda.order_pairs);
}

static enum fk_status gather_in_order(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  struct fk_cuda_sources *child = (struct fk_cuda_sources *)malloc(sizeof *child);
  if (!child) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  s->in_order = child;
  fk_cuda_sources_init(child, job->context);
  child->radius2 = s->radius2;
  child->frames.radius = s->frames.radius;
  struct fk_pick all = {s->order.order, s->points.n};
  return fk_job_pick_points(job->context, s, &all, child, err);
}

static enum fk_status find_order(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  if (!is_asked() && s->kept_guess > fk_costs.exact_cuda.order_guess) return FK_STATUS_OK;
  FK_TRY(fk_cuda_order_find(job->context, &s->points, &s->order, err));
  FK_TRY(gather_in_order(job, err));
  FK_TRY(fk_cuda_lists_kept(job->context, &s->in_order->points, &s->order.kept, err));
  if (!is_asked() && s->order.kept > fk_costs.exact_cuda.order_kept) fk_cuda_order_drop(s);
  return FK_STATUS_OK;
}

enum fk_status fk_job_order_sources(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  job->ordered = false;
  if (!fk_job_may_order(job) || !fk_may_be_ordered(job->task)) return FK_STATUS_OK;
  if (!s->order_sought) {
    enum fk_status status = find_order(job, err);
    if (status) fk_cuda_order_drop(s);
    FK_TRY(status);
    s->order_sought = true;
  }
  job->ordered = s->in_order != NULL;
  return FK_STATUS_OK;
}

bool fk_job_goes_by_places(const struct fk_cuda_job *job) {
  return job->ordered && job->task->exclude_self && !job->rows && job->targets.n < job->sources->points.n;
}

enum fk_status fk_job_find_places(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const int64_t n = job->sources->points.n;
  if (job->places) return FK_STATUS_OK;
  job->places = (int64_t *)malloc(sizeof *job->places * (size_t)n);
  if (!job->places) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for the places of sums");
  int *narrow = (int *)job->places;
  FK_CUDA_TRY(cudaMemcpyAsync(narrow, job->sources->order.order, sizeof *narrow * (size_t)n,
                              cudaMemcpyDeviceToHost, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  for (int64_t i = n; i-- > 0;) job->places[i] = narrow[i];
  return FK_STATUS_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* Targets that are all of the sources are in order when these are; they may be so already. */
static enum fk_status order_rows(struct fk_cuda_job *job, const struct fk_cuda_order *order,
                                 const struct fk_cuda_points *rows, struct fk_error *err) {
  struct fk_row_order *to = &job->row_order;
  const int64_t n = rows->n;
  bool all = !job->task->targets.data && n == job->sources->points.n;
  to->places = fk_job_goes_by_places(job);
  FK_TRY(fk_cuda_room(job->context, &to->buffer, 2 * rows->ld + fk_pieces(rows->ld, 2), &to->least, err));
  to->key = (uint64_t *)(to->least + rows->ld);
  to->list = (int *)(to->key + rows->ld);
  if (!all && !to->places) return fk_cuda_order_rows(job->context, order, rows, to->key, to->list, err);
  to->key = order->key + (to->places ? job->target_first : 0);
  to->list = to->places ? NULL : order->order;
  return FK_STATUS_OK;
}

static cudaError_t find_least(const struct fk_cuda_job *job, const struct fk_cuda_order *order) {
  const struct fk_row_order *rows = &job->row_order;
  struct fk_least least = {job->targets, job->sources->points, rows->key, order->key};
  least.weight = job->sources->weights;
  least.weight_scale = job->weight_scale;
  least.own = !job->task->exclude_self ? INT64_MIN : rows->places ? job->target_first : 0;
  least.least = rows->least;
  return fk_order_least(&least, job->context->stream);
}

/* ---- a pass ----------------------------------------------------------------------------------- */

static enum fk_status sum_in_order(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                   enum fk_cuda_pass pass, double *result, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_order *order = &whole->sources->order;
  const bool known = job->order_known;
  FK_TRY(fk_job_pick_numbers(job, whole->sources, order->order, whole->sources->in_order, err));
  if (!known) FK_TRY(order_rows(job, order, &whole->targets, err));
  struct fk_pick pick = {job->row_order.list, whole->targets.n};
  job->sources = whole->sources->in_order;
  FK_TRY(fk_job_pick_rows(job, whole, &pick, &job->of_order, err));
  if (!known) FK_CUDA_TRY(find_least(job, order));
  job->order_known = true;
  job->least = job->row_order.least;
  double *sums;
  FK_TRY(fk_job_sum_picked(job, whole, pass, &pick, &job->of_order, &sums, err));
  struct fk_scatter scatter = {sums, job->ld_result, pick.list, pick.count, result, whole->ld_result};
  FK_CUDA_TRY(fk_frames_scatter(&scatter, pass == FK_PASS_SUMS ? 1 + job->n_values : 1, context->stream));
  return FK_STATUS_OK;
}

enum fk_status fk_job_sum_ordered(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                  struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_job_whole whole = fk_job_whole_of(job);
  const int widths = pass == FK_PASS_SUMS ? 1 + job->n_values : 1;
  FK_CUDA_TRY(cudaMemsetAsync(result, 0, sizeof(double) * (size_t)(job->ld_result * widths), context->stream));
  job->kept = whole.sources->order.kept;
  job->apart = true;
  enum fk_status status = sum_in_order(job, &whole, pass, result, err);
  job->apart = false;
  job->ordered = true;
  fk_job_restore(job, &whole);
  return status;
}

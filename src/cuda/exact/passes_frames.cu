/* A pass over sources in frames: what no frame has, by differences, and then all frames at once, of which each row
 * of the pass has as many places as frames that can matter to it. */
#include <math.h>
#include <stdlib.h>

#include "job.cuh"

/* ---- sources ---------------------------------------------------------------------------------- */

static struct fk_pick pick_framed(const struct fk_cuda_frames *frames) {
  return {frames->list.list, fk_frames_places(frames), frames->centre, frames->list.frame};
}

static struct fk_pick pick_rest(const struct fk_cuda_frames *frames) {
  return {frames->list.list + fk_frames_places(frames), fk_frames_rest(frames)};
}

/* They are not numbered as the others. */
static enum fk_status gather_sources(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                     const struct fk_pick *pick, struct fk_cuda_sources **sources,
                                     struct fk_error *err) {
  struct fk_cuda_sources *made = (struct fk_cuda_sources *)malloc(sizeof *made);
  if (!made) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  *sources = made;
  fk_cuda_sources_init(made, job->context);
  FK_TRY(fk_job_pick_points(job->context, whole->sources, pick, made, err));
  made->first = 0;
  return FK_STATUS_OK;
}

/* All about centres: they reach as far as the widest frame. */
static enum fk_status gather_framed(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                    struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_pick pick = pick_framed(frames);
  const double rows = sqrt(frames->radius2) + FK_FRAME_REACH;
  FK_TRY(gather_sources(job, whole, &pick, &whole->sources->framed, err));
  whole->sources->framed->radius2 = frames->radius2;
  whole->sources->framed->rows2 = rows * rows;
  whole->sources->framed->list = frames->list.list;
  return FK_STATUS_OK;
}

static enum fk_status gather_rest(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                  struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_pick pick = pick_rest(frames);
  FK_TRY(gather_sources(job, whole, &pick, &whole->sources->rest, err));
  whole->sources->rest->in_double = true;
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

/* How to cut the columns of frames: as if all rows met the most that a frame has, and were as many as make all
 * pairs then. By the sizes of the task and of frames alone. */
void fk_job_plan_parts(const struct fk_cuda_job *job, bool values, int64_t *cols_per_slot, int *slots) {
  const struct fk_cuda_frames *frames = job->frames;
  const bool lists = job->least && job->method == FK_METHOD_WGMMA;
  const double rows_of_all = (double)fk_n_targets(job->task) / (double)job->task->sources.n;
  double rows = 0;
  int longest = FK_TENSOR_UNIT;
  for (int f = 0; f < frames->count; f++)
    longest = (int)fk_larger(longest, frames->list.first[2 * f + 2] - frames->list.first[2 * f + 1]);
  for (int f = 0; f < frames->count; f++) {
    const double size = fk_frames_size(frames, f);
    rows += rows_of_all * size * size / longest;
  }
  const int64_t all_rows = (int64_t)ceil(fmin(rows, 1e12));
  if (lists) /* of all lengths: so many blocks that none is waited for */
    *cols_per_slot = fk_padded(fk_cols_per_slot(longest, all_rows, true), FK_TENSOR_FLUSH);
  else
    fk_wgmma_plan(longest, all_rows, values, FK_TENSOR_LEAST_SLOT, slots, cols_per_slot);
  if (values) *cols_per_slot = fk_smaller(*cols_per_slot, FK_TENSOR_LONGEST);
  *slots = (int)fk_pieces(longest, *cols_per_slot);
}

/* Begins the result. Rows are the job's as they are; only their own sources have other numbers. */
static enum fk_status sum_rest(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                               double *result, struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_pick pick = pick_rest(frames);
  if (!whole->sources->rest) FK_TRY(gather_rest(job, whole, err));
  FK_TRY(fk_job_pick_numbers(job, whole->sources, pick.list, whole->sources->rest, err));
  job->sources = whole->sources->rest;
  job->self = job->part_rows.in_rest;
  FK_TRY(fk_job_choose_method(job, err));
  return fk_job_sum(job, pass, result, err);
}

static enum fk_status sum_framed(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                                 bool first, double *result, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_frame_rows *rows = &job->part_rows;
  const struct fk_frame_list *list = &rows->list;
  const struct fk_pick pick = {list->list, list->first[FK_FRAME_GROUPS], frames->centre, list->frame};
  const int widths = pass == FK_PASS_SUMS ? 1 + job->n_values : 1;
  struct fk_frame_join join = {};
  double *sums = NULL;
  if (!whole->sources->framed) FK_TRY(gather_framed(job, whole, err));
  FK_TRY(fk_job_pick_numbers(job, whole->sources, frames->list.list, whole->sources->framed, err));
  job->sources = whole->sources->framed;
  job->frames = frames;
  FK_TRY(fk_job_choose_method(job, err));
  if (pick.count > 0) {
    FK_TRY(fk_job_pick_rows(job, whole, &pick, &job->of_frame, err));
    FK_TRY(fk_job_sum_picked(job, whole, pass, &pick, &job->of_frame, &sums, err));
    join.in = sums;
    join.ld_in = job->ld_result;
  }
  if (job->task->values == FK_VALUES_COORDINATES) join.centre = frames->centre, join.d = whole->targets.d;
  join.out = result;
  join.ld_out = whole->ld_result;
  join.first = first;
  FK_CUDA_TRY(fk_frames_join(list, &join, widths, context->stream));
  return FK_STATUS_OK;
}

static enum fk_status sum_parts(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                                double *result, struct fk_error *err) {
  const bool rest = fk_frames_rest(&whole->sources->frames) > 0;
  if (rest) {
    enum fk_status status = sum_rest(job, whole, pass, result, err);
    job->self = NULL;
    FK_TRY(status);
  }
  enum fk_status status = sum_framed(job, whole, pass, !rest, result, err);
  job->frames = NULL;
  return status;
}

enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                 struct fk_error *err) {
  const struct fk_job_whole whole = fk_job_whole_of(job);
  if (!job->rows_known) {
    int64_t own = job->task->exclude_self ? job->target_first - job->sources->first : -1;
    FK_TRY(fk_cuda_frame_rows(job->context, &job->sources->frames, &job->targets, own, &job->part_rows, err));
    job->rows_known = true;
  }
  job->apart = true;
  enum fk_status status = sum_parts(job, &whole, pass, result, err);
  job->apart = false;
  job->by_frames = true;
  fk_job_restore(job, &whole);
  return status;
}

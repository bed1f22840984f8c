/* A pass over sources in frames: first the sources outside all frames, by direct distances; then all frames at
 * once. A row of the pass has a place in each frame that can matter to it. */
#include <math.h>

#include "job.cuh"

/* ---- sources ---------------------------------------------------------------------------------- */

static struct fk_pick pick_framed(const struct fk_cuda_frames *frames) {
  return {frames->list.list, fk_frames_places(frames), frames->centre, frames->list.frame};
}

static struct fk_pick pick_rest(const struct fk_cuda_frames *frames) {
  return {frames->list.list + fk_frames_places(frames), fk_frames_rest(frames)};
}

/* All points are relative to centres, so their extent is that of the widest frame. */
static enum fk_status gather_framed(struct fk_cuda_job *job, struct fk_cuda_sources *whole, struct fk_error *err) {
  const struct fk_cuda_frames *frames = &whole->frames;
  const struct fk_pick pick = pick_framed(frames);
  const double rows = sqrt(frames->radius2) + FK_FRAME_REACH;
  FK_TRY(fk_job_pick_points(job->context, whole, &pick, &whole->framed, err));
  whole->framed->first = 0; /* source numbers differ from those of the whole */
  whole->framed->radius2 = frames->radius2;
  whole->framed->rows2 = rows * rows;
  whole->framed->list = frames->list.list;
  return FK_STATUS_OK;
}

static enum fk_status gather_rest(struct fk_cuda_job *job, struct fk_cuda_sources *whole, struct fk_error *err) {
  const struct fk_pick pick = pick_rest(&whole->frames);
  FK_TRY(fk_job_pick_points(job->context, whole, &pick, &whole->rest, err));
  whole->rest->first = 0;
  whole->rest->in_double = true;
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

/* Cuts the columns of frames as if all rows met as many columns as the largest frame has, with as many rows as
 * give the same number of pairs. Depends on the sizes of the task and of frames alone. */
void fk_job_plan_parts(const struct fk_cuda_job *job, const struct fk_pass_view view, bool lists,
                       int64_t *cols_per_slot, int *slots) {
  const struct fk_cuda_frames *frames = view.frames;
  const bool values = fk_pass_has_values(job, view);
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
  if (lists) /* slots differ in length: enough blocks to balance the load */
    *cols_per_slot = fk_padded(fk_cols_per_slot(longest, all_rows, true), FK_TENSOR_FLUSH);
  else
    fk_wgmma_plan(longest, all_rows, values, FK_TENSOR_LEAST_SLOT, slots, cols_per_slot);
  if (values) *cols_per_slot = fk_smaller(*cols_per_slot, FK_TENSOR_LONGEST);
  *slots = (int)fk_pieces(longest, *cols_per_slot);
}

/* Starts the result with the sources outside all frames. Rows are those of the view; only the numbers of their own
 * sources differ. */
static enum fk_status sum_rest(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  struct fk_cuda_sources *whole = view.sources;
  if (!whole->rest) FK_TRY(gather_rest(job, whole, err));
  FK_TRY(fk_job_pick_numbers(job, whole, pick_rest(&whole->frames).list, whole->rest, err));
  struct fk_pass_view part = fk_pass_of_sources(view, whole->rest);
  part.self = job->chunk.frame_rows.in_rest;
  FK_TRY(fk_job_choose_way(job, part.sources, true, &part.way, err));
  return fk_job_sum(job, part, err);
}

/* first: the result is written, not added to. */
static enum fk_status sum_framed(struct fk_cuda_job *job, const struct fk_pass_view view, bool first,
                                 struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *whole = view.sources;
  const struct fk_cuda_frames *frames = &whole->frames;
  const struct fk_frame_list *list = &job->chunk.frame_rows.list;
  const struct fk_pick pick = {list->list, list->first[FK_FRAME_GROUPS], frames->centre, list->frame};
  struct fk_frame_join join = {};
  if (!whole->framed) FK_TRY(gather_framed(job, whole, err));
  FK_TRY(fk_job_pick_numbers(job, whole, frames->list.list, whole->framed, err));
  struct fk_pass_view part = fk_pass_of_sources(view, whole->framed);
  part.frames = frames;
  FK_TRY(fk_job_choose_way(job, part.sources, true, &part.way, err));
  if (pick.count > 0) {
    FK_TRY(fk_job_pick_rows(job, view, &pick, FK_ROOM_ROWS_OF_FRAMES, &part, err));
    FK_TRY(fk_job_sum(job, part, err));
    join.in = part.result;
    join.ld_in = part.ld_result;
  }
  if (job->task->values == FK_VALUES_COORDINATES) join.centre = frames->centre, join.d = view.targets.d;
  join.out = view.result;
  join.ld_out = view.ld_result;
  join.first = first;
  return FK_CUDA_STATUS(fk_frames_join(list, &join, fk_pass_widths(job, view), context->stream));
}

enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  struct fk_job_chunk *chunk = &job->chunk;
  const struct fk_cuda_frames *frames = &view.sources->frames;
  const bool rest = fk_frames_rest(frames) > 0;
  if (!chunk->frames_known) {
    int64_t own = job->task->exclude_self ? chunk->first - view.sources->first : -1;
    FK_TRY(fk_cuda_frame_rows(job->context, frames, &view.targets, own, &chunk->frame_rows, err));
    chunk->frames_known = true;
  }
  if (rest) FK_TRY(sum_rest(job, view, err));
  return sum_framed(job, view, !rest, err);
}

/* A pass over sources in frames: each part in turn takes the place of the job's sources, and the rows that it can
 * matter to that of its targets. */
#include <stdlib.h>

#include "job.cuh"

static struct fk_pick sources_of(const struct fk_cuda_frames *frames, int p, int d) {
  struct fk_pick pick = {frames->order + frames->first[p], frames->first[p + 1] - frames->first[p]};
  pick.centre = p < frames->count ? frames->centre + (int64_t)p * d : NULL;
  return pick;
}

static enum fk_status make_part(struct fk_cuda_job *job, struct fk_cuda_sources *whole, int p,
                                struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->frames;
  struct fk_cuda_sources *part = (struct fk_cuda_sources *)malloc(sizeof *part);
  if (!part) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  frames->part[p] = part;
  fk_cuda_sources_init(part, job->context);
  double radius = sqrt(frames->radius2[p]), rows = radius + FK_FRAME_REACH;
  part->in_double = p == frames->count;
  part->radius2 = radius * radius;
  part->rows2 = rows * rows;
  struct fk_pick pick = sources_of(frames, p, whole->points.d);
  return fk_job_pick_points(job->context, whole, &pick, part, err);
}

static enum fk_status sum_part(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                               int p, double *result, struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_frame_rows *rows = &job->part_rows;
  const struct fk_pick sources = sources_of(frames, p, whole->targets.d);
  if (sources.count == 0) return FK_STATUS_OK;
  if (!frames->part[p]) FK_TRY(make_part(job, whole->sources, p, err));
  FK_TRY(fk_job_pick_numbers(job, whole->sources, sources.list, frames->part[p], err));
  job->sources = frames->part[p];
  FK_TRY(fk_job_choose_method(job, err));
  for (int other = 0; other < 2; other++) {
    const int64_t *first = rows->first + 2 * p + other;
    struct fk_pick pick = {rows->list + first[0], first[1] - first[0], sources.centre};
    if (pick.count == 0) continue;
    /* beyond all columns: these rows are none of the part's sources */
    job->meets = job->sources->first + (other ? job->sources->points.ld : rows->before[p]);
    FK_TRY(fk_job_pick_rows(job, whole, &pick, &job->of_frame, err));
    FK_TRY(fk_job_sum_picked(job, whole, pass, &pick, &job->of_frame, result, err));
  }
  return FK_STATUS_OK;
}

static enum fk_status sum_parts(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                                double *result, struct fk_error *err) {
  for (int p = 0; p <= whole->sources->frames.count; p++) FK_TRY(sum_part(job, whole, pass, p, result, err));
  return FK_STATUS_OK;
}

/* That of the frames, as long as any has rows. */
static enum fk_cuda_method method_of(const struct fk_cuda_job *job, const struct fk_cuda_frames *frames) {
  for (int p = 0; p < frames->count; p++)
    if (frames->part[p] && fk_on_tensor_cores(frames->part[p]->method)) return frames->part[p]->method;
  return job->method;
}

enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                 struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_job_whole whole = fk_job_whole_of(job);
  const int widths = pass == FK_PASS_SUMS ? 1 + job->n_values : 1;
  if (!job->rows_known) {
    int64_t own = job->task->exclude_self ? job->target_first - job->sources->first : -1;
    FK_TRY(fk_cuda_frame_rows(context, &job->sources->frames, &job->targets, own, &job->part_rows, err));
    job->rows_known = true;
  }
  FK_CUDA_TRY(cudaMemsetAsync(result, 0, sizeof(double) * (size_t)(job->ld_result * widths), context->stream));
  job->apart = true;
  enum fk_status status = sum_parts(job, &whole, pass, result, err);
  job->apart = false;
  job->by_frames = true;
  fk_job_restore(job, &whole);
  job->method = method_of(job, &job->sources->frames);
  return status;
}

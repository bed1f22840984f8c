/* A pass over sources in frames: each part in turn takes the place of the job's sources, and the rows that it can
 * matter to that of its targets. */
#include <stdlib.h>

#include "job.cuh"

/* ---- sources of a part ------------------------------------------------------------------------ */

static enum fk_status gather_points(struct fk_cuda_job *job, struct fk_cuda_sources *whole, int p,
                                    struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_frames *frames = &whole->frames;
  const bool rest = p == frames->count;
  const int64_t count = frames->first[p + 1] - frames->first[p];
  struct fk_cuda_sources *part = (struct fk_cuda_sources *)malloc(sizeof *part);
  if (!part) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  frames->part[p] = part;
  fk_cuda_sources_init(part, context);
  part->points = (struct fk_cuda_points){NULL, count, fk_padded(count, FK_TENSOR_ROWS), whole->points.d};
  double radius = sqrt(frames->radius2[p]), rows = radius + FK_FRAME_REACH;
  part->first = whole->first;
  part->in_double = rest;
  part->radius2 = radius * radius;
  part->rows2 = rows * rows;
  FK_TRY(fk_cuda_room(context, &part->white_buffer, part->points.ld * part->points.d, &part->points.u, err));
  struct fk_gather gather = {whole->points.u, whole->points.ld, frames->order + frames->first[p], count};
  gather.minus = rest ? NULL : frames->centre + (int64_t)p * part->points.d;
  gather.out = part->points.u;
  gather.ld_out = part->points.ld;
  FK_CUDA_TRY(fk_frames_gather(&gather, part->points.d, context->stream));
  part->whitened = true;
  return FK_STATUS_OK;
}

/* Those of the whole, where they are not what is there already. */
static enum fk_status gather_numbers(struct fk_cuda_job *job, const struct fk_cuda_sources *whole, int p,
                                     struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_frames *frames = &whole->frames;
  struct fk_cuda_sources *part = frames->part[p];
  struct fk_gather gather = {NULL, whole->points.ld, frames->order + frames->first[p], part->points.n};
  gather.ld_out = part->points.ld;
  if (!whole->weights) {
    part->weights = NULL;
  } else if (!part->weights || part->weights_sent != whole->weights_sent) {
    FK_TRY(fk_cuda_room(context, &part->weight_buffer, part->points.ld, &gather.out, err));
    gather.in = whole->weights;
    FK_CUDA_TRY(fk_frames_gather(&gather, 1, context->stream));
    part->weights = gather.out;
    part->weights_sent = whole->weights_sent;
  }
  if (job->task->values != FK_VALUES_COLUMNS || part->columns_sent == whole->columns_sent) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &part->column_buffer, part->points.ld * job->n_values, &gather.out, err));
  gather.in = whole->columns;
  FK_CUDA_TRY(fk_frames_gather(&gather, job->n_values, context->stream));
  part->columns = gather.out;
  part->columns_sent = whole->columns_sent;
  return FK_STATUS_OK;
}

/* ---- rows of a part --------------------------------------------------------------------------- */

/* Some rows of the chunk. */
struct group {
  const int *list;
  int64_t count;
  const double *centre; /* of the part; NULL: that of all */
};

/* They become the job's targets, and what of the job's numbers goes by them. */
static enum fk_status gather_rows(struct fk_cuda_job *job, const struct fk_cuda_points *targets,
                                  const double *mass, const struct group *group, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_points *y = &job->targets;
  *y = (struct fk_cuda_points){NULL, group->count, fk_padded(group->count, FK_TENSOR_ROWS), targets->d};
  job->ld_result = y->ld;
  FK_TRY(fk_cuda_room(context, &job->part_targets, y->ld * y->d, &y->u, err));
  struct fk_gather gather = {targets->u, targets->ld, group->list, group->count, group->centre, y->u, y->ld};
  FK_CUDA_TRY(fk_frames_gather(&gather, y->d, context->stream));
  if (!mass) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &job->part_mass, y->ld, &job->mass, err));
  struct fk_gather of_mass = {mass, 0, group->list, group->count, NULL, job->mass, y->ld};
  FK_CUDA_TRY(fk_frames_gather(&of_mass, 1, context->stream));
  return FK_STATUS_OK;
}

/* The job as it is about all sources. */
struct whole {
  struct fk_cuda_sources *sources;
  struct fk_cuda_points targets;
  double *mass;
  int64_t ld_result, meets;
};

static enum fk_status sum_group(struct fk_cuda_job *job, const struct whole *whole, enum fk_cuda_pass pass,
                                const struct group *group, double *result, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const bool values = pass == FK_PASS_SUMS && job->n_values > 0;
  const int widths = values ? 1 + job->n_values : 1;
  double *sums;
  if (group->count == 0) return FK_STATUS_OK;
  FK_TRY(gather_rows(job, &whole->targets, values && job->normalised ? whole->mass : NULL, group, err));
  FK_TRY(fk_cuda_room(context, &job->part_result, job->ld_result * widths, &sums, err));
  FK_TRY(fk_job_sum(job, pass, sums, err));
  if (values) FK_TRY(fk_job_add_own_low(job, sums, group->count, err));
  struct fk_scatter scatter = {sums, job->ld_result, group->list, group->count};
  scatter.centre = job->task->values == FK_VALUES_COORDINATES ? group->centre : NULL;
  scatter.out = result;
  scatter.ld_out = whole->ld_result;
  FK_CUDA_TRY(fk_frames_scatter(&scatter, widths, context->stream));
  return FK_STATUS_OK;
}

static enum fk_status sum_part(struct fk_cuda_job *job, const struct whole *whole, enum fk_cuda_pass pass, int p,
                               double *result, struct fk_error *err) {
  struct fk_cuda_frames *frames = &whole->sources->frames;
  const struct fk_frame_rows *rows = &job->part_rows;
  if (frames->first[p + 1] == frames->first[p]) return FK_STATUS_OK;
  if (!frames->part[p]) FK_TRY(gather_points(job, whole->sources, p, err));
  FK_TRY(gather_numbers(job, whole->sources, p, err));
  job->sources = frames->part[p];
  FK_TRY(fk_job_choose_method(job, err));
  for (int other = 0; other < 2; other++) {
    const int64_t *first = rows->first + 2 * p + other;
    struct group group = {rows->list + first[0], first[1] - first[0]};
    group.centre = p < frames->count ? frames->centre + (int64_t)p * whole->targets.d : NULL;
    /* beyond all columns: these rows are none of the part's sources */
    job->meets = job->sources->first + (other ? job->sources->points.ld : rows->before[p]);
    FK_TRY(sum_group(job, whole, pass, &group, result, err));
  }
  return FK_STATUS_OK;
}

/* ---- a pass ----------------------------------------------------------------------------------- */

static enum fk_status sum_parts(struct fk_cuda_job *job, const struct whole *whole, enum fk_cuda_pass pass,
                                double *result, struct fk_error *err) {
  for (int p = 0; p <= whole->sources->frames.count; p++) FK_TRY(sum_part(job, whole, pass, p, result, err));
  return FK_STATUS_OK;
}

enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                 struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct whole whole = {job->sources, job->targets, job->mass, job->ld_result, job->meets};
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
  job->sources = whole.sources;
  job->targets = whole.targets;
  job->mass = whole.mass;
  job->ld_result = whole.ld_result;
  job->meets = whole.meets;
  if (!fk_on_tensor_cores(job->method)) job->method = job->sources->frames.part[0]->method; /* of most */
  return status;
}

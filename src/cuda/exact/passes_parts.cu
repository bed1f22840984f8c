/* What takes the place of a job's sources and targets for a while: some of them, or all in another order. */
#include "job.cuh"

enum fk_status fk_job_pick_points(struct fk_cuda_context *context, const struct fk_cuda_sources *whole,
                                  const struct fk_pick *pick, struct fk_cuda_sources *part, struct fk_error *err) {
  part->points =
      (struct fk_cuda_points){NULL, pick->count, fk_padded(pick->count, FK_TENSOR_ROWS), whole->points.d};
  part->first = whole->first;
  FK_TRY(fk_cuda_room(context, &part->white_buffer, part->points.ld * part->points.d, &part->points.u, err));
  struct fk_gather gather = {whole->points.u, whole->points.ld, pick->list,
                             pick->count,     pick->centre,     pick->frame};
  gather.out = part->points.u;
  gather.ld_out = part->points.ld;
  FK_CUDA_TRY(fk_frames_gather(&gather, part->points.d, context->stream));
  part->whitened = true;
  return FK_STATUS_OK;
}

enum fk_status fk_job_pick_numbers(const struct fk_cuda_job *job, const struct fk_cuda_sources *whole,
                                   const int *list, struct fk_cuda_sources *part, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_gather gather = {NULL, whole->points.ld, list, part->points.n};
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

struct fk_job_whole fk_job_whole_of(const struct fk_cuda_job *job) {
  return {job->sources, job->targets, job->mass, job->least, job->ld_result, job->meets};
}

void fk_job_restore(struct fk_cuda_job *job, const struct fk_job_whole *whole) {
  job->sources = whole->sources;
  job->targets = whole->targets;
  job->mass = whole->mass;
  job->least = whole->least;
  job->ld_result = whole->ld_result;
  job->meets = whole->meets;
}

/* A number of each row. */
static enum fk_status pick_column(struct fk_cuda_job *job, const double *column, const struct fk_pick *pick,
                                  struct fk_cuda_buffer *buffer, double **to, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  FK_TRY(fk_cuda_room(context, buffer, job->targets.ld, to, err));
  struct fk_gather gather = {column, 0, pick->list, pick->count, NULL, NULL, *to, job->targets.ld};
  FK_CUDA_TRY(fk_frames_gather(&gather, 1, context->stream));
  return FK_STATUS_OK;
}

enum fk_status fk_job_pick_rows(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                const struct fk_pick *pick, struct fk_row_room *room, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *targets = &whole->targets;
  struct fk_cuda_points *y = &job->targets;
  *y = (struct fk_cuda_points){NULL, pick->count, fk_padded(pick->count, FK_TENSOR_ROWS), targets->d};
  job->ld_result = y->ld;
  FK_TRY(fk_cuda_room(context, &room->targets, y->ld * y->d, &y->u, err));
  struct fk_gather gather = {targets->u, targets->ld, pick->list, pick->count, pick->centre, pick->frame};
  gather.out = y->u;
  gather.ld_out = y->ld;
  FK_CUDA_TRY(fk_frames_gather(&gather, y->d, context->stream));
  return FK_STATUS_OK;
}

enum fk_status fk_job_sum_picked(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                                 const struct fk_pick *pick, struct fk_row_room *room, double **sums,
                                 struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const bool values = pass == FK_PASS_SUMS && job->n_values > 0, framed = job->by_frames;
  const int widths = values ? 1 + job->n_values : 1;
  if (values && job->normalised) FK_TRY(pick_column(job, whole->mass, pick, &room->mass, &job->mass, err));
  if (whole->least) FK_TRY(pick_column(job, whole->least, pick, &room->least, &job->least, err));
  FK_TRY(fk_cuda_room(context, &room->result, job->ld_result * widths, sums, err));
  FK_TRY(framed ? fk_job_sum_frames(job, pass, *sums, err) : fk_job_sum(job, pass, *sums, err));
  return values && !framed ? fk_job_add_own_low(job, *sums, pick->count, err) : FK_STATUS_OK;
}

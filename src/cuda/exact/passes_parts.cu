/* Views of subsets: some of a view's sources or targets, or all in another order. */
#include <stdlib.h>

#include "job.cuh"

enum fk_status fk_job_pick_points(struct fk_cuda_context *context, const struct fk_cuda_sources *whole,
                                  const struct fk_pick *pick, struct fk_cuda_sources **made,
                                  struct fk_error *err) {
  struct fk_cuda_sources *part = (struct fk_cuda_sources *)malloc(sizeof *part);
  if (!part) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  *made = part;
  fk_cuda_sources_init(part, context);
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

struct fk_pass_view fk_pass_of_sources(struct fk_pass_view view, struct fk_cuda_sources *part) {
  view.sources = part;
  view.columns = part->points.n;
  view.first = view.last = true;
  return view;
}

/* Gathers one number per row; NULL stays NULL. */
static enum fk_status pick_column(struct fk_cuda_job *job, const struct fk_pick *pick, int room,
                                  const struct fk_cuda_points *rows, const double **column, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  double *to;
  if (!*column) return FK_STATUS_OK;
  FK_TRY(fk_job_room(job, room, rows->ld, &to, err));
  struct fk_gather gather = {*column, 0, pick->list, pick->count, NULL, NULL, to, rows->ld};
  FK_CUDA_TRY(fk_frames_gather(&gather, 1, context->stream));
  *column = to;
  return FK_STATUS_OK;
}

enum fk_status fk_job_pick_rows(struct fk_cuda_job *job, const struct fk_pass_view whole,
                                const struct fk_pick *pick, int rooms, struct fk_pass_view *part,
                                struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *targets = &whole.targets;
  struct fk_cuda_points y = {NULL, pick->count, fk_padded(pick->count, FK_TENSOR_ROWS), targets->d};
  FK_TRY(fk_job_room(job, rooms, y.ld * y.d, &y.u, err));
  struct fk_gather gather = {targets->u, targets->ld, pick->list, pick->count, pick->centre, pick->frame};
  gather.out = y.u;
  gather.ld_out = y.ld;
  FK_CUDA_TRY(fk_frames_gather(&gather, y.d, context->stream));
  part->targets = y;
  part->ld_result = y.ld;
  FK_TRY(pick_column(job, pick, rooms + 1, &y, &part->mass, err));
  FK_TRY(pick_column(job, pick, rooms + 2, &y, &part->least, err));
  return fk_job_room(job, rooms + 3, y.ld * fk_pass_widths(job, whole), &part->result, err);
}

/* Rows whose sums have underflowed, or lie out of the range of their method. */
#include <stdlib.h>

#include "../../core/scan.h"
#include "job.cuh"

/* The masses of points that move, `count` of them, where any are lost: they are on the device. */
static enum fk_status fetch_lost(struct fk_cuda_job *job, int64_t first, int64_t n, double threshold,
                                 double **mass, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_buffer buffer = {};
  const double *there = job->move->mass + first;
  unsigned long long *found, count = 0;
  *mass = NULL;
  FK_TRY(fk_cuda_room(context, &buffer, 1, &found, err));
  cudaError_t code = fk_finish_count_lost(there, n, threshold, found, context->stream);
  enum fk_status status = code == cudaSuccess ? fk_cuda_download(context, (const double *)found, 1,
                                                                 fk_all_rows(1, 1), (double *)&count, err)
                                              : fk_cuda_fail(err, code, "lost_kernel", context->device);
  fk_cuda_drop(context, &buffer);
  if (status || count == 0) return status;
  *mass = (double *)malloc(sizeof **mass * (size_t)n);
  if (!*mass) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for rows in the tails");
  return fk_cuda_download(context, there, n, fk_all_rows(n, 1), *mass, err);
}

/* Of results that are the job's by their places, `count` from the first on. */
static enum fk_status find_lost_places(const struct fk_cuda_job *job, int64_t first, int64_t count,
                                       double threshold, int64_t **rows, int64_t *found, struct fk_error *err) {
  const int64_t *places = job->places + first;
  double *mass = (double *)malloc(sizeof *mass * (size_t)count);
  if (!mass) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for rows in the tails");
  for (int64_t i = 0; i < count; i++) mass[i] = job->task->mass[places[i]];
  enum fk_status status = fk_rows_below(mass, count, threshold, rows, found, err);
  free(mass);
  for (int64_t r = 0; r < *found && !status; r++) (*rows)[r] = places[(*rows)[r]];
  return status;
}

enum fk_status fk_job_find_lost(struct fk_cuda_job *job, int64_t first, int64_t count, int64_t **rows,
                                int64_t *found, struct fk_error *err) {
  const struct fk_task *task = job->task;
  double lost = fk_lost_below(job->precision != FK_PRECISION_DOUBLE, task->sources.n, job->weight_scale),
         threshold = task->tail_pass ? lost : 0, *mass = NULL;
  if (job->places) return find_lost_places(job, first, count, threshold, rows, found, err);
  *rows = NULL;
  *found = 0;
  enum fk_status status = job->move ? fetch_lost(job, first, count, threshold, &mass, err) : FK_STATUS_OK;
  const double *all = job->move ? mass : task->mass + first;
  if (!status && all) status = fk_rows_below(all, count, threshold, rows, found, err);
  free(mass);
  for (int64_t r = 0; r < *found && !status; r++) (*rows)[r] += first;
  return status;
}

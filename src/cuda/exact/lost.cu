/* Rows whose sums have underflowed, or lie out of the range of their method. */
#include <stdlib.h>

#include "../../core/scan.h"
#include "job.cuh"

double fk_job_lost_below(const struct fk_cuda_job *job) {
  if (!job->task->tail_pass) return 0;
  return fk_lost_below(job->precision != FK_PRECISION_DOUBLE, job->task->sources.n, job->weight_scale);
}

/* The masses of points that move, `n` of them, where any are lost: they are on the device. */
static enum fk_status fetch_lost(struct fk_cuda_job *job, int64_t first, int64_t n, double **mass,
                                 struct fk_error *err) {
  *mass = NULL;
  if (job->context->answers[FK_ANSWER_LOST] == 0) return FK_STATUS_OK;
  *mass = (double *)malloc(sizeof **mass * (size_t)n);
  if (!*mass) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for rows in the tails");
  return fk_cuda_download(job->context, job->move->mass + first, n, fk_all_rows(n, 1), *mass, err);
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
  double threshold = fk_job_lost_below(job), *mass = NULL;
  if (job->places) return find_lost_places(job, first, count, threshold, rows, found, err);
  *rows = NULL;
  *found = 0;
  enum fk_status status = job->move ? fetch_lost(job, first, count, &mass, err) : FK_STATUS_OK;
  const double *all = job->move ? mass : task->mass + first;
  if (!status && all) status = fk_rows_below(all, count, threshold, rows, found, err);
  free(mass);
  for (int64_t r = 0; r < *found && !status; r++) (*rows)[r] += first;
  return status;
}

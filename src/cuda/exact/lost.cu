/* Rows whose sums underflow, or that lie outside the range of their method. */
#include <stdlib.h>

#include "../../core/scan.h"
#include "job.cuh"

double fk_job_lost_below(const struct fk_cuda_job *job) {
  if (!job->task->tail_pass) return 0;
  return fk_lost_below(job->precision != FK_PRECISION_DOUBLE, job->task->sources.n, job->weight_scale);
}

/* Finds lost rows if the job's rows are given by places; `count` rows from the first on. */
static enum fk_status find_lost_places(const struct fk_cuda_job *job, int64_t first, int64_t count,
                                       double threshold, int64_t **rows, int64_t *found, struct fk_error *err) {
  const int64_t *places = job->places + first;
  fk_host_array<double> mass(count);
  if (!mass.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for rows in the tails");
  for (int64_t i = 0; i < count; i++) mass.at[i] = job->task->mass[places[i]];
  FK_TRY(fk_rows_below(mass.at, count, threshold, rows, found, err));
  for (int64_t r = 0; r < *found; r++) (*rows)[r] = places[(*rows)[r]];
  return FK_STATUS_OK;
}

/* The kernel sums of points that move stay on the device, and are copied here only if some are lost. */
enum fk_status fk_job_find_lost(struct fk_cuda_job *job, int64_t first, int64_t count, int64_t **rows,
                                int64_t *found, struct fk_error *err) {
  const bool moves = job->move, any = !moves || job->context->answers[FK_ANSWER_LOST] != 0;
  const double threshold = job->task->logs ? 0 : fk_job_lost_below(job); /* lost sums have NaN logarithms */
  *rows = NULL;
  *found = 0;
  if (job->places) return find_lost_places(job, first, count, threshold, rows, found, err);
  if (!any) return FK_STATUS_OK;
  fk_host_array<double> mass(moves ? count : 0);
  if (!mass.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for rows in the tails");
  if (moves)
    FK_TRY(fk_cuda_download(job->context, job->move->mass + first, count, fk_all_rows(count, 1), mass.at, err));
  FK_TRY(fk_rows_below(moves ? mass.at : job->task->mass + first, count, threshold, rows, found, err));
  for (int64_t r = 0; r < *found; r++) (*rows)[r] += first;
  return FK_STATUS_OK;
}

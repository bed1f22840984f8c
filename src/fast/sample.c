#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "check_rows.h"

/* Exact sums of kernels other than the Gaussian, by the exact engine. */
static enum fk_status sum_exactly(const struct fk_fast_job *job, const struct fk_matrix *rows,
                                  struct fk_check *check, struct fk_error *err) {
  struct fk_opts opts = *job->opts;
  struct fk_stats unused = {0};
  struct fk_task task = {.sources = job->task->sources, .targets = *rows, .whitening = job->task->whitening};
  enum fk_status status = FK_STATUS_OK;
  double *absolute = job->negative ? fk_aligned_alloc(sizeof(double) * (size_t)job->n) : NULL;
  if (job->negative && !absolute) return fk_no_memory(err, 0, "a sample of rows");
  check->apart = job->negative;
  task.kernel = job->task->kernel;
  memcpy(task.factor, job->task->factor, sizeof task.factor);
  opts.precision = FK_PRECISION_DOUBLE;
  opts.poll.fn = NULL;
  for (int64_t c = 0; c < job->columns && !status; c++) {
    const double *b = job->b ? job->b + c * job->n : NULL;
    task.weights = b;
    task.mass = check->sums + c * FK_CHECK_ROWS;
    status = fk_engine_exact_cpu.sums(&task, &opts, &unused, err);
    if (status || !job->negative) continue;
    for (int64_t i = 0; i < job->n; i++) absolute[i] = fabs(b[i]);
    task.weights = absolute;
    task.mass = check->absolute + c * FK_CHECK_ROWS;
    status = fk_engine_exact_cpu.sums(&task, &opts, &unused, err);
  }
  fk_aligned_free(absolute);
  return status;
}

/* Exact sums of the Gaussian, on the device of the grid. */
static enum fk_status sum_on_grids_device(const struct fk_fast_job *job, const struct fk_matrix *rows,
                                          struct fk_check *check, struct fk_error *err) {
  const double *factor = job->task->factor;
  struct fk_grid_task task = fk_fast_grid_task(job);
  int64_t numbers = job->columns * rows->n;
  double *all = malloc(sizeof(double) * 2 * (size_t)numbers), *absolute = all + numbers;
  if (!all) return fk_no_memory(err, 0, "a sample of rows");
  check->apart = job->negative || factor[0] != 1 || factor[1] != 0;
  enum fk_status status = job->grid->rows(&task, rows, factor, all, check->apart ? absolute : NULL, err);
  for (int64_t c = 0; c < job->columns && !status; c++) {
    size_t bytes = sizeof(double) * (size_t)rows->n;
    memcpy(check->sums + c * FK_CHECK_ROWS, all + c * rows->n, bytes);
    if (check->apart) memcpy(check->absolute + c * FK_CHECK_ROWS, absolute + c * rows->n, bytes);
  }
  free(all);
  return status;
}

/* A row that is a source itself, without it: what rounding may have left of it does not count. */
static double without_own(const struct fk_fast_job *job, int64_t c, int64_t row, double absolute) {
  if (!job->task->exclude_self) return absolute * (1 - 1e-12);
  double own = job->b ? fabs(job->b[c * job->n + row]) : 1;
  return fmax(0, absolute * (1 - 1e-12) - own);
}

double fk_fast_check_least(const struct fk_fast_job *job, const struct fk_fast_sample *s) {
  double least = INFINITY;
  for (int64_t c = 0; c < job->columns; c++) {
    const double *absolute = fk_check_absolute(&s->check, c);
    double most = 0;
    for (int r = 0; r < s->check.rows; r++) most = fmax(most, without_own(job, c, s->row[r], absolute[r]));
    if (job->size[c] > 0) least = fmin(least, most / job->size[c]);
  }
  return isfinite(least) ? least : 0;
}

enum fk_status fk_fast_check_init(struct fk_fast_job *job, const int64_t *first, int64_t n_first,
                                  struct fk_fast_sample *s, struct fk_error *err) {
  const struct fk_matrix *targets = fk_task_targets(job->task);
  int64_t count = fk_check_size((double)job->n, job->m), d = job->d;
  double *raw = malloc(sizeof(double) * (size_t)(count * d + 1));
  if (!raw) return fk_no_memory(err, 0, "a sample of rows");
  n_first = fk_smaller(n_first, count / 2);
  for (int64_t r = 0; r < count; r++) s->row[r] = r < n_first ? first[r] : fk_check_row(job->m, r);
  fk_gather(targets, s->row, count, raw, count);
  struct fk_matrix rows = fk_doubles(raw, count, d);
  struct fk_check *check = &s->check;
  enum fk_status status = fk_check_init(check, job->task->whitening, &rows, job->columns, job->opts->threads, err);
  if (!status && !fk_kernel_is_gaussian(&job->task->kernel))
    status = sum_exactly(job, &rows, check, err);
  else if (!status)
    status = sum_on_grids_device(job, &rows, check, err);
  free(raw);
  return status;
}

/* Sums of a job as the check has them: with the row's own kernel. */
static double error_of(const struct fk_fast_job *job, const struct fk_fast_sample *s, int64_t c) {
  const double *b = job->b ? job->b + c * job->n : NULL, *sums = fk_fast_out(job, c);
  double got[FK_CHECK_ROWS];
  for (int r = 0; r < s->check.rows; r++) {
    int64_t i = s->row[r];
    got[r] = s->scaled[r] ? (double)NAN : sums[i];
    if (job->task->exclude_self) got[r] += job->task->factor[0] * (b ? b[i] : 1);
  }
  bool is_mass = c == job->columns - 1 && !s->check.apart;
  return fk_check_error(&s->check, c, got, job->opts->tol_type == FK_TOL_POINTWISE, is_mass ? job->largest : 0,
                        job->size[c]);
}

double fk_fast_check_achieved(const struct fk_fast_job *job, const struct fk_fast_sample *s) {
  double achieved = 0;
  for (int64_t c = 0; c < job->columns; c++) achieved = fmax(achieved, error_of(job, s, c));
  return achieved;
}

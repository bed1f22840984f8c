/* What error the fast engine has achieved: a sample of rows by the exact engine, in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* Rows of the sample: some 1e8 pairs, which take 0.03 s on two cores; never fewer than eight rows. */
static int64_t sample_size(const struct fk_fast_job *job) {
  int64_t rows = (int64_t)(1e8 / (double)job->n);
  return fk_smaller(job->m, fk_smaller(fk_larger(rows, 8), 64));
}

/* The same rows for the same sizes: an even step from a fixed start. */
static int64_t row_of(const struct fk_fast_job *job, int64_t count, int64_t r) {
  double step = (double)job->m / (double)count;
  return fk_smaller((int64_t)(((double)r + 0.381966) * step), job->m - 1);
}

/* Sums of columns at the sample, exactly; b is that of the job, or its absolute values. */
static enum fk_status exact(const struct fk_fast_job *job, const struct fk_points *rows, const double *b,
                            double *out, struct fk_error *err) {
  struct fk_opts opts = *job->opts;
  struct fk_stats stats = {.backend = ""};
  struct fk_task task = {.sources = job->task->sources, .targets = *rows, .whitening = job->task->whitening};
  memcpy(task.factor, job->task->factor, sizeof task.factor);
  opts.precision = FK_PRECISION_DOUBLE;
  task.mass = out + (job->columns - 1) * rows->n;
  task.weights = b ? b + (job->columns - 1) * job->n : NULL;
  enum fk_status status = fk_engine_exact_cpu.sums(&task, &opts, &stats, err);
  for (int64_t c = 0; c < job->columns - 1 && !status; c++) {
    task.mass = out + c * rows->n;
    task.weights = b + c * job->n;
    status = fk_engine_exact_cpu.sums(&task, &opts, &stats, err);
  }
  return status;
}

enum fk_status fk_fast_check(struct fk_fast_job *job, double *achieved, struct fk_error *err) {
  const struct fk_points *targets = fk_fast_targets(job);
  int64_t count = sample_size(job), sums = count * job->columns;
  bool pointwise = job->opts->tol_type == FK_TOL_POINTWISE;
  double *raw = malloc(sizeof(double) * (size_t)(count * job->d + 2 * sums)), *absolute = NULL;
  *achieved = 0;
  if (!raw) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  double *sum = raw + count * job->d, *scale = sum + sums;
  for (int64_t k = 0; k < job->d; k++)
    for (int64_t r = 0; r < count; r++) raw[k * count + r] = targets->data[k * targets->n + row_of(job, count, r)];
  struct fk_points rows = {raw, count, job->d};
  enum fk_status status = exact(job, &rows, job->b, sum, err);
  if (!status && job->negative) {
    int64_t numbers = job->n * job->columns;
    absolute = malloc(sizeof(double) * (size_t)numbers);
    if (!absolute) status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
    for (int64_t i = 0; i < numbers && !status; i++) absolute[i] = fabs(job->b[i]);
    if (!status) status = exact(job, &rows, absolute, scale, err);
  } else if (!status) {
    memcpy(scale, sum, sizeof(double) * (size_t)sums);
  }
  for (int64_t c = 0; c < job->columns && !status; c++) {
    const double *b = job->b ? job->b + c * job->n : NULL, *got = fk_fast_out(job, c);
    double most = 0;
    for (int64_t r = 0; r < count; r++) most = fmax(most, fabs(scale[c * count + r]));
    if (c == job->columns - 1 && !job->negative) most = fmax(most, job->largest);
    for (int64_t r = 0; r < count; r++) {
      int64_t i = row_of(job, count, r);
      double shift = job->task->shift ? job->task->shift[i] : 0, want = sum[c * count + r];
      if (job->task->exclude_self) want -= job->task->factor[0] * (b ? b[i] : 1);
      if (shift != 0) continue; /* of a row in the tails, which is as good as exact */
      double relative_to = pointwise ? fabs(scale[c * count + r]) : most;
      if (relative_to > 0) *achieved = fmax(*achieved, fabs(got[i] - want) / relative_to);
    }
  }
  free(raw);
  free(absolute);
  return status;
}

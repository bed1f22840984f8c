/* The fast engine by direct sums, all rows or some of them. */
#include <math.h>
#include <stdlib.h>

#include "engine.h"

/* Both sides whitened, as the direct sums hold them anyway. */
static enum fk_status create(struct fk_fast_job *job, double **u, double **v, struct fk_direct **direct,
                             struct fk_error *err) {
  const struct fk_points *targets = fk_fast_targets(job);
  struct fk_direct_options options = {job->single, job->opts->threads, job->opts->poll};
  *direct = NULL;
  *u = malloc(sizeof(double) * (size_t)(job->n * job->d));
  *v = job->same ? NULL : malloc(sizeof(double) * (size_t)(job->m * job->d));
  if (!*u || (!job->same && !*v))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for whitened points",
                   8e-6 * (double)(job->n + (job->same ? 0 : job->m)) * (double)job->d);
  enum fk_status status = fk_fast_whiten(job, &job->task->sources, 0, job->n, *u, job->n, err);
  if (!status && !job->same) status = fk_fast_whiten(job, targets, 0, job->m, *v, job->m, err);
  struct fk_points x = {*u, job->n, job->d};
  return status ? status : fk_direct_create(&x, job->b, job->columns, &options, direct, err);
}

/* The sums of the columns and gradients to the task's results. The mass is the last column for us and the first,
 * whose gradient is taken, for them: only one column has a gradient. */
static enum fk_status sum(struct fk_fast_job *job, bool all_pointwise, const int64_t *rows, int64_t n_rows,
                          struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_direct *direct = NULL;
  double *u = NULL, *v = NULL, *shift = NULL, *out = NULL;
  int64_t m = job->m, d = job->d, sums = job->columns * m;
  enum fk_status status = create(job, &u, &v, &direct, err);
  if (!status) {
    out = malloc(sizeof(double) * (size_t)(sums + (job->gradient ? m * d : 0)));
    shift = malloc(sizeof(double) * (size_t)m);
    if (!out || !shift)
      status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for sums", 8e-6 * (double)sums);
  }
  if (!status) {
    struct fk_direct_job ask = {.targets = {v, m, d}, .self_first = task->exclude_self ? 0 : -1, .tol = job->tol};
    for (int i = 0; i < 3; i++) ask.factor[i] = task->factor[i];
    ask.sums = out;
    ask.gradient = job->gradient ? out + sums : NULL;
    ask.ld = m;
    bool by_rows = all_pointwise || rows;
    job->used_single = job->single && !by_rows;
    status = by_rows ? fk_direct_rows(direct, &ask, rows, n_rows, shift, err) : fk_direct_sums(direct, &ask, err);
    const double *target = v ? v : u;
    for (int64_t r = 0; r < (rows ? n_rows : m) && !status; r++) {
      int64_t i = rows ? rows[r] : r;
      for (int64_t c = 0; c < job->columns; c++) fk_fast_out(job, c)[i] = out[c * m + i];
      for (int64_t k = 0; k < d && job->gradient; k++)
        task->sums[k * m + i] = out[sums + k * m + i] + target[k * m + i] * out[i];
      if (task->shift) task->shift[i] = by_rows ? shift[i] : 0;
      if (by_rows && !task->shift && !job->gradient) {
        double scale = exp(shift[i]);
        for (int64_t c = 0; c < job->columns; c++) fk_fast_out(job, c)[i] *= scale;
      }
    }
  }
  fk_direct_destroy(direct);
  free(u);
  free(v);
  free(shift);
  free(out);
  return status;
}

enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err) {
  enum fk_status status = sum(job, job->opts->tol_type == FK_TOL_POINTWISE, NULL, 0, err);
  if (!status) fk_fast_find_largest(job);
  return status;
}

enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, double floor,
                            struct fk_error *err) {
  (void)floor;
  return sum(job, false, rows, n_rows, err);
}

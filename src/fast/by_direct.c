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

/* Where the sums of the columns and gradients go. The mass is the last column for us and the first, whose gradient
 * is taken, for them: only one column has a gradient. */
struct results {
  struct fk_direct_job ask;
  double *out, *shift;
};

static enum fk_status sum_all(struct fk_fast_job *job, struct fk_direct *direct, struct results *r,
                              struct fk_error *err) {
  enum fk_status status = fk_direct_sums(direct, &r->ask, err);
  for (int64_t i = 0; i < job->m && !status; i++) {
    for (int64_t c = 0; c < job->columns; c++) fk_fast_out(job, c)[i] = r->out[c * job->m + i];
    if (job->task->shift) job->task->shift[i] = 0;
  }
  return status;
}

/* The mass first: the others have its shift. */
static enum fk_status sum_rows(struct fk_fast_job *job, struct fk_direct *direct, const int64_t *rows,
                               int64_t n_rows, struct results *r, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  double *shift = job->task->shift;
  for (int64_t c = job->columns - 1; c >= 0 && !status; c--) {
    double *out = fk_fast_out(job, c);
    if (job->b && job->columns > 1) status = fk_direct_set_columns(direct, job->b + c * job->n, 1, err);
    if (!status) status = fk_direct_rows(direct, &r->ask, rows, n_rows, r->shift, err);
    for (int64_t k = 0; k < (rows ? n_rows : job->m) && !status; k++) {
      int64_t i = rows ? rows[k] : k;
      if (shift && c == job->columns - 1) shift[i] = r->shift[i];
      double off = r->shift[i] - (shift ? shift[i] : 0);
      out[i] = off == 0 ? r->out[i] : r->out[i] * exp(off);
    }
  }
  return status;
}

static enum fk_status sum(struct fk_fast_job *job, bool all_pointwise, const int64_t *rows, int64_t n_rows,
                          struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_direct *direct = NULL;
  double *u = NULL, *v = NULL;
  int64_t m = job->m, d = job->d, sums = job->columns * m;
  struct results r = {.shift = malloc(sizeof(double) * (size_t)m)};
  enum fk_status status = create(job, &u, &v, &direct, err);
  r.out = malloc(sizeof(double) * (size_t)(sums + (job->gradient ? m * d : 0)));
  if (!status && (!r.out || !r.shift))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for sums", 8e-6 * (double)sums);
  if (!status) {
    bool by_rows = all_pointwise || rows;
    r.ask = (struct fk_direct_job){
        .targets = {v, m, d}, .self_first = task->exclude_self ? 0 : -1, .tol = job->tol, .sums = r.out, .ld = m};
    r.ask.gradient = job->gradient ? r.out + sums : NULL;
    for (int i = 0; i < 3; i++) r.ask.factor[i] = task->factor[i];
    status = by_rows ? sum_rows(job, direct, rows, n_rows, &r, err) : sum_all(job, direct, &r, err);
    if (!by_rows) job->used_single = r.ask.used_single;
    const double *target = v ? v : u;
    for (int64_t k = 0; k < (rows ? n_rows : m) && job->gradient && !status; k++) {
      int64_t i = rows ? rows[k] : k;
      double scale = by_rows && !task->shift ? exp(r.shift[i]) : 1;
      for (int64_t a = 0; a < d; a++)
        task->sums[a * m + i] = scale * r.ask.gradient[a * m + i] + target[a * m + i] * task->mass[i];
    }
  }
  fk_direct_destroy(direct);
  free(u);
  free(v);
  free(r.shift);
  free(r.out);
  return status;
}

enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err) {
  enum fk_status status = sum(job, job->opts->tol_type == FK_TOL_POINTWISE, NULL, 0, err);
  if (!status) fk_fast_find_largest(job);
  return status;
}

enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, struct fk_error *err) {
  return sum(job, false, rows, n_rows, err);
}

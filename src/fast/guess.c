#include "guess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/kept.h"
#include "../cpu/direct/direct.h"
#include "../cpu/grid/grid.h"

/* ---- samples ---------------------------------------------------------------------------------- */

/* The choice is to take a few percent of the time. */
static int64_t sample_size(int64_t n) {
  const struct fk_fast_choice_costs *c = &fk_costs.choice;
  return fk_smaller(n, fk_smaller(fk_larger(n / c->sample_share, c->sample_least), c->sample_most));
}

/* Rows spread evenly over all. */
static enum fk_status sample_of(const struct fk_fast_job *job, const struct fk_matrix *points, int64_t count,
                                double *u, struct fk_error *err) {
  double *raw = malloc(sizeof(double) * (size_t)(count * job->d));
  if (!raw) return fk_no_memory(err, 0, "a sample of the points");
  fk_thin_out(points, count, raw);
  struct fk_matrix picked = fk_doubles(raw, count, job->d);
  enum fk_status status = fk_fast_whiten(job, &picked, 0, count, u, count, err);
  free(raw);
  return status;
}

struct fk_fast_kept {
  double *x;
  bool surveyed;
  double extent[FK_GRID_MAX_D], boxes[FK_GRID_LEVELS];
  bool has_last, has_direct, direct_single;
  struct fk_fast_last last;
  struct fk_direct_question direct; /* the last one, and its answer */
  double direct_seconds;
};

const struct fk_fast_last *fk_fast_last_of(const struct fk_fast_samples *s) {
  return s->kept && s->kept->has_last ? &s->kept->last : NULL;
}

void fk_fast_remember(const struct fk_fast_samples *s, const struct fk_window *window, bool single) {
  if (!s->kept) return;
  s->kept->last = (struct fk_fast_last){*window, single};
  s->kept->has_last = true;
}

static void free_kept(void *state) {
  struct fk_fast_kept *kept = state;
  free(kept->x);
  free(kept);
}

/* A copy of the samples for the sums to come. Without memory for it nothing is kept. */
static struct fk_fast_kept *keep(const struct fk_fast_job *job, const double *x, int64_t n) {
  struct fk_operator *op = fk_task_keeper(job->task);
  struct fk_fast_kept *kept = op ? calloc(1, sizeof *kept) : NULL;
  size_t bytes = sizeof *x * (size_t)(n * job->d);
  if (!kept || !(kept->x = malloc(bytes))) {
    free(kept);
    return NULL;
  }
  memcpy(kept->x, x, bytes);
  struct fk_kept what = {.state = kept, .free = free_kept, .bytes = (double)bytes};
  return fk_keep(op, FK_KEEPER_SAMPLES, what, job->opts) ? kept : NULL;
}

enum fk_status fk_fast_take_samples(const struct fk_fast_job *job, struct fk_fast_samples *s,
                                    struct fk_error *err) {
  int64_t n = sample_size(job->n), m = job->same ? 0 : sample_size(job->m), d = job->d;
  struct fk_operator *op = fk_task_keeper(job->task);
  s->kept = op ? fk_kept_use(op, FK_KEEPER_SAMPLES) : NULL;
  int64_t own = s->kept ? 0 : n;
  s->u = malloc(sizeof(double) * (size_t)((own + m) * d + 1));
  if (!s->u) return fk_no_memory(err, 0, "a sample of the points");
  s->x = fk_doubles(s->kept ? s->kept->x : s->u, n, d);
  s->y = fk_doubles(job->same ? NULL : s->u + own * d, job->same ? n : m, d);
  enum fk_status status = FK_STATUS_OK;
  if (own) status = sample_of(job, &job->task->sources, n, s->u, err);
  if (own && !status) s->kept = keep(job, s->u, n);
  if (!status && m) status = sample_of(job, fk_task_targets(job->task), m, s->u + own * d, err);
  return status;
}

enum fk_status fk_fast_survey(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                              struct fk_grid_work *work, struct fk_error *err) {
  struct fk_grid_points points = {fk_column(&s->x, 0), s->x.n, s->x.ld};
  struct fk_fast_kept *kept = s->kept;
  enum fk_status status = FK_STATUS_OK;
  *work = (struct fk_grid_work){.n = (double)job->n, .m = (double)job->m, .d = (int)job->d};
  work->columns = job->columns;
  work->use = (job->laplace != 0 ? FK_WINDOW_LAPLACE : 0) | (job->gradient ? FK_WINDOW_GRADIENT : 0);
  work->same_points = job->same;
  if (!kept || !kept->surveyed) status = fk_grid_survey(&points, work->n, (int)job->d, work, err);
  if (status || !kept) return status;
  if (!kept->surveyed) {
    memcpy(kept->extent, work->extent, sizeof kept->extent);
    memcpy(kept->boxes, work->boxes, sizeof kept->boxes);
  }
  kept->surveyed = true;
  memcpy(work->extent, kept->extent, sizeof kept->extent);
  memcpy(work->boxes, kept->boxes, sizeof kept->boxes);
  return status;
}

/* ---- what methods would take ------------------------------------------------------------------ */

void fk_fast_choose_window(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                           bool *single, struct fk_window *window, double *seconds) {
  struct fk_error why = {FK_STATUS_OK, ""};
  *single = *single && job->single;
  fk_grid_choose(work, tol, job->grid->seconds, single, window, seconds, &why);
  if (isfinite(*seconds) && job->grid->bytes(work, window, *single) >= job->grid->costs->most_bytes)
    *seconds = INFINITY;
}

enum fk_status fk_fast_bound_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                                     const struct fk_grid_work *work, double *seconds, struct fk_error *err) {
  struct fk_grid_points targets = {fk_column(&s->y, 0), s->y.n, s->y.ld};
  struct fk_grid_work at = *work;
  enum fk_status status = FK_STATUS_OK;
  if (!job->same) status = fk_grid_survey(&targets, work->m, work->d, &at, err);
  *seconds = status ? 0 : fk_envelope_seconds(work, at.boxes[0]);
  return status;
}

/* Are the questions the same, for the same points? */
static bool is_same_question(const struct fk_direct_question *a, const struct fk_direct_question *b) {
  return a->n == b->n && a->m == b->m && a->n_columns == b->n_columns && a->gradient == b->gradient &&
         a->by_rows == b->by_rows && a->tol == b->tol;
}

enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err) {
  struct fk_direct_options options = {job->single, 1, job->opts->poll};
  struct fk_direct_question question = {.x = s->x, .targets = s->y, .n = (double)job->n, .m = (double)job->m};
  struct fk_direct_cost cost = {0, INFINITY};
  struct fk_fast_kept *kept = job->same ? s->kept : NULL;
  *seconds = INFINITY;
  if (job->n >= (int64_t)1 << 32 || !(fk_direct_least_seconds(question.n, question.m, 1) < least))
    return FK_STATUS_OK;
  question.n_columns = job->columns;
  question.gradient = job->gradient;
  question.tol = job->tol;
  question.by_rows = fk_fast_pointwise(job) || (fk_fast_has_quotient(job) && job->laplace != 0);
  bool known =
      kept && kept->has_direct && kept->direct_single == job->single && is_same_question(&kept->direct, &question);
  enum fk_status status = known ? FK_STATUS_OK : fk_direct_guess(&question, &options, &cost, err);
  *seconds = known ? kept->direct_seconds : cost.seconds;
  if (status || !kept) return status;
  kept->has_direct = true;
  kept->direct = question;
  kept->direct_single = job->single;
  kept->direct_seconds = *seconds;
  return status;
}

double fk_fast_exact_seconds(const struct fk_fast_job *job) {
  struct fk_work size = fk_task_work(job->task);
  struct fk_opts alone = job->exact_opts;
  alone.threads = 1;
  double seconds = (job->same ? job->grid->costs->same_points : 1) * job->grid->exact->seconds(&size, &alone);
  if (!job->opts->as_exact) return seconds;
  return seconds * job->grid->exact->share(job->task, &alone) / fk_costs.as_exact.times;
}

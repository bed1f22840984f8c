#include "choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/count.h"
#include "mixture.h"

/* Benchmarks and tests run one method where the other is cheaper: FLASHKERNEL_FAST_METHOD is "grid" or "direct".
 */
static const char *wish(void) {
  const char *method = getenv("FLASHKERNEL_FAST_METHOD");
  return method && *method ? method : NULL;
}
bool fk_fast_may_be(const char *method) { return !wish() || strcmp(wish(), method) == 0; }

/* ---- samples ---------------------------------------------------------------------------------- */

/* The choice is to take a few percent of the time. */
static int64_t sample_size(int64_t n) {
  enum { LEAST = 1 << 13, MOST = 1 << 16 };
  return fk_smaller(n, fk_smaller(fk_larger(n / 8, LEAST), MOST));
}

/* Rows spread evenly over all. */
static enum fk_status sample_of(const struct fk_fast_job *job, const struct fk_points *points, int64_t count,
                                double *u, struct fk_error *err) {
  double *raw = malloc(sizeof(double) * (size_t)(count * job->d));
  if (!raw) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of the points");
  for (int64_t k = 0; k < job->d; k++)
    for (int64_t i = 0; i < count; i++)
      raw[k * count + i] =
          points->data[k * points->n + (int64_t)((double)i * ((double)points->n / (double)count))];
  struct fk_points picked = {raw, count, job->d};
  enum fk_status status = fk_fast_whiten(job, &picked, 0, count, u, count, err);
  free(raw);
  return status;
}

static enum fk_status take_samples(const struct fk_fast_job *job, struct fk_fast_samples *s,
                                   struct fk_error *err) {
  int64_t n = sample_size(job->n), m = job->same ? n : sample_size(job->m);
  s->u = malloc(sizeof(double) * (size_t)((n + m) * job->d));
  if (!s->u) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of the points");
  s->x = (struct fk_points){s->u, n, job->d};
  s->y = (struct fk_points){job->same ? NULL : s->u + n * job->d, m, job->d};
  enum fk_status status = sample_of(job, &job->task->sources, n, s->u, err);
  if (!status && !job->same) status = sample_of(job, fk_fast_targets(job), m, s->u + n * job->d, err);
  return status;
}

static enum fk_status survey(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                             struct fk_grid_work *work, struct fk_error *err) {
  struct fk_grid_points points = {s->x.data, s->x.n, s->x.n};
  *work = (struct fk_grid_work){.n = (double)job->n, .m = (double)job->m, .d = (int)job->d};
  work->columns = job->columns;
  work->use = (job->laplace != 0 ? FK_WINDOW_LAPLACE : 0) | (job->gradient ? FK_WINDOW_GRADIENT : 0);
  work->same_points = job->same;
  return fk_grid_survey(&points, work->n, (int)job->d, work, err);
}

/* ---- what methods would take ------------------------------------------------------------------ */

void fk_fast_choose_window(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                           bool *single, struct fk_window *window, double *seconds) {
  struct fk_error why = {FK_STATUS_OK, ""};
  *single = *single && job->single;
  if (job->terms == fk_fast_terms_cuda) {
    fk_fast_window_cuda(job, work, tol, single, window, seconds);
    return;
  }
  fk_grid_choose(work, tol, fk_grid_seconds_alone, NULL, single, window, seconds, &why);
  if (isfinite(*seconds) && fk_grid_bytes(work, window, *single) >= FK_FAST_MOST_BYTES) *seconds = INFINITY;
}

enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err) {
  struct fk_direct_options options = {job->single, 1, job->opts->poll};
  struct fk_direct_question question = {.x = s->x, .targets = s->y, .n = (double)job->n, .m = (double)job->m};
  struct fk_direct_cost cost = {0, INFINITY};
  enum fk_status status = FK_STATUS_OK;
  question.n_columns = job->columns;
  question.gradient = job->gradient;
  question.tol = job->tol;
  question.by_rows = fk_fast_pointwise(job) || (fk_fast_has_quotient(job) && job->laplace != 0);
  if (job->n < (int64_t)1 << 32 && fk_direct_least_seconds((double)job->n, (double)job->m, 1) < least)
    status = fk_direct_guess(&question, &options, &cost, err);
  *seconds = cost.seconds;
  return status;
}

/* The exact engine's guess is for the sums asked for; on the CPU each pair is computed once where the targets are
 * the sources: measured 0.55. */
static double exact_seconds(const struct fk_fast_job *job) {
  struct fk_work size = fk_task_work(job->task);
  struct fk_opts alone = job->exact_opts;
  alone.threads = 1;
  double share = job->same && job->terms == fk_fast_terms_cpu ? 0.55 : 1;
  return share * job->exact->seconds(&size, &alone);
}

/* ---- the choice ------------------------------------------------------------------------------- */

static int least_of(const double *seconds) {
  int least = FK_BY_EXACT;
  for (int i = FK_BY_GRID; i <= FK_BY_MIXTURE; i++)
    if (seconds[i] < seconds[least]) least = i;
  return least;
}

/* The cheapest by what samples tell; where that is the grid, once more by what proving its error takes. */
static enum fk_status choose(struct fk_fast_job *job, const struct fk_fast_samples *s,
                             struct fk_fast_choice *choice, struct fk_error *err) {
  double by[] = {INFINITY, INFINITY, INFINITY, INFINITY};
  bool on_device = job->terms == fk_fast_terms_cuda, gaussian = job->task->kernel == FK_KERNEL_GAUSSIAN;
  /* points too thin for a device's grid can be for the CPU, where that may do the work */
  bool may_direct = (!on_device || job->opts->backend == FK_BACKEND_AUTO) && fk_fast_may_be("direct");
  struct fk_grid_work work;
  struct fk_window window;
  bool single = job->single, forced = job->opts->engine == FK_ENGINE_FAST || wish();
  enum fk_status status = survey(job, s, &work, err);
  if (!status && !gaussian) {
    status = fk_fast_check_init(job, NULL, 0, &choice->sample, err);
    job->least = status ? 0 : fk_fast_check_least(job, &choice->sample);
    if (!status) status = fk_fast_mixture_init(job, s, &work, &choice->mixture, &by[FK_BY_MIXTURE], err);
  }
  if (!status && gaussian && fk_fast_may_be("grid"))
    fk_fast_choose_window(job, &work, job->tol, &single, &window, &by[FK_BY_GRID]);
  if (!status && gaussian && may_direct)
    status = fk_fast_direct_seconds(job, s, by[FK_BY_GRID], &by[FK_BY_DIRECT], err);
  if (status) return status;
  if (!forced || least_of(by) == FK_BY_EXACT) by[FK_BY_EXACT] = exact_seconds(job);
  if (least_of(by) == FK_BY_GRID) {
    status = fk_fast_plan_grid(job, s, &work, &choice->sample, &choice->plan, &by[FK_BY_GRID], err);
    if (!status && may_direct && !isfinite(by[FK_BY_DIRECT]) && by[FK_BY_GRID] > 0)
      status = fk_fast_direct_seconds(job, s, by[FK_BY_GRID], &by[FK_BY_DIRECT], err);
    if (!isfinite(by[FK_BY_GRID]) && forced && !isfinite(by[FK_BY_DIRECT])) by[FK_BY_EXACT] = exact_seconds(job);
  }
  choice->method = (enum fk_fast_method)least_of(by);
  if (!status && choice->method == FK_BY_DIRECT && !choice->sample.check.targets) {
    status = fk_fast_check_init(job, NULL, 0, &choice->sample, err);
    job->least = status ? 0 : fk_fast_check_least(job, &choice->sample);
  }
  return status;
}

/* Methods differ in their last bits, which are not to depend on the threads: the choice is for one. */
enum fk_status fk_fast_choose(struct fk_fast_job *job, struct fk_fast_choice *choice, struct fk_error *err) {
  struct fk_fast_samples s = {NULL};
  enum fk_status status = take_samples(job, &s, err);
  if (!status) status = choose(job, &s, choice, err);
  free(s.u);
  return status;
}

void fk_fast_choice_free(struct fk_fast_choice *choice) {
  fk_fast_plan_free(choice->plan);
  fk_fast_mixture_free(choice->mixture);
  fk_check_free(&choice->sample.check);
}

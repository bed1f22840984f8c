#include "choose.h"

#include <math.h>
#include <stdlib.h>

#include "../core/costs.h"
#include "../core/plan.h"
#include "box.h"

/* ---- the choice ------------------------------------------------------------------------------- */

static int least_of(const double *seconds) {
  int least = FK_BY_EXACT;
  for (int i = FK_BY_GRID; i <= FK_BY_MIXTURE; i++)
    if (seconds[i] < seconds[least]) least = i;
  return least;
}

/* In the order of enum fk_fast_method. */
static void say_why(const struct fk_fast_job *job, enum fk_fast_method method, const double *seconds) {
  const char *names[] = {"grid", "direct sums", "sums of Gaussians", "exact"};
  bool none = true;
  for (int i = FK_BY_GRID; i <= FK_BY_MIXTURE; i++) none = none && !isfinite(seconds[i]);
  if (method == FK_BY_EXACT) names[method] = NULL;
  if (none)
    fk_plan_say(job->stats, "no fast method for these points");
  else
    fk_plan_say_seconds(job->stats, method, 4, names, seconds);
}

/* The exact engine instead, where points lie so far out that whitened coordinates lose too many digits. */
static enum fk_status check_places(struct fk_fast_job *job, double *seconds, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  if (job->reach == 0 && least_of(seconds) == FK_BY_DIRECT) status = fk_fast_find_reach(job, -1, err);
  if (status || fk_fast_keeps_places(job)) return status;
  for (int i = FK_BY_GRID; i <= FK_BY_MIXTURE; i++) seconds[i] = INFINITY;
  seconds[FK_BY_EXACT] = fk_fast_exact_seconds(job);
  return status;
}

/* The cheapest by what samples tell; where that is the grid, once more by what proving its error takes. */
static enum fk_status choose_method(struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    struct fk_fast_choice *choice, struct fk_error *err) {
  double by[] = {INFINITY, INFINITY, INFINITY, INFINITY};
  bool gaussian = fk_kernel_is_gaussian(&job->task->kernel);
  /* points too thin for a device's grid can be for the CPU, where that may do the work */
  bool may_direct = (job->grid->direct || job->opts->backend == FK_BACKEND_AUTO) &&
                    fk_fast_may_be(job->opts, FK_METHOD_DIRECT) &&
                    !job->opts->as_exact; /* the exact engine leaves out what is far, too */
  struct fk_grid_work work;
  struct fk_window window;
  double bound = 0;
  bool single = job->single, forced = job->opts->engine == FK_ENGINE_FAST || fk_fast_is_asked(job->opts);
  enum fk_status status = fk_fast_survey(job, s, &work, err);
  if (!status && !gaussian) {
    status = fk_fast_check_init(job, NULL, 0, &choice->sample, err);
    job->least = status ? 0 : fk_fast_check_least(job, &choice->sample);
    if (!status) status = fk_fast_mixture_init(job, s, &work, &choice->mixture, &by[FK_BY_MIXTURE], err);
  }
  if (!status && gaussian && fk_fast_may_be(job->opts, FK_METHOD_GRID))
    fk_fast_choose_window(job, &work, job->tol, &single, &window, &by[FK_BY_GRID]);
  if (!status && isfinite(by[FK_BY_GRID]) && !job->grid->cells)
    status = fk_fast_bound_seconds(job, s, &work, &bound, err);
  by[FK_BY_GRID] += bound;
  /* a guess of direct sums takes some of the time that it could save: only where the grid is not plainly better */
  if (!status && gaussian && may_direct)
    status = fk_fast_direct_seconds(job, s, fmax(by[FK_BY_GRID] - bound, bound), &by[FK_BY_DIRECT], err);
  if (status) return status;
  if (!forced || least_of(by) == FK_BY_EXACT) by[FK_BY_EXACT] = fk_fast_exact_seconds(job);
  if (least_of(by) == FK_BY_GRID) {
    by[FK_BY_GRID] -= bound;
    status = fk_fast_plan_grid(job, s, &work, &choice->sample, &choice->plan, &by[FK_BY_GRID], err);
    if (!status && may_direct && !isfinite(by[FK_BY_DIRECT]) && by[FK_BY_GRID] > 0)
      status = fk_fast_direct_seconds(job, s, by[FK_BY_GRID], &by[FK_BY_DIRECT], err);
    if (!isfinite(by[FK_BY_GRID]) && forced && !isfinite(by[FK_BY_DIRECT]))
      by[FK_BY_EXACT] = fk_fast_exact_seconds(job);
  }
  status = status ? status : check_places(job, by, err);
  choice->method = (enum fk_fast_method)least_of(by);
  if (job->opts->as_exact) by[FK_BY_EXACT] *= fk_costs.as_exact.times;
  if (!status) say_why(job, choice->method, by);
  if (!status && choice->method == FK_BY_DIRECT && !choice->sample.check.targets) {
    status = fk_fast_check_init(job, NULL, 0, &choice->sample, err);
    job->least = status ? 0 : fk_fast_check_least(job, &choice->sample);
  }
  return status;
}

/* Methods differ in their last bits, which are not to depend on the threads: the choice is for one. */
enum fk_status fk_fast_choose(struct fk_fast_job *job, struct fk_fast_choice *choice, struct fk_error *err) {
  struct fk_fast_samples s = {.u = NULL};
  enum fk_status status = fk_fast_take_samples(job, &s, err);
  if (!status) status = choose_method(job, &s, choice, err);
  free(s.u);
  return status;
}

void fk_fast_choice_free(struct fk_fast_choice *choice) {
  fk_fast_plan_free(choice->plan);
  fk_fast_mixture_free(choice->mixture);
  fk_check_free(&choice->sample.check);
}

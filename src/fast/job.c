#include "job.h"

#include "../core/costs.h"
#include "../core/scan.h"

struct fk_grid_task fk_fast_grid_task(const struct fk_fast_job *job) {
  return (struct fk_grid_task){
      .sources = job->task->sources,
      .targets = *fk_task_targets(job->task),
      .same = job->same,
      .whitening = job->task->whitening,
      .b = job->b,
      .columns = job->columns,
      .size = job->size,
      .plain = job->plain,
      .laplace = job->laplace,
      .gradient = job->gradient,
      .mass = job->task->mass,
      .sums = job->task->sums,
      .own = job->task->exclude_self ? job->task->factor[0] : 0,
      .session = job->session,
      .op = fk_task_keeper(job->task),
      .opts = job->opts,
      .stats = job->stats,
  };
}

enum fk_status fk_fast_terms(struct fk_fast_job *job, const struct fk_grid_work *work,
                             const struct fk_window *window, bool single, struct fk_error *err) {
  struct fk_grid_task task = fk_fast_grid_task(job);
  job->used_single = single;
  return job->grid->terms(&task, work, window, single, err);
}

enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_matrix *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err) {
  return fk_whiten_points(job->task->whitening, job->opts->threads, points, first, count, u, ld, err);
}

void fk_fast_find_largest(struct fk_fast_job *job) {
  job->largest = fk_largest(job->task->mass, job->m, job->opts->threads);
}

/* Coordinates are off by some 2^-53 of the reach, and kernels at z bandwidths by at most `steepness` times as
 * much: a Gaussian by z. Farther than 10 bandwidths a Gaussian adds little to the largest sum, farther than 38 it
 * is 0; logarithms of the other kernels are no steeper than 1. That is to be a part of the tolerance, for such
 * errors add up, at worst to four times as much. */
bool fk_fast_keeps_places(const struct fk_fast_job *job) {
  bool gaussian = fk_kernel_is_gaussian(&job->task->kernel);
  double steepness = !gaussian ? 1 : fk_fast_pointwise(job) ? 38 : 10;
  if (job->opts->as_exact) return job->reach <= fk_costs.as_exact.reach;
  return 0x1p-53 * job->reach * steepness <= job->tol / 4;
}

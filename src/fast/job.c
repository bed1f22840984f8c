#include "../core/scan.h"
#include "job.h"

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
  return fk_grid_whiten(job->task->whitening, job->opts->threads, points, first, count, u, ld, err);
}

void fk_fast_find_largest(struct fk_fast_job *job) {
  job->largest = fk_largest(job->task->mass, job->m, job->opts->threads);
}

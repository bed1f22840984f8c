/* The terms of the fast engine's sums by the grid on NVIDIA GPUs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../fk_config.h"
#include "engine.h"
#include "../cpu/grid/envelope.h"

#if FK_WITH_CUDA

#include "../cuda/grid.h"

static double cost(const struct fk_grid_work *work, const struct fk_window *window, bool single,
                   const void *opts) {
  struct fk_cuda_grid_work w = {work->n,   work->m, work->d,           work->columns,
                                work->use, single,  work->same_points, {0}};
  for (int k = 0; k < work->d; k++) w.extent[k] = work->extent[k];
  (void)opts;
  return fk_cuda_grid_seconds(&w, window);
}

void fk_fast_window_cuda(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol, bool *single,
                         struct fk_window *window, double *seconds) {
  struct fk_error why = {FK_STATUS_OK, ""};
  fk_grid_choose(work, tol, cost, NULL, single, window, seconds, &why);
}

/* What one call gives, joined to the sums as by_grid.c does. */
struct call {
  struct fk_cuda_grid_task task;
  double scale;
  bool first;
};

static enum fk_status add_term(struct fk_fast_job *job, struct call *call, struct fk_error *err) {
  int64_t m = job->m;
  enum fk_status status = fk_cuda_grid_sums(&call->task, job->opts, job->stats, err);
  if (!status) fk_fast_add(job, 0, m, call->scale, call->first, call->task.value);
  if (status || !call->task.gradient) return status;
  const struct fk_points *targets = fk_fast_targets(job);
  double *u = fk_aligned_alloc(sizeof(double) * FK_FAST_CHUNK * (size_t)job->d);
  if (!u) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for whitened points");
  for (int64_t at = 0; at < m && !status; at += FK_FAST_CHUNK) {
    int64_t count = fk_smaller(FK_FAST_CHUNK, m - at);
    status = fk_fast_whiten(job, targets, at, count, u, count, err);
    if (!status) fk_fast_set_coordinates(job, at, count, call->scale, call->task.gradient + at, m, u);
  }
  fk_aligned_free(u);
  return status;
}

enum fk_status fk_fast_terms_cuda(struct fk_fast_job *job, const struct fk_grid_work *work,
                                  const struct fk_window *window, bool single, struct fk_error *err) {
  int64_t m = job->m, values = m * job->columns;
  bool plain = job->plain != 0 || job->laplace == 0;
  enum fk_status status = FK_STATUS_OK;
  (void)work;
  /* one plain column goes where it belongs at once */
  bool in_place = job->columns == 1 && job->plain == 1 && job->laplace == 0;
  int64_t slopes = job->gradient ? m * job->d : 0;
  double *memory = fk_aligned_alloc(sizeof(double) * (size_t)((in_place ? 0 : values) + slopes + 1));
  double *value = in_place ? job->task->mass : memory;
  if (!memory) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for values", 8e-6 * (double)values);
  struct call call = {{job->task->sources, job->task->targets, job->task->whitening, job->b, job->columns, *window,
                       FK_WINDOW_VALUE, single, job->session, value, NULL},
                      job->plain,
                      true};
  double *gradient = job->gradient ? memory + (in_place ? 0 : values) : NULL;
  if (plain) {
    call.task.gradient = job->laplace == 0 ? gradient : NULL;
    status = add_term(job, &call, err);
    call.first = false;
  }
  if (!status && job->laplace != 0) {
    call.task.use = FK_WINDOW_LAPLACE;
    call.task.gradient = gradient;
    call.scale = job->laplace;
    status = add_term(job, &call, err);
  }
  job->used_single = single;
  fk_aligned_free(memory);
  return status;
}

static enum fk_status sum_rows(const struct fk_cuda_grid_task *task, const struct fk_points *rows,
                               const double factor[3], const struct fk_fast_job *job, double *all, double *sums,
                               double *absolute, struct fk_error *err) {
  int64_t numbers = job->columns * rows->n;
  enum fk_status status = fk_cuda_grid_rows(task, rows, factor, job->opts, all, all + numbers, err);
  for (int64_t c = 0; c < job->columns && !status; c++) {
    size_t bytes = sizeof(double) * (size_t)rows->n;
    if (sums) memcpy(sums + c * FK_DIRECT_GROUP, all + c * rows->n, bytes);
    if (absolute) memcpy(absolute + c * FK_DIRECT_GROUP, all + numbers + c * rows->n, bytes);
  }
  return status;
}

enum fk_status fk_fast_sample_cuda(struct fk_fast_job *job, const struct fk_points *rows, struct fk_check *check,
                                   struct fk_error *err) {
  static const double plain[3] = {1, 0, 0};
  struct fk_cuda_grid_task task = {.sources = job->task->sources, .whitening = job->task->whitening};
  const double *factor = job->task->factor;
  bool has_factor = factor[0] != 1 || factor[1] != 0;
  double *all = malloc(sizeof(double) * 2 * (size_t)(job->columns * rows->n));
  if (!all) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  task.b = job->b;
  task.columns = job->columns;
  task.session = job->session;
  check->apart = job->negative || has_factor;
  enum fk_status status =
      sum_rows(&task, rows, factor, job, all, check->sums, has_factor ? NULL : check->absolute, err);
  if (!status && has_factor) status = sum_rows(&task, rows, plain, job, all, NULL, check->absolute, err);
  free(all);
  return status;
}

enum fk_status fk_fast_envelope_cuda(const struct fk_fast_job *job, bool counted, double most_nodes,
                                     struct fk_envelope *envelope, struct fk_error *err) {
  struct fk_cuda_grid_task task = {.sources = job->task->sources, .targets = job->task->targets};
  struct fk_cuda_envelope found;
  task.whitening = job->task->whitening;
  task.b = job->b;
  task.columns = job->columns;
  task.session = job->session;
  enum fk_status status = fk_cuda_grid_envelope(&task, job->size, counted, most_nodes, job->opts, &found, err);
  if (status) return status;
  struct fk_envelope_box box = {found.low,   found.cells,   found.unit, found.mass,
                                found.count, found.targets, found.row};
  status = fk_envelope_take(envelope, &box, err);
  fk_cuda_envelope_free(&found);
  return status;
}

#else

enum fk_status fk_fast_envelope_cuda(const struct fk_fast_job *job, bool counted, double most_nodes,
                                     struct fk_envelope *envelope, struct fk_error *err) {
  (void)job, (void)counted, (void)most_nodes, (void)envelope;
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "this build of flashkernel has no CUDA engine");
}

enum fk_status fk_fast_sample_cuda(struct fk_fast_job *job, const struct fk_points *rows, struct fk_check *check,
                                   struct fk_error *err) {
  (void)job, (void)rows, (void)check;
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "this build of flashkernel has no CUDA engine");
}

void fk_fast_window_cuda(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol, bool *single,
                         struct fk_window *window, double *seconds) {
  (void)job, (void)work, (void)tol, (void)single, (void)window;
  *seconds = INFINITY;
}

enum fk_status fk_fast_terms_cuda(struct fk_fast_job *job, const struct fk_grid_work *work,
                                  const struct fk_window *window, bool single, struct fk_error *err) {
  (void)job, (void)work, (void)window, (void)single;
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "this build of flashkernel has no CUDA engine");
}

#endif

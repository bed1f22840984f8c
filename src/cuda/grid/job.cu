/* The points of a grid's job on its devices, and the steps over them. */
#include "job.cuh"

#include "../../core/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The size of chunks depends on the number of points alone, as far as memory allows. Ranges of devices are whole
 * chunks. So neither devices nor ranges change the bits. */
enum { CHUNK_LEAST = 1 << 22, CHUNK_TINY = 1 << 12 };

/* ---- data on a device ------------------------------------------------------------------------- */

enum fk_status fk_grid_no_second_attempt(const struct fk_cuda_progress *progress, struct fk_error *err) {
  if (progress->attempt > 0) return fk_fail(err, FK_STATUS_ALLOC, "out of memory on a CUDA device");
  return FK_STATUS_OK;
}

/* The memory of an operator has the operator's points only, which are the same in all sessions. */
struct fk_grid_matrix fk_grid_points_of(const struct fk_grid_job *job, enum fk_grid_side side) {
  const struct fk_matrix *x = &job->points[side];
  uint64_t session = job->task->session, of_points = job->task->op ? UINT64_MAX : session;
  return side == FK_GRID_SOURCES
             ? (struct fk_grid_matrix){*x, FK_GRID_HELD_SOURCES, fk_costs.cuda_cuts.grid_sources, of_points}
             : (struct fk_grid_matrix){*x, FK_GRID_HELD_TARGETS, fk_costs.cuda_cuts.grid_targets, session};
}
struct fk_grid_matrix fk_grid_b_of(const struct fk_grid_job *job) {
  const struct fk_cuda_grid_task *task = job->task;
  struct fk_matrix b = fk_doubles(task->b, task->sources.n, task->columns);
  return (struct fk_grid_matrix){b, FK_GRID_HELD_B, fk_costs.cuda_cuts.grid_b, task->session};
}

/* Returns rows that are on the device already, *ld apart; NULL: not all are. */
static const double *held_rows(const struct fk_cuda_context *context, const struct fk_grid_matrix *x,
                               int64_t first, int64_t count, int64_t *ld) {
  const struct fk_cuda_held *h = &context->grid->held[x->held];
  bool here = x->session && h->session == x->session && h->from == x->x.data && first >= h->first &&
              first + count <= h->first + h->count;
  *ld = h->count;
  return here ? (const double *)h->buffer.data + (first - h->first) : NULL;
}

/* Sends rows to the buffer of their matrix, columns `count` apart; its old content is lost. */
static enum fk_status send_rows(struct fk_cuda_context *context, const struct fk_grid_matrix *x, int64_t first,
                                int64_t count, double **data, struct fk_error *err) {
  struct fk_cuda_held *h = &context->grid->held[x->held];
  h->session = 0;
  return fk_cuda_send(context, &h->buffer, fk_part(&x->x, first, count, 0, x->x.d), data, err);
}

/* Does so and remembers them, until other rows are sent there. */
static enum fk_status hold_rows(struct fk_cuda_context *context, const struct fk_grid_matrix *x, int64_t first,
                                int64_t count, struct fk_error *err) {
  struct fk_cuda_held *h = &context->grid->held[x->held];
  double *data;
  int64_t ld;
  if (held_rows(context, x, first, count, &ld)) return FK_STATUS_OK;
  FK_TRY(send_rows(context, x, first, count, &data, err));
  h->session = x->session;
  h->from = x->x.data;
  h->first = first;
  h->count = count;
  return FK_STATUS_OK;
}

enum fk_status fk_grid_hold(const struct fk_grid_job *job, struct fk_cuda_context *context,
                            const struct fk_grid_matrix *x, int64_t first, int64_t count, int64_t *step,
                            struct fk_error *err) {
  double budget, bytes = 8.0 * (double)count * (double)x->x.d;
  *step = job->spec.chunk;
  FK_TRY(fk_cuda_budget(context, bytes, fk_grid_memory_bytes(context->grid), &budget, err));
  if (bytes > x->share * budget) return FK_STATUS_OK;
  *step = count;
  return hold_rows(context, x, first, count, err);
}

/* Gets rows to work on, at *data, columns *ld apart. */
static enum fk_status fetch_rows(const struct fk_grid_job *job, struct fk_cuda_context *context,
                                 const struct fk_grid_matrix *x, int64_t first, int64_t count, const double **data,
                                 int64_t *ld, struct fk_error *err) {
  double *sent;
  *data = held_rows(context, x, first, count, ld);
  if (*data) return FK_STATUS_OK;
  FK_TRY(send_rows(context, x, first, count, &sent, err));
  if (job->state) fk_cuda_grid_forget(&job->state[context->device].grid);
  *data = sent;
  *ld = count;
  return FK_STATUS_OK;
}

enum fk_status fk_grid_fetch_points(struct fk_grid_job *job, struct fk_cuda_context *context,
                                    enum fk_grid_side side, int64_t first, int64_t count, struct fk_grid_raw *raw,
                                    struct fk_error *err) {
  struct fk_grid_matrix x = fk_grid_points_of(job, side);
  raw->n = count;
  return fetch_rows(job, context, &x, first, count, &raw->x, &raw->ld, err);
}

enum fk_status fk_grid_fetch_b(struct fk_grid_job *job, struct fk_cuda_context *context, int64_t first,
                               int64_t count, const double **b, int64_t *ld, struct fk_error *err) {
  struct fk_grid_matrix x = fk_grid_b_of(job);
  *b = NULL;
  *ld = 0;
  return x.x.data ? fetch_rows(job, context, &x, first, count, b, ld, err) : FK_STATUS_OK;
}

/* ---- how far points reach ---------------------------------------------------------------------- */

static enum fk_status extent_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct fk_grid_job *job = (struct fk_grid_job *)data;
  double low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
  struct fk_grid_matrix x = fk_grid_points_of(job, job->side);
  int64_t step;
  for (int k = 0; k < job->d; k++) low[k] = INFINITY, high[k] = -INFINITY;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(fk_grid_hold(job, context, &x, first, count, &step, err));
  for (int64_t i = first; i < first + count; i += step) {
    struct fk_grid_raw raw;
    FK_TRY(fk_grid_fetch_points(job, context, job->side, i, fk_smaller(step, first + count - i), &raw, err));
    FK_TRY(fk_grid_extent(context, &job->spec.map, &raw, low, high, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
    FK_TRY(fk_cuda_tick(progress, context, (double)raw.n, err));
  }
  pthread_mutex_lock(&job->lock);
  for (int k = 0; k < job->d; k++) {
    job->low[job->side][k] = fmin(job->low[job->side][k], low[k]);
    job->high[job->side][k] = fmax(job->high[job->side][k], high[k]);
  }
  pthread_mutex_unlock(&job->lock);
  return FK_STATUS_OK;
}

/* ---- a job and its steps ----------------------------------------------------------------------- */

int fk_grid_less_by(const struct fk_grid_job *job) { return (int)fk_larger(job->attempt - 1, 0); }

enum fk_status fk_grid_plan_chunk(struct fk_grid_job *job, struct fk_cuda_context *context, struct fk_error *err) {
  const struct fk_cuda_grid_task *task = job->task;
  int64_t m = job->points[FK_GRID_TARGETS].n, most = fk_larger(task->sources.n, m);
  double each = 8 * (double)task->columns * (task->gradient ? 1 + job->d : 1);
  double needed = (double)(task->sources.n + m) * (8 * job->d + 2 * each);
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_TRY(fk_cuda_budget(context, needed, fk_grid_memory_bytes(context->grid), &job->budget, err));
  int64_t *chunk = &job->spec.chunk;
  *chunk = CHUNK_LEAST;
  while (*chunk < FK_GRID_CHUNK_MOST && *chunk * 8 < task->sources.n) *chunk *= 2;
  while (*chunk > CHUNK_TINY && *chunk / 2 >= most) *chunk /= 2;
  while (*chunk > CHUNK_TINY &&
         fk_cuda_grid_sort_bytes(&job->spec) + each * (double)*chunk > fk_costs.cuda_cuts.grid_chunk * job->budget)
    *chunk /= 2;
  *chunk = fk_larger(*chunk >> (2 * fk_grid_less_by(job)), CHUNK_TINY);
  return FK_STATUS_OK;
}

/* The progress of a step as a share of the whole. */
struct grid_phase {
  const struct fk_poll *poll;
  double from, to;
};
static int report_phase(void *data, double fraction) {
  const struct grid_phase *phase = (const struct grid_phase *)data;
  return phase->poll->fn(phase->poll->data, phase->from + (phase->to - phase->from) * fmin(fraction, 1));
}

enum fk_status fk_grid_run_phase(struct fk_grid_job *job, struct fk_cuda_context **contexts,
                                 enum fk_grid_side side, fk_cuda_range_fn fn, double from, double to,
                                 double *seconds, struct fk_error *err) {
  struct grid_phase phase = {&job->opts->poll, from, to};
  struct fk_poll poll = {job->opts->poll.fn ? report_phase : NULL, &phase};
  job->side = side;
  struct fk_cuda_work work = {job->points[side].n, job->spec.chunk, &poll, fn, job};
  return fk_cuda_on_devices(contexts, job->devices, &work, seconds, err);
}

void fk_grid_job_init(struct fk_grid_job *job, const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                      int devices) {
  *job = (struct fk_grid_job){};
  job->task = task;
  job->opts = opts;
  job->same = !task->targets.data || fk_is_same(&task->targets, &task->sources);
  job->points[FK_GRID_SOURCES] = task->sources;
  job->points[FK_GRID_TARGETS] = job->same ? task->sources : task->targets;
  job->devices = devices;
  job->d = (int)task->sources.d;
  job->spec.window = task->window;
  job->spec.use = task->use;
  job->spec.single = task->single;
  job->spec.columns = task->columns;
  job->spec.n = task->sources.n;
}

enum fk_status fk_grid_extents(struct fk_grid_job *job, struct fk_cuda_context **contexts, double from, double to,
                               double *seconds, struct fk_error *err) {
  for (int side = 0; side < 2; side++)
    for (int k = 0; k < job->d; k++) job->low[side][k] = INFINITY, job->high[side][k] = -INFINITY;
  FK_TRY(fk_grid_run_phase(job, contexts, FK_GRID_SOURCES, extent_range, from, 0.75 * to + 0.25 * from, seconds,
                           err));
  if (!job->same)
    FK_TRY(fk_grid_run_phase(job, contexts, FK_GRID_TARGETS, extent_range, 0.75 * to + 0.25 * from, to, seconds,
                             err));
  for (int side = 0; side < (job->same ? 1 : 2); side++)
    for (int k = 0; k < job->d; k++) {
      double least = job->low[side][k], most = job->high[side][k];
      if (job->points[side].n && (!isfinite(least) || !isfinite(most)))
        return fk_fail(err, FK_STATUS_INVALID, "points are not finite");
      if (job->points[side].n && fmax(fabs(least), fabs(most)) > 1e15)
        return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too far apart for a grid");
    }
  return FK_STATUS_OK;
}

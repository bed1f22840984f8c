/* Sums on the grid from the host's memory, on one device or several: a survey of all points, their sums on a grid
 * of each device, the grids added, which as integers they can be in any order, and each device's part of the
 * targets.
 *
 * Points are sent once where the device can hold them all, else once for each of these steps, in chunks.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "devices.cuh"
#include "grid.cuh"
#include "steps.cuh"

/* Chunks go by the number of points alone, as far as memory allows, and ranges of devices are whole chunks: so
 * neither decides on the bits. */
enum { CHUNK_LEAST = 1 << 22, CHUNK_TINY = 1 << 12, BINS = 1 << 20, ATTEMPTS = 4 };
enum side { SOURCES, TARGETS };

/* Shares of a device's memory. */
#define SHARE_SOURCES 0.35
#define SHARE_TARGETS 0.15
#define SHARE_B 0.15
#define SHARE_CHUNK 0.25

struct device_state {
  struct fk_cuda_grid grid;
  bool has_grid;
};

struct grid_job {
  const struct fk_cuda_grid_task *task;
  const struct fk_opts *opts;
  struct fk_points points[2];
  bool same; /* targets are the sources */
  int devices, attempt, d;
  double budget; /* bytes of the first device */
  struct fk_grid_spec spec;
  struct fk_grid_axes axes;
  enum side side; /* of a survey */
  double low[2][FK_CUDA_GRID_D], high[2][FK_CUDA_GRID_D], *bound;
  unsigned char *marks[2];
  struct fk_grid_bins bins;
  unsigned long long *exponents, *total; /* total: of several devices */
  struct device_state *state;            /* by the number of the device; NULL: there are no grids */
  pthread_mutex_t lock;
};

/* ---- data on a device ------------------------------------------------------------------------- */

static enum fk_status no_second_attempt(const struct fk_cuda_progress *progress, struct fk_error *err) {
  /* what earlier steps left on the device is gone: all of them have to be done again */
  if (progress->attempt > 0) return fk_fail(err, FK_STATUS_ALLOC, "out of memory on a CUDA device");
  return FK_STATUS_OK;
}

/* A matrix of the host, where its rows go, and the share of the device that they may take all at once. */
struct matrix {
  const double *from;
  int64_t n, columns;
  enum fk_cuda_slot slot;
  double share;
};
static struct matrix points_of(const struct grid_job *job, enum side side) {
  const struct fk_points *x = &job->points[side];
  return side == SOURCES ? (struct matrix){x->data, x->n, x->d, FK_SLOT_RAW_SOURCES, SHARE_SOURCES}
                         : (struct matrix){x->data, x->n, x->d, FK_SLOT_RAW_TARGETS, SHARE_TARGETS};
}
static struct matrix b_of(const struct grid_job *job) {
  return (struct matrix){job->task->b, job->task->sources.n, job->task->columns, FK_SLOT_COLUMNS, SHARE_B};
}

/* Sends a range at once where there is room for it, and tells how many rows to work on at a time: all of them, or
 * those of a chunk. */
static enum fk_status hold(const struct grid_job *job, struct fk_cuda_context *context, const struct matrix *x,
                           int64_t first, int64_t count, int64_t *step, struct fk_error *err) {
  double budget;
  *step = job->spec.chunk;
  FK_TRY(fk_cuda_budget(context, &budget, err));
  if (8.0 * (double)count * (double)x->columns > x->share * budget) return FK_STATUS_OK;
  *step = count;
  return fk_cuda_hold(context, x->slot, job->task->session, x->from, x->n, x->columns, first, count, err);
}

/* Rows to work on, at *data, *ld apart. */
static enum fk_status fetch(const struct grid_job *job, struct fk_cuda_context *context, const struct matrix *x,
                            int64_t first, int64_t count, const double **data, int64_t *ld, struct fk_error *err) {
  double *room;
  *data = fk_cuda_held(context, x->slot, job->task->session, x->from, first, count, ld);
  if (*data) return FK_STATUS_OK;
  FK_TRY(fk_cuda_array(context, x->slot, count * x->columns, &room, err));
  FK_TRY(fk_cuda_upload(context, x->from, x->n, x->columns, first, count, room, count, err));
  if (job->state) fk_cuda_grid_forget(&job->state[context->device].grid);
  *data = room;
  *ld = count;
  return FK_STATUS_OK;
}

static enum fk_status fetch_points(struct grid_job *job, struct fk_cuda_context *context, enum side side,
                                   int64_t first, int64_t count, struct fk_grid_raw *raw, struct fk_error *err) {
  struct matrix x = points_of(job, side);
  raw->n = count;
  return fetch(job, context, &x, first, count, &raw->x, &raw->ld, err);
}

static enum fk_status fetch_b(struct grid_job *job, struct fk_cuda_context *context, int64_t first, int64_t count,
                              const double **b, int64_t *ld, struct fk_error *err) {
  struct matrix x = b_of(job);
  *b = NULL;
  *ld = 0;
  return x.from ? fetch(job, context, &x, first, count, b, ld, err) : FK_STATUS_OK;
}

/* ---- survey ----------------------------------------------------------------------------------- */

static enum fk_status extent_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  double low[FK_CUDA_GRID_D], high[FK_CUDA_GRID_D];
  struct matrix x = points_of(job, job->side);
  int64_t step;
  for (int k = 0; k < job->d; k++) low[k] = INFINITY, high[k] = -INFINITY;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(hold(job, context, &x, first, count, &step, err));
  for (int64_t i = first; i < first + count; i += step) {
    struct fk_grid_raw raw;
    FK_TRY(fetch_points(job, context, job->side, i, fk_smaller(step, first + count - i), &raw, err));
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

static enum fk_status b_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                              struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  const struct fk_cuda_grid_task *task = job->task;
  struct matrix x = b_of(job);
  int64_t numbers = task->columns * FK_GRID_EXPONENTS, step;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(hold(job, context, &x, first, count, &step, err));
  unsigned long long *counts = (unsigned long long *)calloc((size_t)numbers, sizeof *counts);
  if (!counts) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a survey of b");
  enum fk_status status = FK_STATUS_OK;
  for (int64_t i = first; i < first + count && !status; i += step) {
    int64_t here = fk_smaller(step, first + count - i), ld;
    const double *b;
    status = fetch_b(job, context, i, here, &b, &ld, err);
    if (!status) status = fk_grid_exponents(context, b, ld, here, task->columns, counts, err);
    if (!status) status = fk_cuda_elapsed(context, seconds, err);
    if (!status) status = fk_cuda_tick(progress, context, (double)here, err);
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t e = 0; e < numbers; e++) job->exponents[e] += counts[e];
  pthread_mutex_unlock(&job->lock);
  free(counts);
  return status;
}

static enum fk_status mark_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  struct matrix x = points_of(job, job->side);
  int64_t marks = (int64_t)job->d * BINS, step;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(hold(job, context, &x, first, count, &step, err));
  unsigned char *own = (unsigned char *)calloc((size_t)marks, 1);
  if (!own) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a survey of the points");
  enum fk_status status = FK_STATUS_OK;
  for (int64_t i = first; i < first + count && !status; i += step) {
    struct fk_grid_raw raw;
    status = fetch_points(job, context, job->side, i, fk_smaller(step, first + count - i), &raw, err);
    if (!status) status = fk_grid_mark(context, &job->spec.map, &raw, &job->bins, own, err);
    if (!status) status = fk_cuda_elapsed(context, seconds, err);
    if (!status) status = fk_cuda_tick(progress, context, (double)raw.n, err);
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < marks; i++) job->marks[job->side][i] |= own[i];
  pthread_mutex_unlock(&job->lock);
  free(own);
  return status;
}

/* ---- sums ------------------------------------------------------------------------------------- */

static int64_t total_numbers(const struct grid_job *job) {
  return (int64_t)fk_grid_axes_nodes(&job->axes, false) * job->spec.columns;
}

static enum fk_status make_grid(struct grid_job *job, struct fk_cuda_context *context, struct fk_error *err) {
  struct device_state *state = &job->state[context->device];
  if (state->has_grid) return FK_STATUS_OK;
  FK_TRY(fk_cuda_grid_create(context, &job->spec, &job->axes, &state->grid, err));
  state->has_grid = true;
  return FK_STATUS_OK;
}

/* Numbers of 64 bits pass as doubles: they are only copied. */
static enum fk_status gather_totals(struct grid_job *job, struct fk_cuda_context *context, struct fk_error *err) {
  int64_t numbers = total_numbers(job);
  unsigned long long *own = (unsigned long long *)malloc(sizeof *own * (size_t)numbers);
  if (!own)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the grid of a device",
                   8e-6 * (double)numbers);
  enum fk_status status = fk_cuda_download(context, (double *)job->state[context->device].grid.total, numbers, 1,
                                           0, numbers, (double *)own, numbers, err);
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < numbers && !status; i++) job->total[i] += own[i];
  pthread_mutex_unlock(&job->lock);
  free(own);
  return status;
}

static enum fk_status spread_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  struct fk_cuda_grid *grid = &job->state[context->device].grid;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(make_grid(job, context, err));
  for (int64_t i = first; i < first + count; i += job->spec.chunk) {
    struct fk_grid_raw raw;
    const double *b;
    int64_t here = fk_smaller(job->spec.chunk, first + count - i), ld_b;
    FK_TRY(fetch_points(job, context, SOURCES, i, here, &raw, err));
    FK_TRY(fetch_b(job, context, i, here, &b, &ld_b, err));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    FK_TRY(fk_cuda_grid_add(grid, &raw, b, ld_b, err));
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
  }
  return job->devices > 1 && total_numbers(job) ? gather_totals(job, context, err) : FK_STATUS_OK;
}

static enum fk_status evaluate_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                     struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  const struct fk_cuda_grid_task *task = job->task;
  struct fk_cuda_grid *grid = &job->state[context->device].grid;
  enum side side = job->same ? SOURCES : TARGETS;
  int64_t columns = task->columns, m = job->points[side].n, chunk = job->spec.chunk, numbers = total_numbers(job);
  int64_t all = columns * (task->gradient ? 1 + job->d : 1);
  double *value;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(make_grid(job, context, err));
  if (job->devices > 1 && grid->total)
    FK_TRY(fk_cuda_upload(context, (const double *)job->total, numbers, 1, 0, numbers, (double *)grid->total,
                          numbers, err));
  FK_TRY(fk_cuda_array(context, FK_SLOT_RESULT, all * fk_smaller(chunk, count), &value, err));
  for (int64_t i = fk_pieces(count, chunk) - 1; i >= 0; i--) { /* the last sorted first */
    struct fk_grid_raw raw;
    int64_t from = first + i * chunk, here = fk_smaller(chunk, first + count - from);
    double *gradient = task->gradient ? value + here * columns : NULL;
    FK_TRY(fetch_points(job, context, side, from, here, &raw, err));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    if (i == fk_pieces(count, chunk) - 1) FK_TRY(fk_cuda_grid_convolve(grid, err));
    FK_TRY(fk_cuda_grid_evaluate(grid, &raw, value, gradient, here, err));
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
    FK_TRY(fk_cuda_download(context, value, here, columns, from, here, task->value, m, err));
    if (gradient)
      FK_TRY(fk_cuda_download(context, gradient, here, columns * job->d, from, here, task->gradient, m, err));
  }
  return FK_STATUS_OK;
}

/* ---- plan ------------------------------------------------------------------------------------- */

/* A second attempt finds the memory of earlier calls free, and only those after it use less. */
static int less_by(const struct grid_job *job) { return (int)fk_larger(job->attempt - 1, 0); }

static enum fk_status plan_chunk(struct grid_job *job, struct fk_cuda_context *context, struct fk_error *err) {
  const struct fk_cuda_grid_task *task = job->task;
  int64_t m = job->points[TARGETS].n, most = fk_larger(task->sources.n, m);
  double each = 8 * (double)task->columns * (task->gradient ? 1 + job->d : 1);
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_TRY(fk_cuda_budget(context, &job->budget, err));
  int64_t *chunk = &job->spec.chunk;
  *chunk = CHUNK_LEAST;
  while (*chunk < FK_GRID_CHUNK_MOST && *chunk * 8 < task->sources.n) *chunk *= 2;
  while (*chunk > CHUNK_TINY && *chunk / 2 >= most) *chunk /= 2;
  while (*chunk > CHUNK_TINY && fk_grid_sort_bytes(&job->spec) + each * (double)*chunk > SHARE_CHUNK * job->budget)
    *chunk /= 2;
  *chunk = fk_larger(*chunk >> (2 * less_by(job)), CHUNK_TINY);
  return FK_STATUS_OK;
}

static enum fk_status plan_bound(struct grid_job *job, struct fk_error *err) {
  for (int64_t q = 0; q < job->task->columns; q++) {
    const unsigned long long *counts = job->exponents + q * FK_GRID_EXPONENTS;
    job->bound[q] = job->task->b ? 0 : (double)job->task->sources.n;
    if (!job->task->b) continue;
    if (counts[FK_GRID_EXPONENTS - 1]) return fk_fail(err, FK_STATUS_INVALID, "b is not finite");
    for (int e = 0; e < FK_GRID_EXPONENTS - 1; e++) job->bound[q] += ldexp((double)counts[e], e - 1022);
    if (!isfinite(job->bound[q])) return fk_fail(err, FK_STATUS_UNSUPPORTED, "b is too large for a grid");
  }
  return FK_STATUS_OK;
}

/* Bytes that the grid may have beside the rest. */
static double room_for_grid(const struct grid_job *job) {
  const struct fk_cuda_grid_task *task = job->task;
  double each = 8 * (double)task->columns * (task->gradient ? 1 + job->d : 1);
  double rest = fk_grid_sort_bytes(&job->spec) + each * (double)job->spec.chunk;
  for (int side = 0; side < (job->same ? 1 : 2); side++)
    rest += fmin(8.0 * (double)job->points[side].n * job->d,
                 fmax(8.0 * (double)job->spec.chunk * job->d, SHARE_SOURCES * job->budget));
  if (task->b)
    rest += fmin(8.0 * (double)task->sources.n * (double)task->columns,
                 fmax(8.0 * (double)job->spec.chunk * (double)task->columns, SHARE_B * job->budget));
  return (job->budget - rest) / (1 << less_by(job));
}

static bool fits(const struct grid_job *job) {
  return fk_grid_axes_between(&job->axes) < 2147483647.0 &&
         fk_grid_bytes(&job->axes, &job->spec) <= room_for_grid(job);
}

static enum fk_status make_axes(struct grid_job *job, struct fk_error *err) {
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1];
  const struct fk_window *window = &job->spec.window;
  int targets = job->same ? SOURCES : TARGETS, reach;
  struct fk_grid_occupied s = {job->low[SOURCES], job->high[SOURCES], job->marks[SOURCES]},
                          t = {job->low[targets], job->high[targets], job->marks[targets]};
  FK_TRY(fk_window_taps(window, 1, gauss, job->spec.use & FK_WINDOW_LAPLACE ? laplace : NULL, &reach, err));
  fk_grid_axes_free(&job->axes);
  return fk_grid_axes_init(&job->axes, job->d, window->width, reach, &s, &t, &job->bins, err);
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* The steps' progress as parts of one. */
struct phase {
  const struct fk_poll *poll;
  double from, to;
};
static int report(void *data, double fraction) {
  const struct phase *phase = (const struct phase *)data;
  return phase->poll->fn(phase->poll->data, phase->from + (phase->to - phase->from) * fmin(fraction, 1));
}

static enum fk_status run_phase(struct grid_job *job, struct fk_cuda_context **contexts, enum side side,
                                fk_cuda_range_fn fn, double from, double to, double *seconds,
                                struct fk_error *err) {
  struct phase phase = {&job->opts->poll, from, to};
  struct fk_poll poll = {job->opts->poll.fn ? report : NULL, &phase};
  job->side = side;
  return fk_cuda_on_devices(contexts, job->devices, job->points[side].n, job->spec.chunk, &poll, fn, job, seconds,
                            err);
}

/* Axes without the empty space that goes through the whole box. */
static enum fk_status leave_gaps_out(struct grid_job *job, struct fk_cuda_context **contexts, double *seconds,
                                     struct fk_error *err) {
  job->bins.bins = BINS;
  for (int k = 0; k < job->d; k++) {
    double low = fmin(job->low[SOURCES][k], job->low[TARGETS][k]),
           high = fmax(job->high[SOURCES][k], job->high[TARGETS][k]);
    job->bins.origin[k] = (int64_t)floor(low);
    job->bins.cells[k] = ((int64_t)floor(high) - job->bins.origin[k]) / BINS + 1;
  }
  for (int side = 0; side < (job->same ? 1 : 2); side++) {
    job->marks[side] = (unsigned char *)calloc((size_t)job->d * BINS, 1);
    if (!job->marks[side]) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a survey of the points");
    FK_TRY(run_phase(job, contexts, (enum side)side, mark_range, 0.25, 0.25, seconds, err));
  }
  return make_axes(job, err);
}

static enum fk_status run(struct grid_job *job, struct fk_cuda_context **contexts, double *seconds,
                          struct fk_error *err) {
  for (int side = 0; side < 2; side++)
    for (int k = 0; k < job->d; k++) job->low[side][k] = INFINITY, job->high[side][k] = -INFINITY;
  FK_TRY(plan_chunk(job, contexts[0], err));
  FK_TRY(run_phase(job, contexts, SOURCES, extent_range, 0, 0.15, seconds, err));
  if (!job->same) FK_TRY(run_phase(job, contexts, TARGETS, extent_range, 0.15, 0.2, seconds, err));
  for (int side = 0; side < (job->same ? 1 : 2); side++)
    for (int k = 0; k < job->d; k++) {
      double least = job->low[side][k], most = job->high[side][k];
      if (job->points[side].n && (!isfinite(least) || !isfinite(most)))
        return fk_fail(err, FK_STATUS_INVALID, "points are not finite");
      if (job->points[side].n && fmax(fabs(least), fabs(most)) > 1e15)
        return fk_fail(err, FK_STATUS_UNSUPPORTED, "points spread too far for a grid");
    }
  if (job->task->b) FK_TRY(run_phase(job, contexts, SOURCES, b_range, 0.2, 0.25, seconds, err));
  FK_TRY(plan_bound(job, err));
  FK_TRY(make_axes(job, err));
  if (!fits(job)) FK_TRY(leave_gaps_out(job, contexts, seconds, err));
  if (!fits(job))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "points spread too thinly for a grid on a GPU: %.2g nodes, %.2g GB",
                   fk_grid_axes_between(&job->axes), 1e-9 * fk_grid_bytes(&job->axes, &job->spec));
  if (job->devices > 1) {
    job->total = (unsigned long long *)calloc((size_t)fk_larger(total_numbers(job), 1), sizeof *job->total);
    if (!job->total)
      return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the grid",
                     8e-6 * (double)total_numbers(job));
  }
  FK_TRY(run_phase(job, contexts, SOURCES, spread_range, 0.25, 0.65, seconds, err));
  return run_phase(job, contexts, job->same ? SOURCES : TARGETS, evaluate_range, 0.65, 1, seconds, err);
}

static void job_init(struct grid_job *job, const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                     int devices) {
  *job = (struct grid_job){};
  job->task = task;
  job->opts = opts;
  job->same = !task->targets.data || task->targets.data == task->sources.data;
  job->same = job->same && (!task->targets.data || task->targets.n == task->sources.n);
  job->points[SOURCES] = task->sources;
  job->points[TARGETS] = job->same ? task->sources : task->targets;
  job->devices = devices;
  job->d = (int)task->sources.d;
  job->spec.window = task->window;
  job->spec.use = task->use;
  job->spec.single = task->single;
  job->spec.columns = task->columns;
  job->spec.n = task->sources.n;
}

static enum fk_status attempt(const struct fk_cuda_grid_task *task, const struct fk_opts *opts, int number,
                              struct fk_cuda_context **contexts, int count, double *seconds,
                              struct fk_error *err) {
  struct grid_job job;
  enum fk_status status;
  job_init(&job, task, opts, count);
  job.attempt = number;
  FK_TRY(fk_grid_map_init(task->whitening, task->window.spacing, &job.spec.map, err));
  job.bound = (double *)calloc((size_t)task->columns, sizeof *job.bound);
  job.exponents = (unsigned long long *)calloc((size_t)(task->b ? task->columns : 1) * FK_GRID_EXPONENTS,
                                               sizeof *job.exponents);
  job.state = (struct device_state *)calloc(FK_MAX_DEVICES, sizeof *job.state);
  job.spec.bound = job.bound;
  pthread_mutex_init(&job.lock, NULL);
  status = job.bound && job.exponents && job.state ? run(&job, contexts, seconds, err)
                                                   : fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  pthread_mutex_destroy(&job.lock);
  fk_grid_axes_free(&job.axes);
  free(job.bound);
  free(job.exponents);
  free(job.state);
  free(job.marks[0]);
  free(job.marks[1]);
  free(job.total);
  return status;
}

extern "C" enum fk_status fk_cuda_grid_sums(const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                                            struct fk_stats *stats, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_error last = {FK_STATUS_OK, ""};
  double seconds = 0;
  enum fk_status status = FK_STATUS_ALLOC;
  int count;
  if (task->sources.d < 1 || task->sources.d > FK_CUDA_GRID_D)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid is for 1 to %d dimensions", FK_CUDA_GRID_D);
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  for (int i = 0; i < ATTEMPTS && status == FK_STATUS_ALLOC; i++) {
    last.status = FK_STATUS_OK;
    seconds = 0;
    status = attempt(task, opts, i, contexts, count, &seconds, &last);
  }
  if (status) return fk_fail(err, status, "%s", last.message);
  struct fk_grid_spec spec = {};
  spec.window = task->window;
  spec.single = task->single;
  fk_cuda_describe(stats, contexts, count, "grid", fk_grid_is_single(&spec) ? "single" : "double");
  stats->engine = "fast";
  stats->device_seconds += seconds;
  return FK_STATUS_OK;
}

/* ---- rows of all pairs ------------------------------------------------------------------------ */

/* Nothing is left on the device from one step to the next here: what fails for want of memory may be done again.
 */

struct rows_job {
  struct grid_job job;
  const struct fk_points *rows;
  const double *factor;
  double *sums, *absolute;
};

static enum fk_status rows_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct rows_job *rows = (struct rows_job *)data;
  struct grid_job *job = &rows->job;
  struct matrix x = points_of(job, SOURCES), b = b_of(job);
  int64_t step, step_b, numbers = job->task->columns * rows->rows->n;
  FK_TRY(hold(job, context, &x, first, count, &step, err));
  if (b.from) FK_TRY(hold(job, context, &b, first, count, &step_b, err));
  double *own = (double *)calloc(2 * (size_t)numbers, sizeof *own);
  if (!own) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  enum fk_status status = FK_STATUS_OK;
  for (int64_t i = first; i < first + count && !status; i += job->spec.chunk) {
    struct fk_grid_raw raw;
    int64_t here = fk_smaller(job->spec.chunk, first + count - i), ld_b;
    const double *at_b;
    status = fetch_points(job, context, SOURCES, i, here, &raw, err);
    if (!status) status = fetch_b(job, context, i, here, &at_b, &ld_b, err);
    for (int64_t c = 0; c < job->task->columns && !status; c++)
      status = fk_grid_add_rows(context, &job->spec.map, &raw, at_b ? at_b + c * ld_b : NULL, rows->rows,
                                rows->factor, own + c * rows->rows->n, own + numbers + c * rows->rows->n, err);
    if (!status) status = fk_cuda_tick(progress, context, (double)here, err);
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < numbers && !status; i++) {
    rows->sums[i] += own[i];
    rows->absolute[i] += own[numbers + i];
  }
  pthread_mutex_unlock(&job->lock);
  free(own);
  (void)seconds;
  return status;
}

extern "C" enum fk_status fk_cuda_grid_rows(const struct fk_cuda_grid_task *task, const struct fk_points *rows,
                                            const double factor[3], const struct fk_opts *opts, double *sums,
                                            double *absolute, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct rows_job job = {};
  double seconds = 0;
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  job_init(&job.job, task, opts, count);
  job.rows = rows;
  job.factor = factor;
  job.sums = sums;
  job.absolute = absolute;
  memset(sums, 0, sizeof *sums * (size_t)(task->columns * rows->n));
  memset(absolute, 0, sizeof *sums * (size_t)(task->columns * rows->n));
  FK_TRY(fk_grid_map_init(task->whitening, 1, &job.job.spec.map, err));
  FK_TRY(plan_chunk(&job.job, contexts[0], err));
  pthread_mutex_init(&job.job.lock, NULL);
  enum fk_status status = fk_cuda_on_devices(contexts, count, task->sources.n, job.job.spec.chunk, &opts->poll,
                                             rows_range, &job, &seconds, err);
  pthread_mutex_destroy(&job.job.lock);
  return status;
}

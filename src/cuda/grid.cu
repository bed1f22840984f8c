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
enum { CHUNK_LEAST = 1 << 22, CHUNK_MOST = 1 << 27, CHUNK_TINY = 1 << 12, BINS = 1 << 20, ATTEMPTS = 4 };
enum side { SOURCES, TARGETS };

/* Shares of a device's memory. */
#define SHARE_SOURCES 0.35
#define SHARE_TARGETS 0.15
#define SHARE_B 0.15
#define SHARE_CHUNK 0.25

/* Columns of the host's matrix on a device: rows first .. first + count - 1; none: sent by chunks. */
struct held {
  const double *data;
  int64_t first, count, ld;
};

struct device_state {
  struct held points[2], b;
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
  struct device_state *state;            /* by the number of the device */
  pthread_mutex_t lock;
};

/* ---- data on a device ------------------------------------------------------------------------- */

static enum fk_status no_second_attempt(const struct fk_cuda_progress *progress, struct fk_error *err) {
  /* what earlier steps left on the device is gone: all of them have to be done again */
  if (progress->attempt > 0) return fk_fail(err, FK_STATUS_ALLOC, "out of memory on a CUDA device");
  return FK_STATUS_OK;
}

/* Sends a range at once where there is room for it. */
static enum fk_status hold(struct fk_cuda_context *context, const double *from, int64_t n, int64_t columns,
                           int64_t first, int64_t count, enum fk_cuda_slot slot, double share, struct held *held,
                           struct fk_error *err) {
  double budget, *data;
  if (held->count) return FK_STATUS_OK;
  FK_TRY(fk_cuda_budget(context, &budget, err));
  if (8.0 * (double)count * (double)columns > share * budget) return FK_STATUS_OK;
  FK_TRY(fk_cuda_array(context, slot, count * columns, &data, err));
  FK_TRY(fk_cuda_upload(context, from, n, columns, first, count, data, count, err));
  *held = (struct held){data, first, count, count};
  return FK_STATUS_OK;
}

static enum fk_status hold_points(struct grid_job *job, struct fk_cuda_context *context, enum side side,
                                  int64_t first, int64_t count, struct fk_error *err) {
  const struct fk_points *x = &job->points[side];
  struct held *held = &job->state[context->device].points[side];
  if (held->count) return FK_STATUS_OK;
  if (side == SOURCES && job->devices == 1 && job->attempt == 0) {
    const double *data;
    FK_TRY(fk_cuda_resident(context, x->data, x->n * x->d, fk_threads(job->opts->threads), &data, err));
    if (data) {
      *held = (struct held){data, 0, x->n, x->n};
      return FK_STATUS_OK;
    }
  }
  return hold(context, x->data, x->n, x->d, first, count,
              side == SOURCES ? FK_SLOT_RAW_SOURCES : FK_SLOT_RAW_TARGETS,
              side == SOURCES ? SHARE_SOURCES : SHARE_TARGETS, held, err);
}

/* Rows to work on, at *data, *ld apart. */
static enum fk_status fetch(struct fk_cuda_context *context, const double *from, int64_t n, int64_t columns,
                            int64_t first, int64_t count, enum fk_cuda_slot slot, const struct held *held,
                            const double **data, int64_t *ld, struct fk_error *err) {
  if (first >= held->first && first + count <= held->first + held->count) {
    *data = held->data + (first - held->first);
    *ld = held->ld;
    return FK_STATUS_OK;
  }
  double *room;
  FK_TRY(fk_cuda_array(context, slot, count * columns, &room, err));
  FK_TRY(fk_cuda_upload(context, from, n, columns, first, count, room, count, err));
  *data = room;
  *ld = count;
  return FK_STATUS_OK;
}

static enum fk_status fetch_points(struct grid_job *job, struct fk_cuda_context *context, enum side side,
                                   int64_t first, int64_t count, struct fk_grid_raw *raw, struct fk_error *err) {
  const struct fk_points *x = &job->points[side];
  struct device_state *state = &job->state[context->device];
  enum fk_cuda_slot slot = side == SOURCES ? FK_SLOT_RAW_SOURCES : FK_SLOT_RAW_TARGETS;
  raw->n = count;
  FK_TRY(fetch(context, x->data, x->n, x->d, first, count, slot, &state->points[side], &raw->x, &raw->ld, err));
  if (!state->points[side].count) fk_cuda_grid_forget(&state->grid);
  return FK_STATUS_OK;
}

static enum fk_status fetch_b(struct grid_job *job, struct fk_cuda_context *context, int64_t first, int64_t count,
                              const double **b, int64_t *ld, struct fk_error *err) {
  const struct fk_cuda_grid_task *task = job->task;
  *b = NULL;
  *ld = 0;
  if (!task->b) return FK_STATUS_OK;
  return fetch(context, task->b, task->sources.n, task->columns, first, count, FK_SLOT_COLUMNS,
               &job->state[context->device].b, b, ld, err);
}

/* ---- survey ----------------------------------------------------------------------------------- */

/* Of points on the device all at once, else of a chunk. */
static int64_t survey_step(const struct grid_job *job, struct fk_cuda_context *context, int64_t count) {
  return job->state[context->device].points[job->side].count ? count : job->spec.chunk;
}

static enum fk_status extent_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct grid_job *job = (struct grid_job *)data;
  double low[FK_CUDA_GRID_D], high[FK_CUDA_GRID_D];
  for (int k = 0; k < job->d; k++) low[k] = INFINITY, high[k] = -INFINITY;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(hold_points(job, context, job->side, first, count, err));
  int64_t step = survey_step(job, context, count);
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
  struct held *held = &job->state[context->device].b;
  int64_t numbers = task->columns * FK_GRID_EXPONENTS;
  FK_TRY(no_second_attempt(progress, err));
  FK_TRY(
      hold(context, task->b, task->sources.n, task->columns, first, count, FK_SLOT_COLUMNS, SHARE_B, held, err));
  int64_t step = held->count ? count : job->spec.chunk;
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
  int64_t step = survey_step(job, context, count), marks = (int64_t)job->d * BINS;
  FK_TRY(no_second_attempt(progress, err));
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
  while (*chunk < CHUNK_MOST && *chunk * 8 < task->sources.n) *chunk *= 2;
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

static enum fk_status attempt(const struct fk_cuda_grid_task *task, const struct fk_opts *opts, int number,
                              struct fk_cuda_context **contexts, int count, double *seconds,
                              struct fk_error *err) {
  struct grid_job job = {};
  enum fk_status status;
  job.task = task;
  job.opts = opts;
  job.same = !task->targets.data || task->targets.data == task->sources.data;
  job.same = job.same && (!task->targets.data || task->targets.n == task->sources.n);
  job.points[SOURCES] = task->sources;
  job.points[TARGETS] = job.same ? task->sources : task->targets;
  job.devices = count;
  job.attempt = number;
  job.d = (int)task->sources.d;
  job.spec.window = task->window;
  job.spec.use = task->use;
  job.spec.single = task->single;
  job.spec.columns = task->columns;
  job.spec.n = task->sources.n;
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
  double start = fk_seconds(), seconds = 0, n = (double)task->sources.n,
         m = (double)(task->targets.data ? task->targets.n : task->sources.n);
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
  stats->pairs += n * m;
  stats->device_seconds += seconds;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}

/* ---- how long it takes ------------------------------------------------------------------------ */

static double nodes_of(const struct fk_cuda_grid_work *work, const struct fk_window *window) {
  double nodes = 1;
  for (int k = 0; k < work->d; k++) nodes *= work->extent[k] / window->spacing + window->width;
  return nodes;
}

extern "C" double fk_cuda_grid_bytes(const struct fk_cuda_grid_work *work, const struct fk_window *window) {
  double number = work->single ? 4 : 8, planes = work->use & FK_WINDOW_LAPLACE ? 2 : 1;
  return nodes_of(work, window) * ((double)work->columns * (8 + number) + 2 * planes * number);
}

/* From arithmetic for an H200, not from measurements: 4.2 TB/s, 132 processors at 1.75 GHz, each of which brings a
 * warp's load of shared memory or a first-level hit a cycle and four multiply-adds, sorts of 10^10 pairs a second
 * and 32 bits, 5e10 atomic additions a second, the host's memory at 8 GB/s. */
extern "C" double fk_cuda_grid_seconds(const struct fk_cuda_grid_work *work, const struct fk_window *window,
                                       const struct fk_opts *opts) {
  const double memory = 4.2e12, cycles = 132 * 1.75e9;
  double d = work->d, w = window->width, n = work->n, m = work->m, columns = (double)work->columns;
  double nodes = nodes_of(work, window), rows = pow(w, d - 1), number = work->single ? 1 : 2;
  double slopes = work->use & FK_WINDOW_GRADIENT ? d : 0, planes = work->use & FK_WINDOW_LAPLACE ? 3 : 1;
  double sorts = (n + m) * (1e-10 * ceil(log2(nodes + 1) / 8) / 4 + (16 * d + 64 * number) / memory);
  double weights = d * w * window->width * number / 128;
  double spread = n * columns * (weights + number * rows * (d + w / 4) / 32 + 0.2) / cycles;
  double adds = columns * (fmin(n, nodes * fmax(1, n / CHUNK_MOST)) + n / 512) * rows * w / 5e10;
  /* targets alone in their cells read different lines, each lane its own */
  double apart = fmin(16, fmax(1, 4 * nodes / fmax(m, 1)));
  double reads = m * (weights + number * columns * rows * (w + 1 + 0.5 * slopes) * apart / 32) / cycles;
  double scatter = m * columns * (1 + slopes) * 64 / memory;
  double filter = nodes * columns * d * (2 * window->reach + 1) * 3 * planes * number / (32 * cycles);
  double copies = 8 * (n * (d + columns) + (work->same_points ? 0 : m * d) + m * columns * (1 + slopes)) / 8e9;
  int devices = opts->n_devices > 1 ? opts->n_devices : 1;
  return FK_CUDA_GRID_START + 5e-4 + copies + filter + (sorts + spread + adds + reads + scatter) / devices;
}

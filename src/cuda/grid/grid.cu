/* Sums on the grid from host memory, on one or several devices: a survey of all points; sums on a grid of each
 * device; the sum of the grids, which are integers, so that the order does not matter; and each device's part of
 * the targets.
 * || Points are sent once if the device can hold them all; otherwise once for each of these steps, in chunks. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../exact/kept.cuh"
#include "job.cuh"

enum { BINS = 1 << 20, ATTEMPTS = 4 };

/* ---- survey ----------------------------------------------------------------------------------- */

static enum fk_status b_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                              struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct fk_grid_job *job = (struct fk_grid_job *)data;
  const struct fk_cuda_grid_task *task = job->task;
  struct fk_grid_matrix x = fk_grid_b_of(job);
  int64_t numbers = task->columns * FK_GRID_EXPONENTS, step;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(fk_grid_hold(job, context, &x, first, count, &step, err));
  fk_host_array<unsigned long long> counts(numbers);
  if (!counts.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a survey of b");
  for (int64_t i = first; i < first + count; i += step) {
    int64_t here = fk_smaller(step, first + count - i), ld;
    const double *b;
    FK_TRY(fk_grid_fetch_b(job, context, i, here, &b, &ld, err));
    FK_TRY(fk_grid_exponents(context, b, ld, here, task->columns, counts.at, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t e = 0; e < numbers; e++) job->exponents[e] += counts.at[e];
  pthread_mutex_unlock(&job->lock);
  return FK_STATUS_OK;
}

static enum fk_status mark_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct fk_grid_job *job = (struct fk_grid_job *)data;
  struct fk_grid_matrix x = fk_grid_points_of(job, job->side);
  int64_t marks = (int64_t)job->d * BINS, step;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(fk_grid_hold(job, context, &x, first, count, &step, err));
  fk_host_array<unsigned char> own(marks);
  if (!own.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a survey of the points");
  for (int64_t i = first; i < first + count; i += step) {
    struct fk_grid_raw raw;
    FK_TRY(fk_grid_fetch_points(job, context, job->side, i, fk_smaller(step, first + count - i), &raw, err));
    FK_TRY(fk_grid_mark(context, &job->spec.map, &raw, &job->bins, own.at, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
    FK_TRY(fk_cuda_tick(progress, context, (double)raw.n, err));
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < marks; i++) job->marks[job->side][i] |= own.at[i];
  pthread_mutex_unlock(&job->lock);
  return FK_STATUS_OK;
}

/* ---- sums ------------------------------------------------------------------------------------- */

static int64_t total_numbers(const struct fk_grid_job *job) {
  return (int64_t)fk_grid_axes_nodes(&job->axes, false) * job->spec.columns;
}

static enum fk_status make_grid(struct fk_grid_job *job, struct fk_cuda_context *context, struct fk_error *err) {
  struct fk_grid_device *state = &job->state[context->device];
  if (state->has_grid) return FK_STATUS_OK;
  FK_TRY(fk_cuda_grid_create(context, &job->spec, &job->axes, &state->grid, err));
  state->has_grid = true;
  return FK_STATUS_OK;
}

/* 64-bit integers pass as doubles: they are only copied. */
static enum fk_status gather_totals(struct fk_grid_job *job, struct fk_cuda_context *context,
                                    struct fk_error *err) {
  int64_t numbers = total_numbers(job);
  fk_host_array<unsigned long long> own(numbers);
  if (!own.at)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the grid of a device",
                   8e-6 * (double)numbers);
  FK_TRY(fk_cuda_download(context, (double *)job->state[context->device].grid.total, numbers,
                          fk_all_rows(numbers, 1), (double *)own.at, err));
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < numbers; i++) job->total[i] += own.at[i];
  pthread_mutex_unlock(&job->lock);
  return FK_STATUS_OK;
}

static enum fk_status spread_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct fk_grid_job *job = (struct fk_grid_job *)data;
  struct fk_cuda_grid *grid = &job->state[context->device].grid;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(make_grid(job, context, err));
  for (int64_t i = first; i < first + count; i += job->spec.chunk) {
    struct fk_grid_raw raw;
    const double *b;
    int64_t here = fk_smaller(job->spec.chunk, first + count - i), ld_b;
    FK_TRY(fk_grid_fetch_points(job, context, FK_GRID_SOURCES, i, here, &raw, err));
    FK_TRY(fk_grid_fetch_b(job, context, i, here, &b, &ld_b, err));
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
  struct fk_grid_job *job = (struct fk_grid_job *)data;
  const struct fk_cuda_grid_task *task = job->task;
  struct fk_cuda_grid *grid = &job->state[context->device].grid;
  enum fk_grid_side side = job->same ? FK_GRID_SOURCES : FK_GRID_TARGETS;
  int64_t columns = task->columns, m = job->points[side].n, chunk = job->spec.chunk, numbers = total_numbers(job);
  int64_t all = columns * (task->gradient ? 1 + job->d : 1);
  double *value;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(make_grid(job, context, err));
  if (job->devices > 1 && grid->total)
    FK_TRY(fk_cuda_upload(context, fk_doubles((const double *)job->total, numbers, 1), (double *)grid->total,
                          numbers, err));
  FK_TRY(fk_cuda_room(context, &context->grid->result, all * fk_smaller(chunk, count), &value, err));
  for (int64_t i = fk_pieces(count, chunk) - 1; i >= 0; i--) { /* the chunk sorted last comes first */
    struct fk_grid_raw raw;
    int64_t from = first + i * chunk, here = fk_smaller(chunk, first + count - from);
    double *gradient = task->gradient ? value + here * columns : NULL;
    FK_TRY(fk_grid_fetch_points(job, context, side, from, here, &raw, err));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    if (i == fk_pieces(count, chunk) - 1) FK_TRY(fk_cuda_grid_convolve(grid, err));
    FK_TRY(fk_cuda_grid_evaluate(grid, &raw, value, gradient, here, err));
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
    FK_TRY(fk_cuda_download(context, value, here, fk_rows(m, columns, from, here), task->value, err));
    if (gradient)
      FK_TRY(fk_cuda_download(context, gradient, here, fk_rows(m, columns * job->d, from, here), task->gradient,
                              err));
  }
  return FK_STATUS_OK;
}

/* ---- plan ------------------------------------------------------------------------------------- */

static enum fk_status plan_bound(struct fk_grid_job *job, struct fk_error *err) {
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

/* Bytes that the grid may use besides everything else. */
static double room_for_grid(const struct fk_grid_job *job) {
  const struct fk_cuda_grid_task *task = job->task;
  double each = 8 * (double)task->columns * (task->gradient ? 1 + job->d : 1);
  double rest = fk_cuda_grid_sort_bytes(&job->spec) + each * (double)job->spec.chunk;
  for (int side = 0; side < (job->same ? 1 : 2); side++)
    rest += fmin(
        8.0 * (double)job->points[side].n * job->d,
        fmax(8.0 * (double)job->spec.chunk * job->d, fk_grid_points_of(job, FK_GRID_SOURCES).share * job->budget));
  if (task->b)
    rest +=
        fmin(8.0 * (double)task->sources.n * (double)task->columns,
             fmax(8.0 * (double)job->spec.chunk * (double)task->columns, fk_grid_b_of(job).share * job->budget));
  return (job->budget - rest) / (1 << fk_grid_less_by(job));
}

static bool fits(const struct fk_grid_job *job) {
  return fk_grid_axes_between(&job->axes) < 2147483647.0 &&
         fk_cuda_grid_axes_bytes(&job->axes, &job->spec) <= room_for_grid(job);
}

static enum fk_status make_axes(struct fk_grid_job *job, struct fk_error *err) {
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1];
  const struct fk_window *window = &job->spec.window;
  int targets = job->same ? FK_GRID_SOURCES : FK_GRID_TARGETS, reach;
  struct fk_grid_occupied s = {job->low[FK_GRID_SOURCES], job->high[FK_GRID_SOURCES], job->marks[FK_GRID_SOURCES]},
                          t = {job->low[targets], job->high[targets], job->marks[targets]};
  FK_TRY(fk_window_taps(window, 1, gauss, job->spec.use & FK_WINDOW_LAPLACE ? laplace : NULL, &reach, err));
  fk_grid_axes_free(&job->axes);
  return fk_grid_axes_init(&job->axes, job->d, window->width, reach, &s, &t, &job->bins, err);
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* Removes from the axes the gaps that cross the whole box. */
static enum fk_status leave_gaps_out(struct fk_grid_job *job, struct fk_cuda_context **contexts, double *seconds,
                                     struct fk_error *err) {
  job->bins.bins = BINS;
  for (int k = 0; k < job->d; k++) {
    double low = fmin(job->low[FK_GRID_SOURCES][k], job->low[FK_GRID_TARGETS][k]),
           high = fmax(job->high[FK_GRID_SOURCES][k], job->high[FK_GRID_TARGETS][k]);
    job->bins.origin[k] = (int64_t)floor(low);
    job->bins.cells[k] = ((int64_t)floor(high) - job->bins.origin[k]) / BINS + 1;
  }
  for (int side = 0; side < (job->same ? 1 : 2); side++) {
    job->marks[side] = (unsigned char *)calloc((size_t)job->d * BINS, 1);
    if (!job->marks[side]) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a survey of the points");
    FK_TRY(fk_grid_run_phase(job, contexts, (enum fk_grid_side)side, mark_range, 0.25, 0.25, seconds, err));
  }
  return make_axes(job, err);
}

static enum fk_status sum_on_devices(struct fk_grid_job *job, struct fk_cuda_context **contexts, double *seconds,
                                     struct fk_error *err) {
  FK_TRY(fk_grid_plan_chunk(job, contexts[0], err));
  FK_TRY(fk_grid_extents(job, contexts, 0, 0.2, seconds, err));
  if (job->task->b) FK_TRY(fk_grid_run_phase(job, contexts, FK_GRID_SOURCES, b_range, 0.2, 0.25, seconds, err));
  FK_TRY(plan_bound(job, err));
  FK_TRY(make_axes(job, err));
  if (!fits(job)) FK_TRY(leave_gaps_out(job, contexts, seconds, err));
  if (!fits(job))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a grid on a GPU: %.2g nodes, %.2g GB",
                   fk_grid_axes_between(&job->axes), 1e-9 * fk_cuda_grid_axes_bytes(&job->axes, &job->spec));
  if (job->devices > 1) {
    job->total = (unsigned long long *)calloc((size_t)fk_larger(total_numbers(job), 1), sizeof *job->total);
    if (!job->total)
      return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the grid",
                     8e-6 * (double)total_numbers(job));
  }
  FK_TRY(fk_grid_run_phase(job, contexts, FK_GRID_SOURCES, spread_range, 0.25, 0.65, seconds, err));
  return fk_grid_run_phase(job, contexts, job->same ? FK_GRID_SOURCES : FK_GRID_TARGETS, evaluate_range, 0.65, 1,
                           seconds, err);
}

static enum fk_status attempt_sums(const struct fk_cuda_grid_task *task, const struct fk_opts *opts, int number,
                                   struct fk_cuda_context **contexts, int count, double *seconds,
                                   struct fk_error *err) {
  struct fk_grid_job job;
  enum fk_status status;
  fk_grid_job_init(&job, task, opts, count);
  job.attempt = number;
  FK_TRY(fk_grid_map_init(task->whitening, task->window.spacing, &job.spec.map, err));
  fk_host_array<double> bound(task->columns);
  fk_host_array<unsigned long long> exponents((task->b ? task->columns : 1) * FK_GRID_EXPONENTS);
  fk_host_array<struct fk_grid_device> state(FK_MAX_DEVICES);
  job.bound = bound.at, job.exponents = exponents.at, job.state = state.at;
  job.spec.bound = job.bound;
  status = job.bound && job.exponents && job.state ? sum_on_devices(&job, contexts, seconds, err)
                                                   : fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  fk_grid_axes_free(&job.axes);
  free(job.marks[0]);
  free(job.marks[1]);
  free(job.total);
  return status;
}

enum fk_status fk_cuda_grid_sums(const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                                 struct fk_stats *stats, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_error last = {FK_STATUS_OK, ""};
  double seconds = 0;
  int count;
  if (task->sources.d < 1 || task->sources.d > FK_GRID_MAX_D)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid is for 1 to %d dimensions", FK_GRID_MAX_D);
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  FK_TRY(fk_cuda_enter(task->op, contexts, count, err));
  enum fk_status status = FK_STATUS_ALLOC;
  for (int i = 0; i < ATTEMPTS && status == FK_STATUS_ALLOC; i++) {
    last.status = FK_STATUS_OK;
    seconds = 0;
    status = attempt_sums(task, opts, i, contexts, count, &seconds, &last);
  }
  fk_cuda_leave(task->op, contexts, count, opts);
  if (status) return fk_fail(err, status, "%s", last.message);
  struct fk_cuda_grid_spec spec = {};
  spec.window = task->window;
  spec.single = task->single;
  fk_cuda_describe(stats, contexts, count, "grid", fk_grid_is_single(&spec) ? "single" : "double");
  stats->engine = "fast";
  stats->device_seconds += seconds;
  return FK_STATUS_OK;
}

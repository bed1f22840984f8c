/* The fast engine on the CPU: sums of Gaussian kernels to a tolerance, in up to 7 dimensions, in time linear in
 * the points. By a sample of them it takes the cheapest of the grid (grid.h), of direct sums that leave out what
 * is far away (direct.h), and of the exact engine.
 */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/threads.h"
#include "../fk_config.h"

/* ---- points ----------------------------------------------------------------------------------- */

enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_points *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err) {
  int64_t d = job->d, blocks = fk_pieces(count, FK_BLOCK);
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)(count * d));
  bool failed = false;
#pragma omp parallel num_threads(threads) reduction(|| : failed)
  {
    double *block = malloc(sizeof(double) * 2 * FK_BLOCK * (size_t)d);
    failed = !block;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks; i++) {
      int64_t at = i * FK_BLOCK, rows = fk_smaller(count - at, FK_BLOCK);
      if (!block) continue;
      fk_whiten(job->task->whitening, points, NULL, first + at, rows, block, FK_BLOCK, block + FK_BLOCK * d);
      for (int64_t k = 0; k < d; k++) memcpy(u + k * ld + at, block + k * FK_BLOCK, sizeof(double) * (size_t)rows);
    }
    free(block);
  }
  return failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory: for whitening points") : FK_STATUS_OK;
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

/* ---- what is summed --------------------------------------------------------------------------- */

/* Which factors there are sums for. The gradient of a Laplace sum has the factor 2 + d/2 - q/2. */
static bool has_factor(const struct fk_task *task) {
  const double *f = task->factor, d = (double)task->sources.d;
  if (f[2] != 0) return false;
  return task->values != FK_VALUES_COORDINATES || f[1] == 0 || (f[0] == 2 + d / 2 && f[1] == -1);
}

static enum fk_status prepare_columns(struct fk_fast_job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  int64_t n = job->n, values = task->values == FK_VALUES_COLUMNS ? task->n_columns : 0;
  const double *w = task->weights;
  job->columns = values + 1;
  job->b = w;
  if (values > 0) {
    double *b = job->own_b = malloc(sizeof(double) * (size_t)(n * job->columns));
    if (!b)
      return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for columns",
                     8e-6 * (double)n * (double)job->columns);
    for (int64_t c = 0; c < values; c++)
      for (int64_t i = 0; i < n; i++) b[c * n + i] = task->columns[c * n + i] * (w ? w[i] : 1);
    for (int64_t i = 0; i < n; i++) b[values * n + i] = w ? w[i] : 1;
    job->b = b;
  }
  job->largest_b = job->b ? fk_largest_absolute(job->b, n * job->columns) : 1;
  for (int64_t i = 0; job->b && i < n * job->columns && !job->negative; i++) job->negative = job->b[i] < 0;
  return FK_STATUS_OK;
}

void fk_fast_leave_out(struct fk_fast_job *job) {
  const struct fk_task *task = job->task;
  for (int64_t c = 0; c < job->columns; c++) {
    double *out = fk_fast_out(job, c);
    for (int64_t i = 0; i < job->n; i++) out[i] -= task->factor[0] * (job->b ? job->b[c * job->n + i] : 1);
  }
}

/* ---- which method ----------------------------------------------------------------------------- */

enum method { BY_GRID, BY_DIRECT, BY_EXACT };

/* Benchmarks and tests run one method where the other is cheaper: FLASHKERNEL_FAST_METHOD is "grid" or "direct". */
static const char *wish(void) {
  const char *method = getenv("FLASHKERNEL_FAST_METHOD");
  return method && *method ? method : NULL;
}
static bool may_be(const char *method) { return !wish() || strcmp(wish(), method) == 0; }

/* The choice is to take a few percent of the time. */
static int64_t sample_size(int64_t n) {
  enum { LEAST = 1 << 13, MOST = 1 << 16 };
  return fk_smaller(n, fk_smaller(fk_larger(n / 8, LEAST), MOST));
}

static enum fk_status choose(struct fk_fast_job *job, struct fk_grid_work *work, enum method *method,
                             struct fk_error *err) {
  const struct fk_points *targets = fk_fast_targets(job);
  int64_t n = sample_size(job->n), m = job->same ? n : sample_size(job->m);
  bool pointwise = job->opts->tol_type == FK_TOL_POINTWISE;
  double *u = malloc(sizeof(double) * (size_t)((n + m) * job->d)), seconds, least;
  if (!u) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of the points");
  /* methods differ in their last bits, which are not to depend on the threads: the choice is for one */
  struct fk_opts alone = *job->opts;
  alone.threads = 1;
  struct fk_points x = {u, n, job->d}, y = {job->same ? NULL : u + n * job->d, m, job->d};
  enum fk_status status = sample_of(job, &job->task->sources, n, u, err);
  if (!status && !job->same) status = sample_of(job, targets, m, u + n * job->d, err);

  struct fk_error why = {FK_STATUS_OK, ""};
  struct fk_window window;
  struct fk_grid_points points = {u, n, n};
  *work = (struct fk_grid_work){.n = (double)job->n, .m = (double)job->m, .d = (int)job->d};
  work->columns = job->columns;
  work->use = (job->laplace != 0 ? FK_WINDOW_LAPLACE : 0) | (job->gradient ? FK_WINDOW_GRADIENT : 0);
  work->same_points = job->same;
  work->local = pointwise;
  if (!status) status = fk_grid_survey(&points, (double)job->n, (int)job->d, work, err);
  least = INFINITY;
  *method = BY_EXACT;
  /* In many dimensions the grid cannot tell which rows it has to leave to others. */
  bool single = job->single;
  if (!status && may_be("grid") && (!pointwise || (job->d <= 3 && !job->negative)) &&
      fk_grid_choose(work, pointwise ? job->tol / 64 : job->tol, &single, alone.threads, &window, &seconds, &why) == FK_STATUS_OK &&
      fk_grid_bytes(work, &window, single) < 16e9) {
    least = seconds;
    *method = BY_GRID;
  }
  struct fk_direct_options options = {job->single, alone.threads, job->opts->poll};
  struct fk_direct_cost cost;
  if (!status && may_be("direct") && job->n < (int64_t)1 << 32 &&
      fk_direct_least_seconds((double)job->n, (double)job->m, alone.threads) < least) {
    status = fk_direct_guess(&x, (double)job->n, &y, (double)job->m, job->columns, job->gradient, job->tol,
                             &options, &cost, err);
    if (!status && pointwise) cost.seconds *= 3; /* in double, row by row */
    if (!status && cost.seconds < least) {
      least = cost.seconds;
      *method = BY_DIRECT;
    }
  }
  if (!status && wish() && *method == BY_EXACT)
    status = fk_fail(err, FK_STATUS_UNSUPPORTED, "FLASHKERNEL_FAST_METHOD is \"%s\", which cannot do this sum", wish());
  struct fk_work size = fk_task_work(job->task);
  /* each pair once, where the targets are the sources: measured 0.55 */
  double share = job->same ? 0.55 : 1;
  if (!status && !wish() && job->opts->engine != FK_ENGINE_FAST && share * fk_engine_exact_cpu.seconds(&size, &alone) < least)
    *method = BY_EXACT;
  free(u);
  return status;
}

/* ---- the engine ------------------------------------------------------------------------------- */

static enum fk_status run(struct fk_fast_job *job, enum method method, const struct fk_grid_work *work,
                          struct fk_stats *stats, struct fk_error *err) {
  const struct fk_task *task = job->task;
  enum fk_status status = method == BY_GRID ? fk_fast_by_grid(job, work, err) : fk_fast_by_direct(job, err);
  if (status) return status;
  stats->method = method == BY_GRID ? "grid" : "direct";
  stats->precision = job->used_single ? "single" : "double";
  stats->tail_rows += (double)job->tail_rows;
  /* What the tolerance does not tell from zero has no logarithm. */
  if (task->tail_pass && job->opts->tol_type == FK_TOL_GLOBAL) {
    int64_t *rows, found;
    status = fk_rows_below(task->mass, job->m, 4 * job->tol * job->largest, &rows, &found, err);
    if (!status && found > 0) status = fk_fast_rows(job, rows, found, err);
    stats->tail_rows += (double)found;
    free(rows);
  }
  double achieved = 0;
  if (!status) status = fk_fast_check(job, &achieved, err);
  stats->tol_achieved = fmax(stats->tol_achieved, achieved);
  return status;
}

static enum fk_status sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err) {
  double start = fk_seconds(), d = (double)task->sources.d;
  struct fk_fast_job job = {.task = task, .opts = opts, .n = task->sources.n, .m = fk_n_targets(task)};
  struct fk_grid_work work;
  enum method method = BY_EXACT;
  if (!has_factor(task)) return fk_engine_exact_cpu.sums(task, opts, stats, err);
  job.d = task->sources.d;
  job.same = !task->targets.data;
  job.tol = opts->tol;
  job.single = opts->precision != FK_PRECISION_DOUBLE && opts->tol >= 4e-6;
  job.laplace = -task->factor[1];
  job.plain = task->factor[0] - job.laplace * (1 + d / 2);
  job.gradient = task->values == FK_VALUES_COORDINATES;
  enum fk_status status = prepare_columns(&job, err);
  if (!status) status = choose(&job, &work, &method, err);
  if (!status && method == BY_EXACT) {
    free(job.own_b);
    return fk_engine_exact_cpu.sums(task, opts, stats, err);
  }
  struct fk_stats about = {.backend = ""};
  fk_engine_exact_cpu.describe(opts, &about);
  stats->backend = "cpu";
  stats->engine = "fast";
  stats->isa = about.isa;
  stats->threads = about.threads;
  memcpy(stats->device, about.device, sizeof stats->device);
  for (int64_t i = 0; i < job.m && task->shift; i++) task->shift[i] = 0;
  if (!status) status = run(&job, method, &work, stats, err);
  free(job.own_b);
  stats->pairs += (double)job.n * (double)job.m;
  stats->seconds += fk_seconds() - start;
  return status;
}

static bool supports(const struct fk_work *work, const struct fk_opts *opts) {
  return opts->tol > 0 && work->kernel == FK_KERNEL_GAUSSIAN && work->d <= FK_GRID_MAX_D;
}

static enum fk_status available(const struct fk_opts *opts, struct fk_error *err) {
  (void)opts;
  (void)err;
  return FK_STATUS_OK;
}

/* Without the points there is only a rough guess. Where nothing but the CPU may do the work it is what few
 * neighbours take in any dimension: where it turns out wrong, the CPU's exact engine does the work all the same. */
static double seconds(const struct fk_work *work, const struct fk_opts *opts) {
  bool may_be_elsewhere = FK_WITH_CUDA && opts->backend == FK_BACKEND_AUTO;
  double growth = may_be_elsewhere ? work->d - 1 : fmin(work->d - 1, 2);
  double each = 4e-8 * pow(2.5, growth) * (1 + work->n_values / 2);
  return 1e-3 + (work->n + work->m) * each / fk_threads_for_work(opts->threads, 1e9 * (work->n + work->m) * each);
}

static void describe(const struct fk_opts *opts, struct fk_stats *stats) {
  fk_engine_exact_cpu.describe(opts, stats);
  stats->engine = "fast";
  stats->method = "";
}

const struct fk_engine fk_engine_fast_cpu = {
    .name = "fast",
    .backend = FK_BACKEND_CPU,
    .kind = FK_ENGINE_FAST,
    .supports = supports,
    .available = available,
    .seconds = seconds,
    .describe = describe,
    .sums = sums,
};

/* The fast engines: sums of Gaussian kernels to a tolerance, in up to 7 dimensions, in time linear in the points.
 * By a sample of them they take the cheapest of the grid (grid.h, cuda/grid.h), of direct sums that leave out what
 * is far away (direct.h, on the CPU alone), and of the exact engine. Other kernels that are sums of few Gaussians
 * (mixture.h) take one of the first two for each.
 */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/threads.h"
#include "../fk_config.h"
#include "mixture.h"

/* ---- points ----------------------------------------------------------------------------------- */

enum fk_status fk_fast_whiten_points(const struct fk_whitening *w, int threads, const struct fk_points *points,
                                     int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err) {
  int64_t d = w->d, blocks = fk_pieces(count, FK_BLOCK);
  threads = fk_threads_for_bytes(threads, 16.0 * (double)(count * d));
  bool failed = false;
#pragma omp parallel num_threads(threads) reduction(|| : failed)
  {
    double *block = malloc(sizeof(double) * 2 * FK_BLOCK * (size_t)d);
    failed = !block;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks; i++) {
      int64_t at = i * FK_BLOCK, rows = fk_smaller(count - at, FK_BLOCK);
      if (!block) continue;
      fk_whiten(w, points, NULL, first + at, rows, block, FK_BLOCK, block + FK_BLOCK * d);
      for (int64_t k = 0; k < d; k++) memcpy(u + k * ld + at, block + k * FK_BLOCK, sizeof(double) * (size_t)rows);
    }
    free(block);
  }
  return failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory: for whitening points") : FK_STATUS_OK;
}

enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_points *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err) {
  return fk_fast_whiten_points(job->task->whitening, job->opts->threads, points, first, count, u, ld, err);
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
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)(n * job->columns));
  if (values > 0) {
    double *b = job->own_b = fk_aligned_alloc(sizeof(double) * (size_t)(n * job->columns));
    if (!b)
      return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for columns",
                     8e-6 * (double)n * (double)job->columns);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
      for (int64_t c = 0; c < values; c++) b[c * n + i] = task->columns[c * n + i] * (w ? w[i] : 1);
      b[values * n + i] = w ? w[i] : 1;
    }
    job->b = b;
  }
  job->negative = job->b && fk_any_negative(job->b, n * job->columns, job->opts->threads);
  return FK_STATUS_OK;
}

void fk_fast_leave_out(struct fk_fast_job *job) {
  const struct fk_task *task = job->task;
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)job->n);
  for (int64_t c = 0; c < job->columns; c++) {
    double *out = fk_fast_out(job, c);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < job->n; i++) out[i] -= task->factor[0] * (job->b ? job->b[c * job->n + i] : 1);
  }
}

void fk_fast_find_largest(struct fk_fast_job *job) {
  job->largest = fk_largest(job->task->mass, job->m, job->opts->threads);
}

/* ---- what a method gives ---------------------------------------------------------------------- */

void fk_fast_add(const struct fk_fast_job *job, int64_t at, int64_t count, double scale, bool first,
                 const double *value) {
  int threads = fk_threads_for_bytes(job->opts->threads, 24.0 * (double)count);
  for (int64_t c = 0; c < job->columns; c++) {
    double *out = fk_fast_out(job, c) + at;
    const double *from = value + c * count;
    if (from == out) continue;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i++) out[i] = (first ? 0 : out[i]) + scale * from[i];
  }
}

void fk_fast_set_coordinates(const struct fk_fast_job *job, int64_t at, int64_t count, double scale,
                             const double *slope, int64_t ld, const double *u) {
  int threads = fk_threads_for_bytes(job->opts->threads, 24.0 * (double)count);
  const double *mass = job->task->mass + at;
  for (int64_t k = 0; k < job->d; k++) {
    double *out = job->task->sums + k * job->m + at;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i++) out[i] = scale * slope[k * ld + i] + u[k * count + i] * mass[i];
  }
}

/* ---- which method ----------------------------------------------------------------------------- */

enum method { BY_GRID, BY_DIRECT, BY_MIXTURE, BY_EXACT };

/* Benchmarks and tests run one method where the other is cheaper: FLASHKERNEL_FAST_METHOD is "grid" or "direct".
 */
static const char *wish(void) {
  const char *method = getenv("FLASHKERNEL_FAST_METHOD");
  return method && *method ? method : NULL;
}
bool fk_fast_may_be(const char *method) { return !wish() || strcmp(wish(), method) == 0; }

/* The choice is to take a few percent of the time. */
static int64_t sample_size(int64_t n) {
  enum { LEAST = 1 << 13, MOST = 1 << 16 };
  return fk_smaller(n, fk_smaller(fk_larger(n / 8, LEAST), MOST));
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
  work->local = job->opts->tol_type == FK_TOL_POINTWISE;
  return fk_grid_survey(&points, work->n, (int)job->d, work, err);
}

/* In many dimensions the grid does not tell which rows it has to leave to others, where each is to have its own
 * tolerance, and for b of both signs neither. */
double fk_fast_grid_seconds(const struct fk_fast_job *job, const struct fk_grid_work *work) {
  struct fk_error why = {FK_STATUS_OK, ""};
  struct fk_window window;
  bool single = job->single;
  bool each_row = job->opts->tol_type == FK_TOL_POINTWISE;
  double tol = each_row ? job->tol / 64 : job->tol, seconds;
  if (each_row && (job->d > 3 || job->negative)) return INFINITY;
  if (job->terms == fk_fast_terms_cuda) return fk_fast_seconds_cuda(job, work, tol);
  if (fk_grid_choose(work, tol, fk_grid_seconds_alone, NULL, &single, &window, &seconds, &why)) return INFINITY;
  return fk_grid_bytes(work, &window, single) < FK_FAST_MOST_BYTES ? seconds : INFINITY;
}

enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err) {
  struct fk_direct_options options = {job->single, 1, job->opts->poll};
  struct fk_direct_question question = {
      s->x, s->y, (double)job->n, (double)job->m, job->columns, .gradient = job->gradient, .tol = job->tol};
  struct fk_direct_cost cost = {0, INFINITY};
  enum fk_status status = FK_STATUS_OK;
  question.by_rows = job->opts->tol_type == FK_TOL_POINTWISE;
  if (job->n < (int64_t)1 << 32 && fk_direct_least_seconds((double)job->n, (double)job->m, 1) < least)
    status = fk_direct_guess(&question, &options, &cost, err);
  *seconds = cost.seconds;
  return status;
}

/* The choice: of the method, and for some also of how. */
struct choice {
  enum method method;
  struct fk_grid_work work;
  struct fk_fast_mixture *mixture;
};

/* Methods differ in their last bits, which are not to depend on the threads: the choice is for one. */
static enum fk_status choose(const struct fk_fast_job *job, const struct fk_engine *exact, struct choice *choice,
                             struct fk_error *err) {
  struct fk_fast_samples s = {NULL};
  struct fk_work size = fk_task_work(job->task);
  double by[] = {INFINITY, INFINITY, INFINITY, INFINITY};
  bool on_device = job->terms == fk_fast_terms_cuda, gaussian = job->task->kernel == FK_KERNEL_GAUSSIAN;
  /* points too thin for a device's grid can be for the CPU, where that may do the work */
  bool may_direct = !on_device || job->opts->backend == FK_BACKEND_AUTO;
  struct fk_grid_work *work = &choice->work;
  enum fk_status status = take_samples(job, &s, err);
  if (!status) status = survey(job, &s, work, err);
  if (!status && !gaussian) status = fk_fast_mixture_init(job, &s, work, &choice->mixture, &by[BY_MIXTURE], err);
  if (!status && gaussian && fk_fast_may_be("grid")) by[BY_GRID] = fk_fast_grid_seconds(job, work);
  if (!status && gaussian && may_direct && fk_fast_may_be("direct"))
    status = fk_fast_direct_seconds(job, &s, by[BY_GRID], &by[BY_DIRECT], err);
  bool possible = isfinite(by[BY_GRID]) || isfinite(by[BY_DIRECT]) || isfinite(by[BY_MIXTURE]);
  bool forced = possible && (job->opts->engine == FK_ENGINE_FAST || wish());
  struct fk_opts alone = *job->opts;
  alone.threads = 1;
  /* each pair once on the CPU, where the targets are the sources: measured 0.55 */
  double share = job->same && !on_device ? 0.55 : 1;
  if (!forced) by[BY_EXACT] = share * exact->seconds(&size, &alone);
  choice->method = BY_EXACT;
  for (int i = BY_GRID; i <= BY_MIXTURE; i++)
    if (by[i] < by[choice->method]) choice->method = (enum method)i;
  free(s.u);
  return status;
}

/* ---- the engines ------------------------------------------------------------------------------ */

static enum fk_status run(struct fk_fast_job *job, const struct choice *choice, struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_stats *stats = job->stats;
  for (int64_t i = 0; i < job->m && task->shift; i++) task->shift[i] = 0;
  enum fk_status status = choice->method == BY_GRID     ? fk_fast_by_grid(job, &choice->work, err)
                          : choice->method == BY_DIRECT ? fk_fast_by_direct(job, err)
                                                        : fk_fast_by_mixture(job, choice->mixture, err);
  if (status) return status;
  stats->engine = "fast";
  if (choice->method != BY_MIXTURE) stats->method = choice->method == BY_GRID ? "grid" : "direct";
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

static enum fk_status sums_on(const struct fk_engine *exact, fk_fast_terms *terms, const struct fk_task *task,
                              const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err) {
  static uint64_t sessions;
  double start = fk_seconds(), d = (double)task->sources.d;
  struct fk_fast_job job = {.task = task, .opts = opts, .n = task->sources.n, .m = fk_n_targets(task)};
  struct choice choice = {.method = BY_EXACT};
  if (!has_factor(task)) return exact->sums(task, opts, stats, err);
  job.d = task->sources.d;
  job.same = !task->targets.data;
  job.tol = opts->tol;
  job.terms = terms;
  job.session = ++sessions;
  job.stats = stats;
  job.single = fk_fast_may_be_single(opts, opts->tol);
  job.laplace = -task->factor[1];
  job.plain = task->factor[0] - job.laplace * (1 + d / 2);
  job.gradient = task->values == FK_VALUES_COORDINATES;
  enum fk_status status = prepare_columns(&job, err);
  if (!status) status = choose(&job, exact, &choice, err);
  if (!status && choice.method != BY_EXACT) {
    (choice.method == BY_DIRECT ? &fk_engine_exact_cpu : exact)->describe(opts, stats);
    status = run(&job, &choice, err);
    if (status == FK_STATUS_UNSUPPORTED) { /* a grid larger than was thought */
      *err = (struct fk_error){FK_STATUS_OK, ""};
      status = FK_STATUS_OK;
      choice.method = BY_EXACT;
    }
  }
  fk_fast_mixture_free(choice.mixture);
  fk_aligned_free(job.own_b);
  if (status || choice.method == BY_EXACT) return status ? status : exact->sums(task, opts, stats, err);
  stats->pairs += (double)job.n * (double)job.m;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}

static bool supports(const struct fk_work *work, const struct fk_opts *opts) {
  bool has_kernel = work->kernel == FK_KERNEL_GAUSSIAN || fk_mixture_has(work->kernel);
  return opts->tol > 0 && has_kernel && work->d <= FK_GRID_MAX_D;
}

/* A sum of some ten Gaussians spreads the points on a few grids. */
static double times_gaussian(const struct fk_work *work) { return work->kernel == FK_KERNEL_GAUSSIAN ? 1 : 5; }

/* On the device of the exact engine. */
static void describe_as(const struct fk_engine *exact, const struct fk_opts *opts, struct fk_stats *stats) {
  exact->describe(opts, stats);
  stats->engine = "fast";
  stats->method = "";
}

static enum fk_status sums_cpu(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                               struct fk_error *err) {
  return sums_on(&fk_engine_exact_cpu, fk_fast_terms_cpu, task, opts, stats, err);
}

static enum fk_status available_cpu(const struct fk_opts *opts, struct fk_error *err) {
  return fk_engine_exact_cpu.available(opts, err);
}

/* Without the points there is only a rough guess. Where nothing but the CPU may do the work it is what few
 * neighbours take in any dimension: where it turns out wrong, the CPU's exact engine does the work all the same.
 * Beside that engine the guess is for one thread, as in choose(). */
static double seconds_cpu(const struct fk_work *work, const struct fk_opts *opts) {
  struct fk_opts alone = *opts;
  alone.threads = 1;
  bool may_be_elsewhere = FK_WITH_CUDA && opts->backend == FK_BACKEND_AUTO;
  double growth = may_be_elsewhere ? work->d - 1 : fmin(work->d - 1, 2);
  double fast = 1e-3 + (work->n + work->m) * 4e-8 * pow(2.5, growth) * (1 + work->n_values / 2);
  fast *= times_gaussian(work);
  return fast * (fk_engine_exact_cpu.seconds(work, opts) / fk_engine_exact_cpu.seconds(work, &alone));
}

static void describe_cpu(const struct fk_opts *opts, struct fk_stats *stats) {
  describe_as(&fk_engine_exact_cpu, opts, stats);
}

const struct fk_engine fk_engine_fast_cpu = {
    .name = "fast",
    .backend = FK_BACKEND_CPU,
    .kind = FK_ENGINE_FAST,
    .supports = supports,
    .available = available_cpu,
    .seconds = seconds_cpu,
    .describe = describe_cpu,
    .sums = sums_cpu,
};

#if FK_WITH_CUDA

static enum fk_status sums_cuda(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                                struct fk_error *err) {
  return sums_on(&fk_engine_exact_cuda, fk_fast_terms_cuda, task, opts, stats, err);
}

static enum fk_status available_cuda(const struct fk_opts *opts, struct fk_error *err) {
  return fk_engine_exact_cuda.available(opts, err);
}

/* The start, the transfer, and some passes over the points in the device's memory. */
static double seconds_cuda(const struct fk_work *work, const struct fk_opts *opts) {
  double numbers = work->n * (work->d + work->n_values) + work->m * (work->d + 1 + work->n_values);
  (void)opts;
  double times = times_gaussian(work);
  return 0.35 + times * (8 * numbers / 16e9 + (work->n + work->m) * 2e-10 * pow(3, work->d - 1));
}

static void describe_cuda(const struct fk_opts *opts, struct fk_stats *stats) {
  describe_as(&fk_engine_exact_cuda, opts, stats);
}

const struct fk_engine fk_engine_fast_cuda = {
    .name = "fast",
    .backend = FK_BACKEND_CUDA,
    .kind = FK_ENGINE_FAST,
    .supports = supports,
    .available = available_cuda,
    .seconds = seconds_cuda,
    .describe = describe_cuda,
    .sums = sums_cuda,
};

#endif

/* The fast engines: sums of Gaussian kernels to a tolerance, in up to 7 dimensions, in time linear in the points.
 * By a sample of them they take the cheapest of the grid (grid/backend.h), of direct sums that leave out what is
 * far away (cpu/direct/direct.h, on the CPU alone), and of the exact engine. Other kernels that are sums of few
 * Gaussians (mixture.h) take one of the first two for each.
 */
#include <math.h>

#include "../core/costs.h"
#include "../core/gpu.h"
#include "../core/plan.h"
#include "../core/plugin.h"
#include "by_direct.h"
#include "choose.h"
#include "columns.h"
#include "mixture.h"

/* ---- what is summed --------------------------------------------------------------------------- */

/* Which factors there are sums for. The gradient of a Laplace sum has the factor 2 + d/2 - q/2. */
static bool has_factor(const struct fk_task *task) {
  const double *f = task->factor, d = (double)task->sources.d;
  if (f[2] != 0) return false;
  return task->values != FK_VALUES_COORDINATES || f[1] == 0 || (f[0] == 2 + d / 2 && f[1] == -1);
}

/* ---- the engines ------------------------------------------------------------------------------ */

static enum fk_status sum_by_method(struct fk_fast_job *job, struct fk_fast_choice *choice, struct fk_error *err) {
  struct fk_stats *stats = job->stats;
  for (int64_t i = 0; i < job->m && job->task->shift; i++) job->task->shift[i] = 0;
  enum fk_status status = choice->method == FK_BY_GRID     ? fk_fast_by_plan(job, choice->plan, err)
                          : choice->method == FK_BY_DIRECT ? fk_fast_by_direct(job, err)
                                                           : fk_fast_by_mixture(job, choice->mixture, err);
  if (status) return status;
  stats->engine = "fast";
  if (choice->method != FK_BY_MIXTURE) stats->method = choice->method == FK_BY_GRID ? "grid" : "direct";
  stats->precision = job->used_single ? "single" : "double";
  stats->tail_rows += (double)job->tail_rows;
  stats->tol_achieved = fmax(stats->tol_achieved, fk_fast_check_achieved(job, &choice->sample));
  stats->tol_bound = fmax(stats->tol_bound, job->bound);
  fk_fast_scale_back(job);
  return FK_STATUS_OK;
}

/* A job and the way that it is best done, by its points. Both are to be freed, also after a failure. */
static enum fk_status prepare_job(struct fk_fast_job *job, const struct fk_grid_backend *grid,
                                  const struct fk_task *task, const struct fk_opts *opts,
                                  struct fk_fast_choice *choice, struct fk_stats *stats, struct fk_error *err) {
  static uint64_t sessions;
  double d = (double)task->sources.d;
  struct fk_work size = fk_task_work(task);
  *choice = (struct fk_fast_choice){.method = FK_BY_EXACT};
  *job = (struct fk_fast_job){.task = task, .opts = opts, .n = task->sources.n, .m = fk_n_targets(task)};
  job->d = task->sources.d;
  job->same = !task->targets.data;
  job->tol = opts->tol_type == FK_TOL_GLOBAL && task->exclude_self ? opts->tol / 2 : opts->tol; /* redo_heavy */
  job->grid = grid;
  job->sample = &choice->sample;
  job->session = ++sessions;
  job->stats = stats;
  job->single = fk_fast_may_be_single(opts, opts->tol) && !fk_fast_pointwise(job);
  job->laplace = -task->factor[1];
  job->plain = task->factor[0] - job->laplace * (1 + d / 2);
  job->gradient = task->values == FK_VALUES_COORDINATES;
  enum fk_status status = fk_fast_columns_init(job, err);
  job->single = job->single && !job->wide;
  job->exact_opts = fk_plan_options(grid->exact, opts, &size);
  return status ? status : fk_fast_choose(job, choice, err);
}

static enum fk_status sums_on(const struct fk_grid_backend *grid, const struct fk_task *task,
                              const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err) {
  const struct fk_engine *exact = grid->exact;
  double start = fk_seconds();
  struct fk_fast_job job;
  struct fk_fast_choice choice;
  if (!has_factor(task)) {
    fk_plan_say(stats, "no fast sums with this factor");
    return exact->sums(task, opts, stats, err);
  }
  enum fk_status status = prepare_job(&job, grid, task, opts, &choice, stats, err);
  if (!status && choice.method != FK_BY_EXACT) {
    (choice.method == FK_BY_DIRECT ? &fk_engine_exact_cpu : exact)->describe(opts, stats);
    status = sum_by_method(&job, &choice, err);
    if (status == FK_STATUS_UNSUPPORTED) { /* a grid larger than was thought */
      *err = (struct fk_error){FK_STATUS_OK, ""};
      status = FK_STATUS_OK;
      choice.method = FK_BY_EXACT;
      fk_plan_say(stats, "a grid would take too much memory");
    }
  }
  fk_fast_choice_free(&choice);
  fk_fast_columns_free(&job);
  if (status) return status;
  if (choice.method == FK_BY_EXACT) return exact->sums(task, &job.exact_opts, stats, err);
  stats->pairs += (double)job.n * (double)job.m;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}

static bool supports(const struct fk_work *work, const struct fk_opts *opts) {
  bool gaussian = fk_kernel_is_gaussian(&work->kernel);
  bool has_kernel = gaussian || fk_kernel_info(work->kernel.id)->mixture > 0;
  if (work->operation == FK_OP_STREAM) has_kernel = gaussian && opts->tol_type == FK_TOL_GLOBAL;
  return opts->tol > 0 && has_kernel && work->d <= FK_GRID_MAX_D;
}

/* A sum of some ten Gaussians spreads the points on a few grids. */
static double times_gaussian(const struct fk_work *work, double mixture) {
  return fk_kernel_is_gaussian(&work->kernel) ? 1 : mixture;
}

/* On the device of the exact engine. */
static void describe_as(const struct fk_engine *exact, const struct fk_opts *opts, struct fk_stats *stats) {
  exact->describe(opts, stats);
  stats->engine = "fast";
  stats->method = "";
}

static enum fk_status sums_cpu(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                               struct fk_error *err) {
  return sums_on(&fk_grid_cpu, task, opts, stats, err);
}

/* If the exact engine would be faster for K v, judged from the points, it computes the product in one sweep. */
static enum fk_status normal_cpu(struct fk_operator *op, const struct fk_normal *normal,
                                 const struct fk_opts *opts, double *product, struct fk_stats *stats,
                                 struct fk_error *err) {
  struct fk_task task = fk_normal_task(op, normal);
  struct fk_fast_job job;
  struct fk_fast_choice choice;
  if (task.n_columns == 1) { /* the mass */
    task.weights = task.columns;
    task.values = FK_VALUES_NONE;
  }
  enum fk_status status = prepare_job(&job, &fk_grid_cpu, &task, opts, &choice, stats, err);
  bool by_exact = choice.method == FK_BY_EXACT;
  fk_fast_choice_free(&choice);
  fk_fast_columns_free(&job);
  if (status) return status;
  return by_exact ? fk_engine_exact_cpu.normal(op, normal, &job.exact_opts, product, stats, err)
                  : FK_STATUS_UNSUPPORTED;
}

/* Without the points there is only a rough guess. Looking at them takes some milliseconds, which are to be a small
 * part of the exact engine's time in many dimensions, where that may turn out to be the faster one. Where nothing
 * but the CPU may do the work it is what few neighbours take in any dimension: where it turns out wrong, the CPU's
 * exact engine does the work all the same. Beside that engine the guess is for one thread, as in choose(). */
static double seconds_cpu(const struct fk_work *work, const struct fk_opts *opts) {
  const struct fk_fast_cpu_costs *c = &fk_costs.fast_cpu;
  struct fk_opts alone = *opts;
  alone.threads = 1;
  bool may_be_elsewhere = *fk_gpu_path() && opts->backend == FK_BACKEND_AUTO;
  double growth = may_be_elsewhere ? work->d - 1 : fmin(work->d - 1, c->growth_most);
  double fast = (work->n + work->m) * c->point * pow(c->growth, growth) * (1 + c->value * work->n_values);
  fast += c->look[work->d > c->low];
  fast *= times_gaussian(work, c->mixture);
  return fast * (fk_engine_exact_cpu.seconds(work, opts) / fk_engine_exact_cpu.seconds(work, &alone));
}

static void describe_cpu(const struct fk_opts *opts, struct fk_stats *stats) {
  describe_as(&fk_engine_exact_cpu, opts, stats);
}

const struct fk_engine fk_engine_fast_cpu = {
    .name = "fast",
    .backend = FK_BACKEND_CPU,
    .kind = FK_ENGINE_FAST,
    .operations = FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES) | FK_CAN(FK_OP_STREAM) |
                  FK_CAN(FK_OP_NORMAL),
    .supports = supports,
    .seconds = seconds_cpu,
    .describe = describe_cpu,
    .sums = sums_cpu,
    .normal = normal_cpu,
};

static enum fk_status sums_cuda(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                                struct fk_error *err) {
  const struct fk_plugin *gpu = fk_plugin(err);
  return gpu ? sums_on(gpu->grid, task, opts, stats, err) : err->status;
}

static enum fk_status available_cuda(const struct fk_opts *opts, struct fk_error *err) {
  return fk_engine_exact_cuda.available(opts, err);
}

/* The transfer, and some passes over the points in the device's memory. */
static double seconds_cuda(const struct fk_work *work, const struct fk_opts *opts) {
  double numbers = work->n * (work->d + work->n_values) + work->m * (work->d + 1 + work->n_values);
  const struct fk_fast_cuda_costs *c = &fk_costs.fast_cuda;
  double points = (work->n + work->m) * c->point * pow(c->growth, work->d - 1);
  return fk_gpu_start(opts) + c->call + times_gaussian(work, c->mixture) * (8 * numbers / c->host + points);
}

static void describe_cuda(const struct fk_opts *opts, struct fk_stats *stats) {
  describe_as(&fk_engine_exact_cuda, opts, stats);
}

const struct fk_engine fk_engine_fast_cuda = {
    .name = "fast",
    .backend = FK_BACKEND_CUDA,
    .kind = FK_ENGINE_FAST,
    .operations = FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES) | FK_CAN(FK_OP_NORMAL),
    .supports = supports,
    .available = available_cuda,
    .seconds = seconds_cuda,
    .describe = describe_cuda,
    .sums = sums_cuda,
};

/* The engines of this build and the choice among them. */
#include "plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "costs.h"
#include "gpu.h"
#include "method.h"

/* Those of the GPU are last: they are there where the plug-in is installed. */
static const struct fk_engine *const engines[] = {&fk_engine_exact_cpu, &fk_engine_line, &fk_engine_fast_cpu,
                                                  &fk_engine_exact_cuda, &fk_engine_fast_cuda};
enum { N_ENGINES = sizeof engines / sizeof *engines, N_GPU_ENGINES = 2 };

int fk_engine_count(void) { return *fk_gpu_path() ? N_ENGINES : N_ENGINES - N_GPU_ENGINES; }
const struct fk_engine *fk_engine_at(int i) { return engines[i]; }

/* ---- what is asked ---------------------------------------------------------------------------- */

static const struct {
  const char *name, *words;
} operations[] = {
    {"sums", "sums"},
    {"logs", "logarithms of sums"},
    {"coordinates", "sums of coordinates"},
    {"shift", "points that stay on the device"},
    {"debiased_loo", "leave-one-out of debiased points"},
    {"stream", "chunks on one grid"},
    {"normal", "normal products"},
    {"moments", "moments of pairs"},
    {"scales", "sums of kernels of many bandwidths"},
    {"levels", "sums by cells of levels"},
    {"neighbours", "distances to neighbours"},
    {"derivatives", "derivatives of sums of kernels"},
    {"rectangles", "probabilities of rectangles"},
    {"cubes", "kernels of bounded reach"},
    {"conditional", "conditional distribution functions"},
    {"sparse", "kernels between sparse points"},
    {"polygon", "masses inside polygons"},
    {"line_moments", "moments of local fits on a line"},
    {"windows", "kernels of bounded reach on a line"},
    {"cdf", "distribution functions on a line"},
};
_Static_assert(sizeof operations / sizeof *operations == FK_OPERATIONS, "an operation has no name");

const char *fk_operation_name(enum fk_operation operation) { return operations[operation].name; }
const char *fk_operation_words(enum fk_operation operation) { return operations[operation].words; }

bool fk_operation_of(const char *name, enum fk_operation *operation) {
  for (int i = 0; i < FK_OPERATIONS; i++)
    if (strcmp(name, operations[i].name) == 0) {
      *operation = (enum fk_operation)i;
      return true;
    }
  return false;
}

double fk_plan_pair_work(enum fk_operation operation, int64_t d, double values) {
  const struct fk_loop_costs *c = &fk_costs.loops[operation];
  return c->pair + c->coordinate * (double)d + c->value * values;
}

struct fk_work fk_task_work(const struct fk_task *task) {
  return (struct fk_work){
      .n = (double)task->sources.n,
      .m = (double)fk_n_targets(task),
      .d = (double)task->sources.d,
      .n_values = (double)fk_n_values(task),
      .kernel = task->kernel,
      .operation = task->values == FK_VALUES_COORDINATES ? FK_OP_COORDINATES
                   : task->shift                         ? FK_OP_LOGS
                                                         : FK_OP_SUMS,
  };
}

/* ---- what engines can do ---------------------------------------------------------------------- */

bool fk_engine_can(const struct fk_engine *engine, enum fk_operation operation) {
  return engine->operations >> operation & 1;
}

static bool any_fast_can(enum fk_operation operation) {
  for (int i = 0; i < fk_engine_count(); i++)
    if (engines[i]->kind == FK_ENGINE_FAST && fk_engine_can(engines[i], operation)) return true;
  return false;
}

static bool is_able(const struct fk_engine *engine, const struct fk_opts *opts, const struct fk_work *work) {
  return fk_engine_can(engine, work->operation) && (!engine->supports || engine->supports(work, opts));
}

static bool is_candidate(const struct fk_engine *engine, const struct fk_opts *opts, const struct fk_work *work) {
  bool no_fast = opts->engine == FK_ENGINE_FAST && !any_fast_can(work->operation);
  return (opts->backend == FK_BACKEND_AUTO || engine->backend == opts->backend) &&
         (opts->engine == FK_ENGINE_AUTO || no_fast || engine->kind == opts->engine) &&
         is_able(engine, opts, work);
}

bool fk_plan_has(const struct fk_opts *opts, const struct fk_work *work) {
  for (int i = 0; i < fk_engine_count(); i++)
    if (is_candidate(engines[i], opts, work)) return true;
  return false;
}

/* ---- why -------------------------------------------------------------------------------------- */

static void say_why(struct fk_stats *stats, const char *why) {
  snprintf(stats->reason, sizeof stats->reason, "%.*s", (int)sizeof stats->reason - 1, why);
}

void fk_plan_say(struct fk_stats *stats, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(stats->reason_engine, sizeof stats->reason_engine, format, arguments);
  va_end(arguments);
}

void fk_plan_describe(const struct fk_opts *opts, enum fk_operation operation, double pairs, double started,
                      int threads, struct fk_stats *stats) {
  fk_engine_exact_cpu.describe(opts, stats);
  stats->method = operations[operation].name;
  stats->threads = threads;
  stats->precision = "double";
  stats->pairs = pairs;
  stats->seconds = fk_seconds() - started;
}

void fk_plan_say_seconds(struct fk_stats *stats, int chosen, int n, const char *const *names,
                         const double *seconds) {
  char *text = stats->reason_engine;
  size_t size = sizeof stats->reason_engine;
  const char *name = names[chosen];
  fk_plan_say(stats, "%s%sby estimate: %.2g s", name ? name : "", name ? " " : "", seconds[chosen]);
  for (int i = 0; i < n; i++) {
    size_t length = strlen(text);
    if (i != chosen && isfinite(seconds[i]))
      snprintf(text + length, size - length, ", %s %.2g s", names[i], seconds[i]);
  }
}

/* Describes the kernel of the work in words, for reasons and messages. */
static const char *describe_kernel(const struct fk_work *work, char *text, size_t size) {
  const struct fk_kernel_info *kernel = fk_kernel_info(work->kernel.id);
  if (!fk_kernel_is_stationary(&work->kernel))
    snprintf(text, size, "the %s kernel (of x'y)", kernel->name);
  else if (!kernel->smooth)
    snprintf(text, size, "the %s kernel (not smooth at 0)", kernel->name);
  else
    snprintf(text, size, "the %s kernel in %.0f %s", kernel->name, work->d,
             work->d == 1 ? "dimension" : "dimensions");
  return text;
}

/* least: the seconds of exact and of fast engines. */
static void say_why_engine(struct fk_stats *stats, const struct fk_opts *opts, const struct fk_work *work,
                           const struct fk_engine *engine, const double *least) {
  bool is_fast = engine->kind == FK_ENGINE_FAST;
  char kernel[80];
  if (!any_fast_can(work->operation))
    fk_plan_say(stats, "no fast engine for %s", operations[work->operation].words);
  else if (opts->engine != FK_ENGINE_AUTO)
    fk_plan_say(stats, "as asked");
  else if (opts->tol == 0 && !is_fast)
    fk_plan_say(stats, "no tolerance");
  else if (!isfinite(least[1]))
    fk_plan_say(stats, "no fast engine for %s", describe_kernel(work, kernel, sizeof kernel));
  else
    fk_plan_say_seconds(stats, is_fast, 2,
                        is_fast ? (const char *[]){"exact", NULL} : (const char *[]){NULL, "fast"}, least);
}

/* ---- the choice ------------------------------------------------------------------------------- */

/* The CPU's exact engine can do anything: only the wish for a fast one is left without any. */
static enum fk_status no_candidate(const struct fk_opts *opts, const struct fk_work *work, struct fk_error *err) {
  const char *on = opts->backend == FK_BACKEND_CPU    ? " on the CPU"
                   : opts->backend == FK_BACKEND_CUDA ? " on the GPU"
                                                      : "";
  char kernel[80];
  return fk_fail(err, FK_STATUS_UNSUPPORTED,
                 "no fast engine for %s with tol = %g%s: use engine = \"auto\" or \"exact\"",
                 describe_kernel(work, kernel, sizeof kernel), opts->tol, on);
}

/* Gaussian sums far from all points leave the range of floats, which keep 1e-6 of others: where a tolerance
 * counts, exact sums in place of fast ones are in double. */
struct fk_opts fk_plan_options(const struct fk_engine *engine, const struct fk_opts *opts,
                               const struct fk_work *work) {
  struct fk_opts own = *opts;
  bool counts = false, beyond = fk_kernel_is_gaussian(&work->kernel) || opts->tol < 1e-6;
  for (int i = 0; i < fk_engine_count(); i++)
    if (engines[i]->kind == FK_ENGINE_FAST && opts->tol > 0 && is_able(engines[i], opts, work)) counts = true;
  if (engine->kind == FK_ENGINE_EXACT && opts->engine != FK_ENGINE_EXACT && counts && beyond)
    own.precision = FK_PRECISION_DOUBLE;
  return own;
}

/* A normal product is two sums but for exact engines that have one sweep. */
static double seconds_of(const struct fk_engine *engine, const struct fk_work *work, const struct fk_opts *opts) {
  bool one_sweep = engine->kind == FK_ENGINE_EXACT && engine->normal;
  if (work->operation != FK_OP_NORMAL || one_sweep) return engine->seconds(work, opts);
  struct fk_work product = *work, transposed = *work;
  product.operation = transposed.operation = FK_OP_SUMS;
  transposed.n = work->m;
  transposed.m = work->n;
  return engine->seconds(&product, opts) + engine->seconds(&transposed, opts);
}

/* The operations that the fast engine may do in place of the exact one, to FK_PLAN_AS_EXACT. */
#define STAND_IN_FOR (FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES))

static bool may_stand_in(const struct fk_opts *opts, const struct fk_work *work) {
  const struct fk_as_exact_costs *c = &fk_costs.as_exact;
  bool is_double = opts->precision == FK_PRECISION_AUTO || opts->precision == FK_PRECISION_DOUBLE;
  struct fk_opts alone = *opts;
  alone.threads = 1;
  return opts->engine == FK_ENGINE_AUTO && opts->tol == 0 && is_double && fk_kernel_is_gaussian(&work->kernel) &&
         work->d <= c->dimensions && (STAND_IN_FOR & FK_CAN(work->operation)) &&
         ((opts->methods & FK_METHOD_AS_EXACT) || fk_engine_exact_cpu.seconds(work, &alone) >= c->exact);
}

/* The seconds that an engine of a GPU has to be faster than: none beside a method that was asked for. The CPU's fast
 * engines, which may also replace exact sums, gain little from threads. */
static double seconds_to_beat(const struct fk_opts *opts, const struct fk_work *work,
                              const struct fk_plan_choice *choice) {
  double seconds = choice->seconds;
  struct fk_opts alone = choice->opts;
  if (choice->engine->backend == FK_BACKEND_CUDA || seconds == 0) return seconds;
  alone.threads = 1;
  if (choice->engine->kind == FK_ENGINE_FAST)
    seconds = seconds_of(choice->engine, work, &alone);
  else if (may_stand_in(opts, work))
    seconds = fmin(seconds, fk_costs.as_exact.times * fk_engine_fast_cpu.seconds(work, &alone));
  return fk_costs.gpu.host * (seconds + fk_costs.gpu.number * (work->n + work->m) * work->d);
}

/* Lets the fast engine replace exact sums, at the precision of doubles. It decides from the points whether it
 * does. */
static void stand_in(const struct fk_opts *opts, const struct fk_work *work, struct fk_plan_choice *choice) {
  if (choice->engine != &fk_engine_exact_cpu || !may_stand_in(opts, work)) return;
  choice->engine = &fk_engine_fast_cpu;
  choice->opts.precision = FK_PRECISION_DOUBLE;
  choice->opts.tol = work->operation == FK_OP_COORDINATES ? FK_PLAN_AS_EXACT_GRADIENT : FK_PLAN_AS_EXACT;
  choice->opts.tol_type = FK_TOL_POINTWISE;
  choice->opts.as_exact = true;
}

/* An engine is asked whether it works, which may start a driver, only where it would be faster by its guess than
 * those before it; the first engine, the CPU's, always does. One of a back end that was asked for has to work. */
enum fk_status fk_plan_choose(const struct fk_opts *opts, const struct fk_work *work,
                              struct fk_plan_choice *choice, struct fk_stats *stats, struct fk_error *err) {
  bool asked = opts->backend != FK_BACKEND_AUTO;
  double least[2] = {INFINITY, INFINITY};
  if (opts->backend == FK_BACKEND_CUDA && !*fk_gpu_path())
    return fk_fail(err, FK_STATUS_NO_DEVICE,
                   "backend \"cuda\" is not available: no GPU engine is installed, see ?install_gpu; use "
                   "backend = \"auto\" or \"cpu\"");
  *choice = (struct fk_plan_choice){.engine = NULL, .seconds = INFINITY};
  say_why(stats, asked            ? "as asked"
                 : *fk_gpu_path() ? "fastest by estimate"
                                  : "the only back end: no GPU engine is installed");
  for (int i = 0; i < fk_engine_count(); i++) {
    struct fk_error why = {FK_STATUS_OK, ""};
    if (!is_candidate(engines[i], opts, work)) continue;
    struct fk_plan_choice next = {engines[i], fk_plan_options(engines[i], opts, work), 0};
    double *of_kind = &least[engines[i]->kind == FK_ENGINE_FAST];
    next.seconds = seconds_of(engines[i], work, &next.opts);
    bool on_gpu = engines[i]->backend == FK_BACKEND_CUDA;
    bool slower =
        choice->engine && next.seconds >= (on_gpu ? seconds_to_beat(opts, work, choice) : choice->seconds);
    enum fk_status status =
        slower || !engines[i]->available ? FK_STATUS_OK : engines[i]->available(opts, asked ? err : &why);
    if (status && asked) return status;
    if (status) say_why(stats, why.message);
    if (!status) *of_kind = fmin(*of_kind, next.seconds);
    if (!status && !slower) *choice = next;
  }
  if (!choice->engine) return no_candidate(opts, work, err);
  say_why_engine(stats, opts, work, choice->engine, least);
  stand_in(opts, work, choice);
  return FK_STATUS_OK;
}

/* INFINITY where nothing can do it. */
static double seconds_with(const struct fk_opts *opts, enum fk_engine_kind engine, double tol,
                           const struct fk_work *work) {
  struct fk_opts own = *opts;
  struct fk_plan_choice choice;
  struct fk_stats stats;
  struct fk_error why = {FK_STATUS_OK, ""};
  own.engine = engine;
  own.tol = tol;
  return fk_plan_choose(&own, work, &choice, &stats, &why) ? INFINITY : choice.seconds;
}

/* Whatever the tolerance, they are fast. */
static bool stands_in(const struct fk_opts *opts, const struct fk_work *work) {
  struct fk_plan_choice choice;
  struct fk_stats stats;
  struct fk_error why = {FK_STATUS_OK, ""};
  return !fk_plan_choose(opts, work, &choice, &stats, &why) && choice.engine->kind == FK_ENGINE_FAST;
}

double fk_plan_hint(const struct fk_opts *opts, const struct fk_work *work, bool own, double share) {
  const struct fk_hint_costs *c = &fk_costs.hint;
  double least = work->n * work->m * (work->d + fk_kernel_info(FK_KERNEL_GAUSSIAN)->cost);
  if (least < c->work || opts->tol > 0 || opts->engine == FK_ENGINE_EXACT || stands_in(opts, work)) return 0;
  double exact = share * seconds_with(opts, FK_ENGINE_EXACT, 0, work) * (own ? c->own : 1);
  double fast = seconds_with(opts, FK_ENGINE_FAST, c->tol, work) * pow(c->growth, fmax(0, work->d - c->low));
  return isfinite(exact) && exact > c->exact && fast < c->fast ? exact : 0;
}

/* The engines of this build and the choice among them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../fk.h"
#include "../fk_config.h"

static const struct fk_engine *const engines[] = {
    &fk_engine_exact_cpu,
#if FK_WITH_CUDA
    &fk_engine_exact_cuda,
#endif
    &fk_engine_fast_cpu,
#if FK_WITH_CUDA
    &fk_engine_fast_cuda,
#endif
};
enum { N_ENGINES = sizeof engines / sizeof *engines };

struct fk_work fk_task_work(const struct fk_task *task) {
  return (struct fk_work){(double)task->sources.n, (double)fk_n_targets(task), (double)task->sources.d,
                          (double)fk_n_values(task), task->kernel};
}

static void say_why(struct fk_stats *stats, const char *why) {
  snprintf(stats->reason, sizeof stats->reason, "%.*s", (int)sizeof stats->reason - 1, why);
}

static bool is_built(enum fk_backend backend) {
  for (int i = 0; i < N_ENGINES; i++)
    if (engines[i]->backend == backend) return true;
  return false;
}

static bool is_candidate(const struct fk_engine *engine, const struct fk_opts *opts, const struct fk_work *work) {
  return (opts->backend == FK_BACKEND_AUTO || engine->backend == opts->backend) &&
         (opts->engine == FK_ENGINE_AUTO || engine->kind == opts->engine) &&
         (!engine->supports || engine->supports(work, opts));
}

/* The CPU's exact engine can do anything: only the wish for a fast one is left without any. */
static enum fk_status no_candidate(const struct fk_opts *opts, const struct fk_work *work, struct fk_error *err) {
  const char *on = opts->backend == FK_BACKEND_CPU    ? " on the CPU"
                   : opts->backend == FK_BACKEND_CUDA ? " on the GPU"
                                                      : "";
  return fk_fail(err, FK_STATUS_UNSUPPORTED,
                 "no fast engine for the %s kernel in %.0f %s with tol = %g%s: use engine = \"auto\" or \"exact\"",
                 fk_kernel_name(work->kernel), work->d, work->d == 1 ? "dimension" : "dimensions", opts->tol, on);
}

/* Gaussian sums far from all points leave the range of floats, which keep 1e-6 of others: where a tolerance
 * counts, exact sums in place of fast ones are in double. */
struct fk_opts fk_engine_options(const struct fk_engine *engine, const struct fk_opts *opts,
                                 const struct fk_work *work) {
  struct fk_opts own = *opts;
  bool counts = false, beyond = work->kernel == FK_KERNEL_GAUSSIAN || opts->tol < 1e-6;
  for (int i = 0; i < N_ENGINES; i++)
    if (engines[i]->kind == FK_ENGINE_FAST && engines[i]->supports(work, opts)) counts = true;
  if (engine->kind == FK_ENGINE_EXACT && opts->engine != FK_ENGINE_EXACT && counts && beyond)
    own.precision = FK_PRECISION_DOUBLE;
  return own;
}

/* An engine is asked whether it works, which may start a driver, only where it would be faster by its guess than
 * those before it; the first engine, the CPU's, always does. One of a back end that was asked for has to work. */
enum fk_status fk_engine_select(const struct fk_opts *opts, const struct fk_work *work,
                                const struct fk_engine **engine, struct fk_stats *stats, struct fk_error *err) {
  bool asked = opts->backend != FK_BACKEND_AUTO;
  double least = INFINITY;
  if (asked && !is_built(opts->backend))
    return fk_fail(err, FK_STATUS_NO_DEVICE,
                   "backend \"cuda\" is not available: this build of flashkernel has no CUDA engine; use "
                   "backend = \"auto\" or \"cpu\"");
  *engine = NULL;
  say_why(stats, asked                       ? "as asked"
                 : is_built(FK_BACKEND_CUDA) ? "fastest by estimate"
                                             : "the only back end of this build");
  for (int i = 0; i < N_ENGINES; i++) {
    struct fk_error why = {FK_STATUS_OK, ""};
    if (!is_candidate(engines[i], opts, work)) continue;
    struct fk_opts own = fk_engine_options(engines[i], opts, work);
    double seconds = engines[i]->seconds(work, &own);
    if (*engine && seconds >= least) continue;
    enum fk_status status = engines[i]->available(opts, asked ? err : &why);
    if (status && asked) return status;
    if (status) {
      say_why(stats, why.message);
    } else {
      *engine = engines[i];
      least = seconds;
    }
  }
  return *engine ? FK_STATUS_OK : no_candidate(opts, work, err);
}

#if !FK_WITH_CUDA
void fk_gpu_info(struct fk_gpu_info *info) {
  memset(info, 0, sizeof *info);
  snprintf(info->status, sizeof info->status, "this build of flashkernel has no CUDA engine");
}
void fk_gpu_release(void) {}
#endif

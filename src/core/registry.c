/* The engines of this build and the choice among them. */
#include <stdio.h>
#include <string.h>

#include "../fk.h"
#include "../fk_config.h"

static const struct fk_engine *const engines[] = {
    &fk_engine_exact_cpu,
#if FK_WITH_CUDA
    &fk_engine_exact_cuda,
#endif
};
enum { N_ENGINES = sizeof engines / sizeof *engines };

struct fk_work fk_task_work(const struct fk_task *task) {
  return (struct fk_work){(double)task->sources.n, (double)fk_n_targets(task), (double)task->sources.d,
                          (double)fk_n_values(task)};
}

static void say_why(struct fk_stats *stats, const char *why) {
  snprintf(stats->reason, sizeof stats->reason, "%.*s", (int)sizeof stats->reason - 1, why);
}

static enum fk_status select_asked(const struct fk_opts *opts, const struct fk_engine **engine,
                                   struct fk_stats *stats, struct fk_error *err) {
  for (int i = 0; i < N_ENGINES; i++)
    if (engines[i]->backend == opts->backend) {
      say_why(stats, "as asked");
      *engine = engines[i];
      return engines[i]->available(opts, err);
    }
  return fk_fail(err, FK_STATUS_NO_DEVICE,
                 "backend \"cuda\" is not available: this build of flashkernel has no CUDA engine; use "
                 "backend = \"auto\" or \"cpu\"");
}

/* The first engine, the CPU's, is always there. Another one is asked whether it works, which may start a driver,
 * only where it would be faster by its guess. */
static void select_fastest(const struct fk_opts *opts, const struct fk_work *work, const struct fk_engine **engine,
                           struct fk_stats *stats) {
  double least = engines[0]->seconds(work, opts);
  *engine = engines[0];
  say_why(stats, N_ENGINES > 1 ? "fastest by estimate" : "the only back end of this build");
  for (int i = 1; i < N_ENGINES; i++) {
    struct fk_error why = {FK_STATUS_OK, ""};
    double seconds = engines[i]->seconds(work, opts);
    if (seconds >= least) continue;
    if (engines[i]->available(opts, &why) == FK_STATUS_OK) {
      *engine = engines[i];
      least = seconds;
    } else {
      say_why(stats, why.message);
    }
  }
}

enum fk_status fk_engine_select(const struct fk_opts *opts, const struct fk_work *work,
                                const struct fk_engine **engine, struct fk_stats *stats, struct fk_error *err) {
  if (opts->backend != FK_BACKEND_AUTO) return select_asked(opts, engine, stats, err);
  select_fastest(opts, work, engine, stats);
  return FK_STATUS_OK;
}

#if !FK_WITH_CUDA
void fk_gpu_info(struct fk_gpu_info *info) {
  memset(info, 0, sizeof *info);
  snprintf(info->status, sizeof info->status, "this build of flashkernel has no CUDA engine");
}
void fk_gpu_release(void) {}
#endif

/* The engines of this build and the choice among them. */
#include "../fk.h"

static const struct fk_engine *const engines[] = {
    &fk_engine_exact_cpu,
};

/* "auto" takes the first engine that works: the table is in order of preference. */
enum fk_status fk_engine_select(const struct fk_opts *opts, const struct fk_engine **engine,
                                struct fk_error *err) {
  struct fk_error why = {FK_STATUS_NO_DEVICE,
                         "backend \"cuda\" is not available: this build of flashkernel has no CUDA engine; use "
                         "backend = \"auto\" or \"cpu\""};
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
    if (opts->backend != FK_BACKEND_AUTO && opts->backend != engines[i]->backend) continue;
    *engine = engines[i];
    if (engines[i]->available(&why) == FK_STATUS_OK) return FK_STATUS_OK;
  }
  return fk_fail(err, why.status, "%s", why.message);
}

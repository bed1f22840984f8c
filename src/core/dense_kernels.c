#include "dense_kernels.h"

#include <math.h>
#include <string.h>

#include "costs.h"
#include "count.h"
#include "gpu.h"
#include "plan.h"
#include "threads.h"

const struct fk_engine *fk_dense_engine(enum fk_backend backend) {
  for (int i = 0; i < fk_engine_count(); i++)
    if (fk_engine_at(i)->matrix && fk_engine_at(i)->backend == backend) return fk_engine_at(i);
  return NULL;
}

/* The devices that the options name. */
static int devices_of(const struct fk_opts *opts, int devices[FK_MAX_DEVICES]) {
  struct fk_gpu_info info;
  devices[0] = 0;
  if (opts->n_devices == 0) return 1;
  if (opts->devices[0] >= 0) {
    memcpy(devices, opts->devices, sizeof opts->devices);
    return opts->n_devices;
  }
  fk_gpu_info(&info);
  for (int i = 0; i < info.n_devices; i++) devices[i] = i;
  return (int)fk_larger(1, info.n_devices);
}

/* Sets *place if all devices are ready for matrices of this order. */
static enum fk_status try_devices(const struct fk_opts *opts, int64_t order, struct fk_dense_place *place,
                                  struct fk_error *err) {
  const struct fk_dense_ops *ops = fk_dense_ops(FK_BACKEND_CUDA, err);
  if (!ops) return err->status;
  place->engine = fk_dense_engine(FK_BACKEND_CUDA);
  enum fk_status status = place->engine->available(opts, err);
  place->n_devices = status ? 0 : devices_of(opts, place->devices);
  for (int i = 0; i < place->n_devices && !status; i++) status = ops->ready(place->devices[i], NULL, order, err);
  if (!status) place->ops = ops;
  return status;
}

enum fk_status fk_dense_place_choose(const struct fk_opts *opts, int64_t order, struct fk_dense_place *place,
                                     struct fk_error *err) {
  struct fk_error why = {FK_STATUS_OK, ""};
  const double host = pow((double)order, 3) / (fk_costs.dense.thread * fk_threads(opts->threads));
  const bool worth = fk_costs.gpu.host * host > fk_gpu_start(opts) + fk_costs.gpu.dense;
  if (opts->backend == FK_BACKEND_CUDA) return try_devices(opts, order, place, err);
  if (opts->backend == FK_BACKEND_AUTO && worth && try_devices(opts, order, place, &why) == FK_STATUS_OK)
    return FK_STATUS_OK;
  place->ops = &fk_dense_host;
  place->n_devices = 1;
  place->devices[0] = opts->threads;
  place->engine = fk_dense_engine(FK_BACKEND_CPU);
  return FK_STATUS_OK;
}

enum fk_status fk_kernel_terms_here(const struct fk_kernel_terms *terms, int threads, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int i = 0; i < terms->n && !status; i++) status = fk_operator_here(terms->ops[i], threads, NULL, err);
  return status;
}

enum fk_status fk_dense_kernels(const struct fk_engine *engine, const struct fk_kernel_terms *terms,
                                const struct fk_opts *opts, int device, int64_t row, int64_t first, bool lower,
                                const struct fk_dense *K, struct fk_error *err) {
  struct fk_opts own = *opts;
  enum fk_status status = FK_STATUS_OK;
  own.devices[0] = device;
  own.n_devices = 1;
  for (int i = 0; i < terms->n && !status; i++) {
    struct fk_operator *op = terms->ops[i];
    const int64_t d = op->x.d;
    const struct fk_matrix_term term = {terms->scales[i], i > 0};
    struct fk_task task = {.op = op,
                           .sources = fk_part(&op->x, first, K->d, 0, d),
                           .whitening = &op->whitening,
                           .kernel = op->kernel};
    task.factor[0] = 1;
    if (!lower) task.targets = fk_part(&op->x, row, K->n, 0, d);
    status = engine->matrix(&task, &term, &own, K, err);
  }
  return status;
}

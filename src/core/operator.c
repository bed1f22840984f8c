/* Operators: sources with what was prepared for them. */
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "resident.h"

enum fk_status fk_operator_create(const struct fk_operator_spec *spec, struct fk_operator **out,
                                  struct fk_error *err) {
  int64_t d = spec->x.d;
  size_t factor = sizeof(double) * (size_t)(d * d);
  struct fk_operator *op = calloc(1, sizeof *op);
  double *chol = malloc(factor), *origin = NULL;
  bool stationary = fk_kernel_is_stationary(&spec->kernel);
  if (!stationary) origin = calloc((size_t)d, sizeof *origin);
  if (!op || !chol || (!stationary && !origin)) {
    free(op);
    free(chol);
    free(origin);
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a factor of %.0f dimensions", (double)d);
  }
  op->x = spec->x;
  op->weights = spec->weights;
  op->kernel = spec->kernel;
  op->stays = spec->stays;
  op->chol = memcpy(chol, spec->chol, factor);
  fk_whitening_start(&op->whitening, op->chol, d);
  op->whitening.centre = origin; /* NULL: found by the first sum that needs it */
  *out = op;
  return FK_STATUS_OK;
}

bool fk_task_own(const struct fk_task *task) {
  const struct fk_operator *op = task->op;
  return op && task->whitening == &op->whitening && fk_is_same(&task->sources, &op->x);
}

struct fk_operator *fk_task_keeper(const struct fk_task *task) {
  return fk_task_own(task) && task->op->stays ? task->op : NULL;
}

void fk_operator_free(struct fk_operator *op) {
  if (!op) return;
  for (int i = 0; i < FK_KEEPERS; i++) fk_kept_drop(op, (enum fk_keeper)i);
  fk_whitening_free(&op->whitening);
  free(op->chol);
  free(op);
}

enum fk_status fk_operator_here(struct fk_operator *op, int threads, struct fk_task *task, struct fk_error *err) {
  if (!op->x.data) {
    op->x.data = fk_resident_host(op->x.resident, err);
    if (!op->x.data) return err->status;
  }
  if (!op->whitening.centre) {
    enum fk_status status = fk_whitening_centre(&op->whitening, &op->x, op->weights, threads, err);
    if (status) return status;
  }
  if (task) task->sources = op->x;
  return FK_STATUS_OK;
}

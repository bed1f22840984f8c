#include "dense_product.h"

#include <math.h>

#include "dense_kernels.h"

/* Products with a smaller side stay on the host. No script: where a device begins to gain was not measured; of
 * 1,500 columns a product takes it a ninth of the time of 16 cores, with all copies. */
enum { LEAST = 512 };

static enum fk_status multiply(const struct fk_dense_ops *ops, int device, unsigned flags,
                               const struct fk_dense *A, const struct fk_dense *B, const struct fk_dense *C,
                               struct fk_error *err) {
  return B ? ops->gemm(device, flags, 1, A, B, 0, C, err) : ops->syrk(device, flags, 1, A, 0, C, err);
}

static enum fk_status on_device(const struct fk_dense_place *place, unsigned flags, const struct fk_dense *A,
                                const struct fk_dense *B, const struct fk_dense *C, struct fk_error *err) {
  const struct fk_dense_ops *ops = place->ops;
  const int device = place->devices[0];
  struct fk_dense a = {.type = FK_DOUBLE, .n = A->n, .d = A->d}, c = {.type = FK_DOUBLE, .n = C->n, .d = C->d};
  struct fk_dense b = {.type = FK_DOUBLE, .n = B ? B->n : 0, .d = B ? B->d : 0};
  enum fk_status status = ops->alloc(device, &a, err);
  if (!status) status = ops->alloc(device, &c, err);
  if (!status && B) status = ops->alloc(device, &b, err);
  if (!status) status = ops->send(device, A, &a, err);
  if (!status && B) status = ops->send(device, B, &b, err);
  if (!status) status = multiply(ops, device, flags, &a, B ? &b : NULL, &c, err);
  if (!status) status = ops->fetch(device, &c, C, err);
  ops->free(device, &a);
  ops->free(device, &b);
  ops->free(device, &c);
  return status;
}

enum fk_status fk_dense_product(const struct fk_opts *opts, unsigned flags, const struct fk_dense *A,
                                const struct fk_dense *B, const struct fk_dense *C, struct fk_error *err) {
  const double inner = (double)(flags & FK_TRANSPOSED ? A->n : A->d), work = inner * (double)C->n * (double)C->d;
  struct fk_dense_place place;
  struct fk_error why = {FK_STATUS_OK, ""};
  /* the order of a matrix whose factorisation takes as many operations */
  const int64_t order = (int64_t)cbrt(3 * work);
  if (opts->backend != FK_BACKEND_CPU && inner >= LEAST && C->n >= LEAST && C->d >= LEAST &&
      fk_dense_place_choose(opts, order, &place, &why) == FK_STATUS_OK && place.ops != &fk_dense_host &&
      on_device(&place, flags, A, B, C, &why) == FK_STATUS_OK)
    return FK_STATUS_OK;
  return multiply(&fk_dense_host, opts->threads, flags, A, B, C, err);
}

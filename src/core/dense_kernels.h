/* Kernel matrices for dense operations: on which devices, or on the host, and parts of a kernel matrix there. */
#pragma once

#include "dense.h"

struct fk_dense_place {
  const struct fk_dense_ops *ops;
  const struct fk_engine *engine;         /* its `matrix` writes kernels to matrices of ops */
  int devices[FK_MAX_DEVICES], n_devices; /* the host is one device; its number is a number of threads */
};
/* Chooses by the options: with FK_BACKEND_AUTO all devices that they name if these factorise a matrix of this
 * order in less time by estimate, the host otherwise. Fails with the reasons of a device that the options require.
 */
enum fk_status fk_dense_place_choose(const struct fk_opts *opts, int64_t order, struct fk_dense_place *place,
                                     struct fk_error *err);

/* The exact engine of a back end that computes kernel matrices; NULL: none. */
const struct fk_engine *fk_dense_engine(enum fk_backend backend);
/* Brings what the terms share to the host. */
enum fk_status fk_kernel_terms_here(const struct fk_kernel_terms *terms, int threads, struct fk_error *err);
/* Writes kernels of points row .. row + K->n - 1 at points first .. first + K->d - 1 to *K, on `device` of the
 * engine; only the lower triangle if `lower`, where these are the same points. */
enum fk_status fk_dense_kernels(const struct fk_engine *engine, const struct fk_kernel_terms *terms,
                                const struct fk_opts *opts, int device, int64_t row, int64_t first, bool lower,
                                const struct fk_dense *K, struct fk_error *err);

/* potrf and lauum of large matrices, in blocks whose products have most of the work: gemm is the fastest that BLAS
 * has, and between blocks one can look for an interrupt. In place, on any table of dense operations. */
#pragma once

#include "dense.h"

struct fk_blocked {
  const struct fk_dense_ops *ops;
  int device;
  int64_t block; /* the order of a block; 0: by that of the matrix */
  struct fk_poll poll;
};

/* As those of struct fk_dense_ops. */
enum fk_status fk_blocked_potrf(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                int64_t *pivot, struct fk_error *err);
enum fk_status fk_blocked_lauum(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                struct fk_error *err);

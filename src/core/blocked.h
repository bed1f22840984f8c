/* Blocked potrf, lauum and trtri of large matrices, in place, on any table of dense operations. Most of the work
 * is in gemm, the fastest operation of BLAS, and the caller's poll is called between blocks. */
#pragma once

#include "dense.h"

struct fk_blocked {
  const struct fk_dense_ops *ops;
  int device;
  int64_t block; /* order of a block; 0: chosen from the order of the matrix */
  struct fk_poll poll;
};

/* Arguments, results and failures are those of potrf, lauum and trtri in struct fk_dense_ops; also
 * FK_STATUS_INTERRUPTED. */
enum fk_status fk_blocked_potrf(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                int64_t *pivot, struct fk_error *err);
enum fk_status fk_blocked_lauum(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                struct fk_error *err);
enum fk_status fk_blocked_trtri(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                struct fk_error *err);
/* Inverse of a positive definite matrix on the host. A: its lower triangle, zeros above; overwritten. B, of the
 * same size: the inverse. *log_det: NaN where potrf finds a pivot; B then has no meaning. */
enum fk_status fk_blocked_inverse(const struct fk_blocked *how, const struct fk_dense *A, const struct fk_dense *B,
                                  double *log_det, struct fk_error *err);

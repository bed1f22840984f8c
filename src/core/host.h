/* What core asks of the vectors of the processor: cpu/gemm.c fills the table. */
#pragma once

#include "dense.h"

struct fk_host_ops {
  /* On a block u of points, d x width: L^-1 u in its place, or A u to out. */
  void (*block_solve)(const double *chol, int64_t d, double *u, int64_t width);
  void (*block_multiply)(const double *A, int64_t d, const double *u, int64_t width, double *out);
  /* As gemm of struct fk_dense_ops, of matrices of doubles that go together. */
  enum fk_status (*gemm)(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err);
};
extern const struct fk_host_ops fk_host;

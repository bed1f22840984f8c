/* Functions that core/ needs in vector instructions of the processor. cpu/gemm.c defines the table. */
#pragma once

#include "dense.h"

struct fk_host_ops {
  /* For a block u of points, d x width: block_solve replaces u by L^-1 u, block_multiply writes A u to out. */
  void (*block_solve)(const double *chol, int64_t d, double *u, int64_t width);
  void (*block_multiply)(const double *A, int64_t d, const double *u, int64_t width, double *out);
  /* gemm of struct fk_dense_ops for matrices of doubles whose sizes match (not checked). */
  enum fk_status (*gemm)(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err);
};
extern const struct fk_host_ops fk_host;

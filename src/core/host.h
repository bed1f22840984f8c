/* Functions that core/ needs in vector instructions of the processor. cpu/gemm.c defines the table. */
#pragma once

#include "dense.h"

/* Further flags of gemm: only this triangle of a square C is read and written. */
enum fk_host_flag { FK_HOST_LOWER = 32, FK_HOST_UPPER = 64 };
/* Triangles of a larger order are for the caller to divide. */
enum { FK_HOST_TRIANGLE = 96 };

/* K'(W (K v + w)) of a matrix that has a column for each row of K: `columns` columns of v, of w and of the
 * results; v or w NULL: 0, weights NULL: ones, product or sums (K v) NULL: not asked. chances: NULL, or
 * probabilities p of classes for each row, whose W is its weight times diag(p) - p p'. The columns of w, chances
 * and sums are ld apart. adds: is the product added to what is there? */
struct fk_host_normal {
  const struct fk_dense *transposed;
  const double *v, *w, *weights, *chances;
  int64_t columns, ld;
  double *sums, *product;
  bool adds;
};

struct fk_host_ops {
  /* For a block u of points, d x width: block_solve replaces u by L^-1 u, block_multiply writes A u to out. */
  void (*block_solve)(const double *chol, int64_t d, double *u, int64_t width);
  void (*block_multiply)(const double *A, int64_t d, const double *u, int64_t width, double *out);
  /* gemm of struct fk_dense_ops for matrices of doubles whose sizes match (not checked), and trsm, potrf and trtri
   * for those whose triangle has an order up to FK_HOST_TRIANGLE. They may fail with FK_STATUS_ALLOC. */
  enum fk_status (*gemm)(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err);
  enum fk_status (*normal)(int threads, const struct fk_host_normal *of, struct fk_error *err);
  enum fk_status (*solve)(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                          const struct fk_dense *B, struct fk_error *err);
  enum fk_status (*factor)(unsigned flags, const struct fk_dense *A, int64_t *pivot, struct fk_error *err);
  enum fk_status (*invert)(unsigned flags, const struct fk_dense *A, struct fk_error *err);
  /* power r^(power - 2) k of n kernels k = exp(-r^power), 0 where r is 0 up to rounding; out may be k. */
  void (*stretched_slopes)(const double *k, int64_t n, double power, double *out);
};
extern const struct fk_host_ops fk_host;

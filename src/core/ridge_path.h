/* Exact fits of kernel ridge regression with the same kernel matrix K and one noise s after the other: with
 * C = K + diag(s), the coefficients a = C^-1 y and `own`, the diagonal of C^-1. The leave-one-out residuals of row
 * i are a_i / own_i. A noise takes 2/3 m^3 multiply-adds and additions, half of them for `own`; K is
 * computed once. */
#pragma once

#include "../fk.h"

struct fk_ridge_path_spec {
  struct fk_kernel_terms kernels; /* K is the kernel matrix of their m points; n = 0: K is `matrix` */
  const double *matrix;           /* m x m, of which the lower triangle is read */
  int64_t m, t, k;                /* rows; columns of y; noises; each at least 1 */
  const double *y;                /* m x t, or with `y_by_noise` m x t x k */
  const double *noises;           /* k numbers, or with `by_row` m x k */
  bool by_row, y_by_noise;
};
/* The caller's memory for results. A noise for which C is not positive definite, to rounding, has NaN. */
struct fk_ridge_path {
  double *coefficients, *own; /* m x t x k; m x k, or NULL: not computed */
  double *log_det, *energy;   /* of C, k; y'C^-1 y of each column of y, t x k */
  const char *backend;        /* set to a constant */
};
/* The fits of n tasks. On the host, threads fit noises of all tasks side by side. The bits do not depend on what
 * else is fitted. */
enum fk_status fk_ridge_paths(const struct fk_ridge_path_spec *specs, int64_t n, const struct fk_opts *opts,
                              struct fk_ridge_path *outs, struct fk_error *err);

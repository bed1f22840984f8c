/* Sums of outer products of the gradients of fits f(x) = sum_j a_j k(x, z_j) at their own points, from which
 * metrics are learnt (R/ridge-metric.R). Points are in the coordinates of the kernel, L = I. */
#pragma once

#include "../fk.h"

/* The gradient at x is sum_j a_j s (z_j - x), with s = times k^exponent, or with `power` > 0 of k = exp(-r^power)
 * s = power r^(power - 2) k. `absolute`: it is -sum_j a_j sign(x - z_j) k. */
struct fk_slope {
  double times, exponent, power;
  bool absolute;
};
struct fk_gradients_spec {
  struct fk_kernel_terms kernels; /* the k of the m points */
  const double *z, *a;            /* m x d, m x t: each function has a column of a */
  int64_t m, d, t;
  struct fk_slope slope;
  bool full;
};
/* outs[i]: of all points and functions of spec i the sum of g g', d x d, or unless `full` of the squares of g, d.
 * The bits do not depend on what else is computed. */
enum fk_status fk_gradient_products(const struct fk_gradients_spec *specs, int64_t n, const struct fk_opts *opts,
                                    double **outs, struct fk_error *err);

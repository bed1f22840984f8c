/* Sums of kernels with their first and second derivatives, at targets, in double. */
#pragma once

#include "../../fk.h"

/* With u_i = x_i - y, c_i = 1 / f_i^2, s_i = c_i |u_i|^2 / 2, k_i = w_i exp(-s_i) / scale, F the polynomial
 * `factor` of s, F' and F'' its derivatives:
 *
 *   S = sum F k,   B = sum (F - F') c k,   G = sum (F - F') c k u,   M = sum (F - 2 F' + F'') c^2 k u u',
 *
 * so that the gradient of S is G and its Hessian M - B I, in whitened coordinates. Points lie one after the other,
 * d numbers each. What is left out changes no number by more than about 2^-53 of sum k. */
struct fk_derivatives {
  const double *x, *y;         /* y NULL: the points, each of which is left out of its own sums */
  const double *x_low, *y_low; /* of double-doubles; NULL: 0. Without low parts of x those of y do not count */
  int64_t n, m, d;
  const double *log_weight; /* n: log w, finite */
  const double *factors;    /* n: f; NULL: ones */
  const double *log_scale;  /* m: about log sum w exp(-s), so that no number is very small or large */
  double factor[3];
  double *sums; /* m times: S, B, G, and of M a, b with b <= a as number a (a + 1) / 2 + b */
};
static inline int64_t fk_derivative_sums(int64_t d) { return 2 + d + d * (d + 1) / 2; }
enum fk_status fk_kernel_derivatives(const struct fk_derivatives *of, const struct fk_opts *opts,
                                     struct fk_stats *stats, struct fk_error *err);

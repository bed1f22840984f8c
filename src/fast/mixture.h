/* Kernels (1 + s)^-p of the squared distance s as sums of few Gaussians: p = 1 (Cauchy), p = 1/2 (inverse
 * multiquadric).
 *
 *   (1 + s)^-p = 1/Gamma(p) int exp(p u - e^u) exp(-e^u s) du  ~  sum_c weight[c] exp(-rate[c] s)
 *
 * by the trapezoidal rule, whose error relative to the kernel is the same at every s (mixture.c says why), as in
 * Beylkin and Monzon, Appl. Comput. Harmon. Anal. 28 (2010) 131. Kernels that are not smooth at 0 have no such
 * sum: they would need ever narrower Gaussians.
 */
#pragma once

#include "../fk.h"

enum { FK_MIXTURE_MOST = 256 };

struct fk_mixture {
  int n;
  double rate[FK_MIXTURE_MOST], weight[FK_MIXTURE_MOST]; /* the narrowest first */
  double power, largest;                                 /* p; s is 0 .. largest */
  double error; /* the largest of |kernel - sum| / kernel there, measured */
};

/* Finds a sum with error <= tol for all s from 0 to `largest`. FK_STATUS_UNSUPPORTED: it would need more than
 * FK_MIXTURE_MOST Gaussians. */
enum fk_status fk_mixture_init(struct fk_mixture *mixture, double power, double largest, double tol,
                               struct fk_error *err);
/* The largest share of a component in the kernel, weight[c] exp(-rate[c] s) / kernel, over all s. */
double fk_mixture_share(const struct fk_mixture *mixture, int c);

/* One dimension: Gaussian sums, moments of local fits and distribution functions by boxes (boxes.h), in O(n + m),
 * sums and exact fits of Matern kernels by the states of their processes (markov.h), in O(n + m) after a sort, and
 * sums of kernels of bounded reach by blocks of sorted points (windows.c), in O((n + m) log n). The Gaussian and
 * Matern sums are those of fk_engine_line, which the planner knows. */
#pragma once

#include "../../fk.h"

/* ---- moments of local fits ---------------------------------------------------------------------- */

/* Distances are in bandwidths: kernels are exp(-u^2 / 2), u the point less the place. */
struct fk_line {
  const double *x;       /* n, increasing */
  const double *low;     /* n: the low parts of double-doubles; NULL: 0 */
  const double *at_low;  /* the same of the places, where these are not the points */
  const double *weights; /* n, from 0 to 1, one of them positive */
  const double *y;       /* n x t */
  int64_t n, t;
  int order;      /* of the moments, 0 .. 2 */
  const int *own; /* NULL, or from 1 on: which of the points each place is */
};
/* A column of moments for each number that there is. */
static inline int64_t fk_line_width(int64_t t, int order) {
  return 1 + t + (order > 0 ? 1 + t : 0) + (order > 1 ? 1 : 0);
}

/* At m places, increasing; NULL: at the n points. all: m x fk_line_width(), column after column: the logarithm of
 * S = sum w k, then under the shares w k / S the means of each y, the mean of u, the covariances of u with each y,
 * and the variance of u. others: NULL, or where places are points the same of all but the point itself. However
 * small S is, moments have their digits; without any point they are 0. */
enum fk_status fk_line_moments(const struct fk_line *of, const double *at, int64_t m, const struct fk_opts *opts,
                               double *all, double *others, struct fk_stats *stats, struct fk_error *err);

/* ---- distribution functions --------------------------------------------------------------------- */

/* sum_i w_i (Phi(z) + z (corrected[0] + corrected[1] z^2) phi(z)), z = (y - x_i)/h, x ascending. */
struct fk_cdf_spec {
  const double *x, *cumulative_weights; /* n each */
  int64_t n;
  double h;
  const double *corrected;
};
enum fk_status fk_cdf(const struct fk_cdf_spec *spec, const double *y, int64_t m, const struct fk_opts *opts,
                      double *out, struct fk_error *err);

/* ---- kernels of bounded reach ------------------------------------------------------------------- */

enum { FK_MOST_POWERS = 16 };

/* With s = 1 - |y - x_i| / reach, how far the point is within the edge of the kernel at y in units of its
 * reach, the sums of w_i (c_0 + c_1 s + ...) over the points within reach of y, those on its left and those on
 * its right apart. */
struct fk_windows {
  const double *x;       /* n, increasing */
  const double *weights; /* n, none negative */
  int64_t n;
  double reach;
  const double *coefficients; /* of s^0 .. s^(count - 1) */
  int count;                  /* 1 .. FK_MOST_POWERS */
  bool ties;                  /* do points at y itself count? On its left, and left out on either side. */
};
/* At y; NULL: at the n points, each without itself. sums: m x 2, left and right. */
enum fk_status fk_window_sums(const struct fk_windows *of, const double *y, int64_t m, const struct fk_opts *opts,
                              double *sums, struct fk_stats *stats, struct fk_error *err);

/* ---- Markov kernels ----------------------------------------------------------------------------- */

/* K + N for the kernel matrix K of n points and the diagonal N. */
struct fk_markov_system {
  struct fk_kernel kernel; /* laplacian, product_laplacian, matern32 or matern52 */
  double bandwidth;
  const double *x;     /* n, increasing */
  const double *noise; /* n, positive; INFINITY: a point without an observation, whose solution is 0 */
  int64_t n;
};
struct fk_markov_result {
  double *own;      /* n: the diagonal of (K + N)^-1; NULL: not asked for, nor is the variance */
  double *variance; /* n: the diagonal of K - K (K + N)^-1 K */
  double log_det;   /* of I + N^-1 K, of the points with observations */
};
/* Replaces y, n x t, by (K + N)^-1 y, in time linear in n, on one thread. */
enum fk_status fk_markov_solve(const struct fk_markov_system *of, double *y, int64_t t,
                               struct fk_markov_result *result, const struct fk_opts *opts, struct fk_error *err);

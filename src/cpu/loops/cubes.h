/* Sums of polynomial kernels of bounded reach, in several dimensions: over the points in a cube about each target,
 * in double. */
#pragma once

#include "../../core/polynomial.h"
#include "../../fk.h"

/* With s_k = 1 - |y_k - x_ik| / reach_k, how far the point is within the edges of the cube about y, the sums of
 * w_i prod_k f(s_k) over the points in it, where no s_k is below 0: f = value(s) + tip(2 s - 1), the tip 0 where 2
 * s < 1, and at 0, too. With a slope also, for each k, the sums with slope(s_k) in place of f(s_k), negative where
 * x_ik < y_k, 0 where they are equal. */
struct fk_cubes {
  const double *x, *y; /* one after the other, d numbers each; y NULL: the points, each without itself */
  int64_t n, m, d;
  const double *weights, *reach; /* n, none negative; d */
  struct fk_polynomial value, tip, slope;
  double *sums; /* m, or with a slope m x (1 + d) */
};
enum fk_status fk_cube_sums(const struct fk_cubes *of, const struct fk_opts *opts, struct fk_stats *stats,
                            struct fk_error *err);

/* Distances to neighbours, exactly. */
#pragma once

#include "../../fk.h"

/* The distance from each of m targets y to the k-th nearest of n points x; y NULL: from each of the points (m is
 * n) to the k-th nearest of the others. One point after the other, d numbers each; k from 1 to n, or n - 1. */
struct fk_neighbours {
  const double *x, *y;
  const double *x_low, *y_low; /* of double-doubles; NULL: 0. Without low parts of x those of y do not count */
  int64_t n, m, d, k;
};
enum fk_status fk_neighbour_distances(const struct fk_neighbours *of, const struct fk_opts *opts, double *out,
                                      struct fk_stats *stats, struct fk_error *err);

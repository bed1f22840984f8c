/* Probabilities that Gaussians have inside polygons, for estimates on a support (R/density-support-polygon.R). */
#pragma once

#include "../fk.h"

/* sides: n_sides times the (x, y) of a side's start and the (x, y) of its end, the sides of closed rings. Outer
 * rings are counterclockwise, holes clockwise. centres: n times (x, y). widths: n standard deviations of the
 * isotropic Gaussians; NULL: 1. moments: not the probabilities alone, but those of u_1^a u_2^b for a and b below
 * FK_POLYGON_ORDERS, a fastest, in the Gaussian's sds about its centre. */
enum { FK_POLYGON_ORDERS = 5 };
struct fk_polygon {
  const double *sides, *centres, *widths;
  const double *sides_low, *centres_low; /* low parts, if coordinates are double-doubles; NULL: 0 */
  int64_t n_sides, n;
  bool moments;
};
/* out: n probabilities, each to 1e-13, or a matrix of n rows, a moment in each column. Fails only by an interrupt.
 */
enum fk_status fk_polygon_masses(const struct fk_polygon *of, const struct fk_opts *opts, double *out,
                                 struct fk_stats *stats, struct fk_error *err);

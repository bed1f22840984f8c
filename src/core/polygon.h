/* Masses of Gaussians inside polygons, for estimates on a support (R/density-support-polygon.R). */
#pragma once

#include "../fk.h"

/* Sides of closed rings, each (x, y) where it begins and (x, y) where it ends, outer rings counterclockwise and
 * holes clockwise; n centres (x, y), and the sds of their round Gaussians, NULL: 1. */
struct fk_polygon {
  const double *sides, *centres, *widths;
  const double *sides_low, *centres_low; /* of double-doubles; NULL: 0 */
  int64_t n_sides, n;
};
/* The mass of each inside, to 1e-13. */
enum fk_status fk_polygon_masses(const struct fk_polygon *of, const struct fk_opts *opts, double *out,
                                 struct fk_stats *stats, struct fk_error *err);

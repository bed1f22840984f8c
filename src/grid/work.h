/* The size of a sum on a grid, from which its window and its method are chosen. */
#pragma once

#include "window.h"

FK_BEGIN_C

enum { FK_GRID_MAX_D = 7 };

enum { FK_GRID_LEVELS = 12 };
struct fk_grid_work {
  double n, m; /* sources, targets */
  int d;
  int64_t columns;
  unsigned use;
  bool same_points;             /* targets are the sources */
  double extent[FK_GRID_MAX_D]; /* extent of the points, in bandwidths */
  double boxes[FK_GRID_LEVELS]; /* number of cubes of side 2^level bandwidths that hold points */
  /* A weighted sum of `kernels` Gaussians of bandwidths `scales`, the first of which is 1 and the least. 0: one
   * Gaussian of bandwidth 1. */
  int kernels;
  const double *scales, *weights;
};

/* The number of cubes of any side, in bandwidths, that hold points, interpolated on a log scale. */
double fk_grid_boxes(const struct fk_grid_work *work, double side);
/* Changes the survey to a bandwidth divided by `times`. */
void fk_grid_magnify(struct fk_grid_work *work, double times);

/* Relative rounding error of sums in float, which have 24 bits; the position within a block takes four of them. */
#define FK_GRID_ROUNDING 1e-6
/* Estimated time with a window; infinite if the window cannot be used. It does not depend on the number of threads
 * or devices, because the window decides the bits of results. */
typedef double fk_grid_cost(const struct fk_grid_work *work, const struct fk_window *window, bool single);
/* Chooses the window with the least estimated time among those with an error below tol, in single precision if
 * *single is true on entry and the tolerance allows it. FK_STATUS_UNSUPPORTED: no window reaches tol. */
enum fk_status fk_grid_choose(const struct fk_grid_work *work, double tol, fk_grid_cost *cost, bool *single,
                              struct fk_window *window, double *seconds, struct fk_error *err);

FK_END_C

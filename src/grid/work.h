/* A sum on a grid as the choice of its window, and of what computes it, see it. */
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
  double extent[FK_GRID_MAX_D]; /* of the points, in bandwidths */
  double boxes[FK_GRID_LEVELS]; /* cubes of side 2^level bandwidths with a point in them */
  /* Not one kernel of bandwidth 1 but the sum of such, of bandwidths `scales`, the first 1 and the least; 0: one.
   */
  int kernels;
  const double *scales, *weights;
};

/* Boxes of any side, in bandwidths, with a point in them: between powers of two on a log scale. */
double fk_grid_boxes(const struct fk_grid_work *work, double side);
/* The survey of the same points with a bandwidth of 1 / times of the one before. */
void fk_grid_magnify(struct fk_grid_work *work, double times);

/* What rounding leaves of sums in float: they have 24 bits, and a place within a block loses four of them. */
#define FK_GRID_ROUNDING 1e-6
/* Seconds with a window, by which to choose; infinite where it will not do. The same on any number of threads or
 * devices: windows decide on the bits. */
typedef double fk_grid_cost(const struct fk_grid_work *work, const struct fk_window *window, bool single);
/* The cheapest window that keeps the error under tol; single is chosen too where *single is true on entry and
 * the tolerance lets it. FK_STATUS_UNSUPPORTED where none does. */
enum fk_status fk_grid_choose(const struct fk_grid_work *work, double tol, fk_grid_cost *cost, bool *single,
                              struct fk_window *window, double *seconds, struct fk_error *err);

FK_END_C

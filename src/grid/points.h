/* A view of whitened points for a grid. */
#pragma once

#include "../fk.h"

/* n points; coordinate k of point i is u[k * ld + i], finite. */
struct fk_grid_points {
  const double *u;
  int64_t n, ld;
};

enum { FK_GRID_CHUNK = 1 << 20 }; /* number of points that are whitened at a time */

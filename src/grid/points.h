/* Points in whitened coordinates, as grids take them. */
#pragma once

#include "../fk.h"

/* Column-major: u[k * ld + i]. Finite. */
struct fk_grid_points {
  const double *u;
  int64_t n, ld;
};

enum { FK_GRID_CHUNK = 1 << 20 }; /* points whitened at a time */

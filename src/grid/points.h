/* Points in whitened coordinates, as grids take them. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

/* Column-major: u[k * ld + i]. Finite. */
struct fk_grid_points {
  const double *u;
  int64_t n, ld;
};

enum { FK_GRID_CHUNK = 1 << 20 }; /* points whitened at a time */
/* Rows first .. first + count - 1, whitened, to u[k * ld + r]. */
enum fk_status fk_grid_whiten(const struct fk_whitening *w, int threads, const struct fk_matrix *points,
                              int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err);

FK_END_C

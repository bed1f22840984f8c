/* Whitening in double-doubles, for what R hands on: in the three phases of glue.h. */
#include <stdlib.h>

#include "../core/count.h"
#include "../core/doubled.h"
#include "ffi.h"

static bool whiten_block(const struct fk_whitening *w, const struct fk_matrix *x, int64_t first, double *u,
                         double *to, double *to_low) {
  int64_t d = w->d, count = fk_smaller(FK_BLOCK, x->n - first);
  const struct fk_doubled_block block = {u, u + d * FK_BLOCK, FK_BLOCK};
  if (!fk_whiten_doubled(w, x, NULL, first, count, 1, &block)) return false;
  for (int64_t r = 0; r < count; r++)
    for (int64_t k = 0; k < d; k++) {
      to[(first + r) * d + k] = block.high[k * FK_BLOCK + r];
      to_low[(first + r) * d + k] = block.low[k * FK_BLOCK + r];
    }
  return true;
}

/* L^-1 (x - centre) of the rows of x, a column each: double-doubles, their low parts the attribute `low`. */
SEXP ffi_whiten_doubled(SEXP x, SEXP centre, SEXP chol) {
  struct fk_matrix points = r_points(x, "x");
  struct fk_whitening w;
  struct fk_error err = {FK_STATUS_OK, ""};
  fk_whitening_start(&w, r_factor(chol, points.d), points.d);
  const double *middle = r_numbers(centre, (R_xlen_t)points.d, "centre");
  double *own = (double *)R_alloc((size_t)points.d, sizeof *own);
  for (int64_t k = 0; k < points.d; k++) own[k] = middle[k];
  w.centre = own;
  double *u = (double *)R_alloc((size_t)(2 * points.d * FK_BLOCK), sizeof *u);
  SEXP high = PROTECT(r_matrix(points.d, points.n, R_NilValue)),
       low = PROTECT(r_matrix(points.d, points.n, R_NilValue));

  for (int64_t first = 0; first < points.n && !err.status; first += FK_BLOCK)
    if (!whiten_block(&w, &points, first, u, REAL(high), REAL(low))) fk_no_memory(&err, 0, "whitened points");

  r_finish(&err);
  Rf_setAttrib(high, Rf_install("low"), low);
  UNPROTECT(2);
  return high;
}

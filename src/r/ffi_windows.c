/* Polynomial kernels in one dimension; R/sum-compact.R. Kernels at the nodes of a lattice; R/infer-exchange.R. */
#include "../cpu/line/line.h"
#include "../cpu/loops/lattice.h"

#include <limits.h>

#include "ffi.h"

/* windows: list(x, weights, reach, coefficients, ties) as struct fk_windows has them; y: NULL for the points. */
SEXP ffi_window_sums(SEXP windows, SEXP y, SEXP control) {
  SEXP x = r_element(windows, "x"), coefficients = r_element(windows, "coefficients");
  R_xlen_t n = Rf_xlength(x), count = Rf_xlength(coefficients), m = Rf_isNull(y) ? n : Rf_xlength(y);
  struct fk_windows of = {.n = n, .reach = Rf_asReal(r_element(windows, "reach")), .count = (int)count};
  struct r_call call = r_begin(control);
  of.x = r_numbers(x, n, "x");
  of.weights = r_numbers(r_element(windows, "weights"), n, "weights");
  of.coefficients = r_numbers(coefficients, count, "coefficients");
  of.ties = r_flag(r_element(windows, "ties"));
  if (n < 1 || count < 1 || count > FK_MOST_POWERS || !(of.reach > 0))
    Rf_error("there must be points, a positive reach and 1 to %d `coefficients`", FK_MOST_POWERS);
  const double *at = Rf_isNull(y) ? NULL : r_numbers(y, m, "y");
  SEXP sums = PROTECT(r_matrix(m, 2, R_NilValue));

  fk_window_sums(&of, at, m, &call.opts, REAL(sums), &call.stats, &call.err);

  SEXP result = r_result(&call, 1, (const char *const[]){"sums"}, &sums);
  UNPROTECT(1);
  return result;
}

/* lattice: list(points, from, counts, step), as struct fk_lattice has them. left: NULL for those of the right. */
SEXP ffi_lattice_forms(SEXP lattice, SEXP left, SEXP right, SEXP ends, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_matrix u = r_points(r_element(lattice, "points"), "points");
  if (u.type != FK_DOUBLE || u.ld != u.n || u.d < 1 || u.d > FK_LATTICE_AXES)
    Rf_error("`points` must be a matrix of doubles with 1 to %d columns", FK_LATTICE_AXES);
  struct fk_lattice of = {.u = u.data, .n = u.n, .d = u.d, .bins = Rf_xlength(ends)};
  of.from = r_numbers(r_element(lattice, "from"), (R_xlen_t)of.d, "from");
  of.counts = r_numbers(r_element(lattice, "counts"), (R_xlen_t)of.d, "counts");
  of.step = *r_numbers(r_element(lattice, "step"), 1, "step");
  of.ends = r_numbers(ends, (R_xlen_t)of.bins, "ends");
  of.right = r_numbers(right, (R_xlen_t)of.n, "right");
  of.left = Rf_isNull(left) ? of.right : r_numbers(left, (R_xlen_t)of.n, "left");
  double nodes = 1;
  for (int64_t k = 0; k < of.d; k++) nodes *= of.counts[k];
  if (!(nodes >= 1 && nodes <= INT_MAX)) Rf_error("there must be 1 to %d nodes", INT_MAX);
  if (of.bins < 1 || of.ends[of.bins - 1] != (double)of.n)
    Rf_error("the last of `ends` must be the number of points");
  SEXP forms = PROTECT(r_matrix(of.bins, of.bins, R_NilValue));

  fk_lattice_forms(&of, &call.opts, REAL(forms), &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return forms;
}

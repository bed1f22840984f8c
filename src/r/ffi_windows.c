/* Polynomial kernels in one dimension; R/sum-compact.R. */
#include "../cpu/line/line.h"

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

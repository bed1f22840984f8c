/* Moments of points on a line; R/local-line.R. Exact fits on a line; R/ridge-states.R. */
#include "../cpu/line/line.h"

#include <string.h>

#include "ffi.h"

/* line: list(x, low, weights, y, order) as struct fk_line has them; at: in order, with low parts as an attribute,
 * or NULL for the points; own: NULL, or which of the points, from 1 on, each of `at` is; loo: others, too? */
SEXP ffi_line_moments(SEXP line, SEXP at, SEXP own, SEXP loo, SEXP control) {
  SEXP x = r_element(line, "x"), y = r_element(line, "y");
  R_xlen_t n = Rf_xlength(x), m = Rf_isNull(at) ? n : Rf_xlength(at);
  struct fk_line of = {
      .n = n, .t = n > 0 ? Rf_xlength(y) / n : 0, .order = Rf_asInteger(r_element(line, "order"))};
  bool with_others = r_flag(loo);
  struct r_call call = r_begin(control);
  of.x = r_numbers(x, n, "x");
  of.weights = r_numbers(r_element(line, "weights"), n, "weights");
  of.y = r_numbers(y, n * of.t, "y");
  if (n < 1 || of.order < 0 || of.order > 2 || (with_others && Rf_isNull(at) != Rf_isNull(own)))
    Rf_error("there must be points, an order from 0 to 2, and for others `own` where there is `at`");
  if (!Rf_isNull(own)) {
    if (TYPEOF(own) != INTSXP || Rf_xlength(own) != m) Rf_error("`own` must be %.0f integers", (double)m);
    of.own = INTEGER_RO(own);
    for (R_xlen_t j = 0; j < m; j++)
      if (of.own[j] < 1 || of.own[j] > n) Rf_error("`own` must be between 1 and the number of points");
  }
  SEXP low = r_element(line, "low");
  of.low = Rf_isNull(low) ? NULL : r_numbers(low, n, "low");
  of.at_low = r_low_parts(at);
  const double *places = Rf_isNull(at) ? NULL : r_numbers(at, m, "at");
  SEXP moments[2];
  moments[0] = PROTECT(r_matrix(m, fk_line_width(of.t, of.order), R_NilValue));
  moments[1] = PROTECT(with_others ? r_matrix(m, fk_line_width(of.t, of.order), R_NilValue) : R_NilValue);

  fk_line_moments(&of, places, m, &call.opts, REAL(moments[0]), with_others ? REAL(moments[1]) : NULL, &call.stats,
                  &call.err);

  SEXP result = r_result(&call, 2, (const char *const[]){"all", "others"}, moments);
  UNPROTECT(2);
  return result;
}

/* system: list(x, noise, bandwidth, kernel) as struct fk_markov_system has them; y: a matrix with a row for each
 * point; with_own: the diagonals, too? */
SEXP ffi_markov(SEXP system, SEXP y, SEXP with_own, SEXP control) {
  SEXP x = r_element(system, "x");
  int64_t n = Rf_xlength(x), t = Rf_ncols(y);
  struct fk_markov_system of = {.kernel = r_kernel(r_element(system, "kernel")),
                                .bandwidth = Rf_asReal(r_element(system, "bandwidth")),
                                .n = n};
  struct fk_markov_result found = {.own = NULL};
  struct r_call call = r_begin(control);
  of.x = r_numbers(x, n, "x");
  of.noise = r_numbers(r_element(system, "noise"), n, "noise");
  const double *from = r_numbers(y, n * t, "y");
  const char *const names[] = {"x", "log_det", "own", "variance"};
  SEXP values[4] = {PROTECT(r_matrix(n, t, R_NilValue)), PROTECT(r_vector(1))};
  for (int k = 2; k < 4; k++) values[k] = PROTECT(r_flag(with_own) ? r_vector(n) : R_NilValue);
  if (r_flag(with_own)) found.own = REAL(values[2]), found.variance = REAL(values[3]);
  memcpy(REAL(values[0]), from, sizeof *from * (size_t)(n * t));

  fk_markov_solve(&of, REAL(values[0]), t, &found, &call.opts, &call.err);

  REAL(values[1])[0] = found.log_det;
  SEXP result = r_result(&call, 4, names, values);
  UNPROTECT(4);
  return result;
}

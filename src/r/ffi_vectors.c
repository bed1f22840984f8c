/* Columns of vectors; R/sum-gradients.R, R/ridge-gradient.R. */
#include "../core/vectors.h"

#include "ffi.h"

static int r_threads(SEXP control) { return r_begin(control).opts.threads; }

static R_xlen_t r_size(SEXP x, const char *name) {
  if (!Rf_isMatrix(x)) Rf_error("`%s` must be a matrix", name);
  return XLENGTH(x);
}

SEXP ffi_column_products(SEXP a, SEXP b, SEXP control) {
  struct fk_error err = {FK_STATUS_OK, ""};
  R_xlen_t size = r_size(a, "a");
  const double *first = r_numbers(a, size, "a"), *second = r_numbers(b, size, "b");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_vector(Rf_ncols(a)));

  fk_column_products(first, second, Rf_nrows(a), Rf_ncols(a), threads, REAL(out), &err);

  r_finish(&err);
  UNPROTECT(1);
  return out;
}

SEXP ffi_combine_columns(SEXP x, SEXP a, SEXP by, SEXP control) {
  R_xlen_t size = r_size(x, "x");
  const double *to = r_numbers(x, size, "x"), *from = r_numbers(a, size, "a"),
               *factors = r_numbers(by, Rf_ncols(x), "by");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(x), Rf_ncols(x), R_NilValue));
  fk_combine_columns(to, from, factors, Rf_nrows(x), Rf_ncols(x), threads, REAL(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_stretched_slopes(SEXP k, SEXP power, SEXP control) {
  R_xlen_t size = r_size(k, "k");
  const double *kernels = r_numbers(k, size, "k"), *exponent = r_numbers(power, 1, "power");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(k), Rf_ncols(k), R_NilValue));
  fk_stretched_slopes(kernels, size, *exponent, threads, REAL(out));
  UNPROTECT(1);
  return out;
}

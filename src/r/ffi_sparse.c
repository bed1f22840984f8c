/* Kernels between sparse points of R's package Matrix; R/ridge-rows-sparse.R says what its lists hold. */
#include "../core/sparse.h"

#include "ffi.h"

/* The slots p, i and x of a dgCMatrix as list(start, index, values). */
static struct fk_compressed r_compressed(SEXP list) {
  SEXP start = r_element(list, "start"), index = r_element(list, "index"), values = r_element(list, "values");
  if (TYPEOF(start) != INTSXP || XLENGTH(start) < 2 || TYPEOF(index) != INTSXP || TYPEOF(values) != REALSXP)
    Rf_error("the argument must be a sparse matrix");
  struct fk_compressed matrix = {XLENGTH(start) - 1, INTEGER_RO(start), INTEGER_RO(index), REAL_RO(values)};
  R_xlen_t entries = matrix.start[matrix.n];
  if (entries < 0 || XLENGTH(index) != entries || XLENGTH(values) != entries)
    Rf_error("the pointers of a sparse matrix must match its number of entries");
  return matrix;
}

/* The columns' scales: one, or one for each of d. */
static const double *r_scale(SEXP list, int64_t d, int64_t *n_scale) {
  SEXP scale = r_element(list, "scale");
  *n_scale = Rf_xlength(scale);
  return r_numbers(scale, (R_xlen_t)(*n_scale == 1 ? 1 : d), "scale");
}

SEXP ffi_sparse_norms(SEXP rows, SEXP d, SEXP kernel, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_compressed matrix = r_compressed(rows);
  struct fk_kernel of = r_kernel(kernel);
  int64_t n_scale;
  const double *scale = r_scale(rows, (int64_t)Rf_asReal(d), &n_scale);
  SEXP norms = PROTECT(r_vector(matrix.n));
  fk_sparse_norms(&matrix, scale, n_scale, fk_kernel_metric(&of), call.opts.threads, REAL(norms));
  UNPROTECT(1);
  return norms;
}

/* The kernels of all centres, down, at rows first .. first + count - 1, across. */
SEXP ffi_sparse_kernels(SEXP rows, SEXP centres, SEXP first, SEXP count, SEXP kernel, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_sparse s = {.rows = r_compressed(rows), .centres = r_compressed(centres), .kernel = r_kernel(kernel)};
  SEXP norms = r_element(centres, "norms");
  s.m = Rf_xlength(norms);
  s.centre_norms = r_numbers(norms, (R_xlen_t)s.m, "norms");
  s.row_norms = r_numbers(r_element(rows, "norms"), (R_xlen_t)s.rows.n, "norms");
  s.scale = r_scale(rows, s.centres.n, &s.n_scale);
  double from = Rf_asReal(first) - 1, many = Rf_asReal(count);
  if (!(from >= 0 && many >= 1 && from + many <= (double)s.rows.n) || s.m == 0)
    Rf_error("`first` and `count` must be within the rows, and there must be centres");
  SEXP values = PROTECT(r_matrix(s.m, (int64_t)many, R_NilValue));

  fk_sparse_kernels(&s, (int64_t)from, (int64_t)many, &call.opts, REAL(values), &call.stats, &call.err);

  SEXP result = r_result(&call, 1, (const char *const[]){"values"}, (SEXP[]){values});
  UNPROTECT(1);
  return result;
}

#include <string.h>

#include "ffi.h"

static int64_t rows_of(const struct fk_points *x, const struct fk_points *y) { return y->data ? y->n : x->n; }

/* Column names are set here, for R would copy the matrix. */
static SEXP column_names(SEXP x) {
  SEXP names = Rf_getAttrib(x, R_DimNamesSymbol);
  return Rf_isNull(names) ? R_NilValue : VECTOR_ELT(names, 1);
}

static SEXP result_matrix(int64_t rows, int64_t columns, SEXP names) {
  SEXP matrix = PROTECT(Rf_allocMatrix(REALSXP, (int)rows, (int)columns));
  if (!Rf_isNull(names)) {
    SEXP both = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(both, 1, names);
    Rf_setAttrib(matrix, R_DimNamesSymbol, both);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return matrix;
}

SEXP ffi_kernel_sum(SEXP x, SEXP y, SEXP b, SEXP chol, SEXP control) {
  struct fk_points px = r_points(x, "x"), py = r_targets(y, px.d), pb = r_points(b, "b");
  if (pb.n != px.n) Rf_error("`b` must have as many rows as `x`");
  const double *L = r_factor(chol, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  SEXP sums = PROTECT(result_matrix(rows_of(&px, &py), pb.d, column_names(b)));

  fk_kernel_sum(&px, &py, pb.data, pb.d, L, &opts, REAL(sums), &stats, &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 1, (const char *const[]){"sums"}, (SEXP[]){sums});
  UNPROTECT(1);
  return result;
}

SEXP ffi_log_sum(SEXP x, SEXP y, SEXP weights, SEXP chol, SEXP factor, SEXP loo, SEXP control) {
  struct fk_points px = r_points(x, "x"), py = r_targets(y, px.d);
  const double *w = r_weights(weights, px.n), *L = r_factor(chol, px.d);
  const double *f = r_numbers(factor, 3, "factor");
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  bool without_self = r_flag(loo);
  SEXP log_abs = PROTECT(Rf_allocVector(REALSXP, rows_of(&px, &py)));
  bool is_signed = f[0] < 0 || f[1] != 0 || f[2] != 0;
  SEXP negative = PROTECT(is_signed ? Rf_allocVector(LGLSXP, rows_of(&px, &py)) : R_NilValue);

  fk_log_sum(&px, &py, w, L, f, without_self, &opts, REAL(log_abs), is_signed ? LOGICAL(negative) : NULL, &stats,
             &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 2, (const char *const[]){"log_abs", "negative"}, (SEXP[]){log_abs, negative});
  UNPROTECT(2);
  return result;
}

SEXP ffi_score(SEXP x, SEXP y, SEXP weights, SEXP chol, SEXP laplace, SEXP loo, SEXP names, SEXP control) {
  struct fk_points px = r_points(x, "x"), py = r_targets(y, px.d);
  const double *w = r_weights(weights, px.n), *L = r_factor(chol, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  bool corrected = r_flag(laplace), without_self = r_flag(loo);
  SEXP score = PROTECT(result_matrix(rows_of(&px, &py), px.d, names));

  fk_score(&px, &py, w, L, corrected, without_self, &opts, REAL(score), &stats, &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 1, (const char *const[]){"score"}, (SEXP[]){score});
  UNPROTECT(1);
  return result;
}

SEXP ffi_debias(SEXP x, SEXP weights, SEXP chol, SEXP chol_score, SEXP control) {
  struct fk_points px = r_points(x, "x");
  const double *w = r_weights(weights, px.n), *L = r_factor(chol, px.d);
  const double *L_score = r_factor(chol_score, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  SEXP debiased = PROTECT(result_matrix(px.n, px.d, column_names(x)));

  fk_debias(&px, w, L, L_score, &opts, REAL(debiased), &stats, &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 1, (const char *const[]){"debiased"}, (SEXP[]){debiased});
  UNPROTECT(1);
  return result;
}

SEXP ffi_sdkde_loo(SEXP x, SEXP weights, SEXP chol, SEXP chol_score, SEXP control) {
  struct fk_points px = r_points(x, "x");
  const double *w = r_weights(weights, px.n), *L = r_factor(chol, px.d);
  const double *L_score = r_factor(chol_score, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  SEXP log_sum = PROTECT(Rf_allocVector(REALSXP, px.n));

  fk_sdkde_loo(&px, w, L, L_score, &opts, REAL(log_sum), &stats, &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 1, (const char *const[]){"log_sum"}, (SEXP[]){log_sum});
  UNPROTECT(1);
  return result;
}

SEXP ffi_cdf(SEXP x, SEXP cumulative_weights, SEXP h, SEXP y, SEXP laplace, SEXP control) {
  R_xlen_t n = Rf_xlength(x), m = Rf_xlength(y);
  const double *points = r_numbers(x, n, "x"), *at = r_numbers(y, m, "y");
  const double *weights = r_numbers(cumulative_weights, n, "cumulative_weights");
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  double sd = Rf_asReal(h);
  bool corrected = r_flag(laplace);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, m));

  fk_cdf(points, weights, n, sd, at, m, corrected, &opts, REAL(out), &err);

  r_finish(&err);
  UNPROTECT(1);
  return out;
}

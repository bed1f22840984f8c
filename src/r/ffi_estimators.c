#include <string.h>

#include "ffi.h"

static int64_t rows_of(const struct fk_points *x, const struct fk_points *y) { return y->data ? y->n : x->n; }

SEXP ffi_kernel_sum(SEXP x, SEXP y, SEXP b, SEXP chol, SEXP control) {
  struct fk_points px = r_points(x, "x"), py = r_targets(y, px.d), pb = r_points(b, "b");
  if (pb.n != px.n) Rf_error("`b` must have as many rows as `x`");
  const double *L = r_factor(chol, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  SEXP sums = PROTECT(Rf_allocMatrix(REALSXP, (int)rows_of(&px, &py), (int)pb.d));

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
  SEXP sign = PROTECT(Rf_allocVector(REALSXP, rows_of(&px, &py)));

  fk_log_sum(&px, &py, w, L, f, without_self, &opts, REAL(log_abs), REAL(sign), &stats, &err);

  r_finish(&err);
  SEXP result = r_result(&stats, 2, (const char *const[]){"log_abs", "sign"}, (SEXP[]){log_abs, sign});
  UNPROTECT(2);
  return result;
}

SEXP ffi_score(SEXP x, SEXP y, SEXP weights, SEXP chol, SEXP laplace, SEXP loo, SEXP control) {
  struct fk_points px = r_points(x, "x"), py = r_targets(y, px.d);
  const double *w = r_weights(weights, px.n), *L = r_factor(chol, px.d);
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  bool corrected = r_flag(laplace), without_self = r_flag(loo);
  SEXP score = PROTECT(Rf_allocMatrix(REALSXP, (int)rows_of(&px, &py), (int)px.d));

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
  SEXP debiased = PROTECT(Rf_allocMatrix(REALSXP, (int)px.n, (int)px.d));

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

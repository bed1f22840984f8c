/* Derivatives of sums of kernels and probabilities of rectangles, in the three phases of glue.h. Points have a
 * column each. */
#include "../core/derivatives.h"
#include "../core/rectangles.h"
#include "ffi.h"

static struct fk_matrix columns_of(SEXP list, const char *name) {
  struct fk_matrix points = r_points(r_element(list, name), name);
  if (points.type != FK_DOUBLE) Rf_error("`%s` must be doubles", name);
  return points;
}

/* The same, with as many rows and, if that is not 0, as many columns. */
static const double *matching(SEXP list, const char *name, int64_t d, int64_t m) {
  struct fk_matrix points = columns_of(list, name);
  if (points.n != d || (m > 0 && points.d != m)) Rf_error("`%s` has another size", name);
  return points.data;
}

static const double *numbers_or_null(SEXP list, const char *name, int64_t n) {
  SEXP x = r_element(list, name);
  return Rf_isNull(x) ? NULL : r_numbers(x, (R_xlen_t)n, name);
}

/* job: list(x, y, log_weight, factors, log_scale, factor); y NULL: the points, without themselves. */
SEXP ffi_derivatives(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x");
  struct fk_derivatives of = {.x = x.data, .n = x.d, .m = x.d, .d = x.n};
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  if (!Rf_isNull(r_element(job, "y"))) {
    of.y = matching(job, "y", of.d, 0);
    of.m = columns_of(job, "y").d;
  }
  of.log_weight = r_numbers(r_element(job, "log_weight"), (R_xlen_t)of.n, "log_weight");
  of.factors = numbers_or_null(job, "factors", of.n);
  of.log_scale = r_numbers(r_element(job, "log_scale"), (R_xlen_t)of.m, "log_scale");
  const double *factor = r_numbers(r_element(job, "factor"), 3, "factor");
  for (int i = 0; i < 3; i++) of.factor[i] = factor[i];
  SEXP sums = PROTECT(r_matrix(fk_derivative_sums(of.d), of.m, R_NilValue));
  of.sums = REAL(sums);

  fk_kernel_derivatives(&of, &opts, &err);

  r_finish(&err);
  UNPROTECT(1);
  return sums;
}

/* job: list(x, lower, upper, weights, factors, correlation, laplace). */
SEXP ffi_rectangles(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x");
  struct fk_rectangles of = {.x = x.data, .n = x.d, .d = x.n};
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  r_opts(control, &opts, &stats);
  of.m = columns_of(job, "upper").d;
  of.upper = matching(job, "upper", of.d, of.m);
  of.lower = matching(job, "lower", of.d, of.m);
  of.weights = r_numbers(r_element(job, "weights"), (R_xlen_t)of.n, "weights");
  of.factors = numbers_or_null(job, "factors", of.n);
  of.correlation = Rf_asReal(r_element(job, "correlation"));
  of.laplace = r_flag(r_element(job, "laplace"));
  if (of.correlation != 0 && (of.d != 2 || !(fabs(of.correlation) < 1)))
    Rf_error("`correlation` must be 0, or between -1 and 1 of two coordinates");
  SEXP out = PROTECT(r_vector(of.m));

  fk_rectangle_sums(&of, &opts, REAL(out), &err);

  r_finish(&err);
  UNPROTECT(1);
  return out;
}

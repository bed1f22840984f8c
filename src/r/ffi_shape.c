/* Derivatives of sums of kernels, probabilities of rectangles, polynomial kernels in several dimensions and
 * conditional distribution functions, in the three phases of glue.h. Points have a column each. */
#include "../cpu/loops/conditional.h"
#include "../core/count.h"
#include "../cpu/loops/cubes.h"
#include "../cpu/loops/derivatives.h"
#include "../cpu/loops/rectangles.h"
#include "ffi.h"

static struct fk_matrix columns_of(SEXP list, const char *name) {
  struct fk_matrix points = r_points(r_element(list, name), name);
  if (points.type != FK_DOUBLE) Rf_error("`%s` must be doubles", name);
  return points;
}

/* Numbers of the matrix of doubles `name` of a list, owned by R. An R error unless it has d rows and, if m > 0, m
 * columns: one column is one point. */
static const double *matching(SEXP list, const char *name, int64_t d, int64_t m) {
  struct fk_matrix points = columns_of(list, name);
  if (points.n != d || (m > 0 && points.d != m))
    Rf_error("the size of `%s` does not match the other arguments", name);
  return points.data;
}

/* The low parts of points that are double-doubles: whitened_columns() in R has them as an attribute. */
static const double *low_of(SEXP list, const char *name) { return r_low_parts(r_element(list, name)); }

/* How many there are: those of `y`, as long as the points are, or where that is NULL the points, and *y stays. */
static int64_t targets_of(SEXP job, struct fk_matrix x, const double **y) {
  if (Rf_isNull(r_element(job, "y"))) return x.d;
  *y = matching(job, "y", x.n, 0);
  return columns_of(job, "y").d;
}

/* Coefficients; NULL: there are none. */
static struct fk_polynomial polynomial_of(SEXP list, const char *name) {
  enum { MOST = 32 };
  SEXP c = r_element(list, name);
  struct fk_polynomial of = {NULL, 0};
  if (Rf_isNull(c)) return of;
  of.count = (int)fk_smaller(Rf_xlength(c), MOST);
  if (of.count < 1) Rf_error("`%s` must have at least one coefficient", name);
  of.c = r_numbers(c, of.count, name);
  return of;
}

/* job: list(x, y, log_weight, factors, log_scale, factor); y NULL: the points, without themselves. */
SEXP ffi_derivatives(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x");
  struct fk_derivatives of = {.x = x.data, .n = x.d, .d = x.n};
  struct r_call call = r_begin(control);
  of.m = targets_of(job, x, &of.y);
  of.x_low = low_of(job, "x");
  of.y_low = low_of(job, "y");
  of.log_weight = r_numbers(r_element(job, "log_weight"), (R_xlen_t)of.n, "log_weight");
  of.factors = r_numbers_or_null(job, "factors", of.n);
  of.log_scale = r_numbers(r_element(job, "log_scale"), (R_xlen_t)of.m, "log_scale");
  r_polynomial(job, of.factor);
  SEXP sums = PROTECT(r_matrix(fk_derivative_sums(of.d), of.m, R_NilValue));
  of.sums = REAL(sums);

  fk_kernel_derivatives(&of, &call.opts, &call.stats, &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return sums;
}

/* job: list(x, lower, upper, weights, factors, correlation, laplace, below, reach). */
SEXP ffi_rectangles(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x");
  struct fk_rectangles of = {.x = x.data, .n = x.d, .d = x.n};
  struct r_call call = r_begin(control);
  of.m = columns_of(job, "upper").d;
  of.upper = matching(job, "upper", of.d, of.m);
  of.lower = matching(job, "lower", of.d, of.m);
  of.x_low = low_of(job, "x");
  of.lower_low = low_of(job, "lower");
  of.upper_low = low_of(job, "upper");
  of.weights = r_numbers(r_element(job, "weights"), (R_xlen_t)of.n, "weights");
  of.factors = r_numbers_or_null(job, "factors", of.n);
  of.correlation = Rf_asReal(r_element(job, "correlation"));
  of.laplace = r_flag(r_element(job, "laplace"));
  of.below = polynomial_of(job, "below");
  if (of.below.count > 0) of.reach = *r_numbers(r_element(job, "reach"), 1, "reach");
  if (of.below.count > 0 && (of.correlation != 0 || of.laplace || !(of.reach > 0)))
    Rf_error("`below` needs a positive `reach`, independent coordinates and no correction");
  if (of.correlation != 0 && (of.d != 2 || !(fabs(of.correlation) < 1)))
    Rf_error("`correlation` must be 0, or between -1 and 1 of two coordinates");
  SEXP out = PROTECT(r_vector(of.m));

  fk_rectangle_sums(&of, &call.opts, REAL(out), &call.stats, &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* job: list(x, y, weights, reach, value, tip, slope); y NULL: the points, without themselves. */
SEXP ffi_cube_sums(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x");
  struct fk_cubes of = {.x = x.data, .n = x.d, .d = x.n};
  struct r_call call = r_begin(control);
  of.m = targets_of(job, x, &of.y);
  of.weights = r_numbers(r_element(job, "weights"), (R_xlen_t)of.n, "weights");
  of.reach = r_numbers(r_element(job, "reach"), (R_xlen_t)of.d, "reach");
  for (int64_t k = 0; k < of.d; k++)
    if (!(of.reach[k] > 0)) Rf_error("`reach` must be positive");
  of.value = polynomial_of(job, "value");
  of.tip = polynomial_of(job, "tip");
  of.slope = polynomial_of(job, "slope");
  if (of.value.count == 0) Rf_error("`value` must be given");
  SEXP sums = PROTECT(r_matrix(of.m, of.slope.count > 0 ? 1 + of.d : 1, R_NilValue));
  of.sums = REAL(sums);

  fk_cube_sums(&of, &call.opts, &call.stats, &call.err);

  SEXP result = r_result(&call, 1, (const char *const[]){"sums"}, &sums);
  UNPROTECT(1);
  return result;
}

/* job: list(x, log_weights, centres, widths, at), as struct fk_conditional has them; and either `y`, a matrix with
 * a column for each place, or `probabilities`, a column of tail, normal quantile and whether it is the upper one
 * for each, whose results with low parts are relative to the centre of a point, attribute `nearest`, from 0 on. */
SEXP ffi_conditional(SEXP job, SEXP control) {
  struct fk_matrix x = columns_of(job, "x"), at = columns_of(job, "at");
  struct fk_conditional of = {.x = x.data, .n = x.d, .d = x.n, .at = at.data, .m = at.d};
  struct r_call call = r_begin(control);
  if (at.n != of.d) Rf_error("`at` must have one row for each coordinate");
  of.log_weights = r_numbers(r_element(job, "log_weights"), (R_xlen_t)of.n, "log_weights");
  of.centres = r_numbers(r_element(job, "centres"), (R_xlen_t)of.n, "centres");
  of.widths = r_numbers_or_null(job, "widths", of.n);
  of.x_low = low_of(job, "x");
  of.at_low = low_of(job, "at");
  of.centres_low = low_of(job, "centres");
  if (!of.x_low != !of.at_low || !of.x_low != !of.centres_low)
    Rf_error("low parts must be given for all points or for none");
  bool invert = Rf_isNull(r_element(job, "y"));
  struct fk_matrix asked = columns_of(job, invert ? "probabilities" : "y");
  if (invert ? asked.n != 3 : asked.d != of.m)
    Rf_error("the size of `y` or `probabilities` does not match the other arguments");
  int64_t count = invert ? asked.d : asked.n;
  struct fk_probability *p = invert ? (void *)R_alloc((size_t)count, sizeof *p) : NULL;
  for (int64_t k = 0; invert && k < count; k++) {
    const double *one = (const double *)asked.data + 3 * k;
    p[k] = (struct fk_probability){.tail = one[0], .normal = one[1], .upper = one[2] != 0};
  }
  struct fk_conditional_at y = {invert ? NULL : asked.data, low_of(job, "y"), count};
  if (!invert && !of.x_low != !y.y_low) Rf_error("low parts must be given for all points or for none");
  SEXP out = PROTECT(r_matrix(count, of.m, R_NilValue));
  SEXP nearest = PROTECT(invert && of.x_low ? r_matrix(count, of.m, R_NilValue) : R_NilValue);

  if (invert)
    fk_conditional_quantiles(&of, p, count, &call.opts, REAL(out), Rf_isNull(nearest) ? NULL : REAL(nearest),
                             &call.stats, &call.err);
  else
    fk_conditional_cdf(&of, &y, &call.opts, REAL(out), &call.stats, &call.err);

  r_finish(&call.err);
  if (!Rf_isNull(nearest)) Rf_setAttrib(out, Rf_install("nearest"), nearest);
  UNPROTECT(2);
  return out;
}

/* The .Call entry points of the estimators, each in the three phases of glue.h. */
#include <stdio.h>
#include <string.h>

#include "../core/hash.h"
#include "../core/loo.h"
#include "../core/polygon.h"
#include "../cpu/loops/neighbours.h"
#include "../core/scan.h"
#include "../core/triangular.h"
#include "../cpu/line/line.h"
#include "ffi.h"
#include "operator.h"

/* What every entry point takes and every call of the core needs. */
struct estimator_call {
  struct r_operator opened;
  struct fk_matrix x, y; /* x: what is known without fetching it; y.data NULL: x itself */
  int64_t m;             /* number of targets */
  struct r_call call;
};

static void begin(struct estimator_call *c, SEXP sources, SEXP y, SEXP control) {
  c->call = r_begin(control);
  c->opened = r_open(sources);
  c->x = c->opened.spec.x;
  c->y = r_targets(y, c->x.d);
  SEXP sent = r_element(control, "sent");
  if (c->y.data && r_is_sent(sent)) c->y.resident = r_sent_of(sent, y);
  c->m = c->y.data ? c->y.n : c->x.n;
}

SEXP ffi_plan(SEXP sent) { return r_is_sent(sent) ? r_plan_of_sent(sent) : r_new_plan(); }

/* TRUE or FALSE: are all numbers finite? A handle if they are, and are on their way to a device. */
SEXP ffi_send_points(SEXP x, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_matrix points = r_points(x, "x");
  struct fk_resident *sent = NULL;
  bool finite = false;

  points.resident = r_resident_of(x);
  fk_send_points(&points, &call.opts, &sent, &finite, &call.err);

  r_finish(&call.err);
  return sent ? r_sent(sent, x) : Rf_ScalarLogical(finite);
}

/* Objects whose finalizers are code of the library. */
SEXP ffi_handles(void) { return Rf_ScalarInteger(r_handles()); }

SEXP ffi_kernel_sum(SEXP sources, SEXP y, SEXP b, SEXP as_matrix, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, y, control);
  bool plain = !Rf_isMatrix(b); /* a vector of one column, or NULL for ones */
  int64_t columns = plain ? 1 : Rf_ncols(b);
  if (!plain && (Rf_nrows(b) != c.x.n || columns == 0))
    Rf_error("`b` must have as many rows as `x`, and at least one column");
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)(c.x.n * columns), "b");
  SEXP names = plain ? R_NilValue : r_column_names(b);
  SEXP sums = PROTECT(plain && !r_flag(as_matrix) ? r_vector(c.m) : r_matrix(c.m, columns, names));

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_kernel_sum(op, &c.y, numbers, columns, &c.call.opts, REAL(sums), &c.call.stats, &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 1, (const char *const[]){"sums"}, (SEXP[]){sums});
  UNPROTECT(1);
  return result;
}

/* Sums of b k sign(u - v) of the whitened sources u and targets v: m x d numbers for each column of b, side by
 * side. */
SEXP ffi_sign_sums(SEXP sources, SEXP y, SEXP b, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, y, control);
  if (fk_kernel_metric(&c.opened.spec.kernel) != FK_METRIC_ABSOLUTE)
    Rf_error("`kernel` must be a function of absolute differences");
  if (!Rf_isMatrix(b) || Rf_nrows(b) != c.x.n) Rf_error("`b` must be a matrix with as many rows as `x`");
  int64_t columns = Rf_ncols(b);
  const double *numbers = r_numbers(b, (R_xlen_t)(c.x.n * columns), "b");
  SEXP sums = PROTECT(r_matrix(c.m, c.x.d * columns, R_NilValue));

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_sign_sums(op, &c.y, numbers, columns, &c.call.opts, REAL(sums), &c.call.stats, &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 1, (const char *const[]){"sums"}, (SEXP[]){sums});
  UNPROTECT(1);
  return result;
}

/* The share of the pairs that exact sums compute. */
SEXP ffi_pairs_share(SEXP sources, SEXP y, SEXP control) {
  struct estimator_call c;
  double share = 1;
  begin(&c, sources, y, control);
  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_pairs_share(op, &c.y, &c.call.opts, &share, &c.call.err);
  r_close(&c.opened);
  r_finish(&c.call.err);
  return Rf_ScalarReal(share);
}

/* A matrix of n rows, or a vector of n; NULL: NULL. *columns: how many, where they are known (> 0). */
static const double *columns_of(SEXP x, int64_t n, int64_t *columns, const char *name) {
  if (Rf_isNull(x)) return NULL;
  int64_t rows = Rf_isMatrix(x) ? Rf_nrows(x) : n, found = Rf_isMatrix(x) ? Rf_ncols(x) : 1;
  if (rows != n || found == 0 || (*columns > 0 && found != *columns))
    Rf_error("`%s` must have %.0f rows, and `v` and `w` equal numbers of columns", name, (double)n);
  *columns = found;
  return r_numbers(x, (R_xlen_t)(n * found), name);
}

/* rows: the sources at which the matrix has its rows; NULL: its columns' own. with_sums: K v as well. */
SEXP ffi_normal_product(SEXP sources, SEXP rows, SEXP v, SEXP w, SEXP weights, SEXP with_sums, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, R_NilValue, control);
  bool own = Rf_isNull(rows);
  struct r_operator others = own ? c.opened : r_open(rows);
  int64_t m = others.spec.x.n;
  struct fk_normal normal = {.n_columns = 0};
  if (others.spec.x.d != c.x.d) Rf_error("`rows` must have as many columns as `sources`");
  normal.v = columns_of(v, c.x.n, &normal.n_columns, "v");
  normal.w = columns_of(w, m, &normal.n_columns, "w");
  normal.weights = r_weights(weights, m);
  if (normal.n_columns == 0) Rf_error("`v` or `w` must be given");
  SEXP product = PROTECT(r_matrix(c.x.n, normal.n_columns, r_column_names(Rf_isNull(v) ? w : v)));
  bool sums_too = r_flag(with_sums) && normal.v;
  SEXP sums = PROTECT(sums_too ? r_matrix(m, normal.n_columns, R_NilValue) : R_NilValue);
  if (sums_too) normal.sums = REAL(sums);

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  normal.rows = own || !op ? op : r_start(&others, &c.call.err);
  if (normal.rows) fk_normal_product(op, &normal, &c.call.opts, REAL(product), &c.call.stats, &c.call.err);

  if (!own) r_close(&others);
  r_close(&c.opened);
  SEXP result =
      r_result(&c.call, sums_too ? 2 : 1, (const char *const[]){"product", "sums"}, (SEXP[]){product, sums});
  UNPROTECT(2);
  return result;
}

SEXP ffi_log_sum(SEXP sources, SEXP y, SEXP factor, SEXP loo, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, y, control);
  const double *f = r_numbers(factor, 3, "factor");
  bool is_signed = f[0] < 0 || f[1] != 0 || f[2] != 0, without_self = r_flag(loo);
  SEXP log_abs = PROTECT(r_vector(c.m));
  SEXP negative = PROTECT(is_signed ? Rf_allocVector(LGLSXP, c.m) : R_NilValue);
  struct fk_logs out = {REAL(log_abs), is_signed ? LOGICAL(negative) : NULL};

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_log_sum(op, &c.y, f, without_self, &c.call.opts, &out, &c.call.stats, &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 2, (const char *const[]){"log_abs", "negative"}, (SEXP[]){log_abs, negative});
  UNPROTECT(2);
  return result;
}

SEXP ffi_score(SEXP sources, SEXP y, SEXP factor, SEXP loo, SEXP names, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, y, control);
  struct fk_score_spec spec = {c.y, r_numbers(factor, 3, "factor"), r_flag(loo)};
  SEXP score = PROTECT(r_matrix(c.m, c.x.d, names));

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_score(op, &spec, &c.call.opts, REAL(score), &c.call.stats, &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 1, (const char *const[]){"score"}, (SEXP[]){score});
  UNPROTECT(1);
  return result;
}

/* Where they stay on a device, R gets them when it reads them. */
SEXP ffi_debias(SEXP sources, SEXP chol, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, R_NilValue, control);
  const double *L = r_factor(chol, c.x.d);
  SEXP names = r_column_names(r_element(sources, "points")), debiased;
  struct fk_resident *there = NULL;

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  enum fk_status status =
      op ? fk_debias_there(op, L, &c.call.opts, &there, &c.call.stats, &c.call.err) : c.call.err.status;

  if (status != FK_STATUS_UNSUPPORTED || c.call.err.status) {
    r_close(&c.opened);
    r_finish(&c.call.err);
    debiased = PROTECT(r_resident(there, names));
  } else {
    r_close(&c.opened); /* nothing is held while R allocates */
    c.opened = r_open(sources);
    debiased = PROTECT(r_matrix(c.m, c.x.d, names));

    op = r_start(&c.opened, &c.call.err);
    if (op) fk_debias(op, L, &c.call.opts, REAL(debiased), &c.call.stats, &c.call.err);

    r_close(&c.opened);
  }
  SEXP result = r_result(&c.call, 1, (const char *const[]){"debiased"}, (SEXP[]){debiased});
  UNPROTECT(1);
  return result;
}

SEXP ffi_score_means(SEXP sources, SEXP control) {
  struct estimator_call c;
  begin(&c, sources, R_NilValue, control);
  SEXP means = PROTECT(r_matrix(c.m, c.x.d, R_NilValue)), log_mass = PROTECT(r_vector(c.m));

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op) fk_score_means(op, &c.call.opts, REAL(means), REAL(log_mass), &c.call.stats, &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 2, (const char *const[]){"means", "log_mass"}, (SEXP[]){means, log_mass});
  UNPROTECT(2);
  return result;
}

/* A list of means and log_mass, and of factors, weights, and dominant with log_term, which may be NULL. */
static struct fk_widths r_widths(SEXP widths, int64_t n, int64_t d) {
  const double *dominant = r_numbers_or_null(widths, "dominant", n);
  return (struct fk_widths){
      .factors = r_numbers_or_null(widths, "factors", n),
      .means = r_numbers(r_element(widths, "means"), (R_xlen_t)(n * d), "means"),
      .log_mass = r_numbers(r_element(widths, "log_mass"), (R_xlen_t)n, "log_mass"),
      .weights = r_numbers_or_null(widths, "weights", n),
      .dominant = dominant,
      .log_term = dominant ? r_numbers(r_element(widths, "log_term"), (R_xlen_t)n, "log_term") : NULL,
  };
}

/* list(points, weights or NULL, first, number or NULL), both counted from 1: first is NA where none of them is a
 * source, number that of the first of them among all points, NULL where these are the sources. */
static struct fk_held_out r_held_out(SEXP list, const struct estimator_call *c) {
  const double *weights = r_weights(r_element(list, "weights"), c->m);
  const double *first = r_numbers(r_element(list, "first"), 1, "first");
  if (*first < 1) Rf_error("`first` must be at least 1, or NA");
  const double *number = r_numbers_or_null(list, "number", 1);
  return (struct fk_held_out){c->y, weights, ISNAN(*first) ? c->x.n : (int64_t)*first - 1,
                              number ? *number : *first};
}

/* widths: NULL for one; held_out: NULL for the sources. */
SEXP ffi_sdkde_loo(SEXP sources, SEXP chol, SEXP widths, SEXP held_out, SEXP control) {
  struct estimator_call c;
  bool own = Rf_isNull(held_out);
  begin(&c, sources, own ? R_NilValue : r_element(held_out, "points"), control);
  const double *L = r_factor(chol, c.x.d);
  bool several = !Rf_isNull(widths);
  struct fk_widths known = {.factors = NULL};
  if (several) known = r_widths(widths, c.x.n, c.x.d);
  struct fk_held_out others;
  if (!own) others = r_held_out(held_out, &c);
  SEXP log_sum = PROTECT(r_vector(c.m));

  struct fk_operator *op = r_start(&c.opened, &c.call.err);
  if (op)
    fk_sdkde_loo(op, L, several ? &known : NULL, own ? NULL : &others, &c.call.opts, REAL(log_sum), &c.call.stats,
                 &c.call.err);

  r_close(&c.opened);
  SEXP result = r_result(&c.call, 1, (const char *const[]){"log_sum"}, (SEXP[]){log_sum});
  UNPROTECT(1);
  return result;
}

/* job: list(x, log_v, at, least) as struct fk_dominants has them. */
SEXP ffi_dominants(SEXP job, SEXP control) {
  SEXP log_v = r_element(job, "log_v"), least = r_element(job, "least");
  struct fk_dominants of = {.n = Rf_xlength(log_v), .m = Rf_xlength(least)};
  struct r_call call = r_begin(control);
  of.d = Rf_ncols(r_element(job, "x"));
  of.x = r_numbers(r_element(job, "x"), (R_xlen_t)(of.n * of.d), "x");
  of.at = r_numbers(r_element(job, "at"), (R_xlen_t)(of.m * of.d), "at");
  of.log_v = r_numbers(log_v, (R_xlen_t)of.n, "log_v");
  of.least = r_numbers(least, (R_xlen_t)of.m, "least");
  SEXP by = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)of.m));

  fk_dominants(&of, &call.opts, INTEGER(by), &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return by;
}

SEXP ffi_cdf(SEXP x, SEXP cumulative_weights, SEXP h, SEXP y, SEXP corrected, SEXP control) {
  R_xlen_t n = Rf_xlength(x), m = Rf_xlength(y);
  const double *points = r_numbers(x, n, "x"), *at = r_numbers(y, m, "y");
  const double *weights = r_numbers(cumulative_weights, n, "cumulative_weights");
  struct r_call call = r_begin(control);
  double sd = Rf_asReal(h);
  if (n < 1) Rf_error("there must be points");
  struct fk_cdf_spec spec = {points, weights, n, sd, r_numbers(corrected, 2, "corrected")};
  SEXP out = PROTECT(r_vector(m));

  fk_cdf(&spec, at, m, &call.opts, REAL(out), &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* What a vector of doubles is known by: its address, and a key of its shape and of up to 2^16 of its numbers. NULL
 * for anything else. */
SEXP ffi_identity(SEXP x) {
  enum { MOST = 1 << 16 };
  if (TYPEOF(x) != REALSXP) return R_NilValue;
  R_xlen_t n = XLENGTH(x), picked = n < MOST ? n : MOST;
  double *sample = (double *)R_alloc((size_t)picked + 2, sizeof *sample);
  for (R_xlen_t i = 0; i < picked; i++)
    sample[i] = REAL_ELT(x, (R_xlen_t)((double)i / (double)picked * (double)n));
  sample[picked] = (double)n;
  sample[picked + 1] = Rf_isMatrix(x) ? Rf_nrows(x) : -1;
  uint64_t key[2];
  char text[64];
  fk_hash(sample, sizeof *sample * ((size_t)picked + 2), 1, key);
  SEXP identity = PROTECT(Rf_allocVector(STRSXP, 2));
  snprintf(text, sizeof text, "%p", (void *)x);
  SET_STRING_ELT(identity, 0, Rf_mkChar(text));
  snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)key[0], (unsigned long long)key[1]);
  SET_STRING_ELT(identity, 1, Rf_mkChar(text));
  UNPROTECT(1);
  return identity;
}

/* TRUE if all numbers of x, doubles or points in floats, are finite; FALSE for other types. */
SEXP ffi_all_finite(SEXP x) {
  struct fk_matrix numbers = fk_doubles(NULL, 0, 1);
  if (TYPEOF(x) == REALSXP)
    numbers = fk_doubles(REAL_RO(x), XLENGTH(x), 1);
  else if (Rf_inherits(x, "single_points"))
    numbers = r_points(x, "x");
  return Rf_ScalarLogical(numbers.data && fk_all_finite(&numbers));
}

/* NULL where no column has one. */
SEXP ffi_far_centre(SEXP x, SEXP weights, SEXP far) {
  struct fk_matrix points = r_points(x, "x");
  const double *w = r_weights(weights, points.n), *limits = r_numbers(far, (R_xlen_t)points.d, "far");
  SEXP centre = PROTECT(r_vector(points.d));
  bool any = fk_far_centre(&points, w, limits, REAL(centre));
  UNPROTECT(1);
  return any ? centre : R_NilValue;
}

/* factor: a square lower triangle */
SEXP ffi_is_diagonal(SEXP factor) {
  int64_t d = Rf_nrows(factor);
  return Rf_ScalarLogical(fk_is_diagonal(r_factor(factor, d), d));
}

SEXP ffi_any_equal(SEXP keys, SEXP control) {
  struct fk_error err = {FK_STATUS_OK, ""};
  bool found = false;
  fk_any_equal(r_numbers(keys, XLENGTH(keys), "keys"), XLENGTH(keys), r_threads(control), &found, &err);
  r_finish(&err);
  return Rf_ScalarLogical(found);
}

SEXP ffi_row_keys(SEXP x, SEXP control) {
  struct fk_matrix points = r_points(x, "x");
  SEXP keys = PROTECT(r_vector(points.n));
  fk_row_keys(&points, r_threads(control), REAL(keys));
  UNPROTECT(1);
  return keys;
}

/* x, y: a point in each column; y NULL: from each point of x to the others. */
SEXP ffi_neighbour_distances(SEXP x, SEXP y, SEXP rank, SEXP control) {
  struct fk_matrix points = r_points(x, "x"), at = {.data = NULL};
  struct r_call call = r_begin(control);
  struct fk_neighbours of = {.x = points.data, .n = points.d, .m = points.d, .d = points.n};
  double k = Rf_asReal(rank);
  of.x_low = r_low_parts(x);
  if (!Rf_isNull(y)) {
    of.y_low = r_low_parts(y);
    at = r_points(y, "y");
    of.y = at.data;
    of.m = at.d;
  }
  if (points.type != FK_DOUBLE || (of.y && (at.type != FK_DOUBLE || at.n != of.d)))
    Rf_error("`x` and `y` must be matrices of doubles with equal numbers of rows");
  if (!(k >= 1 && k <= (double)(of.y ? of.n : of.n - 1)))
    Rf_error("`rank` must be between 1 and the number of points");
  of.k = (int64_t)k;
  SEXP out = PROTECT(r_vector(of.m));

  fk_neighbour_distances(&of, &call.opts, REAL(out), &call.stats, &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* sides: four numbers in each column; centres: two; widths: of them, or NULL; moments: a flag. */
SEXP ffi_polygon_masses(SEXP sides, SEXP centres, SEXP widths, SEXP moments, SEXP control) {
  struct fk_matrix side = r_points(sides, "sides"), at = r_points(centres, "centres");
  struct r_call call = r_begin(control);
  struct fk_polygon of = {.sides = side.data, .centres = at.data, .n_sides = side.d, .n = at.d};
  of.sides_low = r_low_parts(sides);
  of.centres_low = r_low_parts(centres);
  if (side.type != FK_DOUBLE || at.type != FK_DOUBLE || side.n != 4 || at.n != 2)
    Rf_error("`sides` and `centres` must be matrices of doubles with 4 and 2 rows");
  if (!Rf_isNull(widths)) {
    if (TYPEOF(widths) != REALSXP || XLENGTH(widths) != at.d)
      Rf_error("`widths` must have one double for each centre");
    of.widths = REAL(widths);
  }
  of.moments = r_flag(moments);
  int columns = of.moments ? FK_POLYGON_ORDERS * FK_POLYGON_ORDERS : 1;
  SEXP out = PROTECT(r_vector(of.n * columns));

  fk_polygon_masses(&of, &call.opts, REAL(out), &call.stats, &call.err);

  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* Sums over pairs of points for criteria of bandwidths, in the three phases of glue.h. */
#include "../cpu/loops/level_sums.h"
#include "../cpu/loops/moments.h"
#include "../cpu/loops/scales.h"

#include "ffi.h"

/* job: list(x, L, weights, row_weights, floor, wide, factor, ratio), order: 0 .. 3 of enum fk_moments. */
SEXP ffi_pair_moments(SEXP job, SEXP order, SEXP control) {
  struct fk_moments_task task = {.x = r_points(r_element(job, "x"), "x")};
  struct r_call call = r_begin(control);
  int64_t n = task.x.n, d = task.x.d;
  int asked = Rf_asInteger(order);
  if (asked < FK_MOMENTS_NONE || asked > FK_MOMENTS_ORDER4) Rf_error("`order` must be between 0 and 3");
  task.order = (enum fk_moments)asked;
  task.chol = r_factor(r_element(job, "L"), d);
  task.weights = r_weights(r_element(job, "weights"), n);
  task.row_weights = r_numbers_or_null(job, "row_weights", n);
  task.floor = r_numbers_or_null(job, "floor", n);
  task.wide_weights = r_numbers_or_null(job, "wide", n);
  task.ratio = r_flag(r_element(job, "ratio"));
  r_polynomial(job, task.factor);
  if (task.wide_weights && (task.factor[0] != 1 || task.factor[1] != 0 || task.factor[2] != 0))
    Rf_error("`wide` must be FALSE for a kernel with a factor");

  const char *const names[] = {"S", "M", "S_wide", "M_wide", "fourth"};
  int64_t count = fk_moments_count(d, task.order);
  const int64_t lengths[] = {n, count, task.wide_weights ? n : 0, task.wide_weights ? count : 0,
                             asked == FK_MOMENTS_ORDER4 ? fk_moments_fourth(d) : 0};
  double **const results[] = {&task.sums, &task.moments, &task.wide_sums, &task.wide_moments, &task.fourth};
  SEXP values[5];
  for (int i = 0; i < 5; i++) {
    values[i] = PROTECT(r_vector(lengths[i]));
    *results[i] = lengths[i] > 0 ? REAL(values[i]) : NULL;
  }

  fk_pair_moments(&task, &call.opts, &call.stats, &call.err);

  SEXP result = r_result(&call, 5, names, values);
  UNPROTECT(5);
  return result;
}

/* job: list(x, L, weights, factor, factors, log_floor, log_others, log_unit), the last four NULL or as struct
 * fk_scales_task has them; the result has a column for each of the powers. */
SEXP ffi_pair_scales(SEXP job, SEXP powers, SEXP control) {
  struct fk_scales_task task = {.x = r_points(r_element(job, "x"), "x")};
  struct r_call call = r_begin(control);
  task.chol = r_factor(r_element(job, "L"), task.x.d);
  task.weights = r_weights(r_element(job, "weights"), task.x.n);
  r_polynomial(job, task.factor);
  task.factors = r_numbers_or_null(job, "factors", task.x.n);
  task.log_floor = r_numbers_or_null(job, "log_floor", task.x.n);
  R_xlen_t count = Rf_xlength(powers);
  if (count < 1 || count > FK_MOST_SCALES) Rf_error("`powers` must have 1 to %d numbers", FK_MOST_SCALES);
  task.powers = r_numbers(powers, count, "powers");
  task.count = (int)count;
  for (int s = 0; s < task.count; s++)
    if (!(task.powers[s] > 0 && task.powers[s] < INFINITY)) Rf_error("`powers` must be positive");
  if (task.log_floor) {
    task.log_others = r_numbers(r_element(job, "log_others"), (R_xlen_t)task.x.n, "log_others");
    task.log_unit = r_numbers(r_element(job, "log_unit"), count, "log_unit");
  }
  SEXP sums = PROTECT(r_matrix(task.x.n, task.count, R_NilValue));
  task.sums = REAL(sums);

  fk_pair_scales(&task, &call.opts, &call.stats, &call.err);

  SEXP result = r_result(&call, 1, (const char *const[]){"S"}, &sums);
  UNPROTECT(1);
  return result;
}

/* job: list(x, log_weight, factors, ends, rows, shares, v, log_floor, diagonal) as struct fk_level_sums has them,
 * x with a row for each point. */
SEXP ffi_level_sums(SEXP job, SEXP control) {
  struct fk_matrix x = r_points(r_element(job, "x"), "x");
  if (x.type != FK_DOUBLE || x.ld != x.n) Rf_error("`x` must be a matrix of doubles");
  struct fk_level_sums of = {.x = x.data, .n = x.n, .d = x.d};
  struct r_call call = r_begin(control);
  SEXP rows = r_element(job, "rows"), ends = r_element(job, "ends");
  of.m = Rf_xlength(rows);
  of.cells = Rf_xlength(ends);
  of.rows = r_numbers(rows, (R_xlen_t)of.m, "rows");
  of.ends = r_numbers(ends, (R_xlen_t)of.cells, "ends");
  for (int64_t i = 0; i < of.m; i++)
    if (!(of.rows[i] >= 0 && of.rows[i] < (double)of.n)) Rf_error("`rows` must be indices of points");
  for (int64_t c = 0; c < of.cells; c++)
    if (!(of.ends[c] > (c > 0 ? of.ends[c - 1] : 0))) Rf_error("`ends` must increase");
  if (of.cells < 1 || of.ends[of.cells - 1] != (double)of.n) Rf_error("`ends` must end with the last point");
  of.log_weight = r_numbers(r_element(job, "log_weight"), (R_xlen_t)of.n, "log_weight");
  of.factors = r_numbers_or_null(job, "factors", of.n);
  of.shares = r_numbers_or_null(job, "shares", of.cells * of.cells);
  of.v = r_numbers_or_null(job, "v", of.m);
  of.log_floor = r_numbers_or_null(job, "log_floor", of.m);
  of.diagonal = r_flag(r_element(job, "diagonal"));
  if (of.v && (of.factors || !of.shares || !of.log_floor))
    Rf_error("moments need `shares` and `log_floor`, and no `factors`");
  int64_t count = !of.v ? 0 : of.diagonal ? of.d : of.d * (of.d + 1) / 2;
  SEXP sums = PROTECT(of.shares ? r_vector(of.m) : r_matrix(of.m, of.cells, R_NilValue));
  SEXP values[] = {sums, PROTECT(r_vector(of.m)), PROTECT(r_vector(count))};
  of.sums = REAL(values[0]);
  of.top = REAL(values[1]);
  of.moments = REAL(values[2]);

  fk_level_sums(&of, &call.opts, &call.stats, &call.err);

  SEXP result = r_result(&call, 3, (const char *const[]){"sums", "top", "moments"}, values);
  UNPROTECT(3);
  return result;
}

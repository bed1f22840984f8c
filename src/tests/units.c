/* What the tests reach of the C units below, by name: .Call(ffi_test, "name", list(arguments)), where the package
 * was built with FLASHKERNEL_TESTS=yes. Nothing else calls it; tests/testthat/test-units.R says what is to hold.
 * Each entry is as those of ffi.h: see glue.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/kept.h"
#include "../core/plan.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../cpu/tile.h"
#include "../fast/mixture.h"
#include "../fast/stream.h"
#include "../cpu/direct/spatial_order.h"
#include "../grid/window.h"
#include "units.h"

/* ---- exponentials ----------------------------------------------------------------------------- */

static const struct fk_isa *isa_of(SEXP name) {
  for (int i = 0; i < fk_isa_count(); i++)
    if (strcmp(fk_isa_at(i)->name, CHAR(Rf_asChar(name))) == 0) return fk_isa_at(i);
  Rf_error("this machine has no such instruction set");
}

/* (t, instruction set, single): 2^t of t <= 0, as the tiles compute it. A tile in which all points are at 0 has
 * its exponents from the constants alone, and only row 0 has a weight. */
static SEXP test_exp2(SEXP arguments) {
  static const double zeros[2 * FK_TILE_COLS], one[FK_TILE_ROWS] = {1};
  static const float one_f32[FK_TILE_ROWS] = {1};
  const double *t = numbers(arguments, 0);
  int64_t n = length(arguments, 0);
  const struct fk_isa *isa = isa_of(argument(arguments, 1));
  bool single = r_flag(argument(arguments, 2));
  const struct fk_tile_ops *ops = single ? isa->f32 : isa->f64;
  SEXP out = PROTECT(r_vector(n));
  for (int64_t first = 0; first < n; first += FK_TILE_COLS) {
    double f64[FK_TILE_COLS] = {0}, mass[FK_TILE_COLS] = {0};
    float f32[FK_TILE_COLS] = {0};
    int64_t count = n - first < FK_TILE_COLS ? n - first : FK_TILE_COLS;
    for (int64_t i = 0; i < count; i++) f32[i] = (float)(f64[i] = t[first + i]);
    struct fk_tile tile = {.d = 1,
                           .n_rows = ops->row_step,
                           .n_cols = FK_TILE_COLS,
                           .rows = zeros,
                           .cols = zeros,
                           .row_const = zeros,
                           .row_weight = single ? (const void *)one_f32 : one,
                           .col_const = single ? (const void *)f32 : f64,
                           .col_mass = mass};
    ops->sums(&tile, 0);
    memcpy(REAL(out) + first, mass, sizeof *mass * (size_t)count);
  }
  UNPROTECT(1);
  return out;
}

/* ---- windows and mixtures --------------------------------------------------------------------- */

/* (): how many windows there are. (number from 0): width, spacing and the four errors; both filters; the
 * polynomials, one after the other for each power. */
static SEXP test_window(SEXP arguments) {
  if (Rf_xlength(arguments) == 0) return Rf_ScalarInteger(fk_window_count());
  const int64_t lengths[] = {6, FK_WINDOW_REACH + 1, FK_WINDOW_REACH + 1,
                             (FK_WINDOW_DEGREE + 1) * FK_WINDOW_WIDTH};
  const struct fk_window *w = fk_window_at(whole(arguments, 0));
  struct fk_error err = {FK_STATUS_OK, ""};
  double *to[4];
  int reach;
  SEXP out = PROTECT(results(4, lengths, to));
  memcpy(to[0],
         (const double[]){w->width, w->spacing, w->error, w->error_gradient, w->error_laplace,
                          w->error_laplace_gradient},
         6 * sizeof *to[0]);
  fk_window_taps(w, 1, to[1], to[2], &reach, &err);
  for (int k = reach + 1; k <= FK_WINDOW_REACH; k++) to[1][k] = to[2][k] = 0;
  fk_window_polynomial(w, (double(*)[FK_WINDOW_WIDTH])to[3]);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

/* (kernel, largest squared distance, tol): rates, weights, and the error as measured. */
static SEXP test_mixture(SEXP arguments) {
  struct fk_mixture m;
  struct fk_error err = {FK_STATUS_OK, ""};
  double *to[3];
  double power = fk_kernel_info(r_kernel(argument(arguments, 0)).id)->mixture;
  fk_mixture_init(&m, power, Rf_asReal(argument(arguments, 1)), Rf_asReal(argument(arguments, 2)), &err);
  r_finish(&err);
  SEXP out = PROTECT(results(3, (const int64_t[]){m.n, m.n, 1}, to));
  memcpy(to[0], m.rate, sizeof *to[0] * (size_t)m.n);
  memcpy(to[1], m.weight, sizeof *to[1] * (size_t)m.n);
  *to[2] = m.error;
  UNPROTECT(1);
  return out;
}

/* ---- order ------------------------------------------------------------------------------------ */

/* The places of items in their order, from 1. */
static SEXP sorted(SEXP items, int64_t n, int threads) {
  struct fk_error err = {FK_STATUS_OK, ""};
  SEXP scratch = PROTECT(r_vector(n)), out = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)n));
  fk_item *item = (fk_item *)REAL(items); /* 64 bits each */
  fk_sort_items(item, (fk_item *)REAL(scratch), n, threads, &err);
  for (int64_t i = 0; i < n; i++) INTEGER(out)[i] = (int)(uint32_t)item[i] + 1;
  r_finish(&err);
  UNPROTECT(2);
  return out;
}

/* (keys, threads) */
static SEXP test_sort(SEXP arguments) {
  const double *keys = numbers(arguments, 0);
  int64_t n = length(arguments, 0);
  SEXP items = PROTECT(r_vector(n));
  for (int64_t i = 0; i < n; i++) ((fk_item *)REAL(items))[i] = (fk_item)keys[i] << 32 | (fk_item)i;
  SEXP out = sorted(items, n, whole(arguments, 1));
  UNPROTECT(1);
  return out;
}

/* (points, threads): along the curve; NULL where there is none. */
static SEXP test_curve(SEXP arguments) {
  struct fk_matrix x = r_points(argument(arguments, 0), "x");
  if (x.d > FK_CURVE_MAX_DIM) Rf_error("a curve has at most %d dimensions", FK_CURVE_MAX_DIM);
  uint32_t spread[FK_CURVE_MAX_DIM][4][256];
  double low[FK_CURVE_MAX_DIM], high[FK_CURVE_MAX_DIM];
  struct fk_spatial_curve curve;
  for (int64_t k = 0; k < x.d; k++) fk_range(fk_column(&x, k), x.n, 1, &low[k], &high[k]);
  if (!fk_spatial_curve_init(&curve, (int)x.d, low, high, spread)) return R_NilValue;
  SEXP items = PROTECT(r_vector(x.n));
  for (int64_t i = 0; i < x.n; i++)
    ((fk_item *)REAL(items))[i] = fk_spatial_curve_item(&curve, fk_column(&x, 0), x.ld, (uint32_t)i);
  SEXP out = sorted(items, x.n, whole(arguments, 1));
  UNPROTECT(1);
  return out;
}

/* ---- scans ------------------------------------------------------------------------------------ */

/* (x, threads): all finite, largest |x|, range, least and largest size, largest |x| to divide by */
static SEXP test_scan(SEXP arguments) {
  const double *x = numbers(arguments, 0);
  int64_t n = length(arguments, 0);
  int threads = whole(arguments, 1);
  SEXP out = PROTECT(r_vector(7));
  double *to = REAL(out);
  struct fk_matrix column = fk_doubles(x, n, 1);
  to[0] = fk_all_finite(&column);
  to[1] = fk_largest(x, n, threads);
  fk_range(x, n, threads, &to[2], &to[3]);
  fk_sizes(x, n, threads, &to[4], &to[5]);
  to[6] = fk_largest_absolute(x, n, threads);
  UNPROTECT(1);
  return out;
}

/* (mass, threshold): which rows are below, from 1 */
static SEXP test_rows_below(SEXP arguments) {
  struct fk_error err = {FK_STATUS_OK, ""};
  const double *mass = numbers(arguments, 0);
  int64_t *rows, found, n = length(arguments, 0);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)n));
  fk_rows_below(mass, n, Rf_asReal(argument(arguments, 1)), &rows, &found, &err);
  for (int64_t i = 0; i < found; i++) INTEGER(out)[i] = (int)rows[i] + 1;
  free(rows);
  r_finish(&err);
  UNPROTECT(1);
  return Rf_xlengthgets(out, (R_xlen_t)found);
}

/* ---- the pool --------------------------------------------------------------------------------- */

struct visits {
  double *count, *piece, *slot; /* of each index */
};

static void visit(void *data, int64_t first, int64_t end, int slot) {
  const struct visits *v = data;
  for (int64_t i = first; i < end; i++) {
    v->count[i]++;
    v->piece[i] = (double)first;
    v->slot[i] = slot;
  }
}

/* (threads, n, step): how often each index was visited, where its piece began, and in which slot */
static SEXP test_pool(SEXP arguments) {
  int64_t n = (int64_t)Rf_asReal(argument(arguments, 1)), step = (int64_t)Rf_asReal(argument(arguments, 2));
  double *to[3];
  SEXP out = PROTECT(results(3, (const int64_t[]){n, n, n}, to));
  struct visits visits = {to[0], to[1], to[2]};
  memset(to[0], 0, sizeof *to[0] * (size_t)n);
  fk_parallel_for(whole(arguments, 0), n, step, visit, &visits);
  UNPROTECT(1);
  return out;
}

/* ---- the planner ------------------------------------------------------------------------------ */

/* (): of each engine and operation, named by both, whether it has it, and whether it has the functions for it */
static SEXP test_engines(FK_UNUSED SEXP arguments) {
  int n = fk_engine_count();
  SEXP out = PROTECT(Rf_allocMatrix(LGLSXP, n, FK_OPERATIONS)), names = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP rows = Rf_allocVector(STRSXP, n), columns;
  SET_VECTOR_ELT(names, 0, rows);
  SET_VECTOR_ELT(names, 1, columns = Rf_allocVector(STRSXP, FK_OPERATIONS));
  for (int i = 0; i < n; i++) {
    const struct fk_engine *engine = fk_engine_at(i);
    char name[64];
    snprintf(name, sizeof name, "%s %s", engine->name, engine->backend == FK_BACKEND_CPU ? "cpu" : "cuda");
    SET_STRING_ELT(rows, i, Rf_mkChar(name));
    for (int k = 0; k < FK_OPERATIONS; k++) LOGICAL(out)[i + k * n] = fk_engine_can(engine, (enum fk_operation)k);
    if (fk_engine_can(engine, FK_OP_SHIFT) != (engine->shift != NULL) ||
        fk_engine_can(engine, FK_OP_DEBIASED_LOO) != (engine->debiased_loo != NULL))
      Rf_error("%s: the operations of the engine do not match its functions", name);
  }
  for (int k = 0; k < FK_OPERATIONS; k++)
    SET_STRING_ELT(columns, k, Rf_mkChar(fk_operation_name((enum fk_operation)k)));
  Rf_setAttrib(out, R_DimNamesSymbol, names);
  UNPROTECT(2);
  return out;
}

/* (control, c(n, m, d, values), kernel, operation): the engine and its precision, why, and its guess */
static SEXP test_plan(SEXP arguments) {
  const char *names[] = {"engine", "precision", "reason", "reason_engine", "seconds", ""};
  struct r_call call = r_begin(argument(arguments, 0));
  struct fk_plan_choice choice;
  const double *size = r_numbers(argument(arguments, 1), 4, "size");
  struct fk_work work = {size[0], size[1], size[2], size[3], r_kernel(argument(arguments, 2)), FK_OP_SUMS};
  if (!fk_operation_of(CHAR(Rf_asChar(argument(arguments, 3))), &work.operation)) Rf_error("no such operation");
  fk_plan_choose(&call.opts, &work, &choice, &call.stats, &call.err);
  r_finish(&call.err);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_mkString(choice.engine->name));
  SET_VECTOR_ELT(out, 1, Rf_mkString(choice.opts.precision == FK_PRECISION_DOUBLE ? "double" : "other"));
  SET_VECTOR_ELT(out, 2, Rf_mkString(call.stats.reason));
  SET_VECTOR_ELT(out, 3, Rf_mkString(call.stats.reason_engine));
  SET_VECTOR_ELT(out, 4, Rf_ScalarReal(choice.seconds));
  UNPROTECT(1);
  return out;
}

/* ---- by name ---------------------------------------------------------------------------------- */

/* (): bytes that the CPU keeps of all operators */
static SEXP test_kept(FK_UNUSED SEXP arguments) { return Rf_ScalarReal(fk_kept_bytes()); }

static const struct {
  const char *name;
  SEXP (*test)(SEXP arguments);
} tests[] = {
    {"exp2", test_exp2},
    {"window", test_window},
    {"mixture", test_mixture},
    {"sort", test_sort},
    {"curve", test_curve},
    {"scan", test_scan},
    {"rows_below", test_rows_below},
    {"view", r_test_view},
    {"sums", r_test_sums},
    {"stream", r_test_stream},
    {"whiten", r_test_whiten},
    {"common_axes", r_test_common_axes},
    {"dense", r_test_dense},
    {"dense_seconds", r_test_dense_seconds},
    {"tiled", r_test_tiled},
    {"pool", test_pool},
    {"engines", test_engines},
    {"plan", test_plan},
    {"kept", test_kept},
};

SEXP ffi_test(SEXP name, SEXP arguments) {
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    if (strcmp(CHAR(Rf_asChar(name)), tests[i].name) == 0) return tests[i].test(arguments);
  Rf_error("there is no such test");
}

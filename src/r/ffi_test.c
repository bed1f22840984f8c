/* What the tests reach of the C units below, by name: .Call(flashkernel:::ffi_test, "name", list(arguments)).
 * Nothing else calls it; tests/testthat/test-units.R says what is to hold. Each entry is as those of ffi.h: see
 * glue.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/dense.h"
#include "../core/plan.h"
#include "../core/pool.h"
#include "../core/triangular.h"
#include "../cpu/tile.h"
#include "../fast/mixture.h"
#include "../fast/stream.h"
#include "../cpu/direct/spatial_order.h"
#include "../grid/window.h"
#include "ffi.h"

static SEXP argument(SEXP arguments, int i) {
  if (TYPEOF(arguments) != VECSXP || i >= Rf_xlength(arguments)) Rf_error("too few arguments for a test");
  return VECTOR_ELT(arguments, i);
}

static const double *numbers(SEXP arguments, int i) {
  SEXP x = argument(arguments, i);
  return r_numbers(x, Rf_xlength(x), "x");
}

static int64_t length(SEXP arguments, int i) { return Rf_xlength(argument(arguments, i)); }
static int whole(SEXP arguments, int i) { return Rf_asInteger(argument(arguments, i)); }

/* A list of doubles, of the given lengths; where their numbers lie goes to `to`. */
static SEXP results(int n, const int64_t *lengths, double **to) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  for (int i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, i, Rf_allocVector(REALSXP, (R_xlen_t)lengths[i]));
    to[i] = REAL(VECTOR_ELT(list, i));
  }
  UNPROTECT(1);
  return list;
}

/* ---- exponentials ----------------------------------------------------------------------------- */

static const struct fk_isa *isa_of(SEXP name) {
  for (int i = 0; i < fk_isa_count(); i++)
    if (strcmp(fk_isa_at(i)->name, CHAR(Rf_asChar(name))) == 0) return fk_isa_at(i);
  Rf_error("no such instruction set here");
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
  struct fk_curve curve;
  for (int64_t k = 0; k < x.d; k++) fk_range(fk_column(&x, k), x.n, 1, &low[k], &high[k]);
  if (!fk_curve_init(&curve, (int)x.d, low, high, spread)) return R_NilValue;
  SEXP items = PROTECT(r_vector(x.n));
  for (int64_t i = 0; i < x.n; i++)
    ((fk_item *)REAL(items))[i] = fk_curve_item(&curve, fk_column(&x, 0), x.ld, (uint32_t)i);
  SEXP out = sorted(items, x.n, whole(arguments, 1));
  UNPROTECT(1);
  return out;
}

/* ---- scans ------------------------------------------------------------------------------------ */

/* (x, threads): all finite, any negative, largest |x|, range, least and largest size, largest |x| to divide by */
static SEXP test_scan(SEXP arguments) {
  const double *x = numbers(arguments, 0);
  int64_t n = length(arguments, 0);
  int threads = whole(arguments, 1);
  SEXP out = PROTECT(r_vector(8));
  double *to = REAL(out);
  struct fk_matrix column = fk_doubles(x, n, 1);
  to[0] = fk_all_finite(&column);
  to[1] = fk_any_negative(x, n, threads);
  to[2] = fk_largest(x, n, threads);
  fk_range(x, n, threads, &to[3], &to[4]);
  fk_sizes(x, n, threads, &to[5], &to[6]);
  to[7] = fk_largest_absolute(x, n, threads);
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

/* ---- views ------------------------------------------------------------------------------------ */

/* list(of, first, n, single): n rows from row `first`, counted from 1, of a matrix, or of its copy in floats. */
static struct fk_matrix view_of(SEXP list) {
  struct fk_matrix all = r_points(r_element(list, "of"), "of");
  int64_t first = Rf_asInteger(r_element(list, "first")) - 1, n = Rf_asInteger(r_element(list, "n"));
  if (first < 0 || n < 1 || first + n > all.n) Rf_error("a view must have rows of its matrix");
  if (r_flag(r_element(list, "single"))) {
    float *narrow = (float *)R_alloc((size_t)(all.n * all.d), sizeof *narrow);
    for (int64_t i = 0; i < all.n * all.d; i++) narrow[i] = (float)((const double *)all.data)[i];
    all.data = narrow;
    all.type = FK_FLOAT;
  }
  return fk_part(&all, first, n, 0, all.d);
}
static struct fk_matrix targets_of(SEXP list, int64_t d) {
  return Rf_isNull(list) ? fk_doubles(NULL, 0, d) : view_of(list);
}

/* (x, y or NULL, L, kernel, b or NULL, control, what): sums with b, or with b for weights logarithms, scores,
 * debiased points or their leave-one-out sums, of views as view_of() makes them */
static SEXP test_sums(SEXP arguments) {
  struct fk_operator_spec spec = {.x = view_of(argument(arguments, 0)),
                                  .kernel = r_kernel(argument(arguments, 3))};
  int64_t d = spec.x.d;
  struct fk_score_spec score = {.y = targets_of(argument(arguments, 1), d)};
  SEXP b = argument(arguments, 4);
  const char *what = CHAR(Rf_asChar(argument(arguments, 6)));
  int64_t columns = Rf_isMatrix(b) ? Rf_ncols(b) : 1, m = score.y.data ? score.y.n : spec.x.n;
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)(spec.x.n * columns), "b");
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  struct fk_operator *op;
  spec.chol = r_factor(argument(arguments, 2), d);
  if (strcmp(what, "sums") != 0) spec.weights = numbers;
  r_opts(argument(arguments, 5), &opts, &stats);
  SEXP out = PROTECT(r_vector(m * (columns > d ? columns : d)));
  double *to = memset(REAL(out), 0, sizeof *to * (size_t)XLENGTH(out));
  if (fk_operator_create(&spec, &op, &err) == FK_STATUS_OK) {
    struct fk_logs logs = {to, NULL};
    if (strcmp(what, "sums") == 0) fk_kernel_sum(op, &score.y, numbers, columns, &opts, to, &stats, &err);
    if (strcmp(what, "logs") == 0)
      fk_log_sum(op, &score.y, (const double[]){1, 0, 0}, false, &opts, &logs, &stats, &err);
    if (strcmp(what, "scores") == 0) fk_score(op, &score, &opts, to, &stats, &err);
    if (strcmp(what, "debiased") == 0) fk_debias(op, spec.chol, &opts, to, &stats, &err);
    if (strcmp(what, "debiased_loo") == 0) fk_sdkde_loo(op, spec.chol, &opts, to, &stats, &err);
    fk_operator_free(op);
  }
  r_finish(&err);
  SEXP result = r_result(&stats, 1, (const char *const[]){"sums"}, (SEXP[]){out});
  UNPROTECT(1);
  return result;
}

/* (x, y, rows of y that are checked, L, b or NULL, control): sums by one grid, of views; NULL: not by one */
static SEXP test_stream(SEXP arguments) {
  struct fk_stream_spec spec = {.sources = view_of(argument(arguments, 0)),
                                .targets = view_of(argument(arguments, 1)),
                                .checked = view_of(argument(arguments, 2)),
                                .chunks = 4,
                                .pieces = 4,
                                .columns = 1,
                                .most_bytes = 1e9};
  SEXP b = argument(arguments, 4);
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)spec.sources.n, "b");
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  struct fk_stream *stream;
  r_opts(argument(arguments, 5), &opts, &stats);
  spec.n = (double)spec.sources.n;
  spec.m = (double)spec.targets.n;
  spec.part_tol = opts.tol / 4;
  spec.chol = r_factor(argument(arguments, 3), spec.sources.d);
  SEXP out = PROTECT(r_vector(spec.targets.n));
  if (fk_stream_open(&spec, &opts, &stream, &err) == FK_STATUS_OK && stream &&
      fk_stream_add(stream, &spec.sources, numbers, &opts.poll, &err) == FK_STATUS_OK)
    fk_stream_evaluate(stream, &spec.targets, &opts.poll, REAL(out), &stats, &err);
  bool streamed = stream != NULL;
  fk_stream_free(stream);
  r_finish(&err);
  UNPROTECT(1);
  return streamed ? out : R_NilValue;
}

/* (x, far, rows from 1): is all finite, the far centre, these rows, a third of all, column 1 but for its first,
 * all */
static SEXP test_view(SEXP arguments) {
  struct fk_matrix x = view_of(argument(arguments, 0));
  const double *far = r_numbers(argument(arguments, 1), (R_xlen_t)x.d, "far");
  int64_t count = length(arguments, 2), third = x.n / 3, *rows = (int64_t *)R_alloc((size_t)count, sizeof *rows);
  double *to[6];
  SEXP out = PROTECT(results(6, (const int64_t[]){1, x.d, count * x.d, third * x.d, x.n - 1, x.n * x.d}, to));
  for (int64_t i = 0; i < count; i++) rows[i] = INTEGER(argument(arguments, 2))[i] - 1;
  *to[0] = fk_all_finite(&x);
  fk_far_centre(&x, NULL, far, to[1]);
  fk_gather(&x, rows, count, to[2], count);
  fk_thin_out(&x, third, to[3]);
  fk_read(&x, 0, 1, x.n - 1, to[4]);
  fk_copy_rows(&x, to[5], x.n, 2);
  UNPROTECT(1);
  return out;
}

/* ---- whitening -------------------------------------------------------------------------------- */

/* (points or a view, L, rows from 1 or NULL): whitened, and the centre */
static SEXP test_whiten(SEXP arguments) {
  SEXP points = argument(arguments, 0);
  struct fk_matrix x = TYPEOF(points) == VECSXP ? view_of(points) : r_points(points, "x");
  const double *chol = r_factor(argument(arguments, 1), x.d);
  SEXP picked = argument(arguments, 2);
  int64_t *rows = NULL, count = Rf_isNull(picked) ? x.n : Rf_xlength(picked);
  int64_t width = (count + FK_BLOCK - 1) / FK_BLOCK * FK_BLOCK;
  struct fk_whitening w;
  struct fk_error err = {FK_STATUS_OK, ""};
  double *to[2];
  SEXP out = PROTECT(results(2, (const int64_t[]){x.d * width, x.d}, to));
  if (!Rf_isNull(picked)) rows = (int64_t *)R_alloc((size_t)count, sizeof *rows);
  for (int64_t i = 0; rows && i < count; i++) rows[i] = INTEGER(picked)[i] - 1;
  if (fk_whitening_init(&w, chol, &x, NULL, 1, &err) == FK_STATUS_OK) {
    fk_whiten(&w, &x, rows, 0, count, to[0], width, NULL);
    memcpy(to[1], w.centre, sizeof *to[1] * (size_t)x.d);
  }
  fk_whitening_free(&w);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

/* (L, L of the score): the axes, and lambda; no axes where L^-1 does */
static SEXP test_common_axes(SEXP arguments) {
  int64_t size = length(arguments, 0), d = Rf_nrows(argument(arguments, 0));
  struct fk_whitening w = {.d = d};
  struct fk_error err = {FK_STATUS_OK, ""};
  double *to[3];
  SEXP out = PROTECT(results(3, (const int64_t[]){size, d, size}, to));
  fk_common_axes(r_factor(argument(arguments, 0), d), r_factor(argument(arguments, 1), d), d, to[0], to[1], to[2],
                 &w, &err);
  if (!w.dense) SET_VECTOR_ELT(out, 0, R_NilValue);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

/* ---- dense operations ------------------------------------------------------------------------- */

enum { DENSE_MATRICES = 3 };

/* Matrices of the host, and with them where they are computed on. */
struct dense_test {
  const struct fk_dense_ops *ops;
  int device, n;
  struct fk_dense here[DENSE_MATRICES], there[DENSE_MATRICES];
};

static enum fk_status dense_move(struct dense_test *t, bool back, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int i = 0; i < t->n && !status; i++)
    status = back ? t->ops->fetch(t->device, &t->there[i], &t->here[i], err)
                  : t->ops->alloc(t->device, &t->there[i], err);
  for (int i = 0; i < t->n && !status && !back; i++)
    status = t->ops->send(t->device, &t->here[i], &t->there[i], err);
  return status;
}

static enum fk_status dense_do(const struct dense_test *t, const char *what, unsigned flags, const double *factors,
                               int64_t padding, int64_t *pivot, struct fk_error *err) {
  const struct fk_dense_ops *ops = t->ops;
  struct fk_dense x[DENSE_MATRICES];
  for (int i = 0; i < DENSE_MATRICES; i++)
    x[i] = fk_dense_part(&t->there[i], padding, 0, t->there[i].n - 2 * padding, t->there[i].d);
#define DENSE_IS(name) (strcmp(what, name) == 0)
  if (DENSE_IS("gemm")) return ops->gemm(t->device, flags, factors[0], &x[0], &x[1], factors[1], &x[2], err);
  if (DENSE_IS("syrk")) return ops->syrk(t->device, flags, factors[0], &x[0], factors[1], &x[1], err);
  if (DENSE_IS("trmm")) return ops->trmm(t->device, flags, factors[0], &x[0], &x[1], err);
  if (DENSE_IS("trsm")) return ops->trsm(t->device, flags, factors[0], &x[0], &x[1], err);
  if (DENSE_IS("potrf")) return ops->potrf(t->device, flags, &x[0], pivot, err);
  if (DENSE_IS("lauum")) return ops->lauum(t->device, flags, &x[0], err);
  if (DENSE_IS("syev")) return ops->syev(t->device, flags, &x[0], &x[1], err);
  return fk_fail(err, FK_STATUS_INTERNAL, "no such operation");
#undef DENSE_IS
}

/* (operation, device or -1 for the host, flags, c(alpha, beta), matrices, padding, single): the matrices after it,
 * which has so many of their first and last rows left out, and potrf's pivot as an attribute */
static SEXP test_dense(SEXP arguments) {
  const char *what = CHAR(Rf_asChar(argument(arguments, 0)));
  const double *factors = numbers(arguments, 3);
  const unsigned flags = (unsigned)whole(arguments, 2);
  const int64_t padding = whole(arguments, 5);
  bool single = r_flag(argument(arguments, 6));
  struct dense_test t = {.device = whole(arguments, 1)};
  struct fk_error err = {FK_STATUS_OK, ""};
  int64_t pivot = 0;
  SEXP out = PROTECT(Rf_duplicate(argument(arguments, 4)));
  for (; t.n < Rf_length(out) && t.n < DENSE_MATRICES; t.n++) {
    SEXP x = VECTOR_ELT(out, t.n);
    t.here[t.n] = fk_dense_of(REAL(x), Rf_nrows(x), Rf_ncols(x));
    if (single) {
      float *rounded = (float *)R_alloc((size_t)Rf_length(x), sizeof *rounded);
      for (int i = 0; i < Rf_length(x); i++) rounded[i] = (float)REAL(x)[i];
      t.here[t.n].data = rounded, t.here[t.n].type = FK_FLOAT;
    }
    t.there[t.n] = t.here[t.n];
    t.there[t.n].data = NULL;
  }
  t.ops = fk_dense_ops(t.device < 0 ? FK_BACKEND_CPU : FK_BACKEND_CUDA, &err);
  if (t.ops) {
    enum fk_status status = dense_move(&t, false, &err);
    if (!status) status = dense_do(&t, what, flags, factors, padding, &pivot, &err);
    if (!status) dense_move(&t, true, &err);
    for (int i = 0; i < t.n; i++) t.ops->free(t.device, &t.there[i]);
  }
  r_finish(&err);
  for (int k = 0; k < t.n && single; k++)
    for (int i = 0; i < Rf_length(VECTOR_ELT(out, k)); i++)
      REAL(VECTOR_ELT(out, k))[i] = ((float *)t.here[k].data)[i];
  Rf_setAttrib(out, Rf_install("pivot"), Rf_ScalarReal((double)pivot));
  UNPROTECT(1);
  return out;
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
static SEXP test_engines(SEXP arguments) {
  enum { OPERATIONS = FK_OP_STREAM + 1 };
  int n = fk_engine_count();
  SEXP out = PROTECT(Rf_allocMatrix(LGLSXP, n, OPERATIONS)), names = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP rows = Rf_allocVector(STRSXP, n), columns;
  SET_VECTOR_ELT(names, 0, rows);
  SET_VECTOR_ELT(names, 1, columns = Rf_allocVector(STRSXP, OPERATIONS));
  (void)arguments;
  for (int i = 0; i < n; i++) {
    const struct fk_engine *engine = fk_engine_at(i);
    char name[64];
    snprintf(name, sizeof name, "%s %s", engine->name, engine->backend == FK_BACKEND_CPU ? "cpu" : "cuda");
    SET_STRING_ELT(rows, i, Rf_mkChar(name));
    for (int k = 0; k < OPERATIONS; k++) LOGICAL(out)[i + k * n] = fk_engine_can(engine, (enum fk_operation)k);
    if (fk_engine_can(engine, FK_OP_SHIFT) != (engine->shift != NULL) ||
        fk_engine_can(engine, FK_OP_DEBIASED_LOO) != (engine->debiased_loo != NULL))
      Rf_error("%s: what it says it can do is not what it does", name);
  }
  for (int k = 0; k < OPERATIONS; k++)
    SET_STRING_ELT(columns, k, Rf_mkChar(fk_operation_name((enum fk_operation)k)));
  Rf_setAttrib(out, R_DimNamesSymbol, names);
  UNPROTECT(2);
  return out;
}

/* (control, c(n, m, d, values), kernel, operation): the engine and its precision, why, and its guess */
static SEXP test_plan(SEXP arguments) {
  const char *names[] = {"engine", "precision", "reason", "reason_engine", "seconds", ""};
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  struct fk_plan_choice choice;
  const double *size = r_numbers(argument(arguments, 1), 4, "size");
  struct fk_work work = {size[0], size[1], size[2], size[3], r_kernel(argument(arguments, 2)), FK_OP_SUMS};
  if (!fk_operation_of(CHAR(Rf_asChar(argument(arguments, 3))), &work.operation)) Rf_error("no such operation");
  r_opts(argument(arguments, 0), &opts, &stats);
  fk_plan_choose(&opts, &work, &choice, &stats, &err);
  r_finish(&err);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_mkString(choice.engine->name));
  SET_VECTOR_ELT(out, 1, Rf_mkString(choice.opts.precision == FK_PRECISION_DOUBLE ? "double" : "other"));
  SET_VECTOR_ELT(out, 2, Rf_mkString(stats.reason));
  SET_VECTOR_ELT(out, 3, Rf_mkString(stats.reason_engine));
  SET_VECTOR_ELT(out, 4, Rf_ScalarReal(choice.seconds));
  UNPROTECT(1);
  return out;
}

/* ---- by name ---------------------------------------------------------------------------------- */

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
    {"view", test_view},
    {"sums", test_sums},
    {"stream", test_stream},
    {"whiten", test_whiten},
    {"common_axes", test_common_axes},
    {"dense", test_dense},
    {"pool", test_pool},
    {"engines", test_engines},
    {"plan", test_plan},
};

SEXP ffi_test(SEXP name, SEXP arguments) {
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    if (strcmp(CHAR(Rf_asChar(name)), tests[i].name) == 0) return tests[i].test(arguments);
  Rf_error("there is no such test");
}

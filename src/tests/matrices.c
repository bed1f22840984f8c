/* Tests of C units, continued: views of matrices, whitening, dense operations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/blocked.h"
#include "../core/dense.h"
#include "../core/plan.h"
#include "../core/scan.h"
#include "../core/triangular.h"
#include "../fast/stream.h"
#include "units.h"

/* ---- views ------------------------------------------------------------------------------------ */

/* list(of, first, n, single): n rows from row `first`, counted from 1, of a matrix, or of its copy in floats. */
static struct fk_matrix view_of(SEXP list) {
  struct fk_matrix all = r_points(r_element(list, "of"), "of");
  int64_t first = Rf_asInteger(r_element(list, "first")) - 1, n = Rf_asInteger(r_element(list, "n"));
  if (first < 0 || n < 1 || first + n > all.n) Rf_error("a view must be within the rows of its matrix");
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
SEXP r_test_sums(SEXP arguments) {
  struct fk_operator_spec spec = {.x = view_of(argument(arguments, 0)),
                                  .kernel = r_kernel(argument(arguments, 3))};
  int64_t d = spec.x.d;
  const double plain[3] = {1, 0, 0};
  struct fk_score_spec score = {.y = targets_of(argument(arguments, 1), d), .factor = plain};
  SEXP b = argument(arguments, 4);
  const char *what = CHAR(Rf_asChar(argument(arguments, 6)));
  int64_t columns = Rf_isMatrix(b) ? Rf_ncols(b) : 1, m = score.y.data ? score.y.n : spec.x.n;
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)(spec.x.n * columns), "b");
  struct r_call call = r_begin(argument(arguments, 5));
  struct fk_operator *op;
  spec.chol = r_factor(argument(arguments, 2), d);
  if (strcmp(what, "sums") != 0) spec.weights = numbers;
  SEXP out = PROTECT(r_vector(m * (columns > d ? columns : d)));
  double *to = memset(REAL(out), 0, sizeof *to * (size_t)XLENGTH(out));
  if (fk_operator_create(&spec, &op, &call.err) == FK_STATUS_OK) {
    struct fk_logs logs = {to, NULL};
    if (strcmp(what, "sums") == 0)
      fk_kernel_sum(op, &score.y, numbers, columns, &call.opts, to, &call.stats, &call.err);
    if (strcmp(what, "logs") == 0)
      fk_log_sum(op, &score.y, (const double[]){1, 0, 0}, false, &call.opts, &logs, &call.stats, &call.err);
    if (strcmp(what, "scores") == 0) fk_score(op, &score, &call.opts, to, &call.stats, &call.err);
    if (strcmp(what, "debiased") == 0) fk_debias(op, spec.chol, &call.opts, to, &call.stats, &call.err);
    if (strcmp(what, "debiased_loo") == 0)
      fk_sdkde_loo(op, spec.chol, NULL, NULL, &call.opts, to, &call.stats, &call.err);
    fk_operator_free(op);
  }
  SEXP result = r_result(&call, 1, (const char *const[]){"sums"}, (SEXP[]){out});
  UNPROTECT(1);
  return result;
}

/* (x, y, rows of y that are checked, L, b or NULL, control): sums by one grid, of views; NULL: not by one */
SEXP r_test_stream(SEXP arguments) {
  struct fk_stream_spec spec = {.sources = view_of(argument(arguments, 0)),
                                .targets = view_of(argument(arguments, 1)),
                                .checked = view_of(argument(arguments, 2)),
                                .chunks = 4,
                                .pieces = 4,
                                .columns = 1,
                                .most_bytes = 1e9};
  SEXP b = argument(arguments, 4);
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)spec.sources.n, "b");
  struct r_call call = r_begin(argument(arguments, 5));
  struct fk_stream *stream;
  spec.n = (double)spec.sources.n;
  spec.m = (double)spec.targets.n;
  spec.part_tol = call.opts.tol / 4;
  spec.chol = r_factor(argument(arguments, 3), spec.sources.d);
  SEXP out = PROTECT(r_vector(spec.targets.n));
  if (fk_stream_open(&spec, &call.opts, &stream, &call.err) == FK_STATUS_OK && stream &&
      fk_stream_add(stream, &spec.sources, numbers, &call.opts.poll, &call.err) == FK_STATUS_OK)
    fk_stream_evaluate(stream, &spec.targets, &call.opts.poll, REAL(out), &call.stats, &call.err);
  bool streamed = stream != NULL;
  fk_stream_free(stream);
  r_finish(&call.err);
  UNPROTECT(1);
  return streamed ? out : R_NilValue;
}

/* (x, far, rows from 1): is all finite, the far centre, these rows, a third of all, column 1 but for its first,
 * all */
SEXP r_test_view(SEXP arguments) {
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
SEXP r_test_whiten(SEXP arguments) {
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
SEXP r_test_common_axes(SEXP arguments) {
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
  const struct fk_blocked blocked = {.ops = ops, .device = t->device, .block = (int64_t)factors[0]};
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
  if (DENSE_IS("trtri")) return ops->trtri(t->device, flags, &x[0], err);
  if (DENSE_IS("squares")) return ops->squares(t->device, flags, &x[0], &x[1], err);
  if (DENSE_IS("transpose"))
    return ops->transpose(t->device, flags, &x[0], t->n > 2 ? &x[1] : NULL, &x[t->n - 1], err);
  if (DENSE_IS("blocked potrf")) return fk_blocked_potrf(&blocked, flags, &x[0], pivot, err);
  if (DENSE_IS("blocked lauum")) return fk_blocked_lauum(&blocked, flags, &x[0], err);
  if (DENSE_IS("blocked trtri")) return fk_blocked_trtri(&blocked, flags, &x[0], err);
  if (DENSE_IS("eigen")) return fk_host_eigen(flags, &x[0], &x[1], err);
  return fk_fail(err, FK_STATUS_INTERNAL, "there is no such operation");
#undef DENSE_IS
}

/* (operation, device or -1 for the host, flags, c(alpha, beta), matrices, padding, single): the matrices after it,
 * which has so many of their first and last rows left out, and potrf's pivot as an attribute */
SEXP r_test_dense(SEXP arguments) {
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

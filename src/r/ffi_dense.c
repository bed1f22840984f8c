/* The .Call entry points of matrices: kernels as numbers, exact fits and their gradients, and preconditioners. */
#include <string.h>

#include "../core/blocked.h"
#include "../core/costs.h"
#include "../core/gradients.h"
#include "../core/preconditioner.h"
#include "../core/ridge_path.h"

#include "ffi.h"
#include "operator.h"

/* ---- kernels ---------------------------------------------------------------------------------- */

/* Sources with one kernel, or with a sum of kernels: their parts and the scales of these. */
struct r_terms {
  struct r_operator *opened;
  struct fk_kernel_terms terms;
};

/* list(parts, scales) or sources, opened; none of a matrix. */
static struct r_terms open_terms(SEXP K) {
  static const double one = 1;
  SEXP parts = Rf_isMatrix(K) ? R_NilValue : r_element(K, "parts");
  const bool is_sum = !Rf_isNull(parts);
  const int n = Rf_isMatrix(K) ? 0 : is_sum ? Rf_length(parts) : 1;
  struct r_terms of = {.opened = (struct r_operator *)R_alloc((size_t)n, sizeof *of.opened)};
  of.terms = (struct fk_kernel_terms){0, (struct fk_operator **)R_alloc((size_t)n, sizeof *of.terms.ops), &one};
  if (is_sum) of.terms.scales = r_numbers(r_element(K, "scales"), n, "scales");
  for (; of.terms.n < n; of.terms.n++) of.opened[of.terms.n] = r_open(is_sum ? VECTOR_ELT(parts, of.terms.n) : K);
  return of;
}

/* A matrix, or what open_terms() takes, opened: returns the matrix, or NULL. Sets the order. */
static const double *matrix_or_open(SEXP K, struct r_terms *of, int64_t *m) {
  *of = open_terms(K);
  *m = of->terms.n == 0 ? Rf_nrows(K) : of->opened[0].spec.x.n;
  if (*m == 0) Rf_error("`K` must have rows");
  return of->terms.n == 0 ? r_numbers(K, (R_xlen_t)(*m * *m), "K") : NULL;
}

/* FALSE: a failure. Either way the caller closes them. */
static bool start_terms(struct r_terms *of, struct fk_error *err) {
  for (int i = 0; i < of->terms.n; i++)
    of->terms.ops[i] = err->status == FK_STATUS_OK ? r_start(&of->opened[i], err) : NULL;
  return err->status == FK_STATUS_OK;
}
static void close_terms(const struct r_terms *of) {
  for (int i = 0; i < of->terms.n; i++) r_close(&of->opened[i]);
}
static bool start_all(struct r_terms *of, R_xlen_t n, struct fk_error *err) {
  for (R_xlen_t i = 0; i < n; i++) start_terms(&of[i], err);
  return err->status == FK_STATUS_OK;
}
static void close_all(const struct r_terms *of, R_xlen_t n) {
  for (R_xlen_t i = 0; i < n; i++) close_terms(&of[i]);
}

/* y: points, or a list of them for each part of a sum; NULL: the sources. */
SEXP ffi_kernel_matrix(SEXP sources, SEXP y, SEXP control) {
  struct r_call call = r_begin(control);
  struct r_terms of = open_terms(sources);
  struct fk_matrix *at = (struct fk_matrix *)R_alloc((size_t)of.terms.n, sizeof *at);
  const bool apart = !Rf_isNull(r_element(sources, "parts")) && !Rf_isNull(y);
  for (int i = 0; i < of.terms.n; i++) at[i] = r_targets(apart ? VECTOR_ELT(y, i) : y, of.opened[i].spec.x.d);
  const int64_t n = of.opened[0].spec.x.n;
  SEXP K = PROTECT(r_matrix(at[0].data ? at[0].n : n, n, R_NilValue));

  const bool started = start_terms(&of, &call.err);
  for (int i = 0; i < of.terms.n && started && !call.err.status; i++) {
    const struct fk_matrix_term term = {of.terms.scales[i], i > 0};
    fk_kernel_matrix(of.terms.ops[i], &at[i], &term, &call.opts, REAL(K), &call.err);
  }
  close_terms(&of);

  r_finish(&call.err);
  UNPROTECT(1);
  return K;
}

/* ---- fits ------------------------------------------------------------------------------------- */

static SEXP r_array(int64_t m, int64_t t, int64_t k) {
  SEXP out = PROTECT(r_vector(m * t * k)), dim = PROTECT(Rf_allocVector(INTSXP, 3));
  const int64_t sizes[] = {m, t, k};
  for (int i = 0; i < 3; i++) INTEGER(dim)[i] = (int)sizes[i];
  Rf_setAttrib(out, R_DimSymbol, dim);
  UNPROTECT(2);
  return out;
}

/* A task, opened: y: m x t or m x t x k; noises: k numbers, or m x k; with_own: compute the diagonals of C^-1? The
 * results are R objects in `list`. */
static struct fk_ridge_path open_path(SEXP task, struct r_terms *of, struct fk_ridge_path_spec *spec, SEXP list) {
  SEXP y = r_element(task, "y"), noises = r_element(task, "noises");
  const bool with_own = Rf_asLogical(r_element(task, "with_own"));
  const R_xlen_t numbers = XLENGTH(y);
  *spec = (struct fk_ridge_path_spec){.by_row = Rf_isMatrix(noises), .y_by_noise = !Rf_isMatrix(y)};
  spec->matrix = matrix_or_open(r_element(task, "K"), of, &spec->m);
  spec->k = spec->by_row ? Rf_ncols(noises) : Rf_length(noises);
  if (spec->k > 0) spec->t = numbers / spec->m / (spec->y_by_noise ? spec->k : 1);
  if (spec->k == 0 || spec->t == 0) Rf_error("`y` must have columns, and `noises` must not be empty");
  spec->y = r_numbers(y, (R_xlen_t)(spec->m * spec->t * (spec->y_by_noise ? spec->k : 1)), "y");
  spec->noises = r_numbers(noises, (R_xlen_t)((spec->by_row ? spec->m : 1) * spec->k), "noises");
  SET_VECTOR_ELT(list, 0, r_array(spec->m, spec->t, spec->k));
  if (with_own) SET_VECTOR_ELT(list, 1, r_matrix(spec->m, spec->k, R_NilValue));
  SET_VECTOR_ELT(list, 2, r_vector(spec->k));
  SET_VECTOR_ELT(list, 3, r_matrix(spec->t, spec->k, R_NilValue));
  return (struct fk_ridge_path){.coefficients = REAL(VECTOR_ELT(list, 0)),
                                .own = with_own ? REAL(VECTOR_ELT(list, 1)) : NULL,
                                .log_det = REAL(VECTOR_ELT(list, 2)),
                                .energy = REAL(VECTOR_ELT(list, 3)),
                                .backend = ""};
}

/* tasks: each a list(K, y, noises, with_own); the results of each. */
SEXP ffi_ridge_paths(SEXP tasks, SEXP control) {
  static const char *names[] = {"coefficients", "own", "log_det", "energy", "backend", ""};
  struct r_call call = r_begin(control);
  const R_xlen_t n = XLENGTH(tasks);
  struct r_terms *of = (struct r_terms *)R_alloc((size_t)n, sizeof *of);
  struct fk_ridge_path_spec *specs = (struct fk_ridge_path_spec *)R_alloc((size_t)n, sizeof *specs);
  struct fk_ridge_path *outs = (struct fk_ridge_path *)R_alloc((size_t)n, sizeof *outs);
  SEXP lists = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(lists, i, Rf_mkNamed(VECSXP, names));
    outs[i] = open_path(VECTOR_ELT(tasks, i), &of[i], &specs[i], VECTOR_ELT(lists, i));
  }
  const bool started = start_all(of, n, &call.err);
  for (R_xlen_t i = 0; i < n; i++) specs[i].kernels = of[i].terms;
  if (started) fk_ridge_paths(specs, n, &call.opts, outs, &call.err);
  close_all(of, n);

  r_finish(&call.err);
  for (R_xlen_t i = 0; i < n; i++) SET_VECTOR_ELT(VECTOR_ELT(lists, i), 4, Rf_mkString(outs[i].backend));
  UNPROTECT(1);
  return lists;
}

/* A task, opened; the sums are an R object. */
static SEXP open_gradients(SEXP task, struct r_terms *of, struct fk_gradients_spec *spec) {
  const SEXP z = r_element(task, "z"), a = r_element(task, "a");
  *of = open_terms(r_element(task, "sources"));
  *spec = (struct fk_gradients_spec){.m = Rf_nrows(z), .d = Rf_ncols(z), .t = Rf_ncols(a)};
  spec->z = r_numbers(z, (R_xlen_t)(spec->m * spec->d), "z");
  spec->a = r_numbers(a, (R_xlen_t)(spec->m * spec->t), "a");
  const double *slope = r_numbers(r_element(task, "slope"), 3, "slope");
  spec->slope = (struct fk_slope){slope[0], slope[1], slope[2], Rf_asLogical(r_element(task, "absolute"))};
  spec->full = Rf_asLogical(r_element(task, "full"));
  return spec->full ? r_matrix(spec->d, spec->d, R_NilValue) : r_vector(spec->d);
}

/* tasks: each a list(sources, z, a, slope, absolute, full), slope: c(times, exponent, power); their sums. */
SEXP ffi_gradient_products(SEXP tasks, SEXP control) {
  struct r_call call = r_begin(control);
  const R_xlen_t n = XLENGTH(tasks);
  struct r_terms *of = (struct r_terms *)R_alloc((size_t)n, sizeof *of);
  struct fk_gradients_spec *specs = (struct fk_gradients_spec *)R_alloc((size_t)n, sizeof *specs);
  double **sums = (double **)R_alloc((size_t)n, sizeof *sums);
  SEXP out = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(out, i, open_gradients(VECTOR_ELT(tasks, i), &of[i], &specs[i]));
    sums[i] = REAL(VECTOR_ELT(out, i));
  }
  const bool started = start_all(of, n, &call.err);
  for (R_xlen_t i = 0; i < n; i++) specs[i].kernels = of[i].terms;
  if (started) fk_gradient_products(specs, n, &call.opts, sums, &call.err);
  close_all(of, n);

  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* list(inverse, log_det) of a positive definite matrix, of which the lower triangle is read; log_det is NaN if a
 * factorisation fails. */
SEXP ffi_inverse(SEXP C, SEXP control) {
  struct r_call call = r_begin(control);
  const int64_t n = Rf_isMatrix(C) ? Rf_nrows(C) : 0;
  if (n == 0) Rf_error("`C` must be a matrix with rows");
  const double *from = r_numbers(C, (R_xlen_t)(n * n), "C");
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, (const char *[]){"inverse", "log_det", ""}));
  SET_VECTOR_ELT(list, 0, r_matrix(n, n, R_NilValue));
  SET_VECTOR_ELT(list, 1, r_vector(1));
  double *lower = (double *)R_alloc((size_t)(n * n), sizeof *lower);
  const struct fk_dense A = fk_dense_of(lower, n, n), B = fk_dense_of(REAL(VECTOR_ELT(list, 0)), n, n);
  const struct fk_blocked how = {
      n <= fk_costs.dense.alone ? &fk_dense_own : &fk_dense_host, call.opts.threads, 0, {NULL, NULL}};
  memset(lower, 0, sizeof *lower * (size_t)(n * n));
  for (int64_t j = 0; j < n; j++) memcpy(lower + j * n + j, from + j * n + j, sizeof *lower * (size_t)(n - j));
  fk_blocked_inverse(&how, &A, &B, REAL(VECTOR_ELT(list, 1)), &call.err);
  r_finish(&call.err);
  UNPROTECT(1);
  return list;
}

/* ---- handles ---------------------------------------------------------------------------------- */

static SEXP tag(void) { return Rf_install("flashkernel_preconditioner"); }

static void finalize(SEXP handle) {
  fk_preconditioner_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
  r_count_handle(-1);
}

/* What was freed, or read from a file, is a failure in words: it is made again from the centres. */
static struct fk_preconditioner *preconditioner_of(SEXP handle) {
  struct fk_error err = {FK_STATUS_OK, ""};
  if (TYPEOF(handle) != EXTPTRSXP || R_ExternalPtrTag(handle) != tag())
    Rf_error("`handle` must be a handle of a preconditioner");
  if (!R_ExternalPtrAddr(handle))
    fk_fail(&err, FK_STATUS_LOST, "the preconditioner was freed or belongs to another session");
  r_finish(&err);
  return R_ExternalPtrAddr(handle);
}

SEXP ffi_free_preconditioner(SEXP handle) {
  if (TYPEOF(handle) != EXTPTRSXP || R_ExternalPtrTag(handle) != tag())
    Rf_error("`handle` must be a handle of a preconditioner");
  fk_preconditioner_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
  return R_NilValue;
}

/* ---- preconditioners -------------------------------------------------------------------------- */

static SEXP facts_of(SEXP handle, const struct fk_preconditioner_facts *facts) {
  SEXP list = PROTECT(Rf_mkNamed(
      VECSXP, (const char *[]){"handle", "jitter", "steps", "bytes", "backend", "devices", "streamed", ""}));
  SET_VECTOR_ELT(list, 0, handle);
  SET_VECTOR_ELT(list, 1, Rf_ScalarReal(facts->jitter));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger(facts->steps));
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal(facts->bytes));
  SET_VECTOR_ELT(list, 4, Rf_mkString(facts->backend));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(facts->devices));
  SET_VECTOR_ELT(list, 6, Rf_ScalarLogical(facts->streamed));
  UNPROTECT(1);
  return list;
}

/* K: sources, or a matrix; ladder: c(jitter, most), NULL: none at all; rough: T alone? */
SEXP ffi_preconditioner(SEXP K, SEXP diagonal, SEXP ladder, SEXP rough, SEXP host, SEXP control) {
  struct r_call call = r_begin(control);
  struct r_terms of;
  struct fk_preconditioner_spec spec = {
      .fixed = Rf_isNull(ladder), .rough = r_flag(rough), .host = Rf_asReal(host)};
  struct fk_preconditioner_facts facts;
  struct fk_preconditioner *P = NULL;
  spec.matrix = matrix_or_open(K, &of, &spec.m);
  spec.diagonal = r_weights(diagonal, spec.m);
  if (!spec.fixed) {
    const double *numbers = r_numbers(ladder, 2, "ladder");
    spec.jitter = numbers[0];
    spec.most = numbers[1];
  }
  SEXP handle = PROTECT(r_new_handle(NULL, tag(), finalize));

  const bool started = start_terms(&of, &call.err);
  spec.kernels = of.terms;
  if (started) fk_preconditioner_create(&spec, &call.opts, &P, &facts, &call.err);
  close_terms(&of);
  R_SetExternalPtrAddr(handle, P);

  r_finish(&call.err);
  SEXP result = facts_of(handle, &facts);
  UNPROTECT(1);
  return result;
}

SEXP ffi_precondition(SEXP handle, SEXP weights, SEXP scale, SEXP lambda, SEXP progress) {
  struct fk_preconditioner *P = preconditioner_of(handle);
  struct fk_preconditioner_weights w = {r_weights(weights, fk_preconditioner_order(P)), Rf_asReal(scale),
                                        Rf_asReal(lambda)};
  struct fk_poll poll = {r_poll, progress};
  struct fk_error err = {FK_STATUS_OK, ""};
  fk_preconditioner_weigh(P, &w, &poll, &err);
  r_finish(&err);
  return R_NilValue;
}

/* steps: of enum fk_factor_step, applied in this order */
SEXP ffi_apply_factors(SEXP handle, SEXP v, SEXP steps) {
  struct fk_preconditioner *P = preconditioner_of(handle);
  struct fk_error err = {FK_STATUS_OK, ""};
  int n = (int)Rf_xlength(steps);
  if (!Rf_isMatrix(v) || TYPEOF(v) != REALSXP || Rf_nrows(v) != fk_preconditioner_order(P))
    Rf_error("`v` must be a matrix of doubles with a row for each centre");
  if (TYPEOF(steps) != INTSXP) Rf_error("`steps` must be integers");
  for (int i = 0; i < n; i++)
    if (INTEGER(steps)[i] < 0 || INTEGER(steps)[i] >= FK_STEPS) Rf_error("`steps` must be between 0 and 7");
  SEXP out = PROTECT(Rf_duplicate(v));
  fk_preconditioner_apply(P, INTEGER(steps), n, REAL(out), Rf_ncols(v), &err);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

/* which: 0 or FK_STEP_A; the whole factor, or its diagonal */
SEXP ffi_factor(SEXP handle, SEXP which, SEXP whole) {
  struct fk_preconditioner *P = preconditioner_of(handle);
  struct fk_error err = {FK_STATUS_OK, ""};
  int64_t m = fk_preconditioner_order(P);
  int step = Rf_asInteger(which) == FK_STEP_A ? FK_STEP_A : 0;
  bool all = r_flag(whole);
  SEXP out = PROTECT(all ? r_matrix(m, m, R_NilValue) : r_vector(m));
  if (all)
    fk_preconditioner_factor(P, step, REAL(out), &err);
  else
    fk_preconditioner_diagonal(P, step, REAL(out), &err);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

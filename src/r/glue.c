/* Between R objects and the structures of fk.h; see glue.h for what may jump when. */
#include "glue.h"

#include <string.h>

#include "../core/aligned.h"
#include "../core/method.h"

SEXP r_element(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  if (TYPEOF(list) != VECSXP || TYPEOF(names) != STRSXP) Rf_error("`%s` must be a named list", name);
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

/* R/ has checked every argument already; these keep a mistake there from reading foreign memory. */
struct fk_matrix r_points(SEXP x, const char *name) {
  bool single = Rf_inherits(x, "single_points"); /* R/base-single.R */
  SEXP data = single ? r_element(x, "bits") : x;
  if (TYPEOF(data) != (single ? INTSXP : REALSXP) || !Rf_isMatrix(data) || XLENGTH(data) == 0)
    Rf_error("`%s` must be a matrix of doubles or floats with at least one row and column", name);
  struct fk_matrix points = fk_doubles(single ? NULL : REAL_RO(data), Rf_nrows(data), Rf_ncols(data));
  if (single) points.data = INTEGER_RO(data), points.type = FK_FLOAT;
  return points;
}

struct fk_matrix r_targets(SEXP y, int64_t d) {
  struct fk_matrix points = fk_doubles(NULL, 0, d);
  if (Rf_isNull(y)) return points;
  points = r_points(y, "y");
  if (points.d != d) Rf_error("`y` must have %.0f columns", (double)d);
  return points;
}

const double *r_low_parts(SEXP points) {
  SEXP low = Rf_isNull(points) ? R_NilValue : Rf_getAttrib(points, Rf_install("low"));
  return Rf_isNull(low) ? NULL : r_numbers(low, Rf_xlength(points), "low");
}

const double *r_weights(SEXP weights, int64_t n) {
  return Rf_isNull(weights) ? NULL : r_numbers(weights, (R_xlen_t)n, "weights");
}

const double *r_numbers(SEXP x, R_xlen_t length, const char *name) {
  if (TYPEOF(x) != REALSXP || Rf_xlength(x) != length) Rf_error("`%s` must be %.0f doubles", name, (double)length);
  return REAL_RO(x);
}

const double *r_numbers_or_null(SEXP list, const char *name, int64_t length) {
  SEXP x = r_element(list, name);
  return Rf_isNull(x) ? NULL : r_numbers(x, (R_xlen_t)length, name);
}

const double *r_factor(SEXP chol, int64_t d) { return r_numbers(chol, (R_xlen_t)(d * d), "L"); }

void r_polynomial(SEXP job, double factor[3]) {
  memcpy(factor, r_numbers(r_element(job, "factor"), 3, "factor"), 3 * sizeof *factor);
}

bool r_flag(SEXP x) { return Rf_asLogical(x) == TRUE; }

struct fk_kernel r_kernel(SEXP kernel) {
  struct fk_kernel own;
  bool has_parameters = TYPEOF(kernel) == VECSXP;
  SEXP name = has_parameters ? r_element(kernel, "name") : kernel;
  if (!fk_kernel_of(CHAR(Rf_asChar(name)), &own)) Rf_error("`kernel` must be the name of a kernel");
  int count = fk_kernel_n_parameters(own.id);
  const double *given = has_parameters ? r_numbers(r_element(kernel, "parameters"), count, "parameters") : NULL;
  for (int p = 0; p < count && given; p++) own.parameters[p] = given[p];
  return own;
}

static enum fk_backend backend_of(const char *name) {
  if (strcmp(name, "cpu") == 0) return FK_BACKEND_CPU;
  return strcmp(name, "cuda") == 0 ? FK_BACKEND_CUDA : FK_BACKEND_AUTO;
}

static enum fk_precision precision_of(const char *name) {
  if (strcmp(name, "double") == 0) return FK_PRECISION_DOUBLE;
  if (strcmp(name, "single") == 0) return FK_PRECISION_SINGLE;
  return strcmp(name, "fast") == 0 ? FK_PRECISION_FAST : FK_PRECISION_AUTO;
}

static enum fk_engine_kind engine_of(const char *name) {
  if (strcmp(name, "exact") == 0) return FK_ENGINE_EXACT;
  return strcmp(name, "fast") == 0 ? FK_ENGINE_FAST : FK_ENGINE_AUTO;
}

static void r_devices(SEXP devices, struct fk_opts *opts) {
  if (TYPEOF(devices) != INTSXP || XLENGTH(devices) > FK_MAX_DEVICES)
    Rf_error("`devices` must be at most %d integers", FK_MAX_DEVICES);
  opts->n_devices = (int)XLENGTH(devices);
  for (int i = 0; i < opts->n_devices; i++) opts->devices[i] = INTEGER(devices)[i];
}

/* The methods that a test forces: names from its control, or NULL. */
static unsigned methods_of(SEXP names) {
  static const struct {
    const char *name;
    enum fk_method method;
  } methods[] = {{"grid", FK_METHOD_GRID},        {"direct", FK_METHOD_DIRECT}, {"line", FK_METHOD_LINE},
                 {"near", FK_METHOD_NEAR},        {"pairs", FK_METHOD_PAIRS},   {"as exact", FK_METHOD_AS_EXACT},
                 {"envelope", FK_METHOD_ENVELOPE}};
  unsigned found = 0;
  if (TYPEOF(names) != STRSXP) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++)
      if (strcmp(CHAR(STRING_ELT(names, i)), methods[k].name) == 0) found |= methods[k].method;
  return found;
}

/* -1: none are named. */
static double bytes_of(SEXP bytes) { return Rf_isNumeric(bytes) ? Rf_asReal(bytes) : -1; }

struct r_call r_begin(SEXP control) {
  struct r_call call = {.err = {FK_STATUS_OK, ""}};
  struct fk_opts *opts = &call.opts;
  struct fk_stats *stats = &call.stats;
  stats->backend = stats->engine = stats->method = stats->precision = stats->isa = "";
  opts->backend = backend_of(CHAR(Rf_asChar(r_element(control, "backend"))));
  opts->precision = precision_of(CHAR(Rf_asChar(r_element(control, "precision"))));
  opts->threads = Rf_asInteger(r_element(control, "threads"));
  r_devices(r_element(control, "devices"), opts);
  opts->engine = engine_of(CHAR(Rf_asChar(r_element(control, "engine"))));
  opts->tol = Rf_asReal(r_element(control, "tol"));
  if (!(opts->tol > 0)) opts->tol = 0;
  bool pointwise = strcmp(CHAR(Rf_asChar(r_element(control, "tol_type"))), "pointwise") == 0;
  opts->tol_type = pointwise ? FK_TOL_POINTWISE : FK_TOL_GLOBAL;
  opts->methods = methods_of(r_element(control, "method"));
  opts->as_exact = false;
  opts->device_memory = bytes_of(r_element(control, "device_memory"));
  opts->host_memory = bytes_of(r_element(control, "host_memory"));
  opts->gpu_memory = bytes_of(r_element(control, "gpu_memory_limit"));
  opts->poll.fn = r_poll;
  opts->poll.data = r_element(control, "progress");
  return call;
}

int r_threads(SEXP control) { return Rf_isNull(control) ? 1 : r_begin(control).opts.threads; }

/* ---- interrupts and progress ------------------------------------------------------------------ */

struct poll_call {
  SEXP progress;
  double fraction;
  int failed;
};

static void look_up(void *data) {
  struct poll_call *call = data;
  R_CheckUserInterrupt();
  if (!Rf_isFunction(call->progress)) return;
  SEXP number = PROTECT(Rf_ScalarReal(call->fraction)), lang = PROTECT(Rf_lang2(call->progress, number));
  R_tryEvalSilent(lang, R_GlobalEnv, &call->failed);
  UNPROTECT(2);
}

/* On R's main thread only, between chunks. Any jump ends at R_ToplevelExec, so the core regains control, frees
 * what it holds and returns "interrupted"; raise_status() then signals the interrupt again. */
int r_poll(void *progress, double fraction) {
  struct poll_call call = {progress, fraction, 0};
  return !R_ToplevelExec(look_up, &call) || call.failed;
}

/* ---- results ---------------------------------------------------------------------------------- */

SEXP r_column_names(SEXP x) {
  SEXP names = Rf_getAttrib(x, R_DimNamesSymbol);
  return Rf_isNull(names) ? R_NilValue : VECTOR_ELT(names, 1);
}

/* Asks for large pages: to get small pages for 10^8 numbers would take longer than the sums. */
SEXP r_vector(int64_t length) {
  SEXP vector = Rf_allocVector(REALSXP, (R_xlen_t)length);
  fk_large_pages(REAL(vector), sizeof(double) * (size_t)length);
  return vector;
}

void r_set_column_names(SEXP matrix, SEXP names) {
  if (Rf_isNull(names)) return;
  SEXP both = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(both, 1, names);
  Rf_setAttrib(matrix, R_DimNamesSymbol, both);
  UNPROTECT(1);
}

SEXP r_matrix(int64_t rows, int64_t columns, SEXP names) {
  SEXP matrix = PROTECT(Rf_allocMatrix(REALSXP, (int)rows, (int)columns));
  fk_large_pages(REAL(matrix), sizeof(double) * (size_t)(rows * columns));
  r_set_column_names(matrix, names);
  UNPROTECT(1);
  return matrix;
}

/* The names of all elements of r_stats(), made once. */
static SEXP stats_names(void) {
  static const char *const names[] = {
      "backend",      "device",        "engine",  "method",  "precision",      "isa",
      "reason",       "reason_engine", "pairs",   "seconds", "device_seconds", "tail_rows",
      "tol_achieved", "tol_bound",     "skipped", "threads", "devices",
  };
  enum { N = sizeof names / sizeof *names };
  static SEXP kept;
  if (kept) return kept;
  SEXP made = PROTECT(Rf_allocVector(STRSXP, N));
  for (int i = 0; i < N; i++) SET_STRING_ELT(made, i, Rf_mkChar(names[i]));
  MARK_NOT_MUTABLE(made);
  R_PreserveObject(made);
  UNPROTECT(1);
  return kept = made;
}

SEXP r_stats(const struct fk_stats *s) {
  enum { STRINGS = 8, NUMBERS = 7 };
  const char *strings[STRINGS] = {s->backend,   s->device, s->engine, s->method,
                                  s->precision, s->isa,    s->reason, s->reason_engine};
  double numbers[NUMBERS] = {s->pairs,        s->seconds,   s->device_seconds, s->tail_rows,
                             s->tol_achieved, s->tol_bound, s->skipped};
  SEXP names = stats_names(), list = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names))), devices;
  Rf_setAttrib(list, R_NamesSymbol, names);
  for (int i = 0; i < STRINGS; i++) SET_VECTOR_ELT(list, i, Rf_mkString(strings[i]));
  for (int i = 0; i < NUMBERS; i++) SET_VECTOR_ELT(list, STRINGS + i, Rf_ScalarReal(numbers[i]));
  SET_VECTOR_ELT(list, STRINGS + NUMBERS, Rf_ScalarInteger(s->threads));
  SET_VECTOR_ELT(list, STRINGS + NUMBERS + 1, devices = Rf_allocVector(INTSXP, s->n_devices));
  for (int i = 0; i < s->n_devices; i++) INTEGER(devices)[i] = s->devices[i];
  UNPROTECT(1);
  return list;
}

SEXP r_result(const struct r_call *call, int n, const char *const *names, SEXP *values) {
  r_finish(&call->err);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n + 1)), labels = PROTECT(Rf_allocVector(STRSXP, n + 1));
  for (int i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, i, values[i]);
    SET_STRING_ELT(labels, i, Rf_mkChar(names[i]));
  }
  SET_VECTOR_ELT(list, n, r_stats(&call->stats));
  SET_STRING_ELT(labels, n, Rf_mkChar("stats"));
  Rf_setAttrib(list, R_NamesSymbol, labels);
  UNPROTECT(2);
  return list;
}

void r_finish(const struct fk_error *err) {
  if (err->status == FK_STATUS_OK) return;
  SEXP name = PROTECT(Rf_mkString("flashkernel")), space = PROTECT(R_FindNamespace(name));
  SEXP kind = PROTECT(Rf_mkString(fk_status_name(err->status))), text = PROTECT(Rf_mkString(err->message));
  SEXP call = PROTECT(Rf_lang3(Rf_install("raise_status"), kind, text));
  Rf_eval(call, space);
  Rf_error("%s", err->message); /* not reached: raise_status() jumps */
}

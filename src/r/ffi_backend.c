/* The .Call entry points about the machine and the build. */
#include <string.h>

#include "../core/costs.h"
#include "../core/gpu.h"
#include "../core/plan.h"
#include "../core/pool.h"
#include "../core/preconditioner.h"
#include "../core/sha256.h"
#include "../cpu/tile.h"
#include "../fk_config.h"
#include "ffi.h"

/* What was built and what runs here; touches no driver. */
SEXP ffi_backend_info(void) {
  const char *names[] = {"isa", "isa_available", "threads_default", "gpu_engine", "version", ""};
  SEXP info = PROTECT(Rf_mkNamed(VECSXP, names)), isa;
  SET_VECTOR_ELT(info, 0, Rf_mkString(fk_isa()->name));
  SET_VECTOR_ELT(info, 1, isa = Rf_allocVector(STRSXP, fk_isa_count()));
  for (int i = 0; i < fk_isa_count(); i++) SET_STRING_ELT(isa, i, Rf_mkChar(fk_isa_at(i)->name));
  SET_VECTOR_ELT(info, 2, Rf_ScalarInteger(fk_threads(0)));
  SET_VECTOR_ELT(info, 3, Rf_ScalarLogical(*fk_gpu_path() != '\0'));
  SET_VECTOR_ELT(info, 4, Rf_mkString(FK_VERSION));
  UNPROTECT(1);
  return info;
}

SEXP ffi_machine_memory(void) { return Rf_ScalarReal(fk_machine_memory()); }

/* c(otherwise, above, most, whole) of each parameter, by name. */
static SEXP parameters_of(enum fk_kernel_id id) {
  int n = fk_kernel_n_parameters(id);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n)), names = PROTECT(Rf_allocVector(STRSXP, n)), numbers;
  for (int i = 0; i < n; i++) {
    const struct fk_kernel_parameter *p = &fk_kernel_info(id)->parameters[i];
    SET_STRING_ELT(names, i, Rf_mkChar(p->name));
    SET_VECTOR_ELT(list, i, numbers = Rf_allocVector(REALSXP, 4));
    memcpy(REAL(numbers), (const double[]){p->otherwise, p->above, p->most, p->whole}, 4 * sizeof(double));
  }
  Rf_setAttrib(list, R_NamesSymbol, names);
  UNPROTECT(2);
  return list;
}

/* The table of core/kernels.c: a list for each kernel, by name. */
SEXP ffi_kernels(void) {
  const char *fields[] = {"others", "formula", "metric", "parameters", ""};
  static const char *const metrics[] = {
      [FK_METRIC_SQUARES] = "squares", [FK_METRIC_ABSOLUTE] = "absolute", [FK_METRIC_PRODUCTS] = "products"};
  SEXP all = PROTECT(Rf_allocVector(VECSXP, FK_KERNELS)), names = PROTECT(Rf_allocVector(STRSXP, FK_KERNELS)), one;
  for (int i = 0; i < FK_KERNELS; i++) {
    struct fk_kernel kernel = {.id = (enum fk_kernel_id)i};
    const struct fk_kernel_info *info = fk_kernel_info(kernel.id);
    SET_STRING_ELT(names, i, Rf_mkChar(info->name));
    SET_VECTOR_ELT(all, i, one = Rf_mkNamed(VECSXP, fields));
    SET_VECTOR_ELT(one, 0, Rf_mkString(info->others));
    SET_VECTOR_ELT(one, 1, Rf_mkString(info->formula));
    SET_VECTOR_ELT(one, 2, Rf_mkString(metrics[fk_kernel_metric(&kernel)]));
    SET_VECTOR_ELT(one, 3, parameters_of(kernel.id));
  }
  Rf_setAttrib(all, R_NamesSymbol, names);
  UNPROTECT(2);
  return all;
}

/* What is chosen for a sum over n sources at m targets in d dimensions; an error where nothing can do it. */
static struct fk_plan_choice choice_for(struct r_call *call, SEXP n, SEXP m, SEXP d, SEXP kernel) {
  struct fk_work work = {.n = Rf_asReal(n), .m = Rf_asReal(m), .d = Rf_asReal(d), .kernel = r_kernel(kernel)};
  struct fk_plan_choice choice;
  fk_plan_choose(&call->opts, &work, &choice, &call->stats, &call->err);
  r_finish(&call->err);
  return choice;
}

/* Where it would run. */
SEXP ffi_resolve(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel) {
  struct r_call call = r_begin(control);
  choice_for(&call, n, m, d, kernel).engine->describe(&call.opts, &call.stats);
  return r_stats(&call.stats);
}

/* What a nominal core takes, by the table of costs: list(pairs, coordinates, linear, moments, gpu_start). */
SEXP ffi_nominal_costs(void) {
  const struct fk_nominal_costs *c = &fk_costs.nominal;
  const char *names[] = {"pairs", "coordinates", "linear", "moments", "gpu_start", ""};
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names)), linear;
  SET_VECTOR_ELT(list, 0, Rf_ScalarReal(c->pairs));
  SET_VECTOR_ELT(list, 1, Rf_ScalarReal(c->coordinates));
  SET_VECTOR_ELT(list, 2, linear = r_vector(3));
  memcpy(REAL(linear), c->linear, sizeof c->linear);
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal(c->moments));
  SET_VECTOR_ELT(list, 4, Rf_ScalarReal(fk_costs.gpu.start));
  UNPROTECT(1);
  return list;
}

/* The seconds that it would take there, by the engine's guess. */
SEXP ffi_guess(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel) {
  struct r_call call = r_begin(control);
  return Rf_ScalarReal(choice_for(&call, n, m, d, kernel).seconds);
}

/* Is there an engine for the operation of this name in d dimensions? Touches no driver. */
SEXP ffi_can(SEXP control, SEXP operation, SEXP d, SEXP kernel) {
  struct r_call call = r_begin(control);
  struct fk_work work = {.d = Rf_asReal(d), .kernel = r_kernel(kernel)};
  if (!fk_operation_of(CHAR(Rf_asChar(operation)), &work.operation))
    Rf_error("`operation` must be the name of an operation");
  return Rf_ScalarLogical(fk_plan_has(&call.opts, &work));
}

/* The seconds of such sums where a tolerance would make them short, else NA. */
SEXP ffi_hint(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel, SEXP own, SEXP share) {
  struct r_call call = r_begin(control);
  struct fk_work work = {.n = Rf_asReal(n), .m = Rf_asReal(m), .d = Rf_asReal(d), .kernel = r_kernel(kernel)};
  double seconds = fk_plan_hint(&call.opts, &work, r_flag(own), Rf_asReal(share));
  return Rf_ScalarReal(seconds > 0 ? seconds : NA_REAL);
}

/* ---- GPUs ------------------------------------------------------------------------------------- */

/* A string that C left empty is not known. */
static SEXP string_or_na(const char *text) { return *text ? Rf_mkString(text) : Rf_ScalarString(NA_STRING); }

/* May start the driver; never an error. */
SEXP ffi_gpu_info(void) {
  enum { SCALARS = 5 };
  const char *names[] = {"engine",       "toolkit",     "architectures",
                         "driver",       "status",      "index",
                         "name",         "capability",  "multiprocessors",
                         "memory_total", "memory_free", "architecture_built",
                         "cached",       "memory_peak", ""};
  struct fk_gpu_info info;
  fk_gpu_info(&info);
  int n = info.n_devices;
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(list, 0, string_or_na(fk_gpu_path()));
  SET_VECTOR_ELT(list, 1, string_or_na(info.toolkit));
  SET_VECTOR_ELT(list, 2, string_or_na(info.architectures));
  SET_VECTOR_ELT(list, 3, string_or_na(info.driver));
  SET_VECTOR_ELT(list, 4, Rf_mkString(info.status));
  const SEXPTYPE types[] = {INTSXP, STRSXP, STRSXP, INTSXP, REALSXP, REALSXP, LGLSXP, REALSXP, REALSXP};
  for (int c = 0; c < 9; c++) SET_VECTOR_ELT(list, SCALARS + c, Rf_allocVector(types[c], n));
  for (int i = 0; i < n; i++) {
    const struct fk_gpu *gpu = &info.devices[i];
    INTEGER(VECTOR_ELT(list, SCALARS))[i] = gpu->index;
    SET_STRING_ELT(VECTOR_ELT(list, SCALARS + 1), i, Rf_mkChar(gpu->name));
    SET_STRING_ELT(VECTOR_ELT(list, SCALARS + 2), i, Rf_mkChar(gpu->capability));
    INTEGER(VECTOR_ELT(list, SCALARS + 3))[i] = gpu->multiprocessors;
    REAL(VECTOR_ELT(list, SCALARS + 4))[i] = gpu->memory_total;
    REAL(VECTOR_ELT(list, SCALARS + 5))[i] = gpu->memory_free;
    LOGICAL(VECTOR_ELT(list, SCALARS + 6))[i] = gpu->architecture_built;
    REAL(VECTOR_ELT(list, SCALARS + 7))[i] = gpu->cached;
    REAL(VECTOR_ELT(list, SCALARS + 8))[i] = gpu->peak;
  }
  UNPROTECT(1);
  return list;
}

/* Names the file of the engine. Is an engine open, from whatever file? */
SEXP ffi_gpu_use(SEXP path) {
  fk_gpu_use(CHAR(Rf_asChar(path)));
  return Rf_ScalarLogical(fk_gpu_is_open());
}

/* An error where the file cannot be used. */
SEXP ffi_gpu_try(SEXP path) {
  struct fk_error err = {FK_STATUS_OK, ""};
  fk_gpu_try(CHAR(Rf_asChar(path)), &err);
  r_finish(&err);
  return R_NilValue;
}

/* The SHA-256 of a file in hexadecimal digits; "" where it cannot be read. */
SEXP ffi_sha256(SEXP path) {
  char digits[FK_SHA256_DIGITS + 1];
  return Rf_mkString(fk_sha256(CHAR(Rf_asChar(path)), digits) ? digits : "");
}

SEXP ffi_gpu_release(void) {
  fk_preconditioners_release();
  fk_gpu_release();
  return R_NilValue;
}

/* ---- benchmarks ------------------------------------------------------------------------------- */

struct rates {
  const struct fk_tile_ops *ops;
  double seconds, *rate;
};

static void measure(void *data, int64_t i, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct rates *r = data;
  r->rate[i] = r->ops->fma_rate(r->seconds);
}

/* Multiply-adds a second on `threads` threads at once: the ceiling that bench/dimensions.R prints. */
SEXP ffi_fma_rate(SEXP seconds, SEXP single, SEXP threads) {
  int n = fk_threads(Rf_asInteger(threads));
  double all = 0;
  SEXP rate = PROTECT(Rf_allocVector(REALSXP, n));
  struct rates rates = {r_flag(single) ? fk_isa()->f32 : fk_isa()->f64, Rf_asReal(seconds), REAL(rate)};
  fk_parallel_for(n, n, 1, measure, &rates);
  for (int i = 0; i < n; i++) all += rates.rate[i];
  UNPROTECT(1);
  return Rf_ScalarReal(all);
}

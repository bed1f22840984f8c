/* The .Call entry points about the machine and the build. */
#include "../cpu/tile.h"
#include "../fk_config.h"
#include "ffi.h"

/* What was built and what runs here; touches no driver. */
SEXP ffi_backend_info(void) {
  const char *names[] = {"isa", "isa_available", "threads_default", "openmp", "cuda_built", "version", ""};
  SEXP info = PROTECT(Rf_mkNamed(VECSXP, names)), isa;
  SET_VECTOR_ELT(info, 0, Rf_mkString(fk_isa()->name));
  SET_VECTOR_ELT(info, 1, isa = Rf_allocVector(STRSXP, fk_isa_count()));
  for (int i = 0; i < fk_isa_count(); i++) SET_STRING_ELT(isa, i, Rf_mkChar(fk_isa_at(i)->name));
  SET_VECTOR_ELT(info, 2, Rf_ScalarInteger(fk_threads(0)));
  SET_VECTOR_ELT(info, 3, Rf_ScalarLogical(fk_openmp()));
  SET_VECTOR_ELT(info, 4, Rf_ScalarLogical(FALSE));
  SET_VECTOR_ELT(info, 5, Rf_mkString(FK_VERSION));
  UNPROTECT(1);
  return info;
}

/* Where a computation with this control would run; an error where it cannot. */
SEXP ffi_resolve(SEXP control) {
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_engine *engine;
  r_opts(control, &opts, &stats);
  if (fk_engine_select(&opts, &engine, &err) == FK_STATUS_OK) engine->describe(&opts, &stats);
  r_finish(&err);
  return r_stats(&stats);
}

/* Multiply-adds a second on `threads` threads at once: the ceiling of inst/bench. */
SEXP ffi_fma_rate(SEXP seconds, SEXP single, SEXP threads) {
  const struct fk_tile_ops *ops = r_flag(single) ? fk_isa()->f32 : fk_isa()->f64;
  double duration = Rf_asReal(seconds), rate = 0;
  int n = fk_threads(Rf_asInteger(threads));
#pragma omp parallel num_threads(n) reduction(+ : rate)
  rate += ops->fma_rate(duration);
  return Rf_ScalarReal(rate);
}

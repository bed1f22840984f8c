/* What the files of tests of C units share: see units.c. */
#pragma once

#include "../r/ffi.h"
#include "../r/glue.h"

static inline SEXP argument(SEXP arguments, int i) {
  if (TYPEOF(arguments) != VECSXP || i >= Rf_xlength(arguments)) Rf_error("too few arguments for a test");
  return VECTOR_ELT(arguments, i);
}

static inline const double *numbers(SEXP arguments, int i) {
  SEXP x = argument(arguments, i);
  return r_numbers(x, Rf_xlength(x), "x");
}

static inline int64_t length(SEXP arguments, int i) { return Rf_xlength(argument(arguments, i)); }
static inline int whole(SEXP arguments, int i) { return Rf_asInteger(argument(arguments, i)); }

/* A list of doubles, of the given lengths; where their numbers lie goes to `to`. */
static inline SEXP results(int n, const int64_t *lengths, double **to) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  for (int i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, i, Rf_allocVector(REALSXP, (R_xlen_t)lengths[i]));
    to[i] = REAL(VECTOR_ELT(list, i));
  }
  UNPROTECT(1);
  return list;
}

/* matrices.c */
SEXP r_test_sums(SEXP arguments);
SEXP r_test_stream(SEXP arguments);
SEXP r_test_view(SEXP arguments);
SEXP r_test_whiten(SEXP arguments);
SEXP r_test_common_axes(SEXP arguments);
SEXP r_test_dense(SEXP arguments);
/* tiled.c */
SEXP r_test_tiled(SEXP arguments);
SEXP r_test_dense_seconds(SEXP arguments);

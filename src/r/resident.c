/* Matrices on a device as R vectors whose numbers are fetched when they are read (ALTREP). Saved, copied or
 * changed, they become ordinary ones. */
#include "operator.h"

#include <R_ext/Altrep.h>

static R_altrep_class_t class;

static struct fk_resident *resident(SEXP x) { return R_ExternalPtrAddr(R_altrep_data1(x)); }

static void finalize(SEXP handle) {
  fk_resident_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
  r_count_handle(-1);
}

static R_xlen_t length(SEXP x) {
  return (R_xlen_t)(fk_resident_rows(resident(x)) * fk_resident_columns(resident(x)));
}

/* Who may write has a vector of this process from then on: what is on the device may be something else. */
static void *data(SEXP x, Rboolean writable) {
  struct fk_error err = {FK_STATUS_OK, ""};
  const double *numbers = fk_resident_host(resident(x), &err);
  r_finish(&err);
  if (writable) R_set_altrep_data2(x, R_altrep_data1(x));
  return (void *)numbers;
}

static const void *data_or_null(SEXP x) {
  struct fk_error err = {FK_STATUS_OK, ""};
  return fk_resident_is_here(resident(x)) ? fk_resident_host(resident(x), &err) : NULL;
}

static Rboolean inspect(SEXP x, FK_UNUSED int pre, FK_UNUSED int deep, FK_UNUSED int pvec,
                        FK_UNUSED void (*subtree)(SEXP, int, int, int)) {
  Rprintf(" flashkernel matrix, %s\n", fk_resident_is_here(resident(x)) ? "here" : "on a device");
  return TRUE;
}

void r_init_resident(DllInfo *dll) {
  class = R_make_altreal_class("flashkernel_resident", "flashkernel", dll);
  R_set_altrep_Length_method(class, length);
  R_set_altrep_Inspect_method(class, inspect);
  R_set_altvec_Dataptr_method(class, data);
  R_set_altvec_Dataptr_or_null_method(class, data_or_null);
}

SEXP r_resident(struct fk_resident *x, SEXP names) {
  SEXP handle = PROTECT(r_new_handle(x, R_NilValue, finalize));
  SEXP matrix = PROTECT(R_new_altrep(class, handle, R_NilValue)), dim = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(dim)[0] = (int)fk_resident_rows(x);
  INTEGER(dim)[1] = (int)fk_resident_columns(x);
  Rf_setAttrib(matrix, R_DimSymbol, dim);
  r_set_column_names(matrix, names);
  UNPROTECT(3);
  return matrix;
}

static SEXP tag_of_sent(void) { return Rf_install("flashkernel_sent"); }

SEXP r_sent(struct fk_resident *x, SEXP points) {
  SEXP handle = PROTECT(r_new_handle(x, tag_of_sent(), finalize));
  R_SetExternalPtrProtected(handle, points);
  UNPROTECT(1);
  return handle;
}

bool r_is_sent(SEXP x) { return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == tag_of_sent(); }

struct fk_resident *r_sent_of(SEXP handle, SEXP points) {
  return R_ExternalPtrProtected(handle) == points ? R_ExternalPtrAddr(handle) : NULL;
}

struct fk_resident *r_take_sent(SEXP handle) {
  struct fk_resident *taken = R_ExternalPtrAddr(handle);
  R_ClearExternalPtr(handle);
  return taken;
}

struct fk_resident *r_resident_of(SEXP x) {
  bool is_one = ALTREP(x) && R_altrep_inherits(x, class);
  return is_one && R_altrep_data2(x) == R_NilValue ? resident(x) : NULL;
}

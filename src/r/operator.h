/* R's handles of operators and of matrices that stay on a device. */
#pragma once

#include "glue.h"

/* The operator of `sources`, list(points, weights, L, kernel, plan): `plan` is a handle as r_new_plan() makes it,
 * which keeps the operator for the next call and is filled again where it holds none, or one of other sources, as
 * after readRDS(). NULL: the operator is made when the core is to run, and ends with it. */
struct r_operator {
  struct fk_operator *op; /* NULL: not yet */
  struct fk_operator_spec spec;
};
struct r_operator r_open(SEXP sources);                                       /* phase A */
struct fk_operator *r_start(struct r_operator *opened, struct fk_error *err); /* B; NULL: a failure */
void r_close(const struct r_operator *opened);
SEXP r_new_plan(void);

/* Handles have finalizers, which are code of the library: it cannot be unloaded while there are any. */
SEXP r_new_handle(void *address, SEXP tag, R_CFinalizer_t finalize);
void r_count_handle(int by); /* -1: by their finalizers */
int r_handles(void);

/* A matrix of numbers that are fetched when somebody reads them; takes `x` over. */
SEXP r_resident(struct fk_resident *x, SEXP names);
/* NULL: an ordinary vector, or one that may have been written to. */
struct fk_resident *r_resident_of(SEXP x);
void r_init_resident(DllInfo *dll);

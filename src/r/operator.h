/* R's handles of operators and of matrices that stay on a device. */
#ifndef FK_R_OPERATOR_H
#define FK_R_OPERATOR_H

#include "glue.h"

/* The operator of `sources`, list(points, weights, L, kernel, plan): `plan` is a handle as r_new_plan() makes it,
 * which keeps the operator for the next call and is filled again where it holds none, or one of other sources, as
 * after readRDS(); NULL: the operator is for this call, and r_close() ends it. `handle` must be protected. */
struct r_operator {
  struct fk_operator *op;
  SEXP handle;
  bool stays;
};
struct r_operator r_open(SEXP sources);
void r_close(const struct r_operator *operator);
SEXP r_new_plan(void);

/* A matrix of numbers that are fetched when somebody reads them; takes `x` over. */
SEXP r_resident(struct fk_resident *x, SEXP names);
/* NULL: an ordinary vector, or one that may have been written to. */
struct fk_resident *r_resident_of(SEXP x);
void r_init_resident(DllInfo *dll);

#endif

/* R's handles (external pointers) of operators and of matrices on a device. */
#pragma once

#include "glue.h"

/* The operator of `sources`, list(points, weights, L, kernel, plan). `plan` is a handle from r_new_plan() that
 * owns the operator for later calls; a handle without an operator, or with one of other sources (as after
 * readRDS()), is filled again. Without a plan (NULL) the operator is created by r_start() and freed by
 * r_close(). */
struct r_operator {
  struct fk_operator *op; /* NULL: not yet */
  struct fk_operator_spec spec;
};
struct r_operator r_open(SEXP sources);                                       /* phase A */
struct fk_operator *r_start(struct r_operator *opened, struct fk_error *err); /* B; NULL: a failure */
void r_close(const struct r_operator *opened);
SEXP r_new_plan(void);
SEXP r_plan_of_sent(SEXP sent); /* a plan without an operator, with the points that were sent */

/* Handles of points that were sent to a device: the `plan` of sources that are summed once. r_sent_of(): NULL if
 * the handle is of other points. r_take_sent(): empties the handle; the caller frees the matrix. */
SEXP r_sent(struct fk_resident *x, SEXP points);
bool r_is_sent(SEXP x);
struct fk_resident *r_sent_of(SEXP handle, SEXP points);
struct fk_resident *r_take_sent(SEXP handle);

/* Handles have finalizers in this library, which must not be unloaded while there are handles: r_handles() counts
 * them. */
SEXP r_new_handle(void *address, SEXP tag, R_CFinalizer_t finalize);
void r_count_handle(int by); /* -1: by their finalizers */
int r_handles(void);

/* An R matrix (ALTREP) whose numbers are copied from the device when they are first read. Takes ownership of x. */
SEXP r_resident(struct fk_resident *x, SEXP names);
/* The matrix on the device behind an R object; NULL for an ordinary vector, or one that may have been written
 * to. */
struct fk_resident *r_resident_of(SEXP x);
void r_init_resident(DllInfo *dll);

/* Conversions between R and the core. An R error is a longjmp, which would leak memory that C owns. So every entry
 * point has three phases:
 *
 *   A  may jump, owns no memory     (converts arguments; allocates and protects results)
 *   B  owns memory, cannot jump     (the core runs)
 *   C  owns no memory, may jump     (r_finish: raises a condition, or returns)
 *
 * r_poll() belongs to phase B, r_stats(), r_result() and r_finish() to phase C, the other functions to phase A.
 * They raise R errors for arguments of wrong types or sizes. Pointers that they return refer to R's memory.
 */
#pragma once

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

#include "../fk.h"

/* Options, statistics and failure of a call of the core. r_begin() sets the options from a control list of R. */
struct r_call {
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err;
};
struct r_call r_begin(SEXP control);
int r_threads(SEXP control); /* of the options; one for NULL */

SEXP r_element(SEXP list, const char *name); /* R_NilValue if there is none */
struct fk_matrix r_points(SEXP x, const char *name);
struct fk_matrix r_targets(SEXP y, int64_t d); /* R's NULL: a matrix without data */
const double *r_low_parts(SEXP points);        /* attribute `low`, the low parts of double-doubles; NULL: none */
const double *r_numbers(SEXP x, R_xlen_t length, const char *name);
const double *r_numbers_or_null(SEXP list, const char *name, int64_t length); /* an element, or NULL */
const double *r_weights(SEXP weights, int64_t n);                             /* R's NULL: NULL */
const double *r_factor(SEXP chol, int64_t d);
void r_polynomial(SEXP job, double factor[3]); /* its element `factor` */
bool r_flag(SEXP x);
/* From a name, or an object of class flashkernel_kernel: list(name, parameters). */
struct fk_kernel r_kernel(SEXP kernel);

/* Column names, vectors and matrices of results. Names are set in C because R would copy the matrix. */
SEXP r_column_names(SEXP x);
SEXP r_vector(int64_t length);
SEXP r_matrix(int64_t rows, int64_t columns, SEXP names);
void r_set_column_names(SEXP matrix, SEXP names); /* NULL: none */
SEXP r_stats(const struct fk_stats *stats);       /* as a named list */
/* A named list of the given values and, last, `stats`; raises the condition of a call that failed. */
SEXP r_result(const struct r_call *call, int n, const char *const *names, SEXP *values);
/* Raises the R condition of a failure; returns if there is none. */
void r_finish(const struct fk_error *err);

/* The poll of all calls: checks for an interrupt and reports progress. Does not jump. */
int r_poll(void *progress, double fraction);

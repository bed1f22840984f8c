/* Between R and the core. Every entry point has three phases:
 *   A  may jump, owns nothing        (arguments, results allocated and protected)
 *   B  owns memory, cannot jump      (the core runs)
 *   C  owns nothing, may jump        (r_finish: a condition, or the result)
 */
#pragma once

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

#include "../fk.h"

/* What calls of the core take and fill, from a control. */
struct r_call {
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_error err;
};
struct r_call r_begin(SEXP control);

SEXP r_element(SEXP list, const char *name); /* NULL: there is none */
struct fk_matrix r_points(SEXP x, const char *name);
struct fk_matrix r_targets(SEXP y, int64_t d); /* NULL: no data */
const double *r_low_parts(SEXP points);        /* of double-doubles, as attribute `low`; NULL: none */
const double *r_numbers(SEXP x, R_xlen_t length, const char *name);
const double *r_numbers_or_null(SEXP list, const char *name, int64_t length); /* an element, or NULL */
const double *r_weights(SEXP weights, int64_t n);                             /* NULL: NULL */
const double *r_factor(SEXP chol, int64_t d);
void r_polynomial(SEXP job, double factor[3]); /* its element `factor` */
bool r_flag(SEXP x);
/* A name, or an object of class flashkernel_kernel: list(name, parameters). */
struct fk_kernel r_kernel(SEXP kernel);

/* Column names are set here, for R would copy the matrix. */
SEXP r_column_names(SEXP x);
SEXP r_vector(int64_t length);
SEXP r_matrix(int64_t rows, int64_t columns, SEXP names);
void r_set_column_names(SEXP matrix, SEXP names); /* NULL: none */
SEXP r_stats(const struct fk_stats *stats);       /* as a named list */
/* A named list: the given values and, last, `stats`; of a call that failed its condition. */
SEXP r_result(const struct r_call *call, int n, const char *const *names, SEXP *values);
/* Raises the R condition of a failure; returns where there is none. */
void r_finish(const struct fk_error *err);

int r_poll(void *progress, double fraction);

/* Columns of several vectors of one length, as conjugate gradients take them (R/ridge-solve.R): R itself makes a
 * pass on one thread, and a new vector, of each operation. The same bits for any number of threads. */
#pragma once

#include "../fk.h"

/* sums[c] = the sum over i of a[i, c] b[i, c]; n x t. */
enum fk_status fk_column_products(const double *a, const double *b, int64_t n, int64_t t, int threads,
                                  double *sums, struct fk_error *err);
/* out = x + a diag(by); may be x. */
void fk_combine_columns(const double *x, const double *a, const double *by, int64_t n, int64_t t, int threads,
                        double *out);

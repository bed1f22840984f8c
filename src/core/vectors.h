/* Operations on the columns of n x t matrices, for conjugate gradients (R/sum-gradients.R) and derivatives
 * (R/ridge-gradient.R). R would make a pass on one thread and a new vector for each operation. Results have the same
 * bits for any number of threads. */
#pragma once

#include "../fk.h"

/* sums[c] = sum_i a[i, c] b[i, c] for t columns; a and b are n x t. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_column_products(const double *a, const double *b, int64_t n, int64_t t, int threads,
                                  double *sums, struct fk_error *err);
/* out = x + a diag(by), n x t, with t numbers `by`; a NULL: ones; out may be x. */
void fk_combine_columns(const double *x, const double *a, const double *by, int64_t n, int64_t t, int threads,
                        double *out);
/* out: x, n x t, rounded to middle[c] plus multiples of step[c]; out may be x. */
void fk_round_columns(const double *x, const double *middle, const double *step, int64_t n, int64_t t, int threads,
                      double *out);
/* out = power r^(power - 2) k for n kernels k = exp(-r^power), and 0 where r is 0 up to rounding; out may be k. */
void fk_stretched_slopes(const double *k, int64_t n, double power, int threads, double *out);

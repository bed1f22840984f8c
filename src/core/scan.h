/* Reductions in one pass over an array. threads: see fk_threads(). None can fail. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

/* Are all numbers finite? */
bool fk_all_finite(const struct fk_matrix *x);
bool fk_are_finite(const double *x, int64_t n); /* by the calling thread */
/* centre[k]: the number of column k that is nearest to 0, if all numbers of the column are further from 0 than
 * far[k] and on one side of it; else 0. Rows of weight 0 are ignored. Returns true if any centre is not 0. */
bool fk_far_centre(const struct fk_matrix *x, const double *weights, const double *far, double *centre);
double fk_largest(const double *x, int64_t n, int threads); /* the largest |x[i]|; 0 for n = 0 */
/* *low and *high: the smallest and the largest number; Inf and -Inf for n = 0. */
void fk_range(const double *x, int64_t n, int threads, double *low, double *high);
/* *least and *largest: the smallest nonzero and the largest |x[i]|; Inf and 0 if all are 0. */
void fk_sizes(const double *x, int64_t n, int threads, double *least, double *largest);
/* The largest |x[i]| as a divisor: 1 if all are 0, else at least the smallest normal number. */
double fk_largest_absolute(const double *x, int64_t n, int threads);

FK_END_C

/* What one pass over an array tells. threads: as fk_threads() has them. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

bool fk_all_finite(const struct fk_matrix *x);
/* Of each column the number that is nearest to 0, where all are further from it than far[k], on one side; else 0.
 * Rows of weight 0 do not count. Is any of them not 0? */
bool fk_far_centre(const struct fk_matrix *x, const double *weights, const double *far, double *centre);
double fk_largest(const double *x, int64_t n, int threads); /* of absolute values */
void fk_range(const double *x, int64_t n, int threads, double *low, double *high);
/* The least and the largest |x| but for 0; Inf and 0 where all are. */
void fk_sizes(const double *x, int64_t n, int threads, double *least, double *largest);
/* Of absolute values, to divide by: 1 where all are 0, else no subnormal. */
double fk_largest_absolute(const double *x, int64_t n, int threads);

FK_END_C

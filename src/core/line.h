/* Moments of points on a line about places on it, of which local fits are made, in O(n + m); by no engine. */
#ifndef FK_CORE_LINE_H
#define FK_CORE_LINE_H

#include "../fk.h"

/* Distances are in bandwidths: kernels are exp(-u^2 / 2), u the point less the place. */
struct fk_line {
  const double *x;       /* n, increasing */
  const double *low;     /* n: the low parts of double-doubles; NULL: 0 */
  const double *at_low;  /* the same of the places, where these are not the points */
  const double *weights; /* n, from 0 to 1, one of them positive */
  const double *y;       /* n x t */
  int64_t n, t;
  int order;      /* of the moments, 0 .. 2 */
  const int *own; /* NULL, or from 1 on: which of the points each place is */
};
/* A column of moments for each number that there is. */
static inline int64_t fk_line_width(int64_t t, int order) {
  return 1 + t + (order > 0 ? 1 + t : 0) + (order > 1 ? 1 : 0);
}

/* At m places, increasing; NULL: at the n points. all: m x fk_line_width(), column after column: the logarithm of
 * S = sum w k, then under the shares w k / S the means of each y, the mean of u, the covariances of u with each y,
 * and the variance of u. others: NULL, or where places are points the same of all but the point itself. However
 * small S is, moments have their digits; without any point they are 0. */
enum fk_status fk_line_moments(const struct fk_line *of, const double *at, int64_t m, const struct fk_opts *opts,
                               double *all, double *others, struct fk_stats *stats, struct fk_error *err);

#endif

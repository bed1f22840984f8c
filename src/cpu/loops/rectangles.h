/* Probabilities of rectangles under sums of kernels, in double. */
#pragma once

#include "../../core/polynomial.h"
#include "../../fk.h"

/* sum_i w_i P(lower < x_i + f_i Z <= upper), Z Gaussian with sds of 1, independent coordinates or, where d is 2,
 * this correlation. laplace: of the corrected kernel, that is less its derivative by s where Z has the variance s.
 * Points lie one after the other, d numbers each; limits alike, and may be infinite. With `below` the coordinates
 * of Z are independent and at most `reach`: that polynomial of 1 + z / reach is P(Z_k < z) for z < 0. */
struct fk_rectangles {
  const double *x, *lower, *upper;
  const double *x_low, *lower_low, *upper_low; /* of double-doubles; NULL: 0. They count where there is x_low */
  int64_t n, m, d;
  const double *weights; /* n, positive */
  const double *factors; /* n: f; NULL: ones */
  double correlation;
  bool laplace;
  struct fk_polynomial below;
  double reach;
};
enum fk_status fk_rectangle_sums(const struct fk_rectangles *of, const struct fk_opts *opts, double *out,
                                 struct fk_stats *stats, struct fk_error *err);

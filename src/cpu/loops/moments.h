/* Moments of the pairs of points, of which criteria of bandwidths have their values and gradients, in double. */
#pragma once

#include "../../fk.h"

enum fk_moments { FK_MOMENTS_NONE, FK_MOMENTS_DIAGONAL, FK_MOMENTS_FULL, FK_MOMENTS_ORDER4 };

/* With u_ij = L^-1 (x_i - x_j), q = |u_ij|^2, k = exp(-q/2), f as in fk.h and f' its derivative,
 *
 *   S_i = sum_{j != i} w_j f(q/2) k,   M = sum_i r_i sum_{j != i} w_j (f - f')(q/2) k u u',
 *
 * r_i = row_weights_i, or row_weights_i / (S_i + floor_i). Where L becomes L(I + E), E lower triangular, the
 * change of sum_i row_weights_i phi(S_i) with phi' = 1 and 1/(S + floor) is the product of E with M's lower
 * triangle. S_i is 0 where all its terms underflow; where S_i + floor_i is 0, too, r_i is 0. */
struct fk_moments_task {
  struct fk_matrix x;
  const double *chol;
  const double *weights, *row_weights; /* n, NULL: ones */
  const double *floor;                 /* n, NULL: zeros */
  bool ratio;
  double factor[3];
  enum fk_moments order;
  double *sums;    /* n: S */
  double *moments; /* d, or d (d + 1) / 2: u_a u_b, b <= a, is number a (a + 1) / 2 + b */
  /* Moments of order 4, u_a u_b u_c u_d for a and b as above and a <= d <= c. NULL: not needed. */
  double *fourth;
  /* Sums and moments with exp(-q/4), the kernel of 2H, and u / sqrt(2), with r_i = wide_weights; f must be 1.
   * NULL: not needed. */
  const double *wide_weights;
  double *wide_sums, *wide_moments;
};
int64_t fk_moments_count(int64_t d, enum fk_moments order); /* of `moments` */
int64_t fk_moments_fourth(int64_t d);
enum fk_status fk_pair_moments(const struct fk_moments_task *task, const struct fk_opts *opts,
                               struct fk_stats *stats, struct fk_error *err);

/* Sums of kernels of one shape and many sizes, for criteria of bandwidths, in double. */
#pragma once

#include "../../fk.h"

/* With u_ij = L^-1 (x_i - x_j), q = |u_ij|^2 / g_j^2, t = p_s q / 2, and f as in fk.h,
 *
 *   S_is = sum_{j != i} w_j f(t) exp(-t)
 *
 * for each power p_s of exp(-q/2): 1 / c^2 of the bandwidth c L. g_j is a local bandwidth factor. Distances are
 * computed once, and where a power is 2, 4, 8, .. times another, or 3, 6, 12, .., 5, .. or 7, .., up to
 * FK_MOST_TIMES, its kernel is that power of the other kernel, with as many times the relative error: one
 * multiplication where an exponential takes twenty. S is 0 where all its terms underflow. */
enum { FK_MOST_TIMES = 1024, FK_MOST_SCALES = 64 };
struct fk_scales_task {
  struct fk_matrix x;
  const double *chol, *weights, *factors; /* factors: n numbers g_j; weights, factors NULL: ones */
  double factor[3];
  int count; /* of powers, 1 .. FK_MOST_SCALES, all positive */
  const double *powers;
  /* NULL, or n logarithms g_i and n logarithms o_i, and count logarithms u_s. Then the result is not S_is but
   * log(S_is exp(u_s - o_i) + exp(g_i)), or g_i where that is out of range. */
  const double *log_floor, *log_others, *log_unit;
  double *sums; /* n x count */
};
enum fk_status fk_pair_scales(const struct fk_scales_task *task, const struct fk_opts *opts,
                              struct fk_stats *stats, struct fk_error *err);

/* Sums of polynomial kernels of bounded reach, in one dimension, in O((n + m) log n); by no engine. */
#ifndef FK_CORE_WINDOWS_H
#define FK_CORE_WINDOWS_H

#include "../fk.h"

enum { FK_MOST_POWERS = 16 };

/* With s = 1 - |y - x_i| / reach, how far the point is within the edge of the kernel at y in units of its
 * reach, the sums of w_i (c_0 + c_1 s + ...) over the points within reach of y, those on its left and those on
 * its right apart. */
struct fk_windows {
  const double *x;       /* n, increasing */
  const double *weights; /* n, none negative */
  int64_t n;
  double reach;
  const double *coefficients; /* of s^0 .. s^(count - 1) */
  int count;                  /* 1 .. FK_MOST_POWERS */
  bool ties;                  /* do points at y itself count? On its left, and left out on either side. */
};
/* At y; NULL: at the n points, each without itself. sums: m x 2, left and right. */
enum fk_status fk_window_sums(const struct fk_windows *of, const double *y, int64_t m, const struct fk_opts *opts,
                              double *sums, struct fk_stats *stats, struct fk_error *err);

#endif

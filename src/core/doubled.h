/* Double-double arithmetic: a number as the unevaluated sum of two doubles, |low| <= ulp(high) / 2, some 32
 * digits.
 *
 * Whitened coordinates of points far from the centre are stored in this form, so that their differences keep all
 * digits of the differences of the points. A double that holds the whole coordinate has lost them. */
#pragma once

#include <math.h>

#include "../fk.h"

struct fk_doubled {
  double high, low;
};

/* a + b without rounding error (Knuth's TwoSum). */
static inline struct fk_doubled fk_doubled_sum(double a, double b) {
  double sum = a + b, of_b = sum - a;
  struct fk_doubled exact = {sum, (a - (sum - of_b)) + (b - of_b)};
  return exact;
}

/* x * a, and x - a * y, with relative errors of some 2^-100. */
static inline struct fk_doubled fk_doubled_times(struct fk_doubled x, double a) {
  double product = x.high * a;
  return fk_doubled_sum(product, fma(x.high, a, -product) + x.low * a);
}
static inline struct fk_doubled fk_doubled_minus_product(struct fk_doubled x, double a, struct fk_doubled y) {
  struct fk_doubled product = fk_doubled_times(y, a), sum = fk_doubled_sum(x.high, -product.high);
  return fk_doubled_sum(sum.high, sum.low + (x.low - product.low));
}

/* fk_whiten() in double-doubles, for points at any distance from the centre: to->high + to->low are the whitened
 * coordinates times `scale`, zero from `count` to to->width. Returns false if memory runs out. */
struct fk_doubled_block {
  double *high, *low; /* d x width each */
  int64_t width;
};
bool fk_whiten_doubled(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
                       int64_t count, double scale, const struct fk_doubled_block *to);

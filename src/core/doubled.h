/* Double-double arithmetic: a number as the unevaluated sum of two doubles, |low| <= ulp(high) / 2, some 32
 * digits.
 *
 * Whitened coordinates of points that reach far are such numbers: their differences then keep all digits of the
 * differences of the points, which a double that holds the whole coordinate has lost. */
#pragma once

#include <math.h>

#include "../fk.h"

struct fk_doubled {
  double high, low;
};

/* a + b without an error (Knuth's TwoSum). */
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

/* What fk_whiten() computes as double-doubles, times a scale, for points whose differences are to keep all digits
 * however far they are from the centre. False: there is no memory. */
struct fk_doubled_block {
  double *high, *low; /* d x width each */
  int64_t width;
};
bool fk_whiten_doubled(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
                       int64_t count, double scale, const struct fk_doubled_block *to);

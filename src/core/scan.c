/* What one pass over an array tells. */
#include <math.h>

#include "threads.h"

/* At the speed of memory, for R asks it of all points. */
bool fk_all_finite(const double *x, int64_t n) {
  int threads = fk_threads_for_bytes(0, 8.0 * (double)n), bad = 0;
  /* x - x is 0, or NaN where x is not finite: the sum needs no branch */
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : bad)
  for (int64_t i = 0; i < n; i++) bad |= !(x[i] - x[i] == 0);
  return !bad;
}

double fk_largest_absolute(const double *x, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; i++) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
  return largest > 0 ? largest : 1;
}

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

bool fk_any_negative(const double *x, int64_t n, int threads) {
  int negative = 0;
  threads = fk_threads_for_bytes(threads, 8.0 * (double)n);
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : negative)
  for (int64_t i = 0; i < n; i++) negative |= x[i] < 0;
  return negative;
}

double fk_largest(const double *x, int64_t n, int threads) {
  double largest = 0;
  threads = fk_threads_for_bytes(threads, 8.0 * (double)n);
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : largest)
  for (int64_t i = 0; i < n; i++) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
  return largest;
}

double fk_largest_absolute(const double *x, int64_t n) {
  double largest = fk_largest(x, n, 1);
  return largest > 0 ? largest : 1;
}

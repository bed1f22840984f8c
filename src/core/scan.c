/* What one pass over an array tells. */
#include <float.h>
#include <math.h>

#include "../fk.h"
#include "pool.h"
#include "threads.h"

enum { PIECE = 1 << 16 };

struct scan {
  const double *x;
  atomic_bool found;
  _Atomic double largest, least;
};

static void run(struct scan *scan, int64_t n, int threads, fk_body body) {
  fk_parallel_for(fk_threads_for_bytes(threads, 8.0 * (double)n), n, PIECE, body, scan);
}

static void find_not_finite(void *data, int64_t first, int64_t end, int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  int bad = 0;
  (void)slot;
  /* x - x is 0, or NaN where x is not finite: the sum needs no branch */
  for (int64_t i = first; i < end; i++) bad |= !(x[i] - x[i] == 0);
  if (bad) scan->found = true;
}

/* At the speed of memory, for R asks it of all points. */
bool fk_all_finite(const double *x, int64_t n) {
  struct scan scan = {.x = x};
  run(&scan, n, 0, find_not_finite);
  return !scan.found;
}

static void find_negative(void *data, int64_t first, int64_t end, int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  int negative = 0;
  (void)slot;
  for (int64_t i = first; i < end; i++) negative |= x[i] < 0;
  if (negative) scan->found = true;
}

bool fk_any_negative(const double *x, int64_t n, int threads) {
  struct scan scan = {.x = x};
  run(&scan, n, threads, find_negative);
  return scan.found;
}

static void find_largest(void *data, int64_t first, int64_t end, int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double largest = 0, so_far = scan->largest;
  (void)slot;
  for (int64_t i = first; i < end; i++) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
  while (largest > so_far && !atomic_compare_exchange_weak(&scan->largest, &so_far, largest)) continue;
}

double fk_largest(const double *x, int64_t n, int threads) {
  struct scan scan = {.x = x};
  run(&scan, n, threads, find_largest);
  return scan.largest;
}

static void find_range(void *data, int64_t first, int64_t end, int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double high = x[first], low = x[first], most = scan->largest, least = scan->least;
  (void)slot;
  for (int64_t i = first; i < end; i++) {
    high = x[i] > high ? x[i] : high;
    low = x[i] < low ? x[i] : low;
  }
  while (high > most && !atomic_compare_exchange_weak(&scan->largest, &most, high)) continue;
  while (low < least && !atomic_compare_exchange_weak(&scan->least, &least, low)) continue;
}

void fk_range(const double *x, int64_t n, int threads, double *low, double *high) {
  struct scan scan = {.x = x, .largest = -INFINITY, .least = INFINITY};
  run(&scan, n, threads, find_range);
  *low = scan.least;
  *high = scan.largest;
}

static void find_sizes(void *data, int64_t first, int64_t end, int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double high = 0, low = INFINITY, most = scan->largest, least = scan->least;
  (void)slot;
  for (int64_t i = first; i < end; i++) {
    double size = fabs(x[i]);
    high = size > high ? size : high;
    low = size > 0 && size < low ? size : low;
  }
  while (high > most && !atomic_compare_exchange_weak(&scan->largest, &most, high)) continue;
  while (low < least && !atomic_compare_exchange_weak(&scan->least, &least, low)) continue;
}

void fk_sizes(const double *x, int64_t n, int threads, double *least, double *largest) {
  struct scan scan = {.x = x, .least = INFINITY};
  run(&scan, n, threads, find_sizes);
  *least = scan.least;
  *largest = scan.largest;
}

double fk_largest_absolute(const double *x, int64_t n) {
  double largest = fk_largest(x, n, 1);
  return largest > 0 ? fmax(largest, DBL_MIN) : 1;
}

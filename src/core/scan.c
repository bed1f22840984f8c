#include "scan.h"

#include <float.h>
#include <math.h>

#include "matrix.h"
#include "pool.h"
#include "threads.h"

enum { PIECE = 1 << 14 };

struct scan {
  const void *x; /* doubles, but where `type` says otherwise */
  enum fk_type type;
  atomic_bool found;
  _Atomic double largest, least;
};

/* Nothing but reading, of what the cache may not hold: a thread a megabyte. */
static void run(struct scan *scan, int64_t n, int threads, fk_body body) {
  fk_parallel_pass(threads, 64.0 * (double)n, n, PIECE, body, scan);
}

/* Numbers are looked at LANES side by side: one would wait for itself. */
enum { LANES = 4 };

static void raise_to(_Atomic double *most, double value) {
  double so_far = *most;
  while (value > so_far && !atomic_compare_exchange_weak(most, &so_far, value)) continue;
}

static void lower_to(_Atomic double *least, double value) {
  double so_far = *least;
  while (value < so_far && !atomic_compare_exchange_weak(least, &so_far, value)) continue;
}

FK_EACH_TYPE bool are_finite(const void *x, enum fk_type type, int64_t first, int64_t end) {
  double sum[LANES] = {0};
  /* 0 x is 0, or NaN where x is not finite: the sum needs no branch */
  for (; first + LANES <= end; first += LANES)
    for (int lane = 0; lane < LANES; lane++) sum[lane] += 0 * fk_number(x, type, first + lane);
  for (; first < end; first++) sum[0] += 0 * fk_number(x, type, first);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]) == 0;
}

bool fk_are_finite(const double *x, int64_t n) { return are_finite(x, FK_DOUBLE, 0, n); }

static void find_not_finite(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct scan *scan = data;
  bool finite = scan->type == FK_FLOAT ? are_finite(scan->x, FK_FLOAT, first, end)
                                       : are_finite(scan->x, FK_DOUBLE, first, end);
  if (!finite) scan->found = true;
}

/* At the speed of memory, for R asks it of all points. */
bool fk_all_finite(const struct fk_matrix *x) {
  struct scan scan = {.type = x->type};
  bool one_block = x->ld == x->n;
  for (int64_t k = 0; k < (one_block ? 1 : x->d); k++) {
    scan.x = fk_number_at(x->data, x->type, k * x->ld);
    run(&scan, one_block ? x->n * x->d : x->n, 0, find_not_finite);
  }
  return !scan.found;
}

static void find_largest(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double most[LANES] = {0};
  for (; first + LANES <= end; first += LANES)
    for (int lane = 0; lane < LANES; lane++) {
      double size = fabs(x[first + lane]);
      most[lane] = size > most[lane] ? size : most[lane];
    }
  for (; first < end; first++) most[0] = fabs(x[first]) > most[0] ? fabs(x[first]) : most[0];
  for (int lane = 0; lane < LANES; lane++) raise_to(&scan->largest, most[lane]);
}

double fk_largest(const double *x, int64_t n, int threads) {
  struct scan scan = {.x = x};
  run(&scan, n, threads, find_largest);
  return scan.largest;
}

static void find_range(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double high[LANES], low[LANES];
  for (int lane = 0; lane < LANES; lane++) high[lane] = -INFINITY, low[lane] = INFINITY;
  for (; first + LANES <= end; first += LANES)
    for (int lane = 0; lane < LANES; lane++) {
      double value = x[first + lane];
      high[lane] = value > high[lane] ? value : high[lane];
      low[lane] = value < low[lane] ? value : low[lane];
    }
  for (; first < end; first++) {
    high[0] = x[first] > high[0] ? x[first] : high[0];
    low[0] = x[first] < low[0] ? x[first] : low[0];
  }
  for (int lane = 0; lane < LANES; lane++) raise_to(&scan->largest, high[lane]), lower_to(&scan->least, low[lane]);
}

void fk_range(const double *x, int64_t n, int threads, double *low, double *high) {
  struct scan scan = {.x = x, .largest = -INFINITY, .least = INFINITY};
  run(&scan, n, threads, find_range);
  *low = scan.least;
  *high = scan.largest;
}

static void find_sizes(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct scan *scan = data;
  const double *x = scan->x;
  double high = 0, low = INFINITY;
  for (int64_t i = first; i < end; i++) {
    double size = fabs(x[i]);
    high = size > high ? size : high;
    low = size > 0 && size < low ? size : low;
  }
  raise_to(&scan->largest, high);
  lower_to(&scan->least, low);
}

void fk_sizes(const double *x, int64_t n, int threads, double *least, double *largest) {
  struct scan scan = {.x = x, .least = INFINITY};
  run(&scan, n, threads, find_sizes);
  *least = scan.least;
  *largest = scan.largest;
}

double fk_largest_absolute(const double *x, int64_t n, int threads) {
  double largest = fk_largest(x, n, threads);
  return largest > 0 ? fmax(largest, DBL_MIN) : 1;
}

/* Stops at the first number that tells, mostly the first of all. */
static double far_nearest(const struct fk_matrix *x, int64_t k, const double *weights, double far) {
  double nearest = 0;
  for (int64_t i = 0; i < x->n; i++) {
    double value = fk_number(x->data, x->type, k * x->ld + i);
    if (weights && !(weights[i] > 0)) continue;
    if (!(fabs(value) > far) || (nearest != 0 && (value > 0) != (nearest > 0))) return 0;
    if (nearest == 0 || fabs(value) < fabs(nearest)) nearest = value;
  }
  return nearest;
}

bool fk_far_centre(const struct fk_matrix *x, const double *weights, const double *far, double *centre) {
  bool any = false;
  for (int64_t k = 0; k < x->d; k++) {
    centre[k] = far_nearest(x, k, weights, far[k]);
    any |= centre[k] != 0;
  }
  return any;
}

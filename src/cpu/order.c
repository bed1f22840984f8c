#include "order.h"

#include <math.h>

#include "../core/costs.h"
#include "../core/pool.h"

enum { SAMPLE = 4096 };

struct order_run {
  const double *x;
  int64_t d, units[2], *index, n, left;
  int threads;
};

/* Puts those below the pivot first, or those that are not above it; how many. Without branches, which would be
 * guessed wrong half of the time. x: the coordinate of the first point. NaN is not above any. */
static int64_t part(const double *x, int64_t d, int64_t *index, int64_t n, double pivot, bool equal) {
  int64_t low = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t own = index[i];
    double value = x[own * d];
    index[i] = index[low];
    index[low] = own;
    low += equal ? !(value > pivot) : value < pivot;
  }
  return low;
}

static double middle(double a, double b, double c) { return fmax(fmin(a, b), fmin(fmax(a, b), c)); }

/* The k smallest come first. */
static void select_smallest(const double *x, int64_t d, int64_t *index, int64_t n, int64_t k) {
  for (;;) {
    double pivot = middle(x[index[n / 4] * d], x[index[n / 2] * d], x[index[n - 1 - n / 4] * d]);
    int64_t low = part(x, d, index, n, pivot, false);
    if (k <= low) {
      n = low;
      continue;
    }
    if (low == 0 && k <= (low = part(x, d, index, n, pivot, true))) return;
    index += low, n -= low, k -= low;
  }
}

/* The coordinate with the largest variance over some of the points, so that one outlier does not decide. */
static int64_t widest_coordinate(const struct order_run *r) {
  int64_t best = 0, step = 1 + r->n / SAMPLE;
  double most = -1;
  for (int64_t k = 0; k < r->d; k++) {
    double origin = r->x[r->index[0] * r->d + k], sum = 0, squares = 0, count = 0;
    for (int64_t i = 0; i < r->n; i += step, count++) {
      double at = r->x[r->index[i] * r->d + k] - origin;
      sum += at;
      squares += at * at;
    }
    double variation = squares - sum * sum / count;
    if (variation > most) {
      most = variation;
      best = k;
    }
  }
  return best;
}

static void order_run(struct order_run r);

static void order_halves(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct order_run *r = data;
  for (int64_t half = first; half < end; half++) {
    struct order_run own = *r;
    own.index = half ? r->index + r->left : r->index;
    own.n = half ? r->n - r->left : r->left;
    order_run(own);
  }
}

static void order_run(struct order_run r) {
  if (r.n <= r.units[1]) return;
  r.left = fk_first_half(r.n, r.units[r.n <= r.units[0]]);
  select_smallest(r.x + widest_coordinate(&r), r.d, r.index, r.n, r.left);
  if (r.n > fk_costs.cpu_cuts.ordered)
    fk_parallel_for(r.threads, 2, 1, order_halves, &r);
  else
    order_halves(&r, 0, 2, 0);
}

void fk_order_points(const double *x, int64_t d, const int64_t units[2], int threads, int64_t *index, int64_t n) {
  order_run((struct order_run){
      .x = x, .d = d, .units = {units[0], units[1]}, .index = index, .n = n, .threads = threads});
}

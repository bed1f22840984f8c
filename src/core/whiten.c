/* Whitening u = L^-1 (x - centre), so that every engine sees an isotropic unit bandwidth.
 * Centring first keeps the digits of data far from the origin. */
#include <math.h>
#include <stdlib.h>

#include "threads.h"
#include "triangular.h"

/* Four sums side by side: one would wait for itself. Weights are divided first, so that the sum of large
 * coordinates does not overflow. */
static double weighted_sum(const double *x, const double *weights, int64_t n, double scale, double shift) {
  double sum[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    sum[0] += (weights ? weights[i] * scale : scale) * (x[i] - shift);
    sum[1] += (weights ? weights[i + 1] * scale : scale) * (x[i + 1] - shift);
    sum[2] += (weights ? weights[i + 2] * scale : scale) * (x[i + 2] - shift);
    sum[3] += (weights ? weights[i + 3] * scale : scale) * (x[i + 3] - shift);
  }
  for (; i < n; i++) sum[0] += (weights ? weights[i] * scale : scale) * (x[i] - shift);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The second pass removes the rounding error of the first, unless distances overflow. */
static double weighted_mean(const double *x, const double *weights, int64_t n, double scale) {
  double mean = weighted_sum(x, weights, n, scale, 0), rest = weighted_sum(x, weights, n, scale, mean);
  return isfinite(rest) ? mean + rest : mean;
}

/* The mean is the best centre where all points are within so many bandwidths. One further out would draw it away,
 * and the others would lose digits to its size. The smallest number in absolute value takes no more digits from
 * any coordinate than it has itself. */
#define WIDE 200

static bool is_near(const double *x, int64_t n, double centre, double distance) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(x[i] - centre) <= distance)) return false;
  return true;
}

static double least_absolute(const double *x, int64_t n) {
  double least = x[0];
  for (int64_t i = 1; i < n; i++)
    if (fabs(x[i]) < fabs(least)) least = x[i];
  return least;
}

enum fk_status fk_whitening_init(struct fk_whitening *w, const double *chol, const struct fk_points *x,
                                 const double *weights, int threads, struct fk_error *err) {
  w->d = x->d;
  w->chol = chol;
  w->dense = NULL;
  w->diagonal = fk_is_diagonal(chol, x->d);
  w->centre = malloc((size_t)x->d * sizeof *w->centre);
  if (!w->centre) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)x->d);
  double total = weights ? 0 : (double)x->n;
  for (int64_t i = 0; i < x->n && weights; i++) total += weights[i];
  threads = fk_threads_for_bytes(threads, 24.0 * (double)x->n * (double)x->d);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t k = 0; k < x->d; k++) {
    const double *column = x->data + k * x->n;
    double sd2 = 0; /* of the kernel, in column k */
    for (int64_t l = 0; l <= k; l++) sd2 += chol[k + l * x->d] * chol[k + l * x->d];
    w->centre[k] = weighted_mean(column, weights, x->n, 1 / total);
    if (!is_near(column, x->n, w->centre[k], WIDE * sqrt(sd2))) w->centre[k] = least_absolute(column, x->n);
  }
  return FK_STATUS_OK;
}

void fk_whitening_free(struct fk_whitening *w) {
  free(w->centre);
  w->centre = NULL;
}

void fk_whiten(const struct fk_whitening *w, const struct fk_points *x, const int64_t *rows, int64_t first,
               int64_t count, double *u, int64_t width, double *work) {
  double *centred = w->dense ? work : u;
  for (int64_t k = 0; k < w->d; k++) {
    const double *column = x->data + k * x->n;
    double *restrict to = centred + k * width, centre = w->centre[k],
                     scale = w->diagonal ? 1 / w->chol[k + k * w->d] : 1;
    if (rows)
      for (int64_t r = 0; r < count; r++) to[r] = (column[rows[first + r]] - centre) * scale;
    else
      for (int64_t r = 0; r < count; r++) to[r] = (column[first + r] - centre) * scale;
    for (int64_t r = count; r < width; r++) to[r] = 0;
  }
  if (w->dense)
    fk_block_multiply(w->dense, w->d, centred, width, u);
  else if (!w->diagonal)
    fk_block_solve(w->chol, w->d, u, width);
}

/* Whitening u = L^-1 (x - centre), so that every engine sees an isotropic unit bandwidth.
 * Centring first keeps the digits of data far from the origin. */
#include <math.h>
#include <stdlib.h>

#include "count.h"
#include "pool.h"
#include "threads.h"
#include "triangular.h"

/* ---- the centre ------------------------------------------------------------------------------- */

/* The weighted mean is the best centre where all points are within so many bandwidths. One further out would draw
 * it away, and the others would lose digits to its size. The smallest number in absolute value takes no more
 * digits from any coordinate than it has itself. */
#define WIDE 200

/* Of a part of a column; parts are the same for any number of threads. */
struct extent {
  double sum, low, high;
};
enum { PART = 1 << 16 };

/* Four side by side: one would wait for itself. Weights are divided first, so that the sum of large coordinates
 * does not overflow. */
static struct extent extent_of(const double *x, const double *weights, int64_t n, double scale) {
  double sum[4] = {0, 0, 0, 0}, low[4], high[4];
  for (int lane = 0; lane < 4; lane++) low[lane] = high[lane] = x[0];
  for (int64_t i = 0; i < n; i += 4)
    for (int lane = 0; lane < 4 && i + lane < n; lane++) {
      double value = x[i + lane];
      sum[lane] += (weights ? weights[i + lane] * scale : scale) * value;
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
    }
  struct extent all = {(sum[0] + sum[1]) + (sum[2] + sum[3]), low[0], high[0]};
  for (int lane = 1; lane < 4; lane++) all.low = fmin(all.low, low[lane]), all.high = fmax(all.high, high[lane]);
  return all;
}

static double least_absolute(const double *x, int64_t n) {
  double least = x[0];
  for (int64_t i = 1; i < n; i++)
    if (fabs(x[i]) < fabs(least)) least = x[i];
  return least;
}

static double centre_of(const double *column, int64_t n, const struct extent *parts, double distance) {
  struct extent all = parts[0];
  for (int64_t i = 1; i < fk_pieces(n, PART); i++) {
    all.sum += parts[i].sum;
    all.low = fmin(all.low, parts[i].low);
    all.high = fmax(all.high, parts[i].high);
  }
  bool near = all.sum - all.low <= distance && all.high - all.sum <= distance;
  return near ? all.sum : least_absolute(column, n);
}

struct survey {
  const struct fk_matrix *x;
  const double *weights;
  double scale;
  struct extent *extents; /* [column][part] */
};

static void survey_part(void *data, int64_t i, int64_t end, int slot) {
  const struct survey *s = data;
  int64_t n = s->x->n, parts = fk_pieces(n, PART), first = i % parts * PART;
  (void)end, (void)slot;
  s->extents[i] = extent_of(s->x->data + i / parts * n + first, s->weights ? s->weights + first : NULL,
                            fk_smaller(PART, n - first), s->scale);
}

void fk_whitening_start(struct fk_whitening *w, const double *chol, int64_t d) {
  *w = (struct fk_whitening){.d = d, .chol = chol, .diagonal = fk_is_diagonal(chol, d)};
}

enum fk_status fk_whitening_centre(struct fk_whitening *w, const struct fk_matrix *x, const double *weights,
                                   int threads, struct fk_error *err) {
  int64_t d = x->d, n = x->n, parts = fk_pieces(n, PART);
  double *centre = malloc((size_t)d * sizeof *centre);
  struct extent *extents = malloc((size_t)(d * parts) * sizeof *extents);
  if (!centre || !extents) {
    free(centre);
    free(extents);
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)(d * parts));
  }
  double total = weights ? 0 : (double)n;
  for (int64_t i = 0; i < n && weights; i++) total += weights[i];
  threads = fk_threads_for_bytes(threads, 8.0 * (double)n * (double)d);
  struct survey survey = {x, weights, 1 / total, extents};
  fk_parallel_for(threads, d * parts, 1, survey_part, &survey);
  for (int64_t k = 0; k < d; k++) {
    double variance = 0; /* of the kernel, in column k */
    for (int64_t l = 0; l <= k; l++) variance += w->chol[k + l * d] * w->chol[k + l * d];
    centre[k] = centre_of(x->data + k * n, n, extents + k * parts, WIDE * sqrt(variance));
  }
  free(extents);
  w->centre = centre;
  return FK_STATUS_OK;
}

enum fk_status fk_whitening_init(struct fk_whitening *w, const double *chol, const struct fk_matrix *x,
                                 const double *weights, int threads, struct fk_error *err) {
  fk_whitening_start(w, chol, x->d);
  return fk_whitening_centre(w, x, weights, threads, err);
}

void fk_whitening_free(struct fk_whitening *w) {
  free(w->centre);
  w->centre = NULL;
}

void fk_whiten(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
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

/* Whitening u = L^-1 (x - centre), so that every engine sees an isotropic unit bandwidth. Centring first keeps the
 * digits of data far from the origin. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "doubled.h"
#include "host.h"
#include "matrix.h"
#include "pool.h"
#include "threads.h"
#include "triangular.h"

/* ---- the centre ------------------------------------------------------------------------------- */

/* The weighted mean is the best centre where all points are within so many bandwidths. One further out would draw
 * it away, and the others would lose digits to its size. The smallest number in absolute value takes no more
 * digits from any coordinate than it has itself. */
#define WIDE 200

/* Weighted sum and range of a part of a column. Parts do not depend on the number of threads. */
struct whiten_extent {
  double sum, low, high;
};
enum { PART = 1 << 16 };

/* Four side by side: one would wait for itself. Weights are divided first, so that the sum of large coordinates
 * does not overflow. */
FK_EACH_TYPE struct whiten_extent extent_of(const void *x, enum fk_type type, const double *weights, int64_t n,
                                            double scale) {
  double sum[4] = {0, 0, 0, 0}, low[4], high[4];
  for (int lane = 0; lane < 4; lane++) low[lane] = high[lane] = fk_number(x, type, 0);
  for (int64_t i = 0; i < n; i += 4)
    for (int lane = 0; lane < 4 && i + lane < n; lane++) {
      double value = fk_number(x, type, i + lane);
      sum[lane] += (weights ? weights[i + lane] * scale : scale) * value;
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
    }
  struct whiten_extent all = {(sum[0] + sum[1]) + (sum[2] + sum[3]), low[0], high[0]};
  for (int lane = 1; lane < 4; lane++) all.low = fmin(all.low, low[lane]), all.high = fmax(all.high, high[lane]);
  return all;
}

static double least_absolute(const struct fk_matrix *x, int64_t k) {
  double least = fk_number(x->data, x->type, k * x->ld);
  for (int64_t i = 1; i < x->n; i++) {
    double value = fk_number(x->data, x->type, k * x->ld + i);
    if (fabs(value) < fabs(least)) least = value;
  }
  return least;
}

static double centre_of(const struct fk_matrix *x, int64_t k, const struct whiten_extent *parts, double distance) {
  int64_t n = x->n;
  struct whiten_extent all = parts[0];
  for (int64_t i = 1; i < fk_pieces(n, PART); i++) {
    all.sum += parts[i].sum;
    all.low = fmin(all.low, parts[i].low);
    all.high = fmax(all.high, parts[i].high);
  }
  bool near = all.sum - all.low <= distance && all.high - all.sum <= distance;
  return near ? all.sum : least_absolute(x, k);
}

struct whiten_survey {
  const struct fk_matrix *x;
  const double *weights;
  double scale;
  struct whiten_extent *extents; /* [column][part] */
};

static void survey_part(void *data, int64_t i, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct whiten_survey *s = data;
  const struct fk_matrix *x = s->x;
  int64_t parts = fk_pieces(x->n, PART), first = i % parts * PART, count = fk_smaller(PART, x->n - first);
  const void *from = fk_number_at(x->data, x->type, i / parts * x->ld + first);
  const double *weights = s->weights ? s->weights + first : NULL;
  s->extents[i] = x->type == FK_FLOAT ? extent_of(from, FK_FLOAT, weights, count, s->scale)
                                      : extent_of(from, FK_DOUBLE, weights, count, s->scale);
}

void fk_whitening_start(struct fk_whitening *w, const double *chol, int64_t d) {
  *w = (struct fk_whitening){.d = d, .chol = chol, .diagonal = fk_is_diagonal(chol, d)};
}

enum fk_status fk_whitening_centre(struct fk_whitening *w, const struct fk_matrix *x, const double *weights,
                                   int threads, struct fk_error *err) {
  int64_t d = x->d, n = x->n, parts = fk_pieces(n, PART);
  double *centre = malloc((size_t)d * sizeof *centre);
  struct whiten_extent *extents = malloc((size_t)(d * parts) * sizeof *extents);
  if (!centre || !extents) {
    free(centre);
    free(extents);
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)(d * parts));
  }
  double total = weights ? 0 : (double)n;
  for (int64_t i = 0; i < n && weights; i++) total += weights[i];
  threads = fk_threads_for_bytes(threads, 8.0 * (double)n * (double)d);
  struct whiten_survey survey = {x, weights, 1 / total, extents};
  fk_parallel_for(threads, d * parts, 1, survey_part, &survey);
  for (int64_t k = 0; k < d; k++) {
    double variance = 0; /* of the kernel, in column k */
    for (int64_t l = 0; l <= k; l++) variance += w->chol[k + l * d] * w->chol[k + l * d];
    centre[k] = centre_of(x, k, extents + k * parts, WIDE * sqrt(variance));
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

FK_EACH_TYPE void centre_column(const void *column, enum fk_type type, const int64_t *rows, int64_t count,
                                double centre, double scale, double *restrict to) {
  if (rows)
    for (int64_t r = 0; r < count; r++) to[r] = (fk_number(column, type, rows[r]) - centre) * scale;
  else
    for (int64_t r = 0; r < count; r++) to[r] = (fk_number(column, type, r) - centre) * scale;
}

void fk_whiten(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
               int64_t count, double *u, int64_t width, double *work) {
  double *centred = w->dense ? work : u;
  for (int64_t k = 0; k < w->d; k++) {
    const void *column = fk_number_at(x->data, x->type, k * x->ld + (rows ? 0 : first));
    const int64_t *picked = rows ? rows + first : NULL;
    double *to = centred + k * width, centre = w->centre[k], scale = w->diagonal ? 1 / w->chol[k + k * w->d] : 1;
    if (x->type == FK_FLOAT)
      centre_column(column, FK_FLOAT, picked, count, centre, scale, to);
    else
      centre_column(column, FK_DOUBLE, picked, count, centre, scale, to);
    for (int64_t r = count; r < width; r++) to[r] = 0;
  }
  if (w->dense)
    fk_host.block_multiply(w->dense, w->d, centred, width, u);
  else if (!w->diagonal)
    fk_host.block_solve(w->chol, w->d, u, width);
}

/* ---- many points ------------------------------------------------------------------------------ */

struct whiten_points {
  const struct fk_whitening *w;
  const struct fk_matrix *points;
  struct fk_scratch scratch;
  int64_t first, count, ld;
  double *u;
};

static void whiten_point_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct whiten_points *a = data;
  int64_t d = a->w->d;
  double *block = fk_scratch_at(&a->scratch, slot);
  for (int64_t i = first; i < end; i++) {
    int64_t at = i * FK_BLOCK, rows = fk_smaller(a->count - at, FK_BLOCK);
    fk_whiten(a->w, a->points, NULL, a->first + at, rows, block, FK_BLOCK, block + FK_BLOCK * d);
    for (int64_t k = 0; k < d; k++)
      memcpy(a->u + k * a->ld + at, block + k * FK_BLOCK, sizeof(double) * (size_t)rows);
  }
}

enum fk_status fk_whiten_points(const struct fk_whitening *w, int threads, const struct fk_matrix *points,
                                int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err) {
  struct whiten_points a = {.w = w, .points = points, .first = first, .count = count, .ld = ld, .u = u};
  double bytes = 16.0 * (double)w->d;
  threads = fk_threads_for_bytes(threads, bytes * (double)count);
  if (!fk_scratch_init(&a.scratch, threads, sizeof(double) * 2 * FK_BLOCK * (size_t)w->d))
    return fk_no_memory(err, 0, "whitening points");
  fk_parallel_for(threads, fk_pieces(count, FK_BLOCK), fk_step_for_bytes(bytes * FK_BLOCK), whiten_point_blocks,
                  &a);
  fk_scratch_free(&a.scratch);
  return FK_STATUS_OK;
}

/* ---- in double-doubles ------------------------------------------------------------------------ */

/* (x - centre) * scale of one column. A scale that is rounded is that of all points alike. */
static void centre_doubled(const struct fk_matrix *x, int64_t k, const int64_t *rows, int64_t first, int64_t count,
                           double centre, double scale, struct fk_doubled *to) {
  for (int64_t r = 0; r < count; r++) {
    double number = fk_number(x->data, x->type, k * x->ld + (rows ? rows[first + r] : first + r));
    to[r] = fk_doubled_times(fk_doubled_sum(number, -centre), scale);
  }
}

/* L^-1 of what was centred, in place, or A times it, one coordinate after the other. */
static void solve_doubled(const struct fk_whitening *w, int64_t count, struct fk_doubled *u) {
  for (int64_t k = 0; k < w->d; k++) {
    struct fk_doubled *to = u + k * count;
    for (int64_t l = 0; l < k; l++)
      for (int64_t r = 0; r < count; r++)
        to[r] = fk_doubled_minus_product(to[r], w->chol[k + l * w->d], u[l * count + r]);
    double inverse = 1 / w->chol[k + k * w->d];
    for (int64_t r = 0; r < count; r++) to[r] = fk_doubled_times(to[r], inverse);
  }
}

static void multiply_doubled(const struct fk_whitening *w, int64_t count, const struct fk_doubled *centred,
                             struct fk_doubled *u) {
  for (int64_t k = 0; k < w->d; k++) {
    struct fk_doubled *to = u + k * count;
    for (int64_t r = 0; r < count; r++) to[r] = (struct fk_doubled){0, 0};
    for (int64_t l = 0; l < w->d; l++)
      for (int64_t r = 0; r < count; r++)
        to[r] = fk_doubled_minus_product(to[r], -w->dense[k + l * w->d], centred[l * count + r]);
  }
}

bool fk_whiten_doubled(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
                       int64_t count, double scale, const struct fk_doubled_block *to) {
  int64_t d = w->d, numbers = d * count;
  bool solves = !w->dense && !w->diagonal;
  struct fk_doubled *centred = malloc(sizeof *centred * (size_t)(numbers * (w->dense ? 2 : 1) + 1));
  if (!centred) return false;
  struct fk_doubled *u = w->dense ? centred + numbers : centred;
  for (int64_t k = 0; k < d; k++)
    centre_doubled(x, k, rows, first, count, w->centre[k], w->dense || solves ? 1 : 1 / w->chol[k + k * d],
                   centred + k * count);
  if (w->dense)
    multiply_doubled(w, count, centred, u);
  else if (solves)
    solve_doubled(w, count, u);
  for (int64_t k = 0; k < d; k++)
    for (int64_t r = 0; r < to->width; r++) {
      struct fk_doubled number = {0, 0};
      if (r < count) number = fk_doubled_times(u[k * count + r], scale);
      to->high[k * to->width + r] = number.high;
      to->low[k * to->width + r] = isfinite(number.low) ? number.low : 0; /* NaN where a coordinate overflows */
    }
  free(centred);
  return true;
}

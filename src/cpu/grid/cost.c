/* What a sum on the grid costs: a survey of the points, a model of the time, and the window that it likes best.
 *
 * Constants are nanoseconds on one core of an AMD EPYC 9005 (AVX-512), gcc 12 -O2, November 2026. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/threads.h"
#include "blocks.h"
#include "grid.h"

enum { SAMPLE = 1 << 16 };

/* ---- survey ----------------------------------------------------------------------------------- */

/* Boxes that all n points would occupy, of which s sampled points occupy `seen`, `once` and `twice` of them with
 * one and two points (Chao and others, Ecol. Monogr. 84 (2014) 45, equation 9). */
static double extrapolate(double n, double s, double seen, double once, double twice) {
  if (n <= s || once < 1) return seen;
  double unseen = (s - 1) / s * (twice > 0 ? once * once / (2 * twice) : once * (once - 1) / 2);
  if (!(unseen > 0)) return seen;
  return seen + unseen * -expm1((n - s) * log1p(-fmin(once / (s * unseen + once), 1 - 1e-12)));
}

enum fk_status fk_grid_survey(const struct fk_grid_points *points, double all, int d, struct fk_grid_work *work,
                              struct fk_error *err) {
  struct fk_blocks boxes[2];
  int64_t n = points->n, sampled = fk_smaller(n, SAMPLE), *counts[2] = {NULL, NULL};
  enum fk_status status = FK_STATUS_OK;
  fk_blocks_init(&boxes[0], 0, false);
  fk_blocks_init(&boxes[1], 0, false);
  for (int i = 0; i < 2; i++)
    if (!(counts[i] = calloc((size_t)sampled + 1, sizeof *counts[i])))
      status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a survey of the points");
  int bits = d == 1 ? 60 : 62 / d;
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  for (int k = 0; k < d && !status; k++) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < sampled; i++) {
      double u = points->u[k * points->ld + (int64_t)((double)i * ((double)n / (double)sampled))];
      low = fmin(low, u);
      high = fmax(high, u);
    }
    work->extent[k] = sampled ? high - low : 0;
  }
  /* boxes of side 1, then of 2, 4, ... made from those; coordinates wrap around where they exceed a key */
  for (int level = 0; level < FK_GRID_LEVELS && !status; level++) {
    struct fk_blocks *from = &boxes[level % 2], *to = &boxes[(level + 1) % 2];
    int64_t *from_count = counts[level % 2], *to_count = counts[(level + 1) % 2];
    int64_t items = level ? from->n : sampled;
    fk_blocks_clear(to);
    for (int64_t i = 0; i < items && !status; i++) {
      uint64_t key = 0;
      int64_t row = level ? 0 : (int64_t)((double)i * ((double)n / (double)sampled));
      for (int k = 0; k < d; k++) {
        uint64_t box = level ? (from->keys[i] >> k * bits & mask) >> 1
                             : (uint64_t)(int64_t)(floor(points->u[k * points->ld + row]) + 0x1p40) & mask;
        key |= box << k * bits;
      }
      int64_t at = fk_blocks_insert(to, key);
      if (at < 0) status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a survey of the points");
      if (at >= 0)
        to_count[at] = (at == to->n - 1 && !to_count[at] ? 0 : to_count[at]) + (level ? from_count[i] : 1);
    }
    double once = 0, twice = 0;
    for (int64_t i = 0; i < to->n; i++) {
      once += to_count[i] == 1;
      twice += to_count[i] == 2;
    }
    work->boxes[level] = extrapolate(all, (double)sampled, (double)to->n, once, twice);
    if (from_count) memset(from_count, 0, (size_t)fk_larger(from->n, 1) * sizeof *from_count);
  }
  for (int i = 0; i < 2; i++) {
    fk_blocks_free(&boxes[i]);
    free(counts[i]);
  }
  return status;
}

/* Boxes of any side with a point in them: between powers of two on a log scale. */
static double boxes_of(const struct fk_grid_work *w, double side) {
  double level = log2(side);
  if (level < 0) return fmin(w->n, w->boxes[0] * exp2(-level * w->d));
  if (level >= FK_GRID_LEVELS - 1) return w->boxes[FK_GRID_LEVELS - 1];
  int low = (int)level;
  double a = log(fmax(w->boxes[low], 1)), b = log(fmax(w->boxes[low + 1], 1));
  return exp(a + (b - a) * (level - low));
}

void fk_grid_magnify(struct fk_grid_work *w, double times) {
  struct fk_grid_work before = *w;
  for (int level = 0; level < FK_GRID_LEVELS; level++) w->boxes[level] = boxes_of(&before, exp2(level) / times);
  for (int k = 0; k < w->d; k++) w->extent[k] *= times;
}

/* ---- time ------------------------------------------------------------------------------------- */

struct model {
  double occupied, cells; /* blocks with points, and cells of all blocks that these touch */
  double scratch;         /* cells of a full scratch */
};

static struct model model_of(const struct fk_grid_work *w, const struct fk_window *window) {
  struct model m;
  int64_t side[FK_GRID_MAX_D];
  double cells = (double)fk_grid_sides(w->d, side), spill = 1, most = 1;
  m.scratch = 1;
  for (int k = 0; k < w->d; k++) {
    double s = (double)side[k], reach = (window->width - 1) / s;
    spill *= 1 + fmin(reach, 1);
    most *= w->extent[k] / (s * window->spacing) + 1 + reach;
    m.scratch *= s + window->width - 1;
  }
  double volume = cells * pow(window->spacing, w->d), edge = pow(volume, 1.0 / w->d);
  /* boxes of the survey are aligned and cubes, blocks are not: a small set of points touches more of them */
  m.occupied = fmin(boxes_of(w, edge), most);
  m.cells = cells * fmin(m.occupied * spill, most);
  return m;
}

double fk_grid_bytes(const struct fk_grid_work *w, const struct fk_window *window, bool single) {
  struct model m = model_of(w, window);
  double planes = w->use & FK_WINDOW_LAPLACE ? 2 : 1, real = single ? 4 : 8;
  return m.cells * (double)w->columns * (8 + (single ? 4 : 0) + (2 * planes + (w->kernels > 1)) * real);
}

/* Of all filters, for a cell and a dimension. */
static double filter_cost(const struct fk_grid_work *w, const struct fk_window *window, bool floats) {
  double sum = 0, start = floats ? 1.8 : 2.8, tap = floats ? 0.022 : 0.036;
  for (int c = 1; c < w->kernels; c++) { /* reaches of wider ones: 5 to 7 of their bandwidths */
    double reach = fmin(6.5 * w->scales[c] / window->spacing, FK_WINDOW_REACH);
    sum += start + (2 * reach + 4) * tap + (floats ? 1 : 2) / (double)w->d;
  }
  return sum + start + (2 * window->reach + 4) * tap;
}

double fk_grid_seconds(const struct fk_grid_work *w, const struct fk_window *window, bool single, int threads) {
  struct model m = model_of(w, window);
  bool floats = single && w->d > 1;
  double d = w->d, width = window->width, rows = pow(width, d - 1), reads = rows, passes = d;
  /* a scratch beyond the first two caches is slower to touch */
  double far = m.scratch * (floats ? 4 : 8) > 5e5 ? 2 : 1;
  double sort = (floats ? 3 : 4) + (floats ? 3 : 5) * d;
  /* of a row: one vector up to 8 nodes, then two or three */
  double add = floats ? 0.6 : width <= 4 ? 0.7 : width <= 8 ? 1.0 : 1.25;
  double read = floats ? 0.28 : width <= 8 ? 0.35 : 0.77;
  double spread = 8 + rows * add * far, interpolate = 8 + reads * read * far;
  if (w->use & FK_WINDOW_GRADIENT) interpolate *= 2;
  if (w->use & FK_WINDOW_LAPLACE) passes = 2 * d + 1;
  /* blocks are visited at least once for each batch; where points are few, only the cells around them are */
  double touched = fmin(m.scratch, 2 * rows * width * w->n / fmax(m.occupied, 1));
  double visits = fmax(m.occupied * fmax(1, w->n / 4e6), w->n / 8192);
  double each = w->n * spread + w->m * interpolate + visits * (300 + (floats ? 1.5 : 2.2) * touched) +
                m.cells * passes * filter_cost(w, window, floats);
  double nanoseconds = (w->same_points ? w->n : w->n + w->m) * sort + (double)w->columns * each;
  double used = fk_threads_for_work(threads, nanoseconds);
  return 2e-5 + nanoseconds * 1e-9 / (1 + 0.9 * (used - 1));
}

double fk_grid_seconds_alone(const struct fk_grid_work *work, const struct fk_window *window, bool single,
                             const void *data) {
  (void)data;
  if (single && (window->width > 8 || work->d == 1)) return INFINITY;
  return fk_grid_seconds(work, window, single, 1);
}

enum fk_status fk_grid_choose(const struct fk_grid_work *work, double tol, fk_grid_cost *cost, const void *data,
                              bool *single, struct fk_window *window, double *seconds, struct fk_error *err) {
  bool may = *single;
  double widest = work->kernels > 1 ? work->scales[work->kernels - 1] : 1;
  *seconds = INFINITY;
  for (int i = 0; i < fk_window_count(); i++)
    for (int floats = 0; floats <= may; floats++) {
      const struct fk_window *a = fk_window_at(i);
      if (FK_WINDOW_SDS * widest / a->spacing > FK_WINDOW_REACH) continue;
      if (fk_window_error(a, work->d, work->use) > tol - (floats ? FK_GRID_ROUNDING : 0)) continue;
      double guess = cost(work, a, floats, data);
      if (!(guess < *seconds)) continue;
      *seconds = guess;
      *window = *a;
      *single = floats;
    }
  return isfinite(*seconds)
             ? FK_STATUS_OK
             : fk_fail(err, FK_STATUS_UNSUPPORTED,
                       "no window of the grid reaches a tolerance of %.1e in %d dimensions", tol, work->d);
}

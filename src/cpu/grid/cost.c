/* What a sum on the CPU's grid costs, by a model of the time.
 *
 * Constants are nanoseconds on one core of an AMD EPYC 9005 (AVX-512), gcc 12 -O2, November 2026. */
#include <math.h>

#include "../../core/threads.h"
#include "grid.h"

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
  m.occupied = fmin(fk_grid_boxes(w, edge), most);
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

double fk_grid_seconds_alone(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  if (single && (window->width > 8 || work->d == 1)) return INFINITY;
  return fk_grid_seconds(work, window, single, 1);
}

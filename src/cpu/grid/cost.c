/* A model of the time of a sum on the CPU's grid, with the constants of core/costs.c. */
#include <math.h>

#include "../../core/costs.h"
#include "../../core/threads.h"
#include "envelope_parts.h"

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

/* Time of all filters, for a cell and a dimension. */
static double filter_cost(const struct fk_grid_work *w, const struct fk_window *window, bool floats) {
  const struct fk_grid_cpu_costs *costs = &fk_costs.grid_cpu;
  double sum = 0, start = costs->filter[floats], tap = costs->filter_tap[floats];
  for (int c = 1; c < w->kernels; c++) { /* reaches of wider ones: 5 to 7 of their bandwidths */
    double reach = fmin(6.5 * w->scales[c] / window->spacing, FK_WINDOW_REACH);
    sum += start + (2 * reach + 4) * tap + costs->filter_kernel[floats] / (double)w->d;
  }
  return sum + start + (2 * window->reach + 4) * tap;
}

double fk_grid_seconds(const struct fk_grid_work *w, const struct fk_window *window, bool single, int threads) {
  const struct fk_grid_cpu_costs *c = &fk_costs.grid_cpu;
  struct model m = model_of(w, window);
  bool floats = single && w->d > 1;
  double d = w->d, width = window->width, rows = pow(width, d - 1), reads = rows, passes = d;
  /* a scratch beyond the first two caches is slower to touch */
  double far = m.scratch * (floats ? 4 : 8) > c->near_bytes ? c->far : 1;
  double sort = c->sort[floats] + c->sort_coordinate[floats] * d;
  /* of a row: one vector up to 8 nodes, then two or three */
  int nodes = width <= 4 ? 0 : width <= 8 ? 1 : 2;
  double add = floats ? c->add_f32 : c->add[nodes], read = floats ? c->read_f32 : c->read[nodes];
  double spread = c->point + rows * add * far, interpolate = c->point + reads * read * far;
  if (w->use & FK_WINDOW_GRADIENT) interpolate *= c->gradient;
  if (w->use & FK_WINDOW_LAPLACE) passes = 2 * d + 1;
  /* blocks are visited at least once for each batch; where points are few, only the cells around them are */
  double touched = fmin(m.scratch, 2 * rows * width * w->n / fmax(m.occupied, 1));
  double visits = fmax(m.occupied * fmax(1, w->n / c->batch), w->n / c->scratch_points);
  double each = w->n * spread + w->m * interpolate + visits * (c->visit + c->visit_cell[floats] * touched) +
                m.cells * passes * filter_cost(w, window, floats);
  double nanoseconds = (w->same_points ? w->n : w->n + w->m) * sort + (double)w->columns * each;
  double used = fk_threads_for_work(threads, nanoseconds);
  return c->start + nanoseconds * 1e-9 / (1 + c->thread * (used - 1));
}

double fk_grid_seconds_alone(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  if (single && (window->width > 8 || work->d == 1)) return INFINITY;
  return fk_grid_seconds(work, window, single, 1);
}

double fk_envelope_seconds(const struct fk_grid_work *w, double cells) {
  struct fk_window nodes = {.spacing = 1, .width = 2 * FK_ENVELOPE_REACH};
  double parts = (w->use & FK_WINDOW_GRADIENT ? 2 : 1) * (w->use & FK_WINDOW_LAPLACE ? 2 : 1);
  double planes = 3 * parts, points = w->same_points ? w->n : w->n + w->m; /* sums, and then sums and errors */
  double filters = fk_costs.choice.node * planes * w->d * model_of(w, &nodes).cells;
  return filters + 1e-9 * (points * fk_costs.grid_cpu.point + cells * fk_costs.grid_cpu.visit);
}

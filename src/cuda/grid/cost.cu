/* Estimates the time of sums on the grid without touching a device. */
#include <math.h>

#include "../../core/costs.h"
#include "grid.cuh"
#include "task.cuh"

static double nodes_of(const struct fk_grid_work *work, const struct fk_window *window) {
  double nodes = 1;
  for (int k = 0; k < work->d; k++) nodes *= work->extent[k] / window->spacing + window->width;
  return nodes;
}

double fk_cuda_grid_bytes(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  double number = single ? 4 : 8, planes = work->use & FK_WINDOW_LAPLACE ? 2 : 1;
  return nodes_of(work, window) * ((double)work->columns * (8 + number) + 2 * planes * number);
}

/* For one device: the window, and with it the bits, must not depend on the number of devices. */
double fk_cuda_grid_seconds(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  const struct fk_grid_cuda_costs *c = &fk_costs.grid_cuda;
  const double memory = c->memory, cycles = c->processors * c->clock;
  double d = work->d, w = window->width, n = work->n, m = work->m, columns = (double)work->columns;
  double nodes = nodes_of(work, window), rows = pow(w, d - 1), number = single ? 1 : 2;
  double slopes = work->use & FK_WINDOW_GRADIENT ? d : 0, planes = work->use & FK_WINDOW_LAPLACE ? 3 : 1;
  double sorts = (n + m) * (c->sort * ceil(log2(nodes + 1) / 8) / 4 + (16 * d + 64 * number) / memory);
  double weights = d * w * window->width * number / 128;
  double spread = n * columns * (weights + number * rows * (d + w / 4) / 32 + c->point) / cycles;
  double adds = columns * (fmin(n, nodes * fmax(1, n / FK_GRID_CHUNK_MOST)) + n / 512) * rows * w / c->atomics;
  /* targets alone in their cells read different cache lines, one per lane */
  double apart = fmin(c->apart, fmax(1, 4 * nodes / fmax(m, 1)));
  double reads = m * (weights + number * columns * rows * (w + 1 + 0.5 * slopes) * apart / 32) / cycles;
  double scatter = m * columns * (1 + slopes) * 64 / memory;
  double filter = nodes * columns * d * (2 * window->reach + 1) * 3 * planes * number / (32 * cycles);
  double copies = 8 * (n * (d + columns) + (work->same_points ? 0 : m * d) + m * columns * (1 + slopes)) / c->host;
  return c->device.call + c->launches + copies + filter + sorts + spread + adds + reads + scatter;
}

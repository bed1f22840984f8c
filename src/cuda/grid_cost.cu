/* How long sums on the grid take: a guess that touches no device. */
#include <math.h>

#include "grid.cuh"
#include "grid_task.cuh"

static double nodes_of(const struct fk_grid_work *work, const struct fk_window *window) {
  double nodes = 1;
  for (int k = 0; k < work->d; k++) nodes *= work->extent[k] / window->spacing + window->width;
  return nodes;
}

double fk_cuda_grid_bytes(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  double number = single ? 4 : 8, planes = work->use & FK_WINDOW_LAPLACE ? 2 : 1;
  return nodes_of(work, window) * ((double)work->columns * (8 + number) + 2 * planes * number);
}

/* From arithmetic for an H200, not from measurements: 4.2 TB/s, 132 processors at 1.75 GHz, each of which brings a
 * warp's load of shared memory or a first-level hit a cycle and four multiply-adds, sorts of 10^10 pairs a second
 * and 32 bits, 5e10 atomic additions a second, the host's memory at 16 GB/s. Of one device: the window, and with
 * it the bits, are not to depend on how many there are. */
double fk_cuda_grid_seconds(const struct fk_grid_work *work, const struct fk_window *window, bool single) {
  const double memory = 4.2e12, cycles = 132 * 1.75e9;
  double d = work->d, w = window->width, n = work->n, m = work->m, columns = (double)work->columns;
  double nodes = nodes_of(work, window), rows = pow(w, d - 1), number = single ? 1 : 2;
  double slopes = work->use & FK_WINDOW_GRADIENT ? d : 0, planes = work->use & FK_WINDOW_LAPLACE ? 3 : 1;
  double sorts = (n + m) * (1e-10 * ceil(log2(nodes + 1) / 8) / 4 + (16 * d + 64 * number) / memory);
  double weights = d * w * window->width * number / 128;
  double spread = n * columns * (weights + number * rows * (d + w / 4) / 32 + 0.2) / cycles;
  double adds = columns * (fmin(n, nodes * fmax(1, n / FK_GRID_CHUNK_MOST)) + n / 512) * rows * w / 5e10;
  /* targets alone in their cells read different lines, each lane its own */
  double apart = fmin(16, fmax(1, 4 * nodes / fmax(m, 1)));
  double reads = m * (weights + number * columns * rows * (w + 1 + 0.5 * slopes) * apart / 32) / cycles;
  double scatter = m * columns * (1 + slopes) * 64 / memory;
  double filter = nodes * columns * d * (2 * window->reach + 1) * 3 * planes * number / (32 * cycles);
  double copies = 8 * (n * (d + columns) + (work->same_points ? 0 : m * d) + m * columns * (1 + slopes)) / 16e9;
  return FK_CUDA_GRID_START + 5e-4 + copies + filter + sorts + spread + adds + reads + scatter;
}

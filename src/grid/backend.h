/* What sums on a grid: the CPU (cpu/grid/backend.c) or NVIDIA GPUs (cuda/grid/backend.cu). Whoever chooses windows
 * and proves errors (fast/) knows them by this table alone. */
#pragma once

#include "../core/costs.h"
#include "points.h"
#include "work.h"

FK_BEGIN_C

/* What is summed, f = laplace (1 + d/2 - q/2) + plain, and where it goes. Points are as they came, not whitened.
 */
struct fk_grid_task {
  struct fk_matrix sources, targets; /* both with their data */
  bool same;                         /* targets are the sources */
  const struct fk_whitening *whitening;
  const double *b; /* n x columns; NULL: one column of ones */
  int64_t columns;
  const double *size; /* of each column, the largest |b| */
  double plain, laplace;
  /* The last column's sums go to mass, others to sums, m x (columns - 1). Or, gradient: sums of coordinates, m x
   * d, go there, by the gradient of the one column. */
  bool gradient;
  double *mass, *sums;
  /* Times its b, what a row that leaves itself out has in its mass, which goes out later; coordinates are without
   * it at once. 0: rows leave nothing out. */
  double own;
  uint64_t session; /* tasks of the same session, not 0, have the same points and b */
  struct fk_operator
      *op; /* whose points these are, and that keeps what is prepared of them; NULL: nothing is kept */
  const struct fk_opts *opts;
  struct fk_stats *stats; /* what was computed where is added */
};

/* |b| and targets of a box of cells a bandwidth wide, whitened coordinates low .. low + cells - 1; of several
 * columns, |b| is the largest |b| / size. Dimension 0 runs fastest. */
struct fk_grid_cells {
  int64_t low[FK_GRID_MAX_D], cells[FK_GRID_MAX_D];
  double unit; /* what mass and count are in, each by up to so much too large a point */
  /* Of nodes, one more than cells along each dimension: |b|, and points with b not 0 (NULL: not wanted). Of cells:
   * targets, and the first of them. */
  uint64_t *mass, *count, *targets, *row;
  uint64_t *memory; /* of these; whoever asked frees it */
};

struct fk_grid_backend {
  const struct fk_engine *exact; /* of the same device */
  bool direct;                   /* direct sums run there, too */
  bool several;                  /* one grid may serve a sum of kernels */
  const struct fk_grid_device_costs *costs;
  /* Half of what totals are multiples of, relative to sum |b|, for those in fixed point: it goes into the bound of
   * their error. 0: totals are doubles. */
  double unit;

  fk_grid_cost *seconds; /* a guess, which touches no device, as the next */
  double (*bytes)(const struct fk_grid_work *work, const struct fk_window *window, bool single);

  /* All terms of f with one window, own kernels included. Where the work has several kernels they take the
   * Gaussian's place. FK_STATUS_UNSUPPORTED where the grid takes more memory than there is. */
  enum fk_status (*terms)(const struct fk_grid_task *task, const struct fk_grid_work *work,
                          const struct fk_window *window, bool single, struct fk_error *err);
  /* Sums of all pairs in double at some rows, row r of column c to sums[c * rows->n + r], with the factor[0] +
   * factor[1] (q/2) + factor[2] (q/2)^2; absolute: of |b| without it; NULL: not wanted. Of the task its sources
   * and b count. */
  enum fk_status (*rows)(const struct fk_grid_task *task, const struct fk_matrix *rows, const double factor[3],
                         double *sums, double *absolute, struct fk_error *err);
  /* Of the task its points and b count. FK_STATUS_UNSUPPORTED where the box has more nodes, or the task many
   * columns. NULL: there is no such thing. */
  enum fk_status (*cells)(const struct fk_grid_task *task, bool counted, double most_nodes,
                          struct fk_grid_cells *cells, struct fk_error *err);
};

extern const struct fk_grid_backend fk_grid_cpu, fk_grid_cuda; /* the second where it is built */

/* Where column c of the sums goes. */
static inline double *fk_grid_out(const struct fk_grid_task *task, int64_t c) {
  return c == task->columns - 1 ? task->mass : task->sums + c * task->targets.n;
}
/* Values of the targets at .. at + count - 1, value[c * count], join the sums, times scale. */
void fk_grid_join(const struct fk_grid_task *task, int64_t at, int64_t count, double scale, bool first,
                  const double *value);
/* Sums of coordinates there, from the gradient, slope[k * ld], and the targets' own, u, times the mass. */
void fk_grid_join_coordinates(const struct fk_grid_task *task, int64_t at, int64_t count, double scale,
                              const double *slope, int64_t ld, const double *u);

FK_END_C

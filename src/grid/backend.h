/* The table of functions of a grid, on the CPU (cpu/grid/backend.c) or on NVIDIA GPUs (cuda/grid/backend.cu).
 * fast/, which chooses windows and proves errors, uses grids through this table only. */
#pragma once

#include "../core/costs.h"
#include "points.h"
#include "work.h"

FK_BEGIN_C

/* A sum on a grid, with f = laplace (1 + d/2 - q/2) + plain, and the arrays for its results. Points are not
 * whitened. */
struct fk_grid_task {
  struct fk_matrix sources, targets; /* both have data on the host */
  bool same;                         /* targets are the sources */
  const struct fk_whitening *whitening;
  const double *b; /* n x columns; NULL: one column of ones */
  int64_t columns;
  const double *size; /* the largest |b| of each column */
  double plain, laplace;
  /* Output. mass: the sums of the last column; sums: those of the other columns, m x (columns - 1). With gradient,
   * there is one column, and sums receives its sums of coordinates, m x d. */
  bool gradient;
  double *mass, *sums;
  /* For rows that exclude themselves, their own kernel's value per b: it is in the mass and is subtracted later,
   * but sums of coordinates exclude it. 0: rows exclude nothing. */
  double own;
  uint64_t session;       /* tasks with the same number, if it is not 0, have the same points and b */
  struct fk_operator *op; /* the operator of the sources, for caching; NULL: nothing is cached */
  const struct fk_opts *opts;
  struct fk_stats *stats; /* added to */
};

/* The distribution of |b| and of targets over a box of cells one bandwidth wide, at whitened coordinates low ..
 * low + cells - 1. With several columns, |b| is the largest |b| / size. Dimension 0 runs fastest. */
struct fk_grid_cells {
  int64_t low[FK_GRID_MAX_D], cells[FK_GRID_MAX_D];
  double unit; /* unit of mass and count; each point may add up to one unit too much */
  /* For each node (one more than cells along each dimension) mass is |b|, and count the number of points with b !=
   * 0 (NULL: not needed). For each cell, targets is the number of targets, and row the first of them. */
  uint64_t *mass, *count, *targets, *row;
  uint64_t *memory; /* the memory of these arrays; the caller frees it */
};

struct fk_grid_backend {
  const struct fk_engine *exact; /* the exact engine of the same device */
  bool direct;                   /* does the device have direct sums? */
  bool several;                  /* can one grid serve a sum of several kernels? */
  const struct fk_grid_device_costs *costs;
  /* For totals in fixed point, half of their resolution relative to sum |b|, which is part of the error bound. 0:
   * totals are doubles. */
  double unit;

  /* Estimated time, and bytes of the grid. Neither touches a device. */
  fk_grid_cost *seconds;
  double (*bytes)(const struct fk_grid_work *work, const struct fk_window *window, bool single);

  /* Computes all terms of f with one window, with the rows' own kernels. If the work has several kernels, their
   * sum replaces the Gaussian. FK_STATUS_UNSUPPORTED: the grid needs more memory than there is. */
  enum fk_status (*terms)(const struct fk_grid_task *task, const struct fk_grid_work *work,
                          const struct fk_window *window, bool single, struct fk_error *err);
  /* Exact sums in double at some rows, with f = factor[0] + factor[1] (q/2) + factor[2] (q/2)^2: row r of column c
   * goes to sums[c * rows->n + r]. absolute: sums of |b| k without f; NULL: not needed. Uses only sources and b of
   * the task. */
  enum fk_status (*rows)(const struct fk_grid_task *task, const struct fk_matrix *rows, const double factor[3],
                         double *sums, double *absolute, struct fk_error *err);
  /* Fills in *cells. Uses only points and b of the task. FK_STATUS_UNSUPPORTED: the box has more than most_nodes
   * nodes, or the task has too many columns. NULL: the back end has no such function. */
  enum fk_status (*cells)(const struct fk_grid_task *task, bool counted, double most_nodes,
                          struct fk_grid_cells *cells, struct fk_error *err);
};

extern const struct fk_grid_backend fk_grid_cpu, fk_grid_cuda; /* fk_grid_cuda only in builds with CUDA */

/* The task's array for the sums of column c. */
static inline double *fk_grid_out(const struct fk_grid_task *task, int64_t c) {
  return c == task->columns - 1 ? task->mass : task->sums + c * task->targets.n;
}
/* Adds scale * value[c * count + i] to the sums of targets at + i, i < count; with `first`, replaces the sums. */
void fk_grid_join(const struct fk_grid_task *task, int64_t at, int64_t count, double scale, bool first,
                  const double *value);
/* Writes the sums of coordinates of these targets, computed from the gradient slope[k * ld + i] and from the
 * targets' whitened coordinates u times the mass. */
void fk_grid_join_coordinates(const struct fk_grid_task *task, int64_t at, int64_t count, double scale,
                              const double *slope, int64_t ld, const double *u);

FK_END_C

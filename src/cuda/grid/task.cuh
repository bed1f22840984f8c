/* Gaussian sums on NVIDIA GPUs in time linear in the number of points, d = 1 .. 7: sources are spread on a grid,
 * the grid is filtered, and targets interpolate (grid/window.h explains the error).
 * ||   V[i, q] = sum_j b[j, q] f(r_ij^2 / 2) exp(-r_ij^2 / 2),   f = 1, or 1 + d/2 - r^2/2 for the Laplace
 * correction
 * || Results have the same bits for any number of devices of one model, as long as their memory suffices. */
#ifndef FK_CUDA_GRID_TASK_CUH
#define FK_CUDA_GRID_TASK_CUH

#include "../../grid/backend.h"

/* All arrays are in host memory; points are not whitened. */
struct fk_cuda_grid_task {
  struct fk_matrix sources, targets; /* targets.data NULL: the sources */
  const struct fk_whitening *whitening;
  const double *b; /* n x columns; NULL: one column of ones */
  int64_t columns;
  struct fk_window window;
  unsigned use;     /* enum fk_window_use; only FK_WINDOW_LAPLACE matters: gradients are computed if `gradient`
                     * is not NULL */
  bool single;      /* fractions, weights and grid in float; totals are exact in either case */
  uint64_t session; /* calls with the same nonzero number have the same points and b, which are sent once */
  struct fk_operator *op; /* caches the sources on the device; NULL: none */
  double *value;          /* m x columns */
  double *gradient; /* m x (columns d), with respect to the whitened coordinates, the d of a column adjacent; or
                     * NULL */
};

/* Computes the sums. Returns FK_STATUS_UNSUPPORTED if the points are spread so thinly that the grid does not fit
 * into memory. */
enum fk_status fk_cuda_grid_sums(const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                                 struct fk_stats *stats, struct fk_error *err);

/* Direct sums over all pairs in double at some rows: row r of column c to sums[c * rows->n + r], and the same with
 * |b|, for any factor[0] + factor[1] (q/2) + factor[2] (q/2)^2. Uses only the task's sources and b. */
enum fk_status fk_cuda_grid_rows(const struct fk_cuda_grid_task *task, const struct fk_matrix *rows,
                                 const double factor[3], const struct fk_opts *opts, double *sums,
                                 double *absolute, struct fk_error *err);

/* See cells() of struct fk_grid_backend. size: the largest |b| of each column. */
enum fk_status fk_cuda_grid_envelope(const struct fk_cuda_grid_task *task, const double *size, bool counted,
                                     double most_nodes, const struct fk_opts *opts, struct fk_grid_cells *out,
                                     struct fk_error *err);

/* Estimates the seconds from call to result, and the bytes of the grid, without touching a device. */
double fk_cuda_grid_seconds(const struct fk_grid_work *work, const struct fk_window *window, bool single);
double fk_cuda_grid_bytes(const struct fk_grid_work *work, const struct fk_window *window, bool single);

#endif

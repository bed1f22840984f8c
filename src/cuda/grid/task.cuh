/* Gaussian sums in time linear in the points, d = 1 .. 7, on NVIDIA GPUs: sources are spread on a grid, the grid
 * is filtered, targets interpolate (grid/window.h says why that is exact up to a tolerance).
 *
 *   V[i, q] = sum_j b[j, q] f(r_ij^2 / 2) exp(-r_ij^2 / 2),   f = 1, or 1 + d/2 - r^2/2 for the Laplace correction
 *
 * Results have the same bits for any number of devices, of one model, as long as their memory suffices.
 */
#ifndef FK_CUDA_GRID_TASK_CUH
#define FK_CUDA_GRID_TASK_CUH

#include "../../grid/backend.h"

/* All in the host's memory, points as they are (not whitened). */
struct fk_cuda_grid_task {
  struct fk_matrix sources, targets; /* targets.data NULL: the sources */
  const struct fk_whitening *whitening;
  const double *b; /* n x columns; NULL: ones, one column */
  int64_t columns;
  struct fk_window window;
  unsigned use;     /* enum fk_window_use; FK_WINDOW_LAPLACE counts here, the gradient where it is not NULL */
  bool single;      /* points within their cells, weights and grid in float; totals are exact in either case */
  uint64_t session; /* calls with the same number, not 0, have the same points and b, which are sent once */
  struct fk_operator *op; /* that keeps the sources where they were sent; NULL: none does */
  double *value;          /* m x columns */
  double *gradient; /* m x (columns d), with respect to the whitened coordinates, d next to each other; or NULL */
};

/* FK_STATUS_UNSUPPORTED where the grid takes more memory than there is: points spread too thinly. */
enum fk_status fk_cuda_grid_sums(const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                                 struct fk_stats *stats, struct fk_error *err);

/* Sums of all pairs in double at some rows, row r of column c to sums[c * rows->n + r], and the same of |b|, with
 * any factor[0] + factor[1] (q/2) + factor[2] (q/2)^2. Of the task its sources count, and b. */
enum fk_status fk_cuda_grid_rows(const struct fk_cuda_grid_task *task, const struct fk_matrix *rows,
                                 const double factor[3], const struct fk_opts *opts, double *sums,
                                 double *absolute, struct fk_error *err);

/* As the table's cells(). size: of each column, the largest |b|. */
enum fk_status fk_cuda_grid_envelope(const struct fk_cuda_grid_task *task, const double *size, bool counted,
                                     double most_nodes, const struct fk_opts *opts, struct fk_grid_cells *out,
                                     struct fk_error *err);

/* A guess of the seconds from call to result, and of the grid's bytes, which touches no device. */
double fk_cuda_grid_seconds(const struct fk_grid_work *work, const struct fk_window *window, bool single);
double fk_cuda_grid_bytes(const struct fk_grid_work *work, const struct fk_window *window, bool single);

#endif

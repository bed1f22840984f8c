/* The fast engine by a grid, to a tolerance: of the largest sum, or of each row's own, where the grid's error is
 * known from a wider kernel and rows it does not resolve are summed directly.
 */
#include <math.h>
#include <stdlib.h>

#include "engine.h"

/* Rows that direct sums may take before a finer window is tried. */
#define MOST_DIRECT 0.05

static enum fk_status with_tolerance(struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                                     double *around, struct fk_window *window, struct fk_error *err) {
  enum fk_status status = job->terms(job, work, tol, around, window, err);
  if (status) return status;
  fk_fast_find_largest(job);
  job->rounding = job->used_single ? FK_GRID_ROUNDING : 1e-15;
  if (job->task->exclude_self) fk_fast_leave_out(job);
  return FK_STATUS_OK;
}

/* Rows that the window does not resolve, those where error > tol sum. */
static int64_t find_rows(const struct fk_fast_job *job, const struct fk_window *window, const double *around,
                         int64_t *rows) {
  double error =
      1.3 * fk_window_error(window, (int)job->d, job->laplace != 0 ? FK_WINDOW_LAPLACE : FK_WINDOW_VALUE);
  int64_t found = 0;
  if (job->gradient) error = fmax(error, 1.3 * fk_window_error(window, (int)job->d, FK_WINDOW_GRADIENT));
  for (int64_t i = 0; i < job->m; i++)
    if (!((error + job->rounding) * around[i] <= job->tol * job->task->mass[i])) rows[found++] = i;
  return found;
}

static enum fk_status pointwise(struct fk_fast_job *job, const struct fk_grid_work *work, struct fk_error *err) {
  struct fk_window window;
  double *around = malloc(sizeof(double) * (size_t)job->m);
  int64_t *rows = malloc(sizeof(int64_t) * (size_t)job->m), found = job->m;
  enum fk_status status = FK_STATUS_OK;
  if (!around || !rows)
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for rows", 16e-6 * (double)job->m);
  job->single = false; /* rounding is of the sums around, not of the row's own */
  for (double tol = job->tol / 64; !status; tol /= 64) {
    struct fk_error why = {FK_STATUS_OK, ""};
    enum fk_status tried = with_tolerance(job, work, tol, around, &window, &why);
    if (tried == FK_STATUS_UNSUPPORTED && tol < job->tol / 64) break; /* the last window has to do */
    if (tried) {
      status = fk_fail(err, tried, "%s", why.message);
      break;
    }
    found = find_rows(job, &window, around, rows);
    if ((double)found <= MOST_DIRECT * (double)job->m) break;
  }
  job->tail_rows = status ? 0 : found;
  if (!status && found > 0) status = fk_fast_rows(job, rows, found, err);
  free(around);
  free(rows);
  return status;
}

enum fk_status fk_fast_by_grid(struct fk_fast_job *job, const struct fk_grid_work *work, struct fk_error *err) {
  struct fk_window window;
  if (job->opts->tol_type == FK_TOL_POINTWISE) return pointwise(job, work, err);
  return with_tolerance(job, work, job->tol, NULL, &window, err);
}

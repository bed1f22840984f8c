#include "work.h"

#include <math.h>

double fk_grid_boxes(const struct fk_grid_work *w, double side) {
  double level = log2(side);
  if (level < 0) return fmin(w->n, w->boxes[0] * exp2(-level * w->d));
  if (level >= FK_GRID_LEVELS - 1) return w->boxes[FK_GRID_LEVELS - 1];
  int low = (int)level;
  double a = log(fmax(w->boxes[low], 1)), b = log(fmax(w->boxes[low + 1], 1));
  return exp(a + (b - a) * (level - low));
}

void fk_grid_magnify(struct fk_grid_work *w, double times) {
  struct fk_grid_work before = *w;
  for (int level = 0; level < FK_GRID_LEVELS; level++)
    w->boxes[level] = fk_grid_boxes(&before, exp2(level) / times);
  for (int k = 0; k < w->d; k++) w->extent[k] *= times;
}

enum fk_status fk_grid_choose(const struct fk_grid_work *work, double tol, fk_grid_cost *cost, bool *single,
                              struct fk_window *window, double *seconds, struct fk_error *err) {
  bool may = *single;
  double widest = work->kernels > 1 ? work->scales[work->kernels - 1] : 1;
  *seconds = INFINITY;
  for (int i = 0; i < fk_window_count(); i++)
    for (int floats = 0; floats <= may; floats++) {
      const struct fk_window *a = fk_window_at(i);
      if (!fk_window_has_scale(a, widest)) continue;
      if (fk_window_error(a, work->d, work->use) > tol - (floats ? FK_GRID_ROUNDING : 0)) continue;
      double guess = cost(work, a, floats);
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

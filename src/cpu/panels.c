/* Points in panels with boxes; what they are stands in panels.h. */
#include "panels.h"

#include <math.h>
#include <stdlib.h>

#include "../core/aligned.h"
#include "../core/pool.h"

int64_t *fk_panels_order(const double *x, int64_t n, int64_t d, bool ordered, int threads) {
  int64_t *index = malloc(sizeof *index * (size_t)n);
  if (!index) return NULL;
  for (int64_t i = 0; i < n; i++) index[i] = i;
  const int64_t units[2] = {FK_NEAR_POINTS, FK_NEAR_TARGETS};
  if (ordered) fk_order_points(x, d, units, threads, index, n);
  return index;
}

struct filling {
  struct fk_panels *panels;
  const double *x;
  double *to, padding;
};

static void fill_panels(void *data, int64_t first, int64_t end, int slot) {
  const struct filling *f = data;
  const struct fk_panels *p = f->panels;
  (void)slot;
  for (int64_t i = first * FK_NEAR_POINTS; i < end * FK_NEAR_POINTS; i++)
    for (int64_t k = 0; k < p->d; k++)
      f->to[(i / FK_NEAR_POINTS * p->d + k) * FK_NEAR_POINTS + i % FK_NEAR_POINTS] =
          i < p->n ? f->x[p->order[i] * p->d + k] : f->padding;
}

/* Low parts of points, and of targets that are near, are no larger than half of it. */
static double room_for_low(const struct fk_panels *p, double x) { return p->low ? 0x1p-51 * fabs(x) : 0; }

static double *fill_boxes(const struct fk_panels *p, int64_t node, int64_t first, int64_t end) {
  int64_t d = p->d;
  double *box = fk_node_box(p, node);
  if (end - first == 1) {
    for (int64_t k = 0; k < d; k++) {
      const double *x = fk_panel_at(p, first) + k * FK_NEAR_POINTS;
      box[k] = box[d + k] = x[0];
      for (int i = 1; i < fk_panel_size(p, first); i++) {
        box[k] = fmin(box[k], x[i]);
        box[d + k] = fmax(box[d + k], x[i]);
      }
      box[k] -= room_for_low(p, box[k]);
      box[d + k] += room_for_low(p, box[d + k]);
    }
    return box;
  }
  int64_t middle = fk_panels_middle(first, end);
  const double *left = fill_boxes(p, node + 1, first, middle);
  const double *right = fill_boxes(p, fk_node_right(node, first, middle), middle, end);
  for (int64_t k = 0; k < d; k++) {
    box[k] = fmin(left[k], right[k]);
    box[d + k] = fmax(left[d + k], right[d + k]);
  }
  return box;
}

bool fk_panels_init(struct fk_panels *p, const double *x, const double *low, int64_t n, int64_t d, bool ordered,
                    double padding, int threads) {
  *p = (struct fk_panels){.n = n, .d = d, .count = fk_pieces(n, FK_NEAR_POINTS)};
  p->order = fk_panels_order(x, n, d, ordered, threads);
  size_t bytes = sizeof(double) * (size_t)(p->count * FK_NEAR_POINTS * d);
  p->points = fk_aligned_alloc(bytes);
  if (low) p->low = fk_aligned_alloc(bytes);
  p->boxes = malloc(sizeof(double) * (size_t)(4 * p->count * d));
  if (!p->order || !p->points || !p->boxes || (low && !p->low)) return false;
  struct filling filling = {p, x, p->points, padding}, lower = {p, low, p->low, 0};
  int64_t step = fk_step_for_bytes(16.0 * FK_NEAR_POINTS * (double)d);
  fk_parallel_for(threads, p->count, step, fill_panels, &filling);
  if (low) fk_parallel_for(threads, p->count, step, fill_panels, &lower);
  fill_boxes(p, 0, 0, p->count);
  return true;
}

void fk_panels_free(struct fk_panels *p) {
  fk_aligned_free(p->points);
  fk_aligned_free(p->low);
  free(p->boxes);
  free(p->order);
}

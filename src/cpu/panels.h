/* A k-d tree of points: half of them on either side of a number in the coordinate in which they vary most, halves
 * of these, and so on, down to panels [k][FK_NEAR_POINTS]. A node is a run of panels with its box, and follows
 * from the numbers of the panels alone: its left half is the node after it. */
#ifndef FK_CPU_PANELS_H
#define FK_CPU_PANELS_H

#include "../core/count.h"
#include "order.h"
#include "tile.h"

struct fk_panels {
  int64_t n, d, count;    /* panels */
  int64_t *order;         /* which point is in which place */
  double *points, *boxes; /* boxes: of each node d lower ends, d upper ones */
  double *low;            /* the low parts of points that are double-doubles, as these; NULL: 0 */
};

/* x: one point after the other, as their low parts (NULL: 0), whose size goes onto the boxes. Points stay in their
 * order where they are not to be `ordered`. What is missing in the last panel is `padding`, and in no box. False:
 * there is no memory; in any case to be freed. */
bool fk_panels_init(struct fk_panels *p, const double *x, const double *low, int64_t n, int64_t d, bool ordered,
                    double padding, int threads);
void fk_panels_free(struct fk_panels *p);
/* The same order, of other points; NULL: there is no memory. */
int64_t *fk_panels_order(const double *x, int64_t n, int64_t d, bool ordered, int threads);

static inline int64_t fk_panels_nodes(const struct fk_panels *p) { return 2 * p->count - 1; }
static inline double *fk_panel_at(const struct fk_panels *p, int64_t panel) {
  return p->points + panel * FK_NEAR_POINTS * p->d;
}
static inline const double *fk_panel_low_at(const struct fk_panels *p, int64_t panel) {
  return p->low ? p->low + panel * FK_NEAR_POINTS * p->d : NULL;
}
/* Points of a panel: fewer in the last. */
static inline int fk_panel_size(const struct fk_panels *p, int64_t panel) {
  return (int)fk_smaller(FK_NEAR_POINTS, p->n - panel * FK_NEAR_POINTS);
}
static inline double *fk_node_box(const struct fk_panels *p, int64_t node) { return p->boxes + 2 * p->d * node; }
/* Of a node of the panels first .. end - 1, more than one: where its right half begins, and the node of that. */
static inline int64_t fk_panels_middle(int64_t first, int64_t end) {
  return first + fk_first_half(end - first, 1);
}
static inline int64_t fk_node_right(int64_t node, int64_t first, int64_t middle) {
  return node + 2 * (middle - first);
}

#endif

/* A k-d tree, through which targets go in groups of a few that are close to each other, near nodes first.
 *
 * Points are put into panels: half of them on either side of a number in the coordinate in which they vary most,
 * halves of these, and so on. A node is a run of panels with its box, and follows from the numbers of the panels
 * alone. */
#ifndef FK_CPU_NEAR_TREE_H
#define FK_CPU_NEAR_TREE_H

#include "tile.h"

struct fk_near_tree {
  const struct fk_tile_ops *ops;
  int64_t n, d, *order;   /* of points as they came */
  double *panels, *boxes; /* [panel][k][FK_NEAR_POINTS]; boxes: of each node d lower ends, d upper ones */
};

/* Targets first .. first + count - 1 of their order, and the squared distances from which on no point is of
 * interest to each: whoever looks at panels brings these down. */
struct fk_near_group {
  int64_t first;
  int count;
  double *y; /* [k][FK_NEAR_TARGETS]; lanes without a target have the first one's again */
  double bound[FK_NEAR_TARGETS];
};

/* x: point i from x[i * d] on, n of them; not `ordered`: they stay in their order, as few targets want no better.
 */
enum fk_status fk_near_tree_init(struct fk_near_tree *tree, const double *x, int64_t n, int64_t d, bool ordered,
                                 int threads, struct fk_error *err);
void fk_near_tree_free(struct fk_near_tree *tree);
/* The order of targets in which groups are close; NULL: out of memory. */
int64_t *fk_near_order(const double *y, int64_t m, int64_t d, bool ordered, int threads);

/* The next targets of an order, before `end`, with no bounds yet. */
void fk_near_group_start(struct fk_near_group *g, const double *y, int64_t d, const int64_t *order, int64_t first,
                         int64_t end);
/* squares: from the group's targets to the panel's box. */
typedef void (*fk_near_look)(void *data, struct fk_near_group *g, int64_t panel, const double *squares);
void fk_near_tree_visit(const struct fk_near_tree *tree, struct fk_near_group *g, fk_near_look look, void *data);

static inline const double *fk_near_panel(const struct fk_near_tree *tree, int64_t panel) {
  return tree->panels + panel * FK_NEAR_POINTS * tree->d;
}

#endif

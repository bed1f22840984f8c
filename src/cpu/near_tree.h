/* How targets go through the tree of panels.h: in groups of a few that are close to each other, near nodes first. */
#ifndef FK_CPU_NEAR_TREE_H
#define FK_CPU_NEAR_TREE_H

#include "panels.h"

/* Targets first .. first + count - 1 of their order, and the squared distances from which on no point is of
 * interest to each: whoever looks at panels brings these down. */
struct fk_near_group {
  int64_t first;
  int count;
  double *y; /* [k][FK_NEAR_TARGETS]; lanes without a target have the first one's again */
  double bound[FK_NEAR_TARGETS];
};

/* The next targets of an order, before `end`, with no bounds yet. */
void fk_near_group_start(struct fk_near_group *g, const double *y, int64_t d, const int64_t *order, int64_t first,
                         int64_t end);
/* squares: from the group's targets to the panel's box. */
typedef void (*fk_near_look)(void *data, struct fk_near_group *g, int64_t panel, const double *squares);
/* Of panels whose padding is infinitely far away. */
void fk_near_tree_visit(const struct fk_tile_ops *ops, const struct fk_panels *panels, struct fk_near_group *g,
                        fk_near_look look, void *data);

#endif

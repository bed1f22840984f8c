#include "near_tree.h"

#include <math.h>

void fk_near_group_start(struct fk_near_group *g, const double *y, int64_t d, const int64_t *order, int64_t first,
                         int64_t end) {
  g->first = first;
  g->count = (int)fk_smaller(FK_NEAR_TARGETS, end - first);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    const double *own = y + order[first + (t < g->count ? t : 0)] * d;
    for (int64_t k = 0; k < d; k++) g->y[k * FK_NEAR_TARGETS + t] = own[k];
    g->bound[t] = INFINITY;
  }
}

struct visit {
  const struct fk_tile_ops *ops;
  const struct fk_panels *panels;
  fk_near_look look;
  void *data;
};

static bool may_be_near(const struct fk_near_group *g, const double *squares) {
  bool any = false;
  for (int t = 0; t < g->count; t++) any |= squares[t] < g->bound[t];
  return any;
}

static double sum_of(const double *squares) {
  double sum = 0;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) sum += squares[t];
  return sum;
}

/* squares: from the targets to the node's box. */
static void visit(const struct visit *v, struct fk_near_group *g, int64_t node, int64_t first, int64_t end,
                  const double *squares) {
  if (!may_be_near(g, squares)) return;
  if (end - first == 1) {
    v->look(v->data, g, first, squares);
    return;
  }
  const struct fk_panels *p = v->panels;
  int64_t middle = fk_panels_middle(first, end), right = fk_node_right(node, first, middle);
  double of_left[FK_NEAR_TARGETS], of_right[FK_NEAR_TARGETS];
  v->ops->near_box(fk_node_box(p, node + 1), p->d, g->y, of_left);
  v->ops->near_box(fk_node_box(p, right), p->d, g->y, of_right);
  bool right_first = sum_of(of_right) < sum_of(of_left);
  if (right_first) visit(v, g, right, middle, end, of_right);
  visit(v, g, node + 1, first, middle, of_left);
  if (!right_first) visit(v, g, right, middle, end, of_right);
}

void fk_near_tree_visit(const struct fk_tile_ops *ops, const struct fk_panels *panels, struct fk_near_group *g,
                        fk_near_look look, void *data) {
  const double at_root[FK_NEAR_TARGETS] = {0};
  const struct visit v = {ops, panels, look, data};
  visit(&v, g, 0, 0, panels->count, at_root);
}

#include "near_tree.h"

#include <math.h>
#include <stdlib.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "order.h"

/* ---- tree ------------------------------------------------------------------------------------- */

int64_t *fk_near_order(const double *x, int64_t n, int64_t d, bool ordered, int threads) {
  int64_t *index = malloc(sizeof *index * (size_t)n);
  if (!index) return NULL;
  for (int64_t i = 0; i < n; i++) index[i] = i;
  const int64_t units[2] = {FK_NEAR_POINTS, FK_NEAR_TARGETS};
  if (ordered) fk_order_points(x, d, units, threads, index, n);
  return index;
}

struct fill {
  const struct fk_near_tree *tree;
  const double *x;
};

/* What is missing in the last panel is infinitely far away. */
static void fill_panels(void *data, int64_t first, int64_t end, int slot) {
  const struct fill *fill = data;
  const struct fk_near_tree *tree = fill->tree;
  int64_t d = tree->d;
  (void)slot;
  for (int64_t i = first * FK_NEAR_POINTS; i < end * FK_NEAR_POINTS; i++) {
    double *panel = tree->panels + i / FK_NEAR_POINTS * FK_NEAR_POINTS * d;
    for (int64_t k = 0; k < d; k++)
      panel[k * FK_NEAR_POINTS + i % FK_NEAR_POINTS] = i < tree->n ? fill->x[tree->order[i] * d + k] : INFINITY;
  }
}

/* A node has its left one after it, and then the nodes of that, two for each of its panels but one. */
static int64_t right_of(int64_t node, int64_t first, int64_t middle) { return node + 2 * (middle - first); }
static int64_t middle_of(int64_t first, int64_t end) { return first + fk_first_half(end - first, 1); }

static double *fill_boxes(const struct fk_near_tree *tree, int64_t node, int64_t first, int64_t end) {
  int64_t d = tree->d;
  double *box = tree->boxes + 2 * d * node;
  if (end - first == 1) {
    for (int64_t k = 0; k < d; k++) {
      const double *x = fk_near_panel(tree, first) + k * FK_NEAR_POINTS;
      box[k] = box[d + k] = x[0];
      for (int64_t i = 1; i < fk_smaller(FK_NEAR_POINTS, tree->n - first * FK_NEAR_POINTS); i++) {
        box[k] = fmin(box[k], x[i]);
        box[d + k] = fmax(box[d + k], x[i]);
      }
    }
    return box;
  }
  int64_t middle = middle_of(first, end);
  const double *left = fill_boxes(tree, node + 1, first, middle);
  const double *right = fill_boxes(tree, right_of(node, first, middle), middle, end);
  for (int64_t k = 0; k < d; k++) {
    box[k] = fmin(left[k], right[k]);
    box[d + k] = fmax(left[d + k], right[d + k]);
  }
  return box;
}

enum fk_status fk_near_tree_init(struct fk_near_tree *tree, const double *x, int64_t n, int64_t d, bool ordered,
                                 int threads, struct fk_error *err) {
  int64_t panels = fk_pieces(n, FK_NEAR_POINTS);
  struct fill fill = {tree, x};
  *tree = (struct fk_near_tree){.ops = fk_isa()->f64, .n = n, .d = d};
  tree->order = fk_near_order(x, n, d, ordered, threads);
  tree->panels = fk_aligned_alloc(sizeof(double) * (size_t)(panels * FK_NEAR_POINTS * d));
  tree->boxes = malloc(sizeof(double) * (size_t)(4 * panels * d));
  if (!tree->order || !tree->panels || !tree->boxes)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for a tree of points",
                   8e-6 * (double)(n * (d + 1)));
  fk_parallel_for(threads, panels, fk_step_for_bytes(16.0 * FK_NEAR_POINTS * (double)d), fill_panels, &fill);
  fill_boxes(tree, 0, 0, panels);
  return FK_STATUS_OK;
}

void fk_near_tree_free(struct fk_near_tree *tree) {
  fk_aligned_free(tree->panels);
  free(tree->boxes);
  free(tree->order);
}

/* ---- targets ---------------------------------------------------------------------------------- */

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
  const struct fk_near_tree *tree;
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
  const struct fk_near_tree *tree = v->tree;
  if (!may_be_near(g, squares)) return;
  if (end - first == 1) {
    v->look(v->data, g, first, squares);
    return;
  }
  int64_t d = tree->d, middle = middle_of(first, end), right = right_of(node, first, middle);
  double of_left[FK_NEAR_TARGETS], of_right[FK_NEAR_TARGETS];
  tree->ops->near_box(tree->boxes + 2 * d * (node + 1), d, g->y, of_left);
  tree->ops->near_box(tree->boxes + 2 * d * right, d, g->y, of_right);
  bool right_first = sum_of(of_right) < sum_of(of_left);
  if (right_first) visit(v, g, right, middle, end, of_right);
  visit(v, g, node + 1, first, middle, of_left);
  if (!right_first) visit(v, g, right, middle, end, of_right);
}

void fk_near_tree_visit(const struct fk_near_tree *tree, struct fk_near_group *g, fk_near_look look, void *data) {
  const double at_root[FK_NEAR_TARGETS] = {0};
  const struct visit v = {tree, look, data};
  visit(&v, g, 0, 0, fk_pieces(tree->n, FK_NEAR_POINTS), at_root);
}

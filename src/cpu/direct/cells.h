/* A tree of boxes around points in spatial order: what stands near a target is found from the top down.
 *
 * Cells are halved along the curve until they hold few points. Nodes lie in preorder, so that a search is one
 * loop: the next node is i + 1 to look inside i, skip[i] to pass over it. Outliers and clusters only cost levels.
 */
#pragma once

#include "../../fk.h"
#include "spatial_order.h"

struct fk_cell {
  uint32_t first, end; /* points in spatial order */
  uint32_t skip;       /* the node after this one's descendants; its own index + 1: a leaf */
};

enum { FK_CELLS_MAX_DIM = FK_CURVE_MAX_DIM };
enum { FK_CELLS_SPARE = 32 }; /* numbers after the last that may be read: zeros */

struct fk_cells {
  int64_t n;
  int d;
  double *x;      /* n x d, column-major, in spatial order */
  uint32_t *rows; /* which row of the input each is */
  struct fk_cell *cells;
  double *boxes; /* of each cell: d lower ends, d upper ends */
  int64_t n_cells, capacity;
};

/* Sums over a box run in coordinates relative to its centre: a box with several points is no wider than this, so
 * that these keep their digits. */
#define FK_CELLS_WIDEST 16384.0

/* Builds the tree of cells of the points x, whose leaves have at most `leaf` points. The caller frees it. Fails
 * with FK_STATUS_ALLOC, or FK_STATUS_UNSUPPORTED for other than 1 to 7 dimensions or 2^32 points. */
enum fk_status fk_cells_init(struct fk_cells *cells, const struct fk_matrix *x, int leaf, int threads,
                             struct fk_error *err);
void fk_cells_free(struct fk_cells *cells);
/* Writes the bounding box of points first .. end - 1 (in spatial order): d lower ends, then d upper ends. */
void fk_cells_box(const struct fk_cells *cells, int64_t first, int64_t end, double *box);

/* The bounding box of cell i: d lower ends, then d upper ends. */
static inline const double *fk_cell_box(const struct fk_cells *cells, int64_t i) {
  return cells->boxes + 2 * cells->d * i;
}
static inline bool fk_cell_is_leaf(const struct fk_cells *cells, int64_t i) {
  return cells->cells[i].skip == i + 1;
}

/* Squared distance between the nearest points of two boxes, and between the farthest. */
static inline double fk_boxes_near2(const double *a, const double *b, int d) {
  double sum = 0;
  for (int k = 0; k < d; k++) {
    double below = a[k] - b[d + k], above = b[k] - a[d + k], gap = below > above ? below : above;
    gap = gap > 0 ? gap : 0;
    sum += gap * gap;
  }
  return sum;
}
static inline double fk_boxes_far2(const double *a, const double *b, int d) {
  double sum = 0;
  for (int k = 0; k < d; k++) {
    double up = a[d + k] - b[k], down = b[d + k] - a[k], span = up > down ? up : down;
    sum += span * span;
  }
  return sum;
}

/* The largest cells of at most `size` points each that are not too wide, which together are all points; the caller
 * frees. */
enum fk_status fk_cells_groups(const struct fk_cells *cells, int size, uint32_t **groups, int64_t *n_groups,
                               struct fk_error *err);

/* Building the tree of boxes. */
#include "cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/scan.h"
#include "../../core/threads.h"

struct cells_build {
  const struct fk_matrix *x;
  struct fk_cells *cells;
  fk_item *items, *scratch;
  uint32_t (*spread)[4][256];
  int leaf, threads;
  bool wide; /* all points together are too wide for a leaf */
};

static enum fk_status out_of_memory(struct fk_error *err, double bytes) {
  return fk_no_memory(err, bytes, "the points in spatial order");
}

static uint32_t index_of(fk_item item) { return (uint32_t)item; }
static uint32_t key_of(fk_item item) { return (uint32_t)(item >> 32); }

/* ---- order ------------------------------------------------------------------------------------ */

static bool is_wide(const double *low, const double *high, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    if (high[k] - low[k] > FK_CELLS_WIDEST) return true;
  return false;
}

struct cells_keys {
  const struct cells_build *build;
  const struct fk_spatial_curve *curve; /* NULL: there is none, and any order will do */
};

static void find_keys(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct cells_keys *keys = data;
  const struct cells_build *b = keys->build;
  for (int64_t i = first; i < end; i++)
    b->items[i] =
        keys->curve ? fk_spatial_curve_item(keys->curve, fk_column(b->x, 0), b->x->ld, (uint32_t)i) : (fk_item)i;
}

static enum fk_status order_all(struct cells_build *b, struct fk_error *err) {
  const struct fk_matrix *x = b->x;
  double low[FK_CELLS_MAX_DIM], high[FK_CELLS_MAX_DIM];
  struct fk_spatial_curve curve;
  for (int64_t k = 0; k < x->d; k++) fk_range(fk_column(x, k), x->n, b->threads, &low[k], &high[k]);
  b->wide = is_wide(low, high, x->d);
  bool curved = fk_spatial_curve_init(&curve, (int)x->d, low, high, b->spread);
  struct cells_keys keys = {b, curved ? &curve : NULL};
  fk_parallel_for(b->threads, x->n, fk_step_for_bytes(100), find_keys, &keys);
  return curved ? fk_sort_items(b->items, b->scratch, x->n, b->threads, err) : FK_STATUS_OK;
}

static void box_of(const struct cells_build *b, int64_t first, int64_t end, double *low, double *high) {
  const struct fk_matrix *x = b->x;
  for (int64_t k = 0; k < x->d; k++) {
    const double *column = fk_column(x, k);
    low[k] = high[k] = column[index_of(b->items[first])];
    for (int64_t i = first; i < end; i++) {
      double at = column[index_of(b->items[i])];
      low[k] = at < low[k] ? at : low[k];
      high[k] = at > high[k] ? at : high[k];
    }
  }
}

static bool fits_leaf(const struct cells_build *b, int64_t first, int64_t end) {
  double low[FK_CELLS_MAX_DIM], high[FK_CELLS_MAX_DIM];
  if (end - first > b->leaf) return false;
  if (!b->wide || end - first == 1) return true;
  box_of(b, first, end, low, high);
  return !is_wide(low, high, b->x->d);
}

/* Points of one key, in order along a finer curve of their own; false where they are all in one place. */
static bool order_again(struct cells_build *b, int64_t first, int64_t end, enum fk_status *status,
                        struct fk_error *err) {
  const struct fk_matrix *x = b->x;
  double low[FK_CELLS_MAX_DIM], high[FK_CELLS_MAX_DIM];
  struct fk_spatial_curve curve;
  box_of(b, first, end, low, high);
  if (!fk_spatial_curve_init(&curve, (int)x->d, low, high, b->spread)) return false;
  for (int64_t i = first; i < end; i++)
    b->items[i] = fk_spatial_curve_item(&curve, fk_column(x, 0), x->ld, index_of(b->items[i]));
  *status = fk_sort_items(b->items + first, b->scratch, end - first, b->threads, err);
  return true;
}

/* ---- tree ------------------------------------------------------------------------------------- */

static int64_t add_cell(struct cells_build *b, int64_t first, int64_t end, enum fk_status *status,
                        struct fk_error *err) {
  struct fk_cells *t = b->cells;
  if (t->n_cells == t->capacity) {
    int64_t capacity = 2 * t->capacity + 64;
    struct fk_cell *more = realloc(t->cells, sizeof *more * (size_t)capacity);
    if (!more) {
      *status = out_of_memory(err, (double)sizeof *more * (double)capacity);
      return 0;
    }
    t->cells = more;
    t->capacity = capacity;
  }
  t->cells[t->n_cells] = (struct fk_cell){(uint32_t)first, (uint32_t)end, (uint32_t)t->n_cells + 1};
  return t->n_cells++;
}

/* The position in a range of sorted keys where the highest bit in which they differ changes. */
static int64_t split_at(const fk_item *items, int64_t first, int64_t end) {
  uint32_t differ = key_of(items[first]) ^ key_of(items[end - 1]), bit = UINT32_C(1) << 31;
  while (!(differ & bit)) bit >>= 1;
  int64_t low = first, high = end - 1; /* items[low] has the bit clear, items[high] set */
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (key_of(items[middle]) & bit)
      high = middle;
    else
      low = middle;
  }
  return high;
}

static enum fk_status divide(struct cells_build *b, int64_t first, int64_t end, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  int64_t self = add_cell(b, first, end, &status, err), middle;
  if (status || fits_leaf(b, first, end)) return status;
  bool same = key_of(b->items[first]) == key_of(b->items[end - 1]);
  if (same && !order_again(b, first, end, &status, err))
    middle = first + (end - first) / 2;
  else if (status)
    return status;
  else
    middle = split_at(b->items, first, end);
  status = divide(b, first, middle, err);
  if (!status) status = divide(b, middle, end, err);
  b->cells->cells[self].skip = (uint32_t)b->cells->n_cells;
  return status;
}

void fk_cells_box(const struct fk_cells *cells, int64_t first, int64_t end, double *box) {
  for (int k = 0; k < cells->d; k++) {
    const double *x = cells->x + k * cells->n;
    double low = x[first], high = low;
    for (int64_t i = first; i < end; i++) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
    box[k] = low;
    box[cells->d + k] = high;
  }
}

static void fill_leaves(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct fk_cells *t = data;
  for (int64_t i = first; i < end; i++)
    if (fk_cell_is_leaf(t, i)) fk_cells_box(t, t->cells[i].first, t->cells[i].end, t->boxes + 2 * t->d * i);
}

static void fill_boxes(struct fk_cells *t, int threads) {
  int d = t->d;
  double bytes = 8.0 * (double)(t->n * d) / (double)t->n_cells;
  fk_parallel_for(threads, t->n_cells, fk_step_for_bytes(2 * bytes), fill_leaves, t);
  for (int64_t i = t->n_cells - 1; i >= 0; i--) {
    double *box = t->boxes + 2 * d * i;
    if (fk_cell_is_leaf(t, i)) continue;
    const double *left = fk_cell_box(t, i + 1), *right = fk_cell_box(t, t->cells[i + 1].skip);
    for (int k = 0; k < d; k++) {
      box[k] = fmin(left[k], right[k]);
      box[d + k] = fmax(left[d + k], right[d + k]);
    }
  }
}

static void gather_points(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct cells_build *b = data;
  struct fk_cells *t = b->cells;
  for (int64_t j = first; j < end; j++) {
    uint32_t row = index_of(b->items[j]);
    t->rows[j] = row;
    for (int64_t k = 0; k < t->d; k++) t->x[k * t->n + j] = fk_column(b->x, k)[row];
  }
}

static enum fk_status build(struct cells_build *b, struct fk_error *err) {
  struct fk_cells *t = b->cells;
  size_t n = (size_t)t->n, d = (size_t)t->d;
  enum fk_status status = order_all(b, err);
  if (!status) status = divide(b, 0, t->n, err);
  if (status) return status;

  t->x = malloc(sizeof(double) * (n * d + FK_CELLS_SPARE));
  t->rows = malloc(sizeof(uint32_t) * n);
  t->boxes = malloc(sizeof(double) * 2 * d * (size_t)t->n_cells);
  if (!t->x || !t->rows || !t->boxes) return out_of_memory(err, 8.0 * (double)n * (double)d);
  fk_parallel_for(b->threads, t->n, fk_step_for_bytes(32.0 * (double)d), gather_points, b);
  memset(t->x + n * d, 0, sizeof(double) * FK_CELLS_SPARE);
  fill_boxes(t, b->threads);
  return FK_STATUS_OK;
}

enum fk_status fk_cells_init(struct fk_cells *cells, const struct fk_matrix *x, int leaf, int threads,
                             struct fk_error *err) {
  memset(cells, 0, sizeof *cells);
  cells->n = x->n;
  cells->d = (int)x->d;
  if (x->d < 1 || x->d > FK_CELLS_MAX_DIM || x->n >= UINT32_MAX)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "pruned sums need 1 to 7 dimensions and less than 2^32 points");
  if (x->n == 0) return FK_STATUS_OK;
  threads = fk_threads_for_bytes(threads, 100.0 * (double)x->n);
  struct cells_build b = {.x = x, .cells = cells, .leaf = leaf, .threads = threads};
  b.items = malloc(sizeof(fk_item) * (size_t)x->n);
  b.scratch = malloc(sizeof(fk_item) * (size_t)x->n);
  b.spread = malloc(sizeof *b.spread * (size_t)x->d);
  enum fk_status status =
      !b.items || !b.scratch || !b.spread ? out_of_memory(err, 16.0 * (double)x->n) : build(&b, err);
  free(b.items);
  free(b.scratch);
  free(b.spread);
  if (status) fk_cells_free(cells);
  return status;
}

void fk_cells_free(struct fk_cells *cells) {
  free(cells->x);
  free(cells->rows);
  free(cells->cells);
  free(cells->boxes);
  memset(cells, 0, sizeof *cells);
}

enum fk_status fk_cells_groups(const struct fk_cells *cells, int size, uint32_t **groups, int64_t *n_groups,
                               struct fk_error *err) {
  int64_t found = 0;
  *n_groups = 0;
  *groups = NULL;
  for (int pass = 0; pass < 2; pass++) {
    found = 0;
    for (int64_t i = 0; i < cells->n_cells;) {
      const struct fk_cell *cell = cells->cells + i;
      const double *box = fk_cell_box(cells, i);
      bool small = fk_cell_is_leaf(cells, i) ||
                   (cell->end - cell->first <= (uint32_t)size && !is_wide(box, box + cells->d, cells->d));
      if (small && pass) (*groups)[found] = (uint32_t)i;
      found += small;
      i = small ? cell->skip : i + 1;
    }
    if (pass == 0 && !(*groups = malloc(sizeof **groups * (size_t)(found + 1))))
      return out_of_memory(err, 4.0 * (double)found);
  }
  *n_groups = found;
  return FK_STATUS_OK;
}

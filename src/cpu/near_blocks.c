#include "near_blocks.h"

#include <stdlib.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "order.h"

/* The number of points of a region. A task of symmetric.c takes regions, whose widths are multiples of tiles. */
static int64_t region_size(int64_t n) {
  const struct fk_cpu_cuts *cuts = &fk_costs.cpu_cuts;
  return fk_smaller(fk_padded(fk_pieces(n, cuts->blocks), FK_TILE_COLS), cuts->longest_block);
}

void fk_near_blocks_free(void *blocks) {
  struct fk_near_blocks *b = blocks;
  if (!b) return;
  fk_packed_free(&b->points);
  free(b->order);
  free(b->boxes);
  free(b);
}

double fk_near_blocks_bytes(const struct fk_near_blocks *b) {
  unsigned parts = fk_mode_is_gram(&b->mode) ? FK_PACKED_CONSTANT : 0;
  return fk_packed_bytes(&b->mode, b->n, b->d, parts) + 8.0 * (double)b->n +
         16.0 * (double)b->d * (double)(b->blocks + b->regions);
}

/* ---- order ------------------------------------------------------------------------------------ */

static enum fk_status find_order(struct fk_near_blocks *b, const struct fk_picked *points, int threads,
                                 struct fk_error *err) {
  int64_t d = b->d, units[2] = {b->per_region * FK_NEAR_BLOCK, FK_NEAR_BLOCK};
  double *u = malloc(sizeof(double) * (size_t)(b->n * d));
  b->order = malloc(sizeof *b->order * (size_t)b->n);
  enum fk_status status = FK_STATUS_OK;
  if (!u || !b->order)
    status = fk_no_memory(err, 8.0 * (double)b->n * (double)(d + 1), "the points in spatial order");
  if (!status) status = fk_whitened_rows(points, threads, u, NULL, err);
  if (!status) {
    for (int64_t i = 0; i < b->n; i++) b->order[i] = i;
    fk_order_points(u, d, units, threads, b->order, b->n);
    for (int64_t i = 0; i < b->n && points->rows; i++) b->order[i] = points->rows[points->first + b->order[i]];
  }
  free(u);
  return status;
}

/* ---- boxes ------------------------------------------------------------------------------------ */

static void extend(double *box, int64_t d, const double *low, const double *high) {
  for (int64_t k = 0; k < d; k++) {
    box[k] = low[k] < box[k] ? low[k] : box[k];
    box[d + k] = high[k] > box[d + k] ? high[k] : box[d + k];
  }
}

static void fill_block(const struct fk_near_blocks *b, int64_t block) {
  const struct fk_kernel_mode *mode = &b->mode;
  int64_t d = b->d, first = block * FK_NEAR_BLOCK;
  int panel = mode->ops->panel, count = fk_near_points(b, block);
  double *box = b->boxes + 2 * d * block;
  for (int64_t k = 0; k < d; k++)
    for (int i = 0; i < count; i++) {
      int64_t panel_at = (first + i) / panel;
      double at = fk_real_get(mode, b->points.points, (panel_at * d + k) * panel + (first + i) % panel);
      box[k] = i == 0 || at < box[k] ? at : box[k];
      box[d + k] = i == 0 || at > box[d + k] ? at : box[d + k];
    }
}

static void fill_regions(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct fk_near_blocks *b = data;
  int64_t d = b->d;
  for (int64_t region = first; region < end; region++) {
    double *box = b->regions_boxes + 2 * d * region;
    int64_t block = region * b->per_region, last = fk_smaller(b->blocks, block + b->per_region);
    for (int64_t from = block; block < last; block++) {
      const double *own = fk_near_box(b, block);
      fill_block(b, block);
      for (int64_t k = 0; k < 2 * d && block == from; k++) box[k] = own[k];
      extend(box, d, own, own + d);
    }
  }
}

enum fk_status fk_near_blocks_create(const struct fk_picked *points, const struct fk_kernel_mode *mode,
                                     int threads, struct fk_near_blocks **blocks, struct fk_error *err) {
  struct fk_near_blocks *b = calloc(1, sizeof *b);
  *blocks = b;
  if (!b) return fk_no_memory(err, 0, "blocks of points");
  b->mode = *mode;
  b->n = points->count;
  b->d = points->x->d;
  b->blocks = fk_pieces(b->n, FK_NEAR_BLOCK);
  b->per_region = region_size(b->n) / FK_NEAR_BLOCK;
  b->regions = fk_pieces(b->blocks, b->per_region);
  b->boxes = malloc(2 * sizeof(double) * (size_t)(b->d * (b->blocks + b->regions)));
  b->regions_boxes = b->boxes + 2 * b->d * b->blocks;
  enum fk_status status = FK_STATUS_OK;
  if (!b->boxes) status = fk_no_memory(err, 0, "blocks of points");
  if (!status) status = find_order(b, points, threads, err);
  struct fk_picked ordered = {points->x, points->whitening, b->order, 0, b->n};
  unsigned parts = fk_mode_is_gram(mode) ? FK_PACKED_CONSTANT : 0;
  if (!status) status = fk_packed_init(&b->points, mode, b->n, b->d, parts, err);
  if (!status) status = fk_packed_fill(&b->points, mode, &ordered, threads, err);
  if (!status) {
    fk_parallel_for(threads, b->regions, 1, fill_regions, b);
  } else {
    fk_near_blocks_free(b);
    *blocks = NULL;
  }
  return status;
}

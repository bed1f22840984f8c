/* Points packed in an order in which near ones follow each other, in blocks with boxes around them: what is far
 * from what is known of blocks, and of regions of many blocks, before any point is looked at. */
#pragma once

#include "pack.h"

enum { FK_NEAR_BLOCK = FK_TILE_ROWS }; /* points */

struct fk_near_blocks {
  struct fk_kernel_mode mode;
  int64_t n, d, blocks, regions, per_region; /* blocks of a region */
  int64_t *order;                            /* rows as they came */
  struct fk_packed points;
  double *boxes, *regions_boxes; /* of each d lower ends and d upper ones, in packed units */
};

enum fk_status fk_near_blocks_create(const struct fk_picked *points, const struct fk_kernel_mode *mode,
                                     int threads, struct fk_near_blocks **blocks, struct fk_error *err);
void fk_near_blocks_free(void *blocks); /* NULL is fine */
double fk_near_blocks_bytes(const struct fk_near_blocks *blocks);

static inline const double *fk_near_box(const struct fk_near_blocks *b, int64_t block) {
  return b->boxes + 2 * b->d * block;
}
static inline const double *fk_near_region_box(const struct fk_near_blocks *b, int64_t region) {
  return b->regions_boxes + 2 * b->d * region;
}
/* Points of a block: fewer in the last. */
static inline int fk_near_points(const struct fk_near_blocks *b, int64_t block) {
  int64_t left = b->n - block * FK_NEAR_BLOCK;
  return (int)(left < FK_NEAR_BLOCK ? left : FK_NEAR_BLOCK);
}

/* The least squared distance between points of two boxes. Of numbers that overflowed it is no larger. */
static inline double fk_boxes_apart2(const double *a, const double *b, int64_t d) {
  double sum = 0;
  for (int64_t k = 0; k < d; k++) {
    double gap = a[k] - b[d + k], other = b[k] - a[d + k];
    gap = gap > other ? gap : other;
    sum += gap > 0 ? gap * gap : 0;
  }
  return sum;
}

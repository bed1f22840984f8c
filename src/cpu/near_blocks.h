/* Packed points in a spatial order, in blocks with bounding boxes. Blocks, and regions of many blocks, that are
 * too far apart to contribute are found by their boxes alone. */
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

/* Sorts and packs points; the caller frees *blocks (NULL is allowed). Fails with FK_STATUS_ALLOC. */
enum fk_status fk_near_blocks_create(const struct fk_picked *points, const struct fk_kernel_mode *mode,
                                     int threads, struct fk_near_blocks **blocks, struct fk_error *err);
void fk_near_blocks_free(void *blocks);
double fk_near_blocks_bytes(const struct fk_near_blocks *blocks);

/* The bounding box of a block, and of a region: d lower ends, then d upper ends, in packed units. */
static inline const double *fk_near_box(const struct fk_near_blocks *b, int64_t block) {
  return b->boxes + 2 * b->d * block;
}
static inline const double *fk_near_region_box(const struct fk_near_blocks *b, int64_t region) {
  return b->regions_boxes + 2 * b->d * region;
}
/* Number of points of a block; the last block may have fewer than FK_NEAR_BLOCK. */
static inline int fk_near_points(const struct fk_near_blocks *b, int64_t block) {
  int64_t left = b->n - block * FK_NEAR_BLOCK;
  return (int)(left < FK_NEAR_BLOCK ? left : FK_NEAR_BLOCK);
}

/* A lower bound of the squared distance of points in two boxes. */
static inline double fk_boxes_apart2(const double *a, const double *b, int64_t d) {
  double sum = 0;
  for (int64_t k = 0; k < d; k++) {
    double gap = a[k] - b[d + k], other = b[k] - a[d + k];
    gap = gap > other ? gap : other;
    sum += gap > 0 ? gap * gap : 0;
  }
  return sum;
}

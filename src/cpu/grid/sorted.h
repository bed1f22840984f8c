/* Points in the order of the grid's blocks, a batch at a time: a batch is sorted within the caches, and only a
 * batch has to be in memory where points are used once. */
#pragma once

#include "blocks.h"
#include "kernels.h"

enum { FK_CHUNK = 8192 }; /* points that one scratch takes; float sums stay short */

/* Points of one block, at most FK_CHUNK; the cells where their stencils start. */
struct fk_chunk {
  int64_t block, begin, end;
  int16_t low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
};

struct fk_batch {
  int64_t first, n, capacity; /* points first .. first + n - 1 */
  int64_t blocks, blocks_capacity;
  uint64_t *keys;  /* ascending */
  int64_t *start;  /* blocks + 1 */
  uint32_t *order; /* where the points were, from `first` on */
  void *points;    /* [i][k], within the block */
  int64_t chunks, chunks_capacity;
  struct fk_chunk *chunk;
};

/* Keys found in a share of the points, and memory for one batch; reused. */
struct fk_finder {
  struct fk_blocks keys; /* keys alone */
  int64_t *place;
  int64_t capacity;
};
struct fk_sorter {
  const struct fk_layout *layout;
  const struct fk_grid_ops *ops;
  int threads;
  struct fk_finder *finders; /* one for each share */
  uint32_t *ids;
  void *coordinates;
  int64_t capacity;
};

/* Memory for sorting points into the blocks of a layout; the caller frees it. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_sorter_init(struct fk_sorter *s, const struct fk_layout *layout, const struct fk_grid_ops *ops,
                              int threads, struct fk_error *err);
void fk_sorter_free(struct fk_sorter *s);

/* How many of the points left the next batch takes, after one that had `blocks` blocks (0: the first). Many points
 * a block pay for the block's scratch, few stay in the caches; and each batch makes all threads meet, which is
 * slow on busy cores. */
int64_t fk_batch_size(int64_t left, int64_t blocks);
/* Sorts points first .. first + n - 1 into *batch, which is zero or was used before. Fails with FK_STATUS_ALLOC,
 * or FK_STATUS_UNSUPPORTED if coordinates exceed the range of a key. */
enum fk_status fk_batch_sort(struct fk_sorter *s, const struct fk_grid_points *points, int64_t first, int64_t n,
                             struct fk_batch *batch, struct fk_error *err);
void fk_batch_free(struct fk_batch *batch);

struct fk_sorted {
  int d;
  bool single;
  double spacing;
  int64_t n, n_batches;
  struct fk_batch *batches;
};

/* Declarations that the files of the grid engine share: the grid, and work items on its blocks. */
#pragma once

#include "grid.h"
#include "sorted.h"

/* The `count` blocks into which a point's stencil may reach: their offsets in each dimension, and what they add to
 * a key. */
struct fk_slots {
  int count;
  uint64_t *key;                      /* count */
  unsigned char (*at)[FK_GRID_MAX_D]; /* count */
};

struct fk_extent {
  int16_t low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
};

struct fk_grid {
  struct fk_grid_spec spec;
  const struct fk_grid_ops *ops;
  struct fk_layout layout;
  struct fk_stencil stencil;
  int spans[FK_GRID_MAX_D]; /* blocks that a scratch touches */
  struct fk_slots slots;
  int threads;
  void *coefficients;
  /* One for each thread: the scratch, FK_CHUNK values of b and of 1 + d results, and fk_grid_counts(). */
  void **scratch;

  struct fk_sorter sorter;
  struct fk_batch batch; /* of points used once */

  struct fk_blocks totals;   /* [column][cell] in double */
  struct fk_blocks expected; /* struct fk_extent */
  bool expecting;
  uint32_t *slot_of, *turn_of; /* for each chunk and slot, while spreading */
  int64_t slot_capacity;

  struct fk_blocks result, between, narrow; /* narrow: totals as float */
  struct fk_blocks sum;                     /* of results, so far */
  bool convolved;
};

/* The part of a thread's scratch that counts points in the cells of a block, for sums in float. */
uint16_t *fk_grid_counts(const struct fk_grid *g, char *scratch);
enum fk_status fk_grid_no_memory(struct fk_error *err, const char *what);
/* Fails because a table took no further block: FK_STATUS_ALLOC, or FK_STATUS_UNSUPPORTED beyond its limit. */
enum fk_status fk_grid_no_block(const struct fk_grid *g, const struct fk_blocks *table, struct fk_error *err);
/* Bytes of a block of totals, and of a block of results. */
double fk_grid_total_bytes(const struct fk_grid *g);
double fk_grid_result_bytes(const struct fk_grid *g);
enum fk_status fk_grid_poll(const struct fk_grid *g, double fraction, struct fk_error *err);
int fk_grid_threads(const struct fk_grid *g, double n);
/* *box: the part of the cells low .. high + width - 1 that lies in a slot; false if it is empty. *first: where it
 * starts in the scratch. */
bool fk_slot_box(const struct fk_grid *g, const int16_t *low, const int16_t *high, int slot, struct fk_box *box,
                 int64_t *first);

/* Sorts the points in batches and calls fn on each batch. */
typedef enum fk_status (*fk_batch_fn)(struct fk_grid *g, const struct fk_batch *batch, void *data,
                                      struct fk_error *err);
enum fk_status fk_grid_each_batch(struct fk_grid *g, const struct fk_grid_points *points, fk_batch_fn fn,
                                  void *data, struct fk_error *err);
enum fk_status fk_grid_each_sorted(struct fk_grid *g, const struct fk_sorted *points, fk_batch_fn fn, void *data,
                                   struct fk_error *err);

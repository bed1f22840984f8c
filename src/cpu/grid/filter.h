/* Separable filters on the blocks of a grid: one dimension after the other, on several planes of numbers for each
 * cell, where a pass may mix the planes. */
#pragma once

#include "blocks.h"
#include "kernels.h"

enum { FK_FILTER_TERMS = 28 };

/* Adds to plane `to` of a pass's output what a filter makes of plane `from` of its input. */
struct fk_filter_term {
  int to, from;
  const void *taps; /* as fk_filter_taps() lays them out */
};
struct fk_filter_pass {
  int planes_in, planes_out, n_terms;
  struct fk_filter_term terms[FK_FILTER_TERMS]; /* by `to`, which has one at least */
};

struct fk_filter {
  const struct fk_layout *layout;
  const struct fk_grid_ops *ops;
  int64_t columns; /* of a plane */
  int reach, threads;
  struct fk_poll poll;
  struct fk_filter_pass pass[FK_GRID_MAX_D];
};

/* memory: room for `count` filters, to be freed by fk_aligned_free(); NULL if memory runs out. taps: stores the
 * taps 0 .. reach of a symmetric filter as filter `number`, with zeros around, and returns the address of its
 * centre. */
void *fk_filter_memory(const struct fk_grid_ops *ops, int count);
void *fk_filter_taps(const struct fk_grid_ops *ops, void *memory, int number, const double *taps, int reach);

/* Filters the blocks of `in` into `result`; `between` is scratch, and both are emptied first. needed: keys of the
 * blocks to compute; NULL: all blocks within reach. FK_STATUS_UNSUPPORTED: a table is full. */
enum fk_status fk_filter_run(const struct fk_filter *filter, const struct fk_blocks *in,
                             const struct fk_blocks *needed, struct fk_blocks *result, struct fk_blocks *between,
                             struct fk_error *err);

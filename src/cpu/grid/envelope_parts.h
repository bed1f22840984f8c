/* Declarations that the files envelope*.c share. */
#pragma once

#include "blocks.h"
#include "envelope.h"
#include "kernels.h"

enum { FK_ENVELOPE_PARTS = 4 /* of f: any subset of gradient and Laplace */, FK_ENVELOPE_PIECES = 16 };

/* A cell of the points: targets in it, and the |b| of its corners. */
struct fk_envelope_filled {
  int64_t targets, row;
  double corner[]; /* 2^d, and as many of counts where they are wanted */
};

struct fk_envelope {
  struct fk_envelope_spec spec;
  const struct fk_grid_ops *ops;
  struct fk_layout cells_layout, layout; /* of the points' cells, one a key; of the nodes, in blocks */
  unsigned use;
  int parts, pieces; /* of f; of each call's points, which have a table each */
  struct fk_blocks found[FK_ENVELOPE_PIECES], cells;
  bool merged;
  double mass;
  /* For an envelope that stays: each point's cell, as a number in `found`, and its position in the cell, for the
   * points of a step one dimension after the other. */
  bool placed;
  uint32_t *cell;
  double *fraction;

  struct fk_blocks nodes, needed, result, between;
  struct fk_envelope_cell *bounds; /* of the cells with targets */
  int64_t *cell_of;                /* the number in `cells` of each */
  int64_t n_bounds;
  double *at_corners; /* of each the error at its corners */
  int64_t *bound_of;  /* the number in `bounds` of each cell, -1: it has no targets */
};

/* Positions of a cell's corners among the nodes; mostly all in one block. */
struct fk_envelope_corners {
  int64_t at[FK_GRID_MAX_D], place;
  uint64_t key;
  bool apart;
};

/* The corners of the cell with key `cell`. */
struct fk_envelope_corners fk_envelope_corners_of(const struct fk_envelope *e, uint64_t cell);
/* The key of corner 0 .. 2^d - 1 among the nodes' blocks, and its place in the block. */
uint64_t fk_envelope_corner_key(const struct fk_envelope *e, const struct fk_envelope_corners *c, int corner,
                                int64_t *place);

enum fk_status fk_envelope_no_memory(struct fk_error *err);
/* All pieces' cells in one table, in the order of the pieces; false: no memory. */
bool fk_envelope_gather(struct fk_envelope *e);
/* All cells in one table, the nodes, and the cells with targets, unless they are there. */
enum fk_status fk_envelope_prepare(struct fk_envelope *e, struct fk_error *err);

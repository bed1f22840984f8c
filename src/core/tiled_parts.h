/* Declarations that the files of tiled matrices share, see tiled.h. */
#pragma once

#include "count.h"
#include "tiled.h"

enum { FK_TILED_BUFFERS = 2 };
/* Buffers on each device for block columns from elsewhere: one is used while the next one arrives. */
struct fk_tiled_buffers {
  struct fk_dense of[FK_MAX_DEVICES][FK_TILED_BUFFERS];
};

struct fk_tiled {
  const struct fk_dense_ops *ops;
  int devices[FK_MAX_DEVICES], n_devices;
  int64_t m, block, count; /* order; width and number of block columns */
  int64_t held; /* block columns on all devices at a time: all, or if streamed a multiple of n_devices */
  bool streamed, halves, rough;
  struct fk_dense *columns;
};

/* First row or column of block j, its width, and the index and number of the device that computes it. */
static inline int64_t fk_tiled_first(const struct fk_tiled *t, int64_t j) {
  return fk_smaller(t->m, j * t->block);
}
static inline int64_t fk_tiled_width(const struct fk_tiled *t, int64_t j) {
  return fk_tiled_first(t, j + 1) - fk_tiled_first(t, j);
}
static inline int fk_tiled_place(const struct fk_tiled *t, int64_t j) { return (int)(j % t->n_devices); }
static inline int fk_tiled_device(const struct fk_tiled *t, int64_t j) { return t->devices[fk_tiled_place(t, j)]; }

/* The rows that block column j has: all, or if `rough` those up to its triangle. */
static inline int64_t fk_tiled_height(const struct fk_tiled *t, int64_t j) {
  return t->rough ? fk_tiled_first(t, j + 1) : t->m;
}

/* A view of the rows of blocks i .. end - 1 of a matrix whose first row is the first of all. */
static inline struct fk_dense fk_tiled_rows(const struct fk_tiled *t, const struct fk_dense *A, int64_t i,
                                            int64_t end) {
  int64_t first = fk_tiled_first(t, i);
  return fk_dense_part(A, first, 0, fk_larger(0, fk_tiled_first(t, end) - first), A->d);
}
/* A view of the part of a block column, without one of its columns, in which L, or U if `upper`, is stored. Its
 * other triangle holds numbers of the other factor. */
static inline struct fk_dense fk_tiled_half(const struct fk_dense *column, bool upper) {
  return fk_dense_part(column, 0, upper, column->n, column->d - 1);
}
/* A view of the rows of such a part that belong to the factor: the triangle and the blocks below (for U, above)
 * it. */
static inline struct fk_dense fk_tiled_used(const struct fk_tiled *t, const struct fk_dense *half, int64_t j,
                                            bool upper) {
  return upper ? fk_tiled_rows(t, half, 0, j + 1) : fk_tiled_rows(t, half, j, t->count);
}

/* A view of the buffer that the device at index `place` uses for the turn-th time, as wide as block column j. */
static inline struct fk_dense fk_tiled_buffer(const struct fk_tiled *t, const struct fk_tiled_buffers *buffers,
                                              int place, int64_t turn, int64_t j) {
  return fk_dense_part(&buffers->of[place][turn % FK_TILED_BUFFERS], 0, 0, t->m, fk_tiled_width(t, j));
}
/* Allocate and free `count` buffers on each device. */
enum fk_status fk_tiled_take_buffers(const struct fk_tiled *t, int count, struct fk_tiled_buffers *buffers,
                                     struct fk_error *err);
void fk_tiled_give_buffers(const struct fk_tiled *t, struct fk_tiled_buffers *buffers);
/* Allocate and free an n x d matrix on each device. */
enum fk_status fk_tiled_alloc_all(const struct fk_tiled *t, int64_t n, int64_t d, struct fk_dense *there,
                                  struct fk_error *err);
void fk_tiled_free_all(const struct fk_tiled *t, struct fk_dense *there);

/* Are block columns copied, between devices or from the host? fk_tiled_turn() and fk_tiled_wait() call turn and
 * wait of struct fk_dense_ops for all devices. */
static inline bool fk_tiled_has_copies(const struct fk_tiled *t) { return t->streamed || t->n_devices > 1; }
enum fk_status fk_tiled_turn(const struct fk_tiled *t, struct fk_error *err);
enum fk_status fk_tiled_wait(const struct fk_tiled *t, struct fk_error *err);

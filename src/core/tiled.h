/* Two triangles of order m, L below the diagonal and U above, in block columns of m x (width + 1) numbers: U from
 * the second of them on, so that both have a diagonal of their own. L L' = K, and U'U = L'WL + lambda I.
 *
 * Block column j belongs to device j mod G while all fit there. Else all lie in the host's memory, and devices
 * hold some at a time, past which the others stream. Blocks, and the order in which one takes what it needs of the
 * others, go by m: the same bits for any number of devices, and for either place.
 *
 *   fk_tiled_create -> fk_tiled_factor (L) -> fk_tiled_weigh (U, again for other numbers) -> _apply, ... -> _free
 */
#pragma once

#include "dense.h"

struct fk_tiled;

struct fk_tiled_spec {
  const struct fk_dense_ops *ops;
  int devices[FK_MAX_DEVICES], n_devices; /* at least one */
  int64_t m, block;                       /* block 0: by m */
  double most, beside; /* bytes of each device, 0: what it has; of these, what sources take there */
  bool halves;         /* U is good enough from products of halves (FK_HALVES); L never is */
};
enum fk_status fk_tiled_create(const struct fk_tiled_spec *spec, struct fk_tiled **out, struct fk_error *err);
void fk_tiled_free(struct fk_tiled *t); /* NULL is fine */
double fk_tiled_bytes(const struct fk_tiled *t);
bool fk_tiled_is_streamed(const struct fk_tiled *t);

/* FK_STATUS_LOST: what lay on a device is gone, as after fk_tiled_release(). */
enum fk_status fk_tiled_ready(const struct fk_tiled *t, struct fk_error *err);
void fk_tiled_release(struct fk_tiled *t);

/* Columns first .. first + columns - 1 of K, to K on `device`, of their rows from `first` on. What it leaves above
 * the diagonal does not matter. */
struct fk_tiled_source {
  enum fk_status (*fill)(void *data, int device, int64_t first, const struct fk_dense *K,
                         const struct fk_poll *poll, struct fk_error *err);
  void *data;
  const double *diagonal; /* m, added to that of K; NULL: 0 */
};
/* L. *pivot as that of potrf: L and U are lost where it is not 0. */
enum fk_status fk_tiled_factor(struct fk_tiled *t, const struct fk_tiled_source *source,
                               const struct fk_poll *poll, int64_t *pivot, struct fk_error *err);
/* U, W being the squares of m roots. Where products of halves lead to a pivot, again in double. */
enum fk_status fk_tiled_weigh(struct fk_tiled *t, const double *roots, double lambda, const struct fk_poll *poll,
                              int64_t *pivot, struct fk_error *err);

/* A factor, FK_UPPER: U; FK_TRANSPOSED; its product, or what it takes to get there. */
struct fk_tiled_step {
  unsigned flags;
  bool solve;
};
/* v, m x t of the host, := what the steps make of it, the first one done first. */
enum fk_status fk_tiled_apply(const struct fk_tiled *t, const struct fk_tiled_step *steps, int n_steps,
                              const struct fk_dense *v, struct fk_error *err);
/* To the host: a triangle of an m x m matrix (the rest of its blocks on the diagonal is overwritten, too), and the
 * m numbers on the diagonal. */
enum fk_status fk_tiled_triangle(const struct fk_tiled *t, bool upper, const struct fk_dense *to,
                                 struct fk_error *err);
enum fk_status fk_tiled_diagonal(const struct fk_tiled *t, bool upper, double *to, struct fk_error *err);

/* Tiled matrices: two triangles of order m, L L' = K and U'U = L'WL + lambda I, in block columns of m x (width +
 * 1) numbers. L is below the diagonal; U is above it, from the second column of a block on, so that both have a
 * diagonal of their own.
 *
 * If all block columns fit on the G devices, block column j is on device j mod G. Otherwise all are in the host's
 * memory; devices hold a group of them at a time, and the others are streamed past it. The blocks and the order of
 * operations depend on m only: results have the same bits for any number of devices, streamed or not.
 *
 *   fk_tiled_create -> fk_tiled_factor (L) -> fk_tiled_weigh (U, again for other numbers) -> _apply, ... -> _free
 *
 * A `rough` matrix has one triangle, U'U = K, in half of the memory; fk_tiled_factor() computes it. */
#pragma once

#include "dense.h"

struct fk_tiled;

struct fk_tiled_spec {
  const struct fk_dense_ops *ops;
  int devices[FK_MAX_DEVICES], n_devices; /* at least one */
  int64_t m, block;                       /* order; width of a block, 0: chosen from m */
  double most, beside; /* bytes of each device that may be used, 0: all; those that the source of K needs there */
  double host;         /* bytes of the host for a matrix that is streamed, 0: all */
  bool halves;         /* U may be computed from FP16 products (FK_HALVES); L never is */
  bool rough;          /* U'U = K, without L */
};
/* Allocates the matrix; its numbers are set by the functions below. The caller frees *out. Fails with
 * FK_STATUS_ALLOC, or with the failures of a device. */
enum fk_status fk_tiled_create(const struct fk_tiled_spec *spec, struct fk_tiled **out, struct fk_error *err);
void fk_tiled_free(struct fk_tiled *t);              /* t may be NULL */
double fk_tiled_bytes(const struct fk_tiled *t);     /* bytes of all block columns */
bool fk_tiled_is_streamed(const struct fk_tiled *t); /* are they on the host and streamed through devices? */

/* fk_tiled_ready() fails with FK_STATUS_LOST if numbers on a device were lost, as after fk_tiled_release(), which
 * frees the memory on devices. */
enum fk_status fk_tiled_ready(const struct fk_tiled *t, struct fk_error *err);
void fk_tiled_release(struct fk_tiled *t);

/* A function that computes K in parts. It writes rows row .. row + K->n - 1 of columns first .. first + K->d - 1
 * to *K, which is on `device`: those from `first` on, where numbers above the diagonal are ignored, or if `rough`
 * all up to the last of these columns. */
struct fk_tiled_source {
  enum fk_status (*fill)(void *data, int device, int64_t row, int64_t first, const struct fk_dense *K,
                         const struct fk_poll *poll, struct fk_error *err);
  void *data;
  const double *diagonal; /* m numbers that are added to the diagonal of K; NULL: 0 */
};
/* Computes L, or U if `rough`. *pivot has the meaning of that of potrf; if it is not 0, L and U are invalid. */
enum fk_status fk_tiled_factor(struct fk_tiled *t, const struct fk_tiled_source *source,
                               const struct fk_poll *poll, int64_t *pivot, struct fk_error *err);
/* Computes U, where W is the diagonal matrix of the squares of m roots. If FP16 products lead to a pivot, U is
 * computed again in double. */
enum fk_status fk_tiled_weigh(struct fk_tiled *t, const double *roots, double lambda, const struct fk_poll *poll,
                              int64_t *pivot, struct fk_error *err);

/* A step of fk_tiled_apply(): multiply by L, or solve with it. Flags: FK_UPPER (U in place of L),
 * FK_TRANSPOSED. */
struct fk_tiled_step {
  unsigned flags;
  bool solve;
};
/* Applies the steps to v, m x t on the host, in place, steps[0] first. */
enum fk_status fk_tiled_apply(const struct fk_tiled *t, const struct fk_tiled_step *steps, int n_steps,
                              const struct fk_dense *v, struct fk_error *err);
/* Copy L, or U if `upper`, to a triangle of the m x m matrix `to` on the host, or its diagonal to m numbers. The
 * triangle also overwrites the rest of the blocks on the diagonal. */
enum fk_status fk_tiled_triangle(const struct fk_tiled *t, bool upper, const struct fk_dense *to,
                                 struct fk_error *err);
enum fk_status fk_tiled_diagonal(const struct fk_tiled *t, bool upper, double *to, struct fk_error *err);

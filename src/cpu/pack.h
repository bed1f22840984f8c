/* Whitened points in panels, as the tile kernels read them. */
#pragma once

#include "tile.h"

/* One precision of one instruction set, and how exponents are formed. */
struct fk_kernel_mode {
  const struct fk_tile_ops *ops;
  bool single, difference;
  bool doubled; /* differences of double-doubles, of points that reach far; in double alone */
  double slack; /* of these: how far differences of the high parts alone may be off, in packed units */
  struct fk_kernel_form form;
  double scale; /* of whitened coordinates, so that the exponent is in base 2 */
};

/* Packed points. Arrays that are not needed are NULL, to save memory for many points in few dimensions. */
struct fk_packed {
  int64_t n, d, capacity; /* n points; room for `capacity`, a multiple of FK_TILE_COLS */
  void *points;           /* panels [panel][k][lane] */
  double *low;            /* the low parts of double-doubles, as the points; NULL: 0 */
  void *constant;         /* -|u|^2 / 2; NULL: 0 */
  void *weight;           /* NULL: ones; the padding has weight 0 */
  void *exponent;         /* weights are weight * 2^exponent; NULL: 0 */
  void *ones, *edge;      /* FK_TILE_COLS weights of a tile inside, and of the tile with the padding */
  bool borrowed;          /* points and constants are another's */
};
enum fk_packed_parts {
  FK_PACKED_CONSTANT = 1,
  FK_PACKED_WEIGHT = 2,
  FK_PACKED_EXPONENT = 4,
  FK_PACKED_BORROWED = 8 /* no points and no constants, which fk_packed_borrow() brings */
};
double fk_packed_bytes(const struct fk_kernel_mode *mode, int64_t n, int64_t d, unsigned parts);

/* Do both modes pack points in the same way? */
static inline bool fk_mode_packs_as(const struct fk_kernel_mode *a, const struct fk_kernel_mode *b) {
  return a->single == b->single && a->difference == b->difference && a->doubled == b->doubled &&
         a->scale == b->scale;
}

/* Exponents are x'y - |x|^2 / 2 - |y|^2 / 2. */
static inline bool fk_mode_is_gram(const struct fk_kernel_mode *mode) {
  return !mode->difference && !fk_form_is_product(mode->form.type);
}

/* The constants of the form that a tile reads. */
static inline void fk_tile_takes_form(struct fk_tile *tile, const struct fk_kernel_form *form) {
  for (int i = 0; i < 3; i++) tile->factor[i] = form->factor[i];
  tile->power = form->power;
}

size_t fk_real_size(const struct fk_kernel_mode *mode);
double fk_real_get(const struct fk_kernel_mode *mode, const void *array, int64_t i);
void fk_real_set(const struct fk_kernel_mode *mode, void *array, int64_t i, double value);
void *fk_real_at(const struct fk_kernel_mode *mode, const void *array, int64_t i);

/* Largest |u|^2 over the points. */
enum fk_status fk_radius2(const struct fk_matrix *x, const struct fk_whitening *w, int threads, double *radius2,
                          struct fk_error *err);

/* parts: gram needs the constants; weights are allocated where they are not all 1, and exponents where their range
 * may be more than that of a REAL. */
enum fk_status fk_packed_init(struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t n, int64_t d,
                              unsigned parts, struct fk_error *err);
/* Rows first .. first + count - 1 of the points, picked through rows[] where it is not NULL. */
struct fk_picked {
  const struct fk_matrix *x;
  const struct fk_whitening *whitening;
  const int64_t *rows;
  int64_t first, count;
};
/* Whitened, one after the other: u[r * d + k]; with `low`, which may be NULL, as double-doubles. */
enum fk_status fk_whitened_rows(const struct fk_picked *picked, int threads, double *u, double *low,
                                struct fk_error *err);
/* Whitens the picked points into p, on several threads. */
enum fk_status fk_packed_fill(struct fk_packed *p, const struct fk_kernel_mode *mode,
                              const struct fk_picked *picked, int threads, struct fk_error *err);
/* Makes p refer to the points and constants of `from`, packed in the same mode; p has its own weights. */
void fk_packed_borrow(struct fk_packed *p, const struct fk_kernel_mode *mode, const struct fk_packed *from);
/* weights: of point 0 of p on; stored divided by scale, or as mantissa and exponent where p has exponents. */
void fk_packed_weights(struct fk_packed *p, const struct fk_kernel_mode *mode, const double *weights,
                       double scale);
/* Allocates p, whitens all points into it and stores their weights divided by the largest, *weight_scale. Without
 * weights (NULL: ones) the scale is 1, and weight_scale may be NULL. */
enum fk_status fk_packed_all(struct fk_packed *p, const struct fk_kernel_mode *mode, const struct fk_matrix *x,
                             const struct fk_whitening *whitening, const double *weights, int threads,
                             double *weight_scale, struct fk_error *err);
/* From point i on, to the end of its block of FK_TILE_COLS. */
const void *fk_packed_points_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i);
const double *fk_packed_low_at(const struct fk_packed *p, int64_t i); /* NULL: 0 */
const void *fk_packed_constant_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i);
void fk_packed_free(struct fk_packed *p);
/* Up to FK_TILE_ROWS points from point i on, of `count`, as the rows of a tile, and up to FK_TILE_COLS as its
 * columns: how many, padded, and all that the points have. */
void fk_packed_rows(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i, int64_t count,
                    struct fk_tile *tile);
void fk_packed_columns(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i, int64_t count,
                       struct fk_tile *tile);

/* A matrix n x r in panels, each column divided by its scale, which goes to scale[]. */
enum fk_status fk_pack_columns(const struct fk_kernel_mode *mode, const double *columns, int64_t n, int64_t r,
                               void **panels, double *scale, struct fk_error *err);

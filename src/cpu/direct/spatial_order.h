/* Points in the order of a space-filling (Morton) curve, so that near ones lie near each other in memory. */
#pragma once

#include "../../fk.h"

/* An item is a key of 32 bits above the point's index of 32 bits. */
typedef uint64_t fk_item;

enum { FK_CURVE_MAX_DIM = 8 };

/* A grid of cubes over a box, coarse enough for the keys: dimensions that are long for the cubes get more bits. */
struct fk_spatial_curve {
  int d, parts[FK_CURVE_MAX_DIM]; /* bytes of a coordinate that are in use */
  double low[FK_CURVE_MAX_DIM], per_side;
  uint32_t last[FK_CURVE_MAX_DIM]; /* largest coordinate */
  uint32_t (*spread)[4][256];      /* d x 4: where the bits of each byte go in the key */
};

/* Fills in *curve for the box low .. high of the points; `spread` has d tables of the caller, which must stay.
 * Returns false if the box has no extent. */
bool fk_spatial_curve_init(struct fk_spatial_curve *curve, int d, const double *low, const double *high,
                           uint32_t (*spread)[4][256]);

/* The item of point i among n points x, n x d, column-major: its key on the curve and its index. */
static inline fk_item fk_spatial_curve_item(const struct fk_spatial_curve *curve, const double *x, int64_t n,
                                            uint32_t i) {
  uint32_t key = 0;
  for (int k = 0; k < curve->d; k++) {
    double at = (x[k * n + i] - curve->low[k]) * curve->per_side;
    uint32_t q = at < curve->last[k] ? (uint32_t)at : curve->last[k];
    for (int part = 0; part < curve->parts[k]; part++) key |= curve->spread[k][part][(q >> 8 * part) & 255];
  }
  return (fk_item)key << 32 | i;
}

/* Sorts n items by key, stably, so that the order does not depend on the number of threads. scratch: n items. */
enum fk_status fk_sort_items(fk_item *items, fk_item *scratch, int64_t n, int threads, struct fk_error *err);

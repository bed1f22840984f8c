/* The functions of one instruction set for pruned sums: packing the sources near a group of targets, and the sums
 * of the group over the packed sources. REAL is double or float. See also ../tile.h. */
#pragma once

#include "../tile.h"

enum {
  FK_DIRECT_GROUP = 64,  /* targets at most that are summed together */
  FK_DIRECT_LEAF = 32,   /* sources at most that are packed at a time */
  FK_DIRECT_PACKED = 512 /* sources that a tile holds: with their columns they stay in the first-level cache, and a
                            sum in float has few terms before it joins one in double */
};

/* Sources first .. first + count - 1, those within the square root of cut2 from the box centre +- half, to places
 * `at` and on of a tile's sources, as REAL and relative to the centre. Returns how many. */
struct fk_direct_pack {
  int d, count, n_columns;
  int64_t first, n;
  const double *x;       /* n x d, and room to read FK_DIRECT_LEAF from any source on */
  const double *columns; /* n x n_columns, likewise; NULL: ones */
  const double *centre, *half;
  double cut2, scale; /* of what is packed, so that exponents are in base 2; cut2 INFINITY: all */
  int at;
  void *sources, *b; /* [k][FK_DIRECT_PACKED], [column][FK_DIRECT_PACKED] */
};

struct fk_direct_tile {
  int d, n_targets, n_sources; /* room for n_sources rounded up to lanes, which the kernel fills with zeros */
  int n_columns;
  const void *targets; /* [k][FK_DIRECT_GROUP] */
  void *sources, *b;   /* [k][FK_DIRECT_PACKED], [column][FK_DIRECT_PACKED] */
  const double *shift; /* exponent (base 2) taken off each target's, an integer, or NULL */
  bool lifted;         /* sources have a coordinate more, [d], whose square, an integer, comes off the exponent */
  bool has_factor;
  double factor[3]; /* polynomial of the exponent in base 2 */
  bool absolute;    /* sums of |b| k, without the factor */
  double *sums;     /* [column][FK_DIRECT_GROUP], added to */
  double *gradient; /* [k][FK_DIRECT_GROUP], added to, in packed units; NULL: not wanted */
};

struct fk_direct_ops {
  int (*pack)(const struct fk_direct_pack *pack);
  void (*sums)(const struct fk_direct_tile *tile);
};

struct fk_direct_isa {
  const struct fk_direct_ops *f64, *f32;
};
extern const struct fk_direct_isa fk_direct_portable;
#ifdef FK_X86
extern const struct fk_direct_isa fk_direct_avx2, fk_direct_avx512;
#endif
const struct fk_direct_isa *fk_direct_isa(void); /* functions for the instruction set of fk_isa(), a constant */

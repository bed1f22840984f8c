/* The functions of one instruction set for the grid: the inner loops, in REAL = double or float, one source for
 * all (kernels_body.h, kernels_window.h). Twin in style: ../tile.h.
 *
 * A block is a box of cells, dimension 0 contiguous. Points in it have coordinates in [0, side) and a stencil that
 * starts at the cell below and may stick out at the upper end; so points are spread to, and read from, a padded
 * copy, the scratch.
 */
#pragma once

#include "../tile.h"
#include "grid.h"

enum {
  FK_GRID_LANES = 16, /* of a row of weights, at most */
  FK_FIR_PAD = 64     /* zeros around a filter: tiles read past its ends */
};

/* The layout of keys: field k of a key is the number of the block along dimension k. The two lowest bits only sort
 * points by the quarter of the block along the last dimension: a scratch is often larger than the first-level
 * cache, but the part that points of a quarter touch is not. */
enum { FK_KEY_QUARTERS = 2, FK_KEY_QUARTER_MASK = 3 };
struct fk_layout {
  int d, bits, shift[FK_GRID_MAX_D];
  bool quarters;
  int64_t side[FK_GRID_MAX_D], cells;
  double inverse_spacing, limit[FK_GRID_MAX_D];
  uint64_t bias; /* added to all fields, so that none is negative */
};
void fk_grid_lay_out(struct fk_layout *layout, int d, double spacing, bool single_cells);

/* The window, ready for the loops: coefficients[k * FK_GRID_LANES + node]. */
struct fk_stencil {
  int d, width, degree;
  int64_t stride[FK_GRID_MAX_D], size; /* of the scratch; stride[0] is 1 */
  void *value, *slope;
};

/* n[k] cells each way. */
struct fk_box {
  int d;
  int64_t n[FK_GRID_MAX_D], from[FK_GRID_MAX_D], to[FK_GRID_MAX_D]; /* strides */
};

/* One pass along one dimension: the blocks' geometry and a filter or two. */
struct fk_fir {
  int64_t cells, side, stride; /* stride of the dimension */
  int reach, blocks;           /* blocks each way that the filter reads */
  const void *taps[2];         /* the centre; zeros from reach + 1 to reach + FK_FIR_PAD */
};

struct fk_grid_ops {
  size_t real;
  /* Keys and coordinates[k * ld + i] within the block; false where one is out of the keys' range. */
  bool (*locate)(const struct fk_layout *layout, const struct fk_grid_points *points, int64_t first, int64_t n,
                 uint64_t *keys, void *coordinates, int64_t ld);
  /* Points as [i][k], values of them, onto the scratch (added). By min(d, 4) - 1 and the window's width. */
  void (*spread[4][FK_WINDOW_WIDTH + 1])(const struct fk_stencil *stencil, const void *points, const void *b,
                                         int64_t n, void *scratch);
  /* out[i]; gradient[k * n + i] */
  void (*value[4][FK_WINDOW_WIDTH + 1])(const struct fk_stencil *stencil, const void *points, int64_t n,
                                        const void *scratch, void *out, void *gradient);
  void (*gradient[4][FK_WINDOW_WIDTH + 1])(const struct fk_stencil *stencil, const void *points, int64_t n,
                                           const void *scratch, void *out, void *gradient);
  void (*zero)(void *to, const struct fk_box *box);
  void (*copy)(void *to, const void *from, const struct fk_box *box);
  void (*add)(double *to, const void *from, const struct fk_box *box); /* scratch to totals */
  void (*convert)(void *to, const double *from, int64_t n);
  /* out = filter 0 of in0 [+ filter 1 of in1]; in[0 .. 2 blocks]: the blocks along the dimension, NULL: empty. */
  void (*fir)(const struct fk_fir *fir, const void *const *in0, const void *const *in1, void *out);
  /* smallest and largest cell of the points */
  void (*bounds)(int d, const void *points, int64_t n, int64_t *low, int64_t *high);
};

struct fk_grid_isa {
  const struct fk_grid_ops *f64, *f32;
};
#ifdef FK_X86
extern const struct fk_grid_isa fk_grid_avx2, fk_grid_avx512;
#endif

/* The table of the instruction set that cpu/isa.c has chosen. */
const struct fk_grid_ops *fk_grid_ops(bool single);

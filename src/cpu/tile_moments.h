/* Moments of differences on a tile, in double: a part of tile_body.h, by whose macros it is written.
 *
 * The coordinates are taken in blocks, whose sums stay in registers while the rows go by. A block of few sums has
 * several vectors of columns side by side, for one sum alone would wait for itself. */
#define MOMENTS_BLOCK (FK_ROWS == 8 ? 4 : 2) /* registers hold the square of it */

enum FN(moments_shape) { FN(MASS), FN(DIAGONAL), FN(TRIANGLE), FN(RECTANGLE) };

INLINE void FN(moments_add)(const int shape, const int n, const int v, V p, const V *z, const V *y,
                            V sums[][FK_COLS]) {
  if (shape == FN(MASS)) sums[0][v] = V_ADD(sums[0][v], p);
  FK_UNROLL
  for (int i = 0; i < n; i++) {
    V pz = V_MUL(p, z[i]);
    if (shape == FN(DIAGONAL)) sums[i][v] = V_FMA(pz, z[i], sums[i][v]);
    FK_UNROLL
    for (int j = 0; shape == FN(TRIANGLE) && j <= i; j++)
      sums[i * (i + 1) / 2 + j][v] = V_FMA(pz, z[j], sums[i * (i + 1) / 2 + j][v]);
    FK_UNROLL
    for (int j = 0; shape == FN(RECTANGLE) && j < MOMENTS_BLOCK; j++)
      sums[i * MOMENTS_BLOCK + j][v] = V_FMA(pz, y[j], sums[i * MOMENTS_BLOCK + j][v]);
  }
}

/* n coordinates from k on, by themselves or, a rectangle, by MOMENTS_BLOCK from l on. */
INLINE void FN(moments_body)(const struct fk_tile_moments *a, const int64_t k, const int64_t l, const int shape,
                             const int n) {
  const int count = shape == FN(MASS)       ? 1
                    : shape == FN(DIAGONAL) ? n
                    : shape == FN(TRIANGLE) ? n * (n + 1) / 2
                                            : n * MOMENTS_BLOCK;
  const int vectors = count * FK_COLS <= 18 ? FK_COLS : 1; /* of columns */
  const int64_t s = a->times[0], t = a->times[1];
  for (int col = 0; col < a->n_cols; col += vectors * V_LANES) {
    const double *cols = a->cols + (col / PANEL) * PANEL * a->d + col % PANEL;
    V sums[MOMENTS_BLOCK * MOMENTS_BLOCK][FK_COLS];
    FK_UNROLL
    for (int i = 0; i < count; i++) FK_UNROLL
    for (int v = 0; v < vectors; v++) sums[i][v] = V_SET(0);
    for (int row = 0; row < a->n_rows; row++) {
      const double *rows = a->rows + (row / PANEL) * PANEL * a->d + row % PANEL;
      FK_UNROLL
      for (int v = 0; v < vectors; v++) {
        const double *at = cols + v * V_LANES;
        V p = V_LOAD(a->kernel + row * FK_TILE_COLS + col + v * V_LANES), z[MOMENTS_BLOCK], y[MOMENTS_BLOCK];
        if (a->squared) p = V_MUL(p, p);
        p = V_MUL(p, V_SET(a->row_weight[row]));
        if (s >= 0) {
          p = V_MUL(p, V_SUB(V_LOAD(at + s * PANEL), V_SET(rows[s * PANEL])));
          p = V_MUL(p, V_SUB(V_LOAD(at + t * PANEL), V_SET(rows[t * PANEL])));
        }
        FK_UNROLL
        for (int i = 0; i < n; i++) z[i] = V_SUB(V_LOAD(at + (k + i) * PANEL), V_SET(rows[(k + i) * PANEL]));
        FK_UNROLL
        for (int j = 0; shape == FN(RECTANGLE) && j < MOMENTS_BLOCK; j++)
          y[j] = V_SUB(V_LOAD(at + (l + j) * PANEL), V_SET(rows[(l + j) * PANEL]));
        FN(moments_add)(shape, n, v, p, z, y, sums);
      }
    }
    FK_UNROLL
    for (int i = 0; i < count; i++) {
      /* by rows of the block, which is a row of the triangle or of the rectangle */
      const int r = shape != FN(TRIANGLE) ? i / MOMENTS_BLOCK : (i >= 1) + (i >= 3) + (i >= 6),
                c = shape != FN(TRIANGLE) ? i % MOMENTS_BLOCK : i - r * (r + 1) / 2;
      int64_t number = shape == FN(MASS)       ? 0
                       : shape == FN(DIAGONAL) ? k + i
                                               : fk_moment_at(k + r, l + c, a->first);
      double *out = (shape == FN(MASS) ? a->mass : a->out + number * FK_TILE_COLS) + col;
      FK_UNROLL
      for (int v = 0; v < vectors; v++) V_ADD_TO(out + v * V_LANES, sums[i][v]);
    }
  }
}

/* A copy of the body for each number of coordinates in a block. */
#define MOMENTS_CASES(shape, k, l, n)                                                                             \
  switch (n) {                                                                                                    \
    case 1: FN(moments_body)(a, k, l, shape, 1); break;                                                           \
    case 2: FN(moments_body)(a, k, l, shape, 2); break;                                                           \
    case 3: FN(moments_body)(a, k, l, shape, MOMENTS_BLOCK < 3 ? 1 : 3); break;                                   \
    default: FN(moments_body)(a, k, l, shape, MOMENTS_BLOCK < 4 ? 1 : 4);                                         \
  }

static void FN(moments)(const struct fk_tile_moments *a) {
  if (a->mass) FN(moments_body)(a, 0, 0, FN(MASS), 0);
  if (!a->out) return;
  for (int64_t k = a->first; k < a->d; k += MOMENTS_BLOCK) {
    const int n = (int)(a->d - k < MOMENTS_BLOCK ? a->d - k : MOMENTS_BLOCK);
    if (a->diagonal) {
      MOMENTS_CASES(FN(DIAGONAL), k, k, n)
      continue;
    }
    MOMENTS_CASES(FN(TRIANGLE), k, k, n)
    for (int64_t l = a->first; l < k; l += MOMENTS_BLOCK) MOMENTS_CASES(FN(RECTANGLE), k, l, n)
  }
}

#undef MOMENTS_BLOCK
#undef MOMENTS_CASES

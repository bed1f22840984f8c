/* Points whose coordinates are double-doubles (core/doubled.h): a part of tile_body.h, by whose macros it is
 * written. The difference of the high parts of two points that are close to each other has no error, and that of
 * the low parts restores what the high parts have lost. */

/* The exponents of exponents(). Not inlined: it is rare, and each copy of the sums would have one. */
static __attribute__((noinline)) void FN(doubled_exponents)(const struct fk_tile *a, int row, int col,
                                                            const enum fk_metric metric,
                                                            V exponents[FK_ROWS][FK_COLS]) {
  const int64_t offset = (int64_t)(row / PANEL) * PANEL * a->d + row % PANEL;
  const double *rows = (const double *)a->rows + offset, *rows_low = a->rows_low + offset;
  const double *cols = (const double *)a->cols + col * a->d, *cols_low = a->cols_low + col * a->d;
  for (int r = 0; r < FK_ROWS; r++) {
    V sum[FK_COLS];
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) sum[c] = V_LOAD((const double *)a->col_const + col + c * V_LANES);
    for (int64_t k = 0; k < a->d; k++) {
      V x = V_SET(rows[k * PANEL + r]), x_low = V_SET(rows_low[k * PANEL + r]);
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) {
        const int64_t at = k * PANEL + c * V_LANES;
        V z = V_ADD(V_SUB(V_LOAD(cols + at), x), V_SUB(V_LOAD(cols_low + at), x_low));
        sum[c] = FN(less)(sum[c], z, metric);
      }
    }
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) exponents[r][c] = sum[c];
  }
}

/* 1, -1 or 0; a number between for differences below 1e-300. */
INLINE V FN(sign)(V z) { return V_MIN(V_MAX(V_MUL(z, V_SET(1e300)), V_SET(-1)), V_SET(1)); }

/* Sums of kernels times differences of coordinates, or times their signs, the derivatives of FK_METRIC_ABSOLUTE.
 */
INLINE void FN(coordinate_sums)(const struct fk_tile_differences *a, const bool signs) {
  const bool doubled = a->rows_low;
  for (int col = 0; col < a->n_cols; col += PANEL)
    for (int64_t k = 0; k < a->d; k++) {
      const int64_t at = col * a->d + k * PANEL;
      V y[FK_COLS], y_low[FK_COLS], sum[FK_COLS];
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) {
        y[c] = V_LOAD(a->cols + at + c * V_LANES);
        y_low[c] = doubled ? V_LOAD(a->cols_low + at + c * V_LANES) : V_SET(0);
        sum[c] = V_SET(0);
      }
      for (int row = 0; row < a->n_rows; row++) {
        const int64_t from = (int64_t)(row / PANEL) * PANEL * a->d + k * PANEL + row % PANEL;
        V x = V_SET(a->rows[from]), x_low = V_SET(doubled ? a->rows_low[from] : 0), weight = V_SET(a->weight[row]);
        FK_UNROLL
        for (int c = 0; c < FK_COLS; c++) {
          V z = V_ADD(V_SUB(x, y[c]), V_SUB(x_low, y_low[c]));
          V p = V_MUL(V_LOAD(a->kernel + row * FK_TILE_COLS + col + c * V_LANES), weight);
          sum[c] = V_FMA(p, signs ? FN(sign)(z) : z, sum[c]);
        }
      }
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) V_ADD_TO(a->out + k * a->ld + col + c * V_LANES, sum[c]);
    }
}
static void FN(differences)(const struct fk_tile_differences *a) { FN(coordinate_sums)(a, false); }
static void FN(signs)(const struct fk_tile_differences *a) { FN(coordinate_sums)(a, true); }

/* Sums of kernels times the signs of differences of coordinates, the derivatives of FK_METRIC_ABSOLUTE: a part of
 * tile_body.h, by whose macros it is written. */

/* 1, -1 or 0; a number between for differences below 1e-300. */
INLINE V FN(sign)(V z) { return V_MIN(V_MAX(V_MUL(z, V_SET(1e300)), V_SET(-1)), V_SET(1)); }

static void FN(signs)(const struct fk_tile_differences *a) {
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
          sum[c] = V_FMA(p, FN(sign)(z), sum[c]);
        }
      }
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) V_ADD_TO(a->out + k * a->ld + col + c * V_LANES, sum[c]);
    }
}

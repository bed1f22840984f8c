/* Kernels of products x'y on a tile, in double: a part of tile_body.h, by whose macros it is written. */

/* (e^2t - 1) / (e^2t + 1), e^2t = 2^(n + f). Relative error 1e-14, for small t by the first coefficient. */
INLINE V FN(tanh)(V t) {
  V s = V_MIN(V_MAX(V_MUL(t, V_SET(2 * FK_LOG2E)), V_SET(-64)), V_SET(64)), less;
  V rounded = V_ADD(s, V_SET(EXP2_MAGIC)), f = V_SUB(s, V_SUB(rounded, V_SET(EXP2_MAGIC)));
  V scale = V_SCALE(V_SET(1), rounded), p = V_SET(FN(exp2_coefficients)[DEGREE - 1]);
  FK_UNROLL
  for (int k = DEGREE - 2; k >= 0; k--) p = V_FMA(p, f, V_SET(FN(exp2_coefficients)[k]));
  less = V_FMA(scale, V_MUL(p, f), V_SUB(scale, V_SET(1)));
  return V_DIV(less, V_ADD(less, V_SET(2)));
}

INLINE V FN(power)(V t, int exponent) {
  V power = exponent & 1 ? t : V_SET(1);
  while (exponent >>= 1) {
    t = V_MUL(t, t);
    if (exponent & 1) power = V_MUL(power, t);
  }
  return power;
}

/* The products go to the tile first, and a second pass over it makes kernels of them, whichever they are: one copy
 * of it all, as others take long to compile. */
static void FN(product_sums)(const struct fk_tile *a, unsigned flags) {
  const bool symmetric = flags & FK_TILE_SYMMETRIC;
  const REAL *row_weight = a->row_weight, *col_weight = a->col_weight;
  const V constant = V_SET(a->factor[0]), slope = V_SET(a->factor[1]);
  const int exponent = (int)a->factor[2];
  REAL *kernel = a->kernel;
  V row_mass[FK_TILE_ROWS];
  for (int r = 0; r < FK_TILE_ROWS; r++) row_mass[r] = V_SET(0);
  for (int col = 0; col < a->n_cols; col += PANEL)
    for (int row = 0; row < a->n_rows; row += FK_ROWS) {
      V t[FK_ROWS][FK_COLS];
      FN(exponents)(a, row, col, FK_METRIC_PRODUCTS, t);
      FK_UNROLL
      for (int i = 0; i < FK_ROWS * FK_COLS; i++)
        V_STORE(kernel + (row + i / FK_COLS) * FK_TILE_COLS + col + i % FK_COLS * V_LANES,
                t[i / FK_COLS][i % FK_COLS]);
    }
  for (int col = 0; col < a->n_cols; col += V_LANES) {
    V mass = V_SET(0), weight = symmetric ? V_LOAD(col_weight + col) : V_SET(0);
    for (int row = 0; row < a->n_rows; row++) {
      REAL *at = kernel + row * FK_TILE_COLS + col;
      V k = V_FMA(V_LOAD(at), slope, constant);
      k = flags & FK_TILE_TANH ? FN(tanh)(k) : FN(power)(k, exponent);
      V_STORE(at, k);
      mass = V_FMA(V_SET(row_weight[row]), k, mass);
      row_mass[row] = V_FMA(k, weight, row_mass[row]);
    }
    V_ADD_TO(a->col_mass + col, mass);
  }
  for (int r = 0; symmetric && r < a->n_rows; r += V_LANES) V_SUMS(a->row_mass + r, row_mass + r);
}

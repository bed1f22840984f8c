/* Leave-one-out of score-debiased points on a tile, in double: a part of tile_body.h, by whose macros it is
 * written. */

/* Terms of four rows, or their exponents, to the columns. */
INLINE void FN(loo_add)(const struct fk_tile_loo *a, int row, int col, const V *t, const int find_max) {
  double *out = a->col_mass + col;
  /* the columns' indices ascend, but for those of the padding */
  const int64_t first = a->first_row + row, low = a->col_index[col], high = a->col_index[col + V_LANES - 1];
  const bool drop = a->drop && (a->row_dominant || !(first + 3 < low || (low <= high && high < first)));
  FK_UNROLL
  for (int r = 0; r < 4; r++) {
    if (!drop) {
      V_STORE(out, find_max ? V_MAX(t[r], V_LOAD(out)) : V_ADD(V_LOAD(out), t[r]));
      continue;
    }
    double lane[V_LANES];
    V_STORE(lane, t[r]);
    for (int l = 0; l < V_LANES; l++) {
      if (a->col_index[col + l] == first + r) continue;
      if (a->row_dominant && a->col_index[col + l] == a->row_dominant[row + r]) continue;
      if (!find_max)
        out[l] += lane[l];
      else if (lane[l] > out[l])
        out[l] = lane[l];
    }
  }
}

/* See core/loo.h. zz, ze, ee: sums of (alpha z)^2, alpha z beta e, (beta e)^2 with z = x_i - x_j,
 * e = x_i - a_j, alpha = 1 - lambda/2, beta = lambda/2; s: of lambda z^2. */
INLINE void FN(loo_body)(const struct fk_tile_loo *a, const int uniform, const int find_max) {
  const double lambda0 = a->lambda[0], alpha0 = 1 - lambda0 / 2, beta0 = lambda0 / 2;
  for (int row = 0; row < a->n_rows; row += 4) {
    const int64_t offset = (int64_t)(row / PANEL) * PANEL * a->d + row % PANEL;
    const double *points = a->row_points + offset, *means = a->row_means + offset;
    for (int col = 0; col < a->n_cols; col += V_LANES) {
      const double *cols = a->col_points + (int64_t)(col / PANEL) * PANEL * a->d + col % PANEL;
      V s[4], zz[4], ze[4], ee[4];
      FK_UNROLL
      for (int r = 0; r < 4; r++) s[r] = zz[r] = ze[r] = ee[r] = V_SET(0);
      for (int64_t k = 0; k < a->d; k++) {
        V x = V_LOAD(cols + k * PANEL);
        FK_UNROLL
        for (int r = 0; r < 4; r++) {
          V z = V_SUB(x, V_SET(points[k * PANEL + r])), e = V_SUB(x, V_SET(means[k * PANEL + r]));
          if (!uniform) {
            double lambda = a->lambda[k];
            s[r] = V_FMA(V_MUL(z, V_SET(lambda)), z, s[r]);
            z = V_MUL(z, V_SET(1 - lambda / 2));
            e = V_MUL(e, V_SET(lambda / 2));
          }
          zz[r] = V_FMA(z, z, zz[r]);
          ze[r] = V_FMA(z, e, ze[r]);
          ee[r] = V_FMA(e, e, ee[r]);
        }
      }
      if (uniform) {
        FK_UNROLL
        for (int r = 0; r < 4; r++) {
          s[r] = V_MUL(zz[r], V_SET(lambda0));
          zz[r] = V_MUL(zz[r], V_SET(alpha0 * alpha0));
          ze[r] = V_MUL(ze[r], V_SET(alpha0 * beta0));
          ee[r] = V_MUL(ee[r], V_SET(beta0 * beta0));
        }
      }
      FK_UNROLL
      for (int r = 0; r < 4; r++) {
        V whole = V_FMA(s[r], V_SET(a->row_precision[row + r]), V_SET(a->row_log_mass[row + r]));
        s[r] = V_SUB(V_LOAD(a->col_log_weight + col), whole);
      }
      FN(exp2)(s, 4); /* eps */
      V t[4];
      FK_UNROLL
      for (int r = 0; r < 4; r++) {
        /* 1 - eps > 0, for S_j holds v_j itself; the bound keeps rounding from dividing by 0. */
        V c = V_DIV(V_SET(1), V_MAX(V_SUB(V_SET(1), s[r]), V_SET(0x1p-60)));
        V v2 = V_FMA(c, V_FMA(c, ee[r], V_ADD(ze[r], ze[r])), zz[r]);
        v2 = V_MUL(v2, V_SET(a->row_precision[row + r]));
        t[r] = V_SUB(V_SUB(V_SET(a->row_log_weight[row + r]), v2), V_LOAD(a->col_shift + col));
      }
      if (!find_max) FN(exp2)(t, 4);
      FN(loo_add)(a, row, col, t, find_max);
    }
  }
}

static void FN(loo)(const struct fk_tile_loo *a, bool find_max) {
  bool uniform = true;
  for (int64_t k = 1; k < a->d; k++) uniform = uniform && a->lambda[k] == a->lambda[0];
  if (uniform && find_max)
    FN(loo_body)(a, 1, 1);
  else if (uniform)
    FN(loo_body)(a, 1, 0);
  else if (find_max)
    FN(loo_body)(a, 0, 1);
  else
    FN(loo_body)(a, 0, 0);
}

/* Kernels of many bandwidths on a tile, in double: a part of tile_body.h, by whose macros it is written.
 *
 * Exponents are computed once. A group of kernels stays in registers while it is squared from one bandwidth of a
 * chain to the next; what is added up by columns and by rows comes from the first-level cache. */
#define SCALES_ROWS (FK_ROWS / 2) /* of a group */
#define SCALES_GROUP (SCALES_ROWS * FK_COLS)

_Static_assert(SCALES_GROUP % EXP2_GROUP == 0, "exponentials of a group are in several");

/* The first kernel of a chain. For the first chain of a family it is stored for the others. */
INLINE void FN(chain_begin)(const struct fk_tile_chain *chain, const V (*t)[FK_COLS], V *first, V *k) {
  if (chain->times == 1) {
    FK_UNROLL
    for (int i = 0; i < SCALES_GROUP; i++) k[i] = V_MUL(t[i / FK_COLS][i % FK_COLS], V_SET(chain->power));
    FK_UNROLL
    for (int i = 0; i < SCALES_GROUP; i += EXP2_GROUP) FN(exp2)(k + i, EXP2_GROUP);
    FK_UNROLL
    for (int i = 0; i < SCALES_GROUP; i++) first[i] = k[i];
    return;
  }
  FK_UNROLL
  for (int i = 0; i < SCALES_GROUP; i++) {
    V square = V_MUL(first[i], first[i]);
    k[i] = V_MUL(square, first[i]);
    for (int times = 3; times < chain->times; times += 2) k[i] = V_MUL(k[i], square);
  }
}

INLINE void FN(scales_group)(const struct fk_tile_scales *a, const V (*t)[FK_COLS], const double *row_weight,
                             int col, V (*row_sums)[FK_ROWS], const int factor, const int symmetric) {
  double *out = a->tile.col_mass + col;
  V col_weight[FK_COLS], first[SCALES_GROUP], k[SCALES_GROUP];
  FK_UNROLL
  for (int i = 0; i < SCALES_GROUP; i++) first[i] = V_SET(1); /* compilers cannot know that times is 1 first */
  FK_UNROLL
  for (int c = 0; symmetric && c < FK_COLS; c++)
    col_weight[c] = V_LOAD((const double *)a->tile.col_weight + col + c * V_LANES);
  for (const struct fk_tile_chain *chain = a->chains; chain < a->chains + a->n_chains; chain++) {
    double power = chain->power;
    FN(chain_begin)(chain, t, first, k);
    for (int left = chain->length; left > 0; left--, power *= 2, out += FK_TILE_COLS, row_sums++) {
      V sum[FK_COLS];
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) sum[c] = V_LOAD(out + c * V_LANES);
      FK_UNROLL
      for (int r = 0; r < SCALES_ROWS; r++) {
        V row_sum = symmetric ? (*row_sums)[r] : V_SET(0);
        FK_UNROLL
        for (int c = 0; c < FK_COLS; c++) {
          V p = k[r * FK_COLS + c];
          if (factor) {
            V s = V_MUL(V_MAX(t[r][c], V_SET(-1e30)), V_SET(power)); /* finite where k is 0 */
            V f = V_FMA(s, V_SET(a->tile.factor[2]), V_SET(a->tile.factor[1]));
            p = V_MUL(p, V_FMA(s, f, V_SET(a->tile.factor[0])));
          }
          sum[c] = V_FMA(V_SET(row_weight[r]), p, sum[c]);
          if (symmetric) row_sum = V_FMA(col_weight[c], p, row_sum);
        }
        if (symmetric) (*row_sums)[r] = row_sum;
      }
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) V_STORE(out + c * V_LANES, sum[c]);
      FK_UNROLL
      for (int i = 0; i < SCALES_GROUP; i++) k[i] = V_MUL(k[i], k[i]);
    }
  }
}

/* -Inf where a column meets itself; the columns' indices ascend. */
INLINE void FN(scales_drop)(const struct fk_tile *tile, int row, int col, V t[FK_ROWS][FK_COLS]) {
  const int64_t first = tile->first_row + row, *index = tile->col_index + col;
  if (first + FK_ROWS <= index[0] || index[PANEL - 1] < first) return;
  for (int r = 0; r < FK_ROWS; r++)
    for (int c = 0; c < FK_COLS; c++) {
      double kept[V_LANES];
      V_STORE(kept, t[r][c]);
      for (int l = 0; l < V_LANES; l++)
        if (index[c * V_LANES + l] == first + r) kept[l] = -INFINITY;
      t[r][c] = V_LOAD(kept);
    }
}

INLINE void FN(scales_body)(const struct fk_tile_scales *a, const int factor, const int symmetric) {
  const struct fk_tile *tile = &a->tile;
  V row_sums[FK_TILE_SCALES][FK_ROWS];
  for (int row = 0; row < tile->n_rows; row += FK_ROWS) {
    for (int s = 0; symmetric && s < a->n_scales; s++)
      for (int r = 0; r < FK_ROWS; r++) row_sums[s][r] = V_SET(0);
    for (int col = 0; col < tile->n_cols; col += PANEL) {
      V t[FK_ROWS][FK_COLS];
      FN(exponents)(tile, row, col, FK_METRIC_SQUARES, t);
      if (tile->col_index) FN(scales_drop)(tile, row, col, t);
      if (a->row_precision) {
        FK_UNROLL
        for (int i = 0; i < FK_ROWS * FK_COLS; i++)
          t[i / FK_COLS][i % FK_COLS] =
              V_MUL(t[i / FK_COLS][i % FK_COLS], V_SET(a->row_precision[row + i / FK_COLS]));
      }
      for (int r = 0; r < FK_ROWS; r += SCALES_ROWS) {
        const double *row_weight = (const double *)tile->row_weight + row + r;
        FN(scales_group)
        (a, (const V(*)[FK_COLS])(t + r), row_weight, col, (V(*)[FK_ROWS])(row_sums[0] + r), factor, symmetric);
      }
    }
    for (int s = 0; symmetric && s < a->n_scales; s++)
      for (int r = 0; r < FK_ROWS; r += V_LANES) V_SUMS(tile->row_mass + s * a->row_ld + row + r, row_sums[s] + r);
  }
}

static void FN(scales)(const struct fk_tile_scales *a) {
  const double *f = a->tile.factor;
  const bool factor = f[0] != 1 || f[1] != 0 || f[2] != 0, symmetric = a->tile.row_mass;
  if (factor && symmetric)
    FN(scales_body)(a, 1, 1);
  else if (factor)
    FN(scales_body)(a, 1, 0);
  else if (symmetric)
    FN(scales_body)(a, 0, 1);
  else
    FN(scales_body)(a, 0, 0);
}

#undef SCALES_ROWS
#undef SCALES_GROUP

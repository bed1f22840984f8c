/* Y += alpha A X and Y += alpha A'X of doubles, of few columns: A is read once from memory, where it lies.
 * Registers hold up to FK_ROWS x FK_COLS vectors of results, or 4 x 3 that are added along vectors. */
enum { VECTOR_ROWS = 4, VECTOR_COLUMNS = FK_ROWS * FK_COLS / VECTOR_ROWS, FEW_COLUMNS = 3 };

/* Rows i .. i + n vectors of A with columns c .. c + t - 1 of X. */
INLINE void FN(multiply_vectors)(const struct fk_tile_vector *a, int64_t i, const int n, int64_t c, const int t) {
  const double *x = a->x + c * a->ldx;
  double *y = a->y + c * a->ldy + i;
  V acc[VECTOR_ROWS][VECTOR_COLUMNS];
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int s = 0; s < t; s++) acc[r][s] = V_SET(0);
  for (int64_t k = 0; k < a->d; k++) {
    V factor[VECTOR_COLUMNS];
    FK_UNROLL
    for (int s = 0; s < t; s++) factor[s] = V_SET(x[k * a->step + s * a->ldx]);
    FK_UNROLL
    for (int r = 0; r < n; r++) {
      V row = V_LOAD(a->A + i + r * V_LANES + k * a->ld);
      FK_UNROLL
      for (int s = 0; s < t; s++) acc[r][s] = V_FMA(row, factor[s], acc[r][s]);
    }
  }
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int s = 0; s < t; s++) {
    double *to = y + r * V_LANES + s * a->ldy;
    V_STORE(to, V_FMA(acc[r][s], V_SET(a->alpha), V_LOAD(to)));
  }
}

static void FN(multiply_vector)(const struct fk_tile_vector *a) {
  int64_t i = 0, c;
  for (; i + VECTOR_ROWS * V_LANES <= a->n; i += VECTOR_ROWS * V_LANES) {
    for (c = 0; c + VECTOR_COLUMNS <= a->columns; c += VECTOR_COLUMNS)
      FN(multiply_vectors)(a, i, VECTOR_ROWS, c, VECTOR_COLUMNS);
    for (; c + 2 <= a->columns; c += 2) FN(multiply_vectors)(a, i, VECTOR_ROWS, c, 2);
    if (c < a->columns) FN(multiply_vectors)(a, i, VECTOR_ROWS, c, 1);
  }
  for (; i + V_LANES <= a->n; i += V_LANES)
    for (c = 0; c < a->columns; c++) FN(multiply_vectors)(a, i, 1, c, 1);
  for (; i < a->n; i++)
    for (c = 0; c < a->columns; c++) {
      double sum = 0;
      for (int64_t k = 0; k < a->d; k++) sum += a->A[i + k * a->ld] * a->x[k * a->step + c * a->ldx];
      a->y[i + c * a->ldy] += a->alpha * sum;
    }
}

/* Columns k .. k + n - 1 of A with columns c .. c + t - 1 of X. */
INLINE void FN(multiply_columns)(const struct fk_tile_vector *a, int64_t k, const int n, int64_t c, const int t) {
  const double *A = a->A + k * a->ld, *X = a->x + c * a->ldx;
  V acc[VECTOR_ROWS][FEW_COLUMNS];
  double sum[VECTOR_ROWS][FEW_COLUMNS] = {{0}};
  int64_t i = 0;
  FK_UNROLL
  for (int j = 0; j < n; j++) FK_UNROLL
  for (int s = 0; s < t; s++) acc[j][s] = V_SET(0);
  for (; i + V_LANES <= a->n; i += V_LANES) {
    V x[FEW_COLUMNS];
    FK_UNROLL
    for (int s = 0; s < t; s++) x[s] = V_LOAD(X + i + s * a->ldx);
    FK_UNROLL
    for (int j = 0; j < n; j++) {
      V column = V_LOAD(A + i + j * a->ld);
      FK_UNROLL
      for (int s = 0; s < t; s++) acc[j][s] = V_FMA(column, x[s], acc[j][s]);
    }
  }
  for (; i < a->n; i++)
    for (int j = 0; j < n; j++)
      for (int s = 0; s < t; s++) sum[j][s] += A[i + j * a->ld] * X[i + s * a->ldx];
  FK_UNROLL
  for (int j = 0; j < n; j++) FK_UNROLL
  for (int s = 0; s < t; s++) {
    double lanes[V_LANES];
    V_STORE(lanes, acc[j][s]);
    for (int l = 0; l < V_LANES; l++) sum[j][s] += lanes[l];
    a->y[k + j + (c + s) * a->ldy] += a->alpha * sum[j][s];
  }
}

static void FN(multiply_vector_transposed)(const struct fk_tile_vector *a) {
  int64_t k = 0, c;
  for (; k + VECTOR_ROWS <= a->d; k += VECTOR_ROWS) {
    for (c = 0; c + FEW_COLUMNS <= a->columns; c += FEW_COLUMNS)
      FN(multiply_columns)(a, k, VECTOR_ROWS, c, FEW_COLUMNS);
    if (c + 1 < a->columns) FN(multiply_columns)(a, k, VECTOR_ROWS, c, 2);
    if (c + 1 == a->columns) FN(multiply_columns)(a, k, VECTOR_ROWS, c, 1);
  }
  for (; k < a->d; k++)
    for (c = 0; c < a->columns; c++) FN(multiply_columns)(a, k, 1, c, 1);
}

/* Columns k .. k + n - 1 of A with `vectors` vectors of columns of X from column c. */
INLINE void FN(multiply_part_across)(const struct fk_tile_vector *a, int64_t k, const int n, int64_t c,
                                     const int vectors) {
  const double *A = a->A + k * a->ld;
  V acc[FK_ROWS][FK_COLS];
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int v = 0; v < vectors; v++) acc[r][v] = V_SET(0);
  for (int64_t i = 0; i < a->n; i++) {
    V x[FK_COLS];
    FK_UNROLL
    for (int v = 0; v < vectors; v++) x[v] = V_LOAD(a->x + i * a->ldx + c + v * V_LANES);
    FK_UNROLL
    for (int r = 0; r < n; r++) {
      V factor = V_SET(A[i + r * a->ld]);
      FK_UNROLL
      for (int v = 0; v < vectors; v++) acc[r][v] = V_FMA(factor, x[v], acc[r][v]);
    }
  }
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int v = 0; v < vectors; v++) V_STORE(a->y + (k + r) * a->ldy + c + v * V_LANES, acc[r][v]);
}

static void FN(multiply_across)(const struct fk_tile_vector *a) {
  int64_t k = 0, c;
  for (; k + FK_ROWS <= a->d; k += FK_ROWS) {
    for (c = 0; c + FK_COLS * V_LANES <= a->columns; c += FK_COLS * V_LANES)
      FN(multiply_part_across)(a, k, FK_ROWS, c, FK_COLS);
    for (; c < a->columns; c += V_LANES) FN(multiply_part_across)(a, k, FK_ROWS, c, 1);
  }
  for (; k < a->d; k++)
    for (c = 0; c < a->columns; c += V_LANES) FN(multiply_part_across)(a, k, 1, c, 1);
}

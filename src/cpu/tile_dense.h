/* Blocks of dense matrices in doubles: a part of tile_body.h, by whose macros it is written. Rows are vectors, and
 * the FK_ROWS columns of a group are broadcast. */

_Static_assert(FK_ROWS % V_LANES == 0, "the corners of a factor are whole vectors");

/* acc += sum over l < depth of u[l] T[l], or -=, of a panel u and a group T. */
INLINE void FN(accumulate)(const double *T, const double *u, int64_t stride, int64_t depth, const int subtract,
                           V acc[FK_ROWS][FK_COLS]) {
  for (int64_t l = 0; l < depth; l++) {
    V x[FK_COLS];
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) x[c] = V_LOAD(u + l * stride + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) {
      const V factor = V_SET(T[l * FK_ROWS + r]);
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++)
        acc[r][c] = subtract ? V_FNMA(factor, x[c], acc[r][c]) : V_FMA(factor, x[c], acc[r][c]);
    }
  }
}

/* Rows 0 .. rows - 1 of a strip of `columns` columns, up to V_LANES. */
INLINE void FN(transpose_strip)(const double *from, int64_t ld, int64_t rows, int64_t columns, double factor,
                                double *to, int64_t stride) {
  int64_t i = 0;
  for (; i + V_LANES <= rows && columns == V_LANES; i += V_LANES) {
    V a[V_LANES];
    FK_UNROLL
    for (int j = 0; j < V_LANES; j++) a[j] = V_MUL(V_LOAD(from + i + j * ld), V_SET(factor));
    FN(transpose)(a);
    FK_UNROLL
    for (int j = 0; j < V_LANES; j++) V_STORE(to + (i + j) * stride, a[j]);
  }
  for (; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[i * stride + j] = factor * from[i + j * ld];
}

static void FN(transposed)(const double *from, int64_t ld, int64_t rows, int64_t columns, double factor,
                           double *to, int64_t stride) {
  for (int64_t j = 0; j < columns; j += V_LANES) FN(transpose_strip)
  (from + j * ld, ld, rows, columns - j < V_LANES ? columns - j : V_LANES, factor, to + j, stride);
}

static void FN(copied)(const double *from, int64_t ld, int64_t rows, int64_t columns, double factor, double *to,
                       int64_t stride) {
  for (int64_t j = 0; j < columns; j++, from += ld, to += stride) {
    int64_t i = 0;
    for (; i + V_LANES <= rows; i += V_LANES) V_STORE(to + i, V_MUL(V_LOAD(from + i), V_SET(factor)));
    for (; i < rows; i++) to[i] = factor * from[i];
  }
}

static void FN(multiply)(const struct fk_tile_multiply *a) {
  V acc[FK_ROWS][FK_COLS];
  FK_UNROLL
  for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_SET(0);
  FN(accumulate)(a->B, a->A, PANEL, a->depth, 0, acc);
  FK_UNROLL
  for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) {
    double *to = a->C + r * a->ld + c * V_LANES;
    V_STORE(to, V_ADD(V_LOAD(to), acc[r][c]));
  }
}

/* Columns k .. k + FK_ROWS - 1 of a panel, those from `first` to k - 1 being solved. */
INLINE void FN(solve_group)(const double *T, double *u, int64_t stride, int64_t first, int64_t k) {
  V acc[FK_ROWS][FK_COLS];
  FK_UNROLL
  for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_LOAD(u + (k + r) * stride + c * V_LANES);
  FN(accumulate)(T + first * FK_ROWS, u + first * stride, stride, k - first, 1, acc);
  T += k * FK_ROWS;
  FK_UNROLL
  for (int r = 0; r < FK_ROWS; r++) {
    FK_UNROLL
    for (int s = 0; s < r; s++) FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_FNMA(V_SET(T[s * FK_ROWS + r]), acc[s][c], acc[r][c]);
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) {
      acc[r][c] = V_MUL(acc[r][c], V_SET(T[r * FK_ROWS + r]));
      V_STORE(u + (k + r) * stride + c * V_LANES, acc[r][c]);
    }
  }
}

static void FN(solve)(const double *T, int64_t n, double *u, int64_t first) {
  for (int64_t k = 0; k < n; T += (k + FK_ROWS) * FK_ROWS, k += FK_ROWS)
    if (k >= first) FN(solve_group)(T, u, PANEL, first, k);
}

/* The square of order FK_ROWS at column k, after the columns before it. */
INLINE void FN(update_corner)(const double *T, const double *u, int64_t ld, int64_t k,
                              double corner[FK_ROWS][FK_ROWS]) {
  for (int lanes = 0; lanes < FK_ROWS; lanes += V_LANES) {
    V acc[FK_ROWS];
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) acc[r] = V_LOAD(u + k + lanes + (k + r) * ld);
    for (int64_t l = 0; l < k; l++) {
      const V x = V_LOAD(u + k + lanes + l * ld);
      FK_UNROLL
      for (int r = 0; r < FK_ROWS; r++) acc[r] = V_FNMA(V_SET(T[l * FK_ROWS + r]), x, acc[r]);
    }
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) V_STORE(corner[r] + lanes, acc[r]);
  }
}

/* The factor of that square, corner[column][row], which goes to T with the reciprocals of the diagonal. Returns
 * the column, from 1, whose pivot is not positive, or 0. */
static int FN(factor_corner)(double corner[FK_ROWS][FK_ROWS], double *T, double *A, int64_t ld) {
  for (int j = 0; j < FK_ROWS; j++) {
    if (!(corner[j][j] > 0)) return j + 1;
    const double root = sqrt(corner[j][j]), inverse = 1 / root;
    A[j + j * ld] = root;
    T[j * FK_ROWS + j] = inverse;
    for (int i = j + 1; i < FK_ROWS; i++) {
      corner[j][i] *= inverse;
      A[i + j * ld] = corner[j][i];
      T[j * FK_ROWS + i] = corner[j][i];
    }
    for (int s = j + 1; s < FK_ROWS; s++)
      for (int i = s; i < FK_ROWS; i++) corner[s][i] -= corner[j][s] * corner[j][i];
  }
  return 0;
}

static int64_t FN(factor)(double *A, int64_t n, int64_t ld, double *group) {
  for (int64_t k = 0; k < n; k += FK_ROWS) {
    double corner[FK_ROWS][FK_ROWS];
    for (int64_t l = 0; l < k; l++) memcpy(group + l * FK_ROWS, A + k + l * ld, sizeof *A * FK_ROWS);
    FN(update_corner)(group, A, ld, k, corner);
    const int pivot = FN(factor_corner)(corner, group + k * FK_ROWS, A + k * (ld + 1), ld);
    if (pivot) return k + pivot;
    for (int64_t row = k + FK_ROWS; row < n; row += PANEL) FN(solve_group)(group, A + row, ld, 0, k);
  }
  return 0;
}

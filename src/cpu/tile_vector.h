/* y += alpha A x and y += alpha A'x of doubles: A is read once, where it lies. */

/* Rows i .. i + n vectors of A x. */
INLINE void FN(multiply_vectors)(const struct fk_tile_vector *a, int64_t i, const int n) {
  V acc[4];
  FK_UNROLL
  for (int r = 0; r < n; r++) acc[r] = V_LOAD(a->y + i + r * V_LANES);
  for (int64_t k = 0; k < a->d; k++) {
    V factor = V_SET(a->alpha * a->x[k]);
    FK_UNROLL
    for (int r = 0; r < n; r++) acc[r] = V_FMA(V_LOAD(a->A + i + r * V_LANES + k * a->ld), factor, acc[r]);
  }
  FK_UNROLL
  for (int r = 0; r < n; r++) V_STORE(a->y + i + r * V_LANES, acc[r]);
}

static void FN(multiply_vector)(const struct fk_tile_vector *a) {
  int64_t i = 0;
  for (; i + 4 * V_LANES <= a->n; i += 4 * V_LANES) FN(multiply_vectors)(a, i, 4);
  for (; i + V_LANES <= a->n; i += V_LANES) FN(multiply_vectors)(a, i, 1);
  for (; i < a->n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < a->d; k++) sum += a->A[i + k * a->ld] * a->x[k];
    a->y[i] += a->alpha * sum;
  }
}

/* Columns k .. k + n - 1 of A with x. */
INLINE void FN(multiply_columns)(const struct fk_tile_vector *a, int64_t k, const int n) {
  const double *A = a->A + k * a->ld;
  V acc[4];
  double sum[4] = {0};
  int64_t i = 0;
  FK_UNROLL
  for (int c = 0; c < n; c++) acc[c] = V_SET(0);
  for (; i + V_LANES <= a->n; i += V_LANES) {
    V x = V_LOAD(a->x + i);
    FK_UNROLL
    for (int c = 0; c < n; c++) acc[c] = V_FMA(V_LOAD(A + i + c * a->ld), x, acc[c]);
  }
  for (; i < a->n; i++) FK_UNROLL
  for (int c = 0; c < n; c++) sum[c] += A[i + c * a->ld] * a->x[i];
  FK_UNROLL
  for (int c = 0; c < n; c++) {
    double lanes[V_LANES];
    V_STORE(lanes, acc[c]);
    for (int l = 0; l < V_LANES; l++) sum[c] += lanes[l];
    a->y[k + c] += a->alpha * sum[c];
  }
}

static void FN(multiply_vector_transposed)(const struct fk_tile_vector *a) {
  int64_t k = 0;
  for (; k + 4 <= a->d; k += 4) FN(multiply_columns)(a, k, 4);
  for (; k < a->d; k++) FN(multiply_columns)(a, k, 1);
}

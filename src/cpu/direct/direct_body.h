/* The kernels of direct_tile.h, written once against the V_ operations of ../simd/vec_*.h.
 *
 * Vectors run along the sources, which are many, and targets are broadcast. direct_*.c define FK_ROWS (targets
 * side by side), ../simd/avx2.h and its twins FN(name) and, for float, FK_SINGLE.
 */
#define EXP2_GROUP (2 * FK_ROWS)
#include "../simd/exp2.h"

enum { FN(lanes) = V_LANES, FN(values) = 8 /* columns in one pass over the kernels */ };

/* ---- packing ---------------------------------------------------------------------------------- */

/* Loops over a leaf run over FK_DIRECT_LEAF sources: compilers make vectors of a loop whose length they know, and
 * what is written past the last one is overwritten or weighs nothing. */
static int FN(pack)(const struct fk_direct_pack *p) {
  double far2[FK_DIRECT_LEAF];
  int keep[FK_DIRECT_LEAF], kept = 0, count = p->count;
  const double *x = p->x + p->first;
  if (p->cut2 < INFINITY) {
    for (int i = 0; i < FK_DIRECT_LEAF; i++) far2[i] = 0;
    for (int k = 0; k < p->d; k++, x += p->n) {
      double centre = p->centre[k], half = p->half[k];
      for (int i = 0; i < FK_DIRECT_LEAF; i++) {
        double gap = fabs(x[i] - centre) - half;
        gap = gap > 0 ? gap : 0;
        far2[i] += gap * gap;
      }
    }
    for (int i = 0; i < count; i++) {
      keep[kept] = i;
      kept += far2[i] <= p->cut2;
    }
    x = p->x + p->first;
  } else {
    kept = count;
  }
  REAL *to = (REAL *)p->sources + p->at;
  for (int k = 0; k < p->d; k++, x += p->n, to += FK_DIRECT_PACKED) {
    double centre = p->centre[k], scale = p->scale;
    if (kept == count)
      for (int i = 0; i < FK_DIRECT_LEAF; i++) to[i] = (REAL)((x[i] - centre) * scale);
    else
      for (int i = 0; i < kept; i++) to[i] = (REAL)((x[keep[i]] - centre) * scale);
  }
  to = (REAL *)p->b + p->at;
  if (!p->columns)
    for (int i = 0; i < FK_DIRECT_LEAF; i++) to[i] = 1;
  for (int c = 0; c < (p->columns ? p->n_columns : 0); c++, to += FK_DIRECT_PACKED) {
    const double *column = p->columns + c * p->n + p->first;
    if (kept == count)
      for (int i = 0; i < FK_DIRECT_LEAF; i++) to[i] = (REAL)column[i];
    else
      for (int i = 0; i < kept; i++) to[i] = (REAL)column[keep[i]];
  }
  return kept;
}

/* ---- sums along vectors ----------------------------------------------------------------------- */

/* V_SUMS adds up as many vectors as they have lanes: they wait here until there are enough. */
struct FN(queue) {
  V vectors[V_LANES];
  double *to[V_LANES];
  int n;
};

static __attribute__((noinline)) void FN(flush)(struct FN(queue) * q) {
  double sums[V_LANES] = {0};
  for (int i = q->n; i < V_LANES; i++) q->vectors[i] = V_SET(0);
  V_SUMS(sums, q->vectors);
  for (int i = 0; i < q->n; i++) *q->to[i] += sums[i];
  q->n = 0;
}

INLINE void FN(push)(struct FN(queue) * q, V vector, double *to) {
  q->vectors[q->n] = vector;
  q->to[q->n++] = to;
  if (q->n == V_LANES) FN(flush)(q);
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* Exponents in base 2 of `rows` targets and `cols` vectors of sources, t[r * cols + c]. */
INLINE void FN(exponents)(const struct fk_direct_tile *a, int target, int source, const int d, const int rows,
                          const int cols, V *t) {
  const REAL *x = (const REAL *)a->sources + source, *y = (const REAL *)a->targets + target;
  FK_UNROLL
  for (int i = 0; i < rows * cols; i++) t[i] = V_SET(0);
  for (int k = 0; k < d; k++, x += FK_DIRECT_PACKED, y += FK_DIRECT_GROUP) {
    V at[4];
    FK_UNROLL
    for (int c = 0; c < cols; c++) at[c] = V_LOAD(x + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < rows; r++) {
      V from = V_SET(y[r]);
      FK_UNROLL
      for (int c = 0; c < cols; c++) {
        V z = V_SUB(at[c], from);
        t[r * cols + c] = V_FNMA(z, z, t[r * cols + c]);
      }
    }
  }
}

/* One column of kernels alone. */
INLINE void FN(mass_step)(const struct fk_direct_tile *a, int target, int source, const int d, const int rows,
                          const int cols, V *mass) {
  V t[EXP2_GROUP];
  FN(exponents)(a, target, source, d, rows, cols, t);
  FN(exp2)(t, rows * cols);
  FK_UNROLL
  for (int c = 0; c < cols; c++) {
    V b = V_LOAD((const REAL *)a->b + source + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < rows; r++) mass[r] = V_FMA(t[r * cols + c], b, mass[r]);
  }
}

INLINE void FN(mass_rows)(const struct fk_direct_tile *a, int target, const int d, const int rows, const int cols,
                          struct FN(queue) * q) {
  V mass[FK_ROWS];
  int source = 0, end = (a->n_sources + V_LANES - 1) / V_LANES * V_LANES;
  FK_UNROLL
  for (int r = 0; r < rows; r++) mass[r] = V_SET(0);
  for (; source + cols * V_LANES <= end; source += cols * V_LANES)
    FN(mass_step)(a, target, source, d, rows, cols, mass);
  for (; source < end; source += V_LANES) FN(mass_step)(a, target, source, d, rows, 1, mass);
  for (int r = 0; r < rows; r++) FN(push)(q, mass[r], a->sums + target + r);
}

INLINE void FN(mass)(const struct fk_direct_tile *a, const int d) {
  struct FN(queue) q;
  int target = 0;
  q.n = 0;
  for (; target + FK_ROWS <= a->n_targets; target += FK_ROWS) FN(mass_rows)(a, target, d, FK_ROWS, 2, &q);
  for (; target < a->n_targets; target++) FN(mass_rows)(a, target, d, 1, FK_ROWS, &q);
  FN(flush)(&q);
}

/* Exponents less the targets' shifts and the sources' lifts: whole numbers, whose sum is exact. */
INLINE void FN(take_off)(const struct fk_direct_tile *a, int target, int source, const int rows, const int cols,
                         const V *t, V *kernel) {
  const REAL *lift = (const REAL *)a->sources + a->d * FK_DIRECT_PACKED + source;
  FK_UNROLL
  for (int i = 0; i < rows * cols; i++) {
    V off = V_SET(a->shift ? (REAL)a->shift[target + i / cols] : 0);
    if (a->lifted) {
      V root = V_LOAD(lift + i % cols * V_LANES);
      off = V_ADD(off, V_SUB(V_FMA(root, root, V_SET(EXP2_MAGIC)), V_SET(EXP2_MAGIC)));
    }
    kernel[i] = V_MIN(V_SET(0), V_SUB(t[i], off));
  }
}

/* Columns of one pass over the kernels. */
struct FN(columns) {
  int first, count;
  double *gradient; /* NULL: not with these */
};

/* Everything else: shifts, the factor, several columns, the gradient. sum[v][r]: columns, then the gradient. */
INLINE void FN(value_step)(const struct fk_direct_tile *a, int target, int source, struct FN(columns) columns,
                           const int rows, const int cols, V sum[][FK_ROWS]) {
  V t[EXP2_GROUP], kernel[EXP2_GROUP];
  FN(exponents)(a, target, source, a->d, rows, cols, t);
  if (a->shift || a->lifted) {
    FN(take_off)(a, target, source, rows, cols, t, kernel);
  } else {
    FK_UNROLL
    for (int i = 0; i < rows * cols; i++) kernel[i] = t[i];
  }
  FN(exp2)(kernel, rows * cols);
  if (a->has_factor && !a->absolute) {
    FK_UNROLL
    for (int i = 0; i < rows * cols; i++) {
      V s = V_MAX(t[i], V_SET(a->shift ? (REAL)-1e30 : EXP2_LOWEST)); /* finite where the kernel is 0 */
      V f = V_FMA(s, V_SET((REAL)a->factor[2]), V_SET((REAL)a->factor[1]));
      kernel[i] = V_MUL(kernel[i], V_FMA(s, f, V_SET((REAL)a->factor[0])));
    }
  }
  for (int v = 0; v < columns.count; v++) {
    const REAL *b = (const REAL *)a->b + (columns.first + v) * FK_DIRECT_PACKED + source;
    FK_UNROLL
    for (int c = 0; c < cols; c++) {
      V value = V_LOAD(b + c * V_LANES);
      if (a->absolute) value = V_MAX(value, V_SUB(V_SET(0), value));
      FK_UNROLL
      for (int r = 0; r < rows; r++) sum[v][r] = V_FMA(kernel[r * cols + c], value, sum[v][r]);
    }
  }
  if (!columns.gradient) return;
  const REAL *x = (const REAL *)a->sources + source, *y = (const REAL *)a->targets + target;
  FK_UNROLL
  for (int c = 0; c < cols; c++) {
    V b = V_LOAD((const REAL *)a->b + source + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < rows; r++) kernel[r * cols + c] = V_MUL(kernel[r * cols + c], b);
  }
  for (int k = 0; k < a->d; k++, x += FK_DIRECT_PACKED, y += FK_DIRECT_GROUP) {
    FK_UNROLL
    for (int r = 0; r < rows; r++) FK_UNROLL
    for (int c = 0; c < cols; c++)
      sum[columns.count + k][r] =
          V_FMA(kernel[r * cols + c], V_SUB(V_LOAD(x + c * V_LANES), V_SET(y[r])), sum[columns.count + k][r]);
  }
}

INLINE void FN(value_rows)(const struct fk_direct_tile *a, int target, struct FN(columns) columns, const int rows,
                           const int cols, struct FN(queue) * q) {
  V sum[FN(values) + 7][FK_ROWS];
  int count = columns.count, n_sums = count + (columns.gradient ? a->d : 0);
  int source = 0, end = (a->n_sources + V_LANES - 1) / V_LANES * V_LANES;
  for (int v = 0; v < n_sums; v++) FK_UNROLL
  for (int r = 0; r < rows; r++) sum[v][r] = V_SET(0);
  for (; source + cols * V_LANES <= end; source += cols * V_LANES)
    FN(value_step)(a, target, source, columns, rows, cols, sum);
  for (; source < end; source += V_LANES) FN(value_step)(a, target, source, columns, rows, 1, sum);
  for (int v = 0; v < n_sums; v++) {
    double *to = v < count ? a->sums + (columns.first + v) * FK_DIRECT_GROUP
                           : columns.gradient + (v - count) * FK_DIRECT_GROUP;
    for (int r = 0; r < rows; r++) FN(push)(q, sum[v][r], to + target + r);
  }
}

static void FN(values_of)(const struct fk_direct_tile *a) {
  struct FN(queue) q;
  q.n = 0;
  for (int first = 0; first < a->n_columns; first += FN(values)) {
    int left = a->n_columns - first, count = left < FN(values) ? left : FN(values), target = 0;
    struct FN(columns) columns = {first, count, first == 0 ? a->gradient : NULL};
    for (; target + FK_ROWS <= a->n_targets; target += FK_ROWS) FN(value_rows)(a, target, columns, FK_ROWS, 2, &q);
    for (; target < a->n_targets; target++) FN(value_rows)(a, target, columns, 1, FK_ROWS, &q);
  }
  FN(flush)(&q);
}

static void FN(sums)(const struct fk_direct_tile *a) {
  int end = (a->n_sources + V_LANES - 1) / V_LANES * V_LANES;
  for (int i = a->n_sources; i < end; i++) {
    for (int k = 0; k < a->d + a->lifted; k++) ((REAL *)a->sources)[k * FK_DIRECT_PACKED + i] = 0;
    for (int c = 0; c < a->n_columns; c++) ((REAL *)a->b)[c * FK_DIRECT_PACKED + i] = 0;
  }
  if (a->n_columns > 1 || a->gradient || a->shift || a->lifted || a->has_factor || a->absolute)
    FN(values_of)(a);
  else if (a->d == 1)
    FN(mass)(a, 1);
  else if (a->d == 2)
    FN(mass)(a, 2);
  else if (a->d == 3)
    FN(mass)(a, 3);
  else
    FN(mass)(a, a->d);
}

static const struct fk_direct_ops FN(ops) = {.pack = FN(pack), .sums = FN(sums)};

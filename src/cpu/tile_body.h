/* The kernels of tile.h, written once against the V_ operations of simd/vec_*.h.
 *
 * tile_*.c define FK_ROWS and FK_COLS (the register block: rows x vectors), simd/avx2.h and its twins FN(name)
 * and, for float, FK_SINGLE; vec_*.h defines REAL. What is defined here is undefined again at the end.
 */
#define PANEL (V_LANES * FK_COLS)
#define EXP2_GROUP (2 * FK_COLS) /* vectors whose exponentials run side by side */
#define ROW_SUMS (2 * FK_ROWS)   /* sums along vectors in registers at a time, a multiple of V_LANES */

#include "simd/exp2.h"
#include "simd/stretched.h"

#ifdef FK_SINGLE
#define RATIONAL_LOWEST -0x1p126f
#else
#define RATIONAL_LOWEST -0x1p1022
#endif

_Static_assert(ROW_SUMS % V_LANES == 0 && FK_TILE_ROWS % ROW_SUMS == 0 && FK_TILE_COLS % PANEL == 0 &&
                   FK_ROWS * FK_COLS % EXP2_GROUP == 0 && 48 % PANEL == 0,
               "the register block does not fit the tile");

/* A sum less the square of a difference, or less its absolute value. */
INLINE V FN(less)(V sum, V z, const enum fk_metric metric) {
  return metric == FK_METRIC_ABSOLUTE ? V_SUB(sum, V_ABS(z)) : V_FNMA(z, z, sum);
}

#ifndef FK_SINGLE
#include "tile_doubled.h"
#endif

/* Exponents (base 2) of FK_ROWS row points against one panel of column points. */
INLINE void FN(exponents)(const struct fk_tile *a, int row, int col, const enum fk_metric metric,
                          V acc[FK_ROWS][FK_COLS]) {
  const REAL *rows = (const REAL *)a->rows + (row / PANEL) * PANEL * a->d + row % PANEL;
  const REAL *cols = (const REAL *)a->cols + col * a->d;
  const REAL *row_const = (const REAL *)a->row_const + row, *col_const = (const REAL *)a->col_const + col;

#ifndef FK_SINGLE
  if (metric != FK_METRIC_PRODUCTS && a->rows_low) {
    V sums[FK_ROWS][FK_COLS]; /* acc stays in registers: its address goes nowhere */
    FN(doubled_exponents)(a, row, col, metric, sums);
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = sums[r][c];
    return;
  }
#endif
  FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) {
    V constant = V_LOAD(col_const + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++)
      acc[r][c] = metric == FK_METRIC_PRODUCTS ? V_ADD(constant, V_SET(row_const[r])) : constant;
  }
  for (int64_t k = 0; k < a->d; k++) {
    V y[FK_COLS];
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) y[c] = V_LOAD(cols + k * PANEL + c * V_LANES);
    FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) {
      V x = V_SET(rows[k * PANEL + r]);
      FK_UNROLL
      for (int c = 0; c < FK_COLS; c++) {
        if (metric == FK_METRIC_PRODUCTS)
          acc[r][c] = V_FMA(x, y[c], acc[r][c]);
        else
          acc[r][c] = FN(less)(acc[r][c], V_SUB(y[c], x), metric);
      }
    }
  }
}

/* -sqrt(-t) in place; 0 stays 0, so that a kernel is 1 at its own point. */
INLINE void FN(negative_roots)(V t[FK_ROWS][FK_COLS]) {
  FK_UNROLL
  for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) t[r][c] = V_SUB(V_SET(0), V_SQRT(V_SUB(V_SET(0), t[r][c])));
}

/* 1 / (1 - t), or its root, in place; the bound keeps distances that overflow from NaN. */
INLINE void FN(rational)(V *t, const int count, const bool root) {
  FK_UNROLL
  for (int i = 0; i < count; i++) t[i] = V_DIV(V_SET(1), V_SUB(V_SET(1), V_MAX(t[i], V_SET(RATIONAL_LOWEST))));
  if (!root) return;
  FK_UNROLL
  for (int i = 0; i < count; i++) t[i] = V_SQRT(t[i]);
}

INLINE void FN(sums_body)(const struct fk_tile *a, const unsigned flags, const int form,
                          const enum fk_metric metric, const int factor, const int symmetric) {
  const bool store = flags & FK_TILE_STORE, root = flags & FK_TILE_IMQ;
  const REAL *row_weight = a->row_weight, *row_exponent = a->row_exponent, *col_weight = a->col_weight,
             *col_shift = symmetric ? NULL : a->col_shift;
  REAL *kernel = a->kernel;
  V row_mass[FK_TILE_ROWS];
  if (symmetric)
    for (int r = 0; r < FK_TILE_ROWS; r++) row_mass[r] = V_SET(0);

  for (int col = 0; col < a->n_cols; col += PANEL) {
    V mass[FK_COLS];
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) mass[c] = V_SET(0);
    for (int row = 0; row < a->n_rows; row += FK_ROWS) {
      V t[FK_ROWS][FK_COLS];
      FN(exponents)(a, row, col, metric, t);
      if (form == FK_TILE_ROOT) FN(negative_roots)(t);
      FK_UNROLL
      for (int r0 = 0; r0 < FK_ROWS; r0 += EXP2_GROUP / FK_COLS) {
        V k[EXP2_GROUP];
        FK_UNROLL
        for (int i = 0; i < EXP2_GROUP; i++) k[i] = t[r0 + i / FK_COLS][i % FK_COLS];
        if (form == FK_TILE_STRETCHED) FN(stretched)(k, EXP2_GROUP, (REAL)a->power);
        if (col_shift) { /* rows of weight 0 may be nearer than the nearest: no overflow from them */
          FK_UNROLL
          for (int i = 0; i < EXP2_GROUP; i++) {
            V exponent = V_ADD(k[i], V_SET(row_exponent[row + r0 + i / FK_COLS]));
            k[i] = V_MIN(V_SET(0), V_SUB(exponent, V_LOAD(col_shift + col + i % FK_COLS * V_LANES)));
          }
        }
        if (form == FK_TILE_RATIONAL)
          FN(rational)(k, EXP2_GROUP, root);
        else
          FN(exp2)(k, EXP2_GROUP);
        FK_UNROLL
        for (int i = 0; i < EXP2_GROUP; i++) {
          const int r = r0 + i / FK_COLS, c = i % FK_COLS;
          if (factor) {
            V s = V_MAX(t[r][c], V_SET(col_shift ? (REAL)-1e30 : EXP2_LOWEST)); /* finite where k is 0 */
            V f = V_FMA(s, V_SET((REAL)a->factor[2]), V_SET((REAL)a->factor[1]));
            k[i] = V_MUL(k[i], V_FMA(s, f, V_SET((REAL)a->factor[0])));
          }
          mass[c] = V_FMA(V_SET(row_weight[row + r]), k[i], mass[c]);
          if (symmetric)
            row_mass[row + r] = V_FMA(k[i], V_LOAD(col_weight + col + c * V_LANES), row_mass[row + r]);
        }
        if (store) {
          FK_UNROLL
          for (int i = 0; i < EXP2_GROUP; i++)
            V_STORE(kernel + (row + r0 + i / FK_COLS) * FK_TILE_COLS + col + i % FK_COLS * V_LANES, k[i]);
        }
      }
    }
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) V_ADD_TO(a->col_mass + col + c * V_LANES, mass[c]);
  }
  if (symmetric)
    for (int r = 0; r < a->n_rows; r += V_LANES) V_SUMS(a->row_mass + r, row_mass + r);
}

#ifndef FK_SINGLE
#include "tile_product.h"
#endif

/* One copy of the body for each combination that is used; conditions on constants vanish. Whether kernels are
 * stored, and whether a root is taken, is asked as the loops run: copies for that take twice as long to compile.
 */
#define SUMS_CASE(form, difference, factor, symmetric)                                                            \
  case form | (difference ? FK_TILE_DIFFERENCE : 0) | (factor ? FK_TILE_FACTOR : 0) |                             \
      (symmetric ? FK_TILE_SYMMETRIC : 0):                                                                        \
    FN(sums_body)(a, flags, form, fk_tile_metric((form) | (difference)), factor, symmetric);                      \
    break;
#define SUMS_CASES(form, difference, factor)                                                                      \
  SUMS_CASE(form, difference, factor, 0)                                                                          \
  SUMS_CASE(form, difference, factor, 1)

static void FN(sums)(const struct fk_tile *a, unsigned flags) {
  unsigned copy = flags & ~(unsigned)FK_TILE_STORE;
  if (copy & FK_TILE_RATIONAL) copy |= FK_TILE_RATIONAL;
  switch (copy) {
    SUMS_CASES(0, 0, 0)
    SUMS_CASES(0, 0, 1)
    SUMS_CASES(0, 1, 0)
    SUMS_CASES(0, 1, 1)
    SUMS_CASES(FK_TILE_ROOT, 1, 1)
    SUMS_CASES(FK_TILE_STRETCHED, 1, 0)
    SUMS_CASES(FK_TILE_ABSOLUTE, 1, 0)
    SUMS_CASES(FK_TILE_RATIONAL, 1, 0)
#ifndef FK_SINGLE
    default: FN(product_sums)(a, flags);
#endif
  }
}

/* Rows of weight 0 do not count: they include the padding. */
INLINE void FN(largest_body)(const struct fk_tile *a, const enum fk_metric metric, const unsigned flags) {
  const REAL *row_weight = a->row_weight, *row_exponent = a->row_exponent, power = (REAL)a->power;
  for (int col = 0; col < a->n_cols; col += PANEL) {
    V top[FK_COLS];
    REAL lane[PANEL];
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) top[c] = V_SET(-INFINITY);
    for (int row = 0; row < a->n_rows; row += FK_ROWS) {
      V t[FK_ROWS][FK_COLS];
      FN(exponents)(a, row, col, metric, t);
      if (flags & FK_TILE_ROOT) FN(negative_roots)(t);
      for (int r = 0; (flags & FK_TILE_STRETCHED) && r < FK_ROWS; r++) FN(stretched)(t[r], FK_COLS, power);
      for (int r = 0; r < FK_ROWS; r++) {
        if (row_weight[row + r] == 0) continue;
        FK_UNROLL
        for (int c = 0; c < FK_COLS; c++) t[r][c] = V_ADD(t[r][c], V_SET(row_exponent[row + r]));
        for (int c = 0; a->col_index && c < FK_COLS; c++) {
          REAL kept[V_LANES];
          V_STORE(kept, t[r][c]);
          for (int l = 0; l < V_LANES; l++)
            if (a->col_index[col + c * V_LANES + l] == a->first_row + row + r) kept[l] = -INFINITY;
          t[r][c] = V_LOAD(kept);
        }
        FK_UNROLL
        for (int c = 0; c < FK_COLS; c++) top[c] = V_MAX(t[r][c], top[c]);
      }
    }
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) V_STORE(lane + c * V_LANES, top[c]);
    for (int l = 0; l < PANEL; l++)
      if (lane[l] > a->col_mass[col + l]) a->col_mass[col + l] = lane[l];
  }
}

static void FN(largest)(const struct fk_tile *a, unsigned flags) {
  switch (fk_tile_metric(flags)) {
    case FK_METRIC_SQUARES: FN(largest_body)(a, FK_METRIC_SQUARES, flags); break;
    case FK_METRIC_ABSOLUTE: FN(largest_body)(a, FK_METRIC_ABSOLUTE, 0); break;
    case FK_METRIC_PRODUCTS: FN(largest_body)(a, FK_METRIC_PRODUCTS, 0); break;
  }
}

/* out[v, col] += sum over rows of k * weight * values: columns are vectors, values are broadcast. With few
 * values, `side_by_side` rows have sums of their own, for one sum alone would wait for itself. */
INLINE void FN(col_values_body)(const struct fk_tile_values *a, int64_t v0, const int n_values,
                                const int side_by_side, const int weighted) {
  const REAL *kernel = a->kernel, *weight = a->weight;
  for (int col = 0; col < a->n_cols; col += PANEL) {
    V acc[FK_ROWS][FK_COLS];
    FK_UNROLL
    for (int i = 0; i < n_values * side_by_side; i++) FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[i][c] = V_SET(0);
    for (int row = 0; row < a->n_rows; row += side_by_side) {
      FK_UNROLL
      for (int r = 0; r < side_by_side; r++) {
        const int at = row + r;
        const REAL *values = (const REAL *)a->values + ((at / PANEL) * a->n_values + v0) * PANEL + at % PANEL;
        V p[FK_COLS];
        FK_UNROLL
        for (int c = 0; c < FK_COLS; c++) {
          p[c] = V_LOAD(kernel + at * FK_TILE_COLS + col + c * V_LANES);
          if (weighted) p[c] = V_MUL(p[c], V_SET(weight[at]));
        }
        FK_UNROLL
        for (int v = 0; v < n_values; v++) {
          V b = V_SET(values[v * PANEL]);
          const int i = v * side_by_side + r;
          FK_UNROLL
          for (int c = 0; c < FK_COLS; c++) acc[i][c] = V_FMA(p[c], b, acc[i][c]);
        }
      }
    }
    FK_UNROLL
    for (int v = 0; v < n_values; v++) FK_UNROLL
    for (int r = 0; r < side_by_side; r++) FK_UNROLL
    for (int c = 0; c < FK_COLS; c++)
      V_ADD_TO(a->out + (v0 + v) * a->ld + col + c * V_LANES, acc[v * side_by_side + r][c]);
  }
}

/* out[v, row] += sum over columns of k * weight * values: the sum runs along the vectors. Rows past n_rows
 * may be met: the tile has room for FK_TILE_ROWS, and nobody reads them. */
INLINE void FN(row_values_body)(const struct fk_tile_values *a, int64_t v0, const int n_values,
                                const int weighted) {
  const REAL *kernel = a->kernel, *weight = a->weight;
  const int n_rows = ROW_SUMS / n_values;
  for (int row = 0; row < a->n_rows; row += n_rows) {
    V acc[ROW_SUMS];
    double sums[ROW_SUMS] = {0};
    FK_UNROLL
    for (int i = 0; i < ROW_SUMS; i++) acc[i] = V_SET(0);
    for (int col = 0; col < a->n_cols; col += V_LANES) {
      const REAL *values = (const REAL *)a->values + ((col / PANEL) * a->n_values + v0) * PANEL + col % PANEL;
      V b[4];
      FK_UNROLL
      for (int v = 0; v < n_values; v++) {
        b[v] = V_LOAD(values + v * PANEL);
        if (weighted) b[v] = V_MUL(b[v], V_LOAD(weight + col));
      }
      FK_UNROLL
      for (int r = 0; r < n_rows; r++) {
        V p = V_LOAD(kernel + (row + r) * FK_TILE_COLS + col);
        FK_UNROLL
        for (int v = 0; v < n_values; v++) acc[v * n_rows + r] = V_FMA(p, b[v], acc[v * n_rows + r]);
      }
    }
    FK_UNROLL
    for (int i = 0; i < ROW_SUMS; i += V_LANES) V_SUMS(sums + i, acc + i);
    for (int v = 0; v < n_values; v++)
      for (int r = 0; r < n_rows; r++) a->out[(v0 + v) * a->ld + row + r] += sums[v * n_rows + r];
  }
}

/* Values in groups of as many as the registers hold, then the rest in smaller ones. */
#define COL_VALUES(group)                                                                                         \
  for (; v + group <= a->n_values; v += group) {                                                                  \
    if (a->weight)                                                                                                \
      FN(col_values_body)(a, v, group, group < 4 ? 4 / group : 1, 1);                                             \
    else                                                                                                          \
      FN(col_values_body)(a, v, group, group < 4 ? 4 / group : 1, 0);                                             \
  }
#define ROW_VALUES(group)                                                                                         \
  for (; v + group <= a->n_values; v += group) {                                                                  \
    if (a->weight)                                                                                                \
      FN(row_values_body)(a, v, group, 1);                                                                        \
    else                                                                                                          \
      FN(row_values_body)(a, v, group, 0);                                                                        \
  }

static void FN(col_values)(const struct fk_tile_values *a) {
  int64_t v = 0;
  if (FK_ROWS == 8) COL_VALUES(8)
  COL_VALUES(4)
  COL_VALUES(2)
  COL_VALUES(1)
}

static void FN(row_values)(const struct fk_tile_values *a) {
  int64_t v = 0;
  if (FK_ROWS == 8) ROW_VALUES(4)
  ROW_VALUES(2)
  ROW_VALUES(1)
}

#ifndef FK_SINGLE
#include "tile_loo.h"
#include "tile_moments.h"
#include "tile_cubes.h"
#include "tile_dense.h"
#include "tile_derivatives.h"
#include "tile_near.h"
#include "tile_normal.h"
#include "tile_scales.h"
#include "tile_slopes.h"
#include "tile_vector.h"

/* Rows k .. k + n - 1 of L^-1 u, those before them being done; see core/host.h. */
INLINE void FN(solve_rows)(const double *chol, int64_t d, double *u, int64_t width, int64_t k, const int n) {
  V acc[4][FK_COLS];
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_LOAD(u + (k + r) * width + c * V_LANES);
  for (int64_t l = 0; l < k; l++) FK_UNROLL
  for (int r = 0; r < n; r++) {
    V factor = V_SET(chol[k + r + l * d]);
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_FNMA(factor, V_LOAD(u + l * width + c * V_LANES), acc[r][c]);
  }
  FK_UNROLL
  for (int r = 0; r < n; r++) {
    V inverse = V_SET(1 / chol[(k + r) * (d + 1)]);
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) {
      FK_UNROLL
      for (int s = 0; s < r; s++) acc[r][c] = V_FNMA(V_SET(chol[k + r + (k + s) * d]), acc[s][c], acc[r][c]);
      acc[r][c] = V_MUL(acc[r][c], inverse);
      V_STORE(u + (k + r) * width + c * V_LANES, acc[r][c]);
    }
  }
}

static void FN(block_solve)(const double *chol, int64_t d, double *u, int64_t width) {
  for (int64_t col = 0; col < width; col += PANEL) {
    int64_t k = 0;
    for (; k + 4 <= d; k += 4) FN(solve_rows)(chol, d, u + col, width, k, 4);
    for (; k < d; k++) FN(solve_rows)(chol, d, u + col, width, k, 1);
  }
}

INLINE void FN(multiply_rows)(const double *A, int64_t d, const double *u, int64_t width, double *out, int64_t k,
                              const int n) {
  V acc[4][FK_COLS];
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_SET(0);
  for (int64_t l = 0; l < d; l++) FK_UNROLL
  for (int r = 0; r < n; r++) {
    V factor = V_SET(A[k + r + l * d]);
    FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_FMA(factor, V_LOAD(u + l * width + c * V_LANES), acc[r][c]);
  }
  FK_UNROLL
  for (int r = 0; r < n; r++) FK_UNROLL
  for (int c = 0; c < FK_COLS; c++) V_STORE(out + (k + r) * width + c * V_LANES, acc[r][c]);
}

static void FN(block_multiply)(const double *A, int64_t d, const double *u, int64_t width, double *out) {
  for (int64_t col = 0; col < width; col += PANEL) {
    int64_t k = 0;
    for (; k + 4 <= d; k += 4) FN(multiply_rows)(A, d, u + col, width, out + col, k, 4);
    for (; k < d; k++) FN(multiply_rows)(A, d, u + col, width, out + col, k, 1);
  }
}
#endif

/* Multiply-adds a second that the register block can reach: the ceiling that the benches print. */
static double FN(fma_rate)(double seconds) {
  V acc[FK_ROWS][FK_COLS], x = V_SET((REAL)0.999), y = V_SET((REAL)1e-3);
  for (int r = 0; r < FK_ROWS; r++)
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_SET((REAL)(r + c));
  double start = fk_seconds(), elapsed = 0, count = 0;
  while (elapsed < seconds) {
    for (int i = 0; i < 20000; i++) FK_UNROLL
    for (int r = 0; r < FK_ROWS; r++) FK_UNROLL
    for (int c = 0; c < FK_COLS; c++) acc[r][c] = V_FMA(acc[r][c], x, y);
    count += 20000.0 * FK_ROWS * FK_COLS * V_LANES;
    elapsed = fk_seconds() - start;
  }
  double keep[V_LANES] = {0}; /* never NaN: without the question the loop would be dropped */
  for (int r = 0; r < FK_ROWS; r++)
    for (int c = 0; c < FK_COLS; c++) V_ADD_TO(keep, acc[r][c]);
  return keep[0] == keep[0] ? count / elapsed : 0;
}

#ifdef FK_SINGLE
#define DOUBLE_ONLY(kernel) NULL
#else
#define DOUBLE_ONLY(kernel) kernel
#endif
static const struct fk_tile_ops FN(ops) = {
    .panel = PANEL,
    .row_step = FK_ROWS,
    .sums = FN(sums),
    .largest = FN(largest),
    .col_values = FN(col_values),
    .row_values = FN(row_values),
    .differences = DOUBLE_ONLY(FN(differences)),
    .signs = DOUBLE_ONLY(FN(signs)),
    .loo = DOUBLE_ONLY(FN(loo)),
    .moments = DOUBLE_ONLY(FN(moments)),
    .scales = DOUBLE_ONLY(FN(scales)),
    .near_points = DOUBLE_ONLY(FN(near_points)),
    .near_box = DOUBLE_ONLY(FN(near_box)),
    .derivatives = DOUBLE_ONLY(FN(derivatives)),
    .cubes = DOUBLE_ONLY(FN(cubes)),
    .point_exponents = DOUBLE_ONLY(FN(point_exponents)),
    .powers_of_two = DOUBLE_ONLY(FN(powers_of_two)),
    .stretched_slopes = DOUBLE_ONLY(FN(stretched_slopes)),
    .normal_sums = DOUBLE_ONLY(FN(normal_sums)),
    .block_solve = DOUBLE_ONLY(FN(block_solve)),
    .block_multiply = DOUBLE_ONLY(FN(block_multiply)),
    .multiply = DOUBLE_ONLY(FN(multiply)),
    .solve = DOUBLE_ONLY(FN(solve)),
    .factor = DOUBLE_ONLY(FN(factor)),
    .transposed = DOUBLE_ONLY(FN(transposed)),
    .copied = DOUBLE_ONLY(FN(copied)),
    .multiply_vector = DOUBLE_ONLY(FN(multiply_vector)),
    .multiply_vector_transposed = DOUBLE_ONLY(FN(multiply_vector_transposed)),
    .multiply_across = DOUBLE_ONLY(FN(multiply_across)),
    .vector_lanes = V_LANES,
    .fma_rate = FN(fma_rate),
};

#undef RATIONAL_LOWEST
#undef PANEL
#undef ROW_SUMS
#undef SUMS_CASE
#undef SUMS_CASES
#undef COL_VALUES
#undef ROW_VALUES
#undef DOUBLE_ONLY

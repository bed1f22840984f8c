/* The loops of kernels.h, written once against the V_ operations of ../simd/vec_*.h.
 *
 * kernels_*.c define FIR_ROWS (rows that share a tap) and FIR_VECTORS, ../simd/avx2.h and its twins FN(name) and,
 * for float, FK_SINGLE; vec_*.h defines REAL. What is defined here is undefined again at the end.
 */
#define INLINE static inline __attribute__((always_inline))
#define FLOOR_MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer, kept in the low bits */

/* ---- windows ---------------------------------------------------------------------------------- */

/* Widths 3 and 4, 5 to 8, 9 to 12, 13. Of two lanes a vector, rows of 6, 10 and 14 are whole vectors, too; but an
 * x86 processor whose best has two lanes is from before 2013, and not worth the copies. */
#if V_LANES == 2 && !defined(FK_X86)
#define EVERY_ROW
#endif
#define ROW 4
#include "kernels_window.h"
#define ROW 8
#include "kernels_window.h"
#ifndef FK_SINGLE
#if V_LANES > 2 || defined(EVERY_ROW)
#define ROW 12
#include "kernels_window.h"
#endif
#ifdef EVERY_ROW
#define ROW 6
#include "kernels_window.h"
#define ROW 10
#include "kernels_window.h"
#define ROW 14
#include "kernels_window.h"
#else
#define ROW 16
#include "kernels_window.h"
#endif
#endif

/* ---- points ----------------------------------------------------------------------------------- */

/* A vector of as many doubles as fit a register, and vectors of equally many integers and REALs. */
enum { FN(DOUBLES) = V_LANES * sizeof(REAL) / sizeof(double) };
typedef double FN(doubles)
    __attribute__((vector_size(V_LANES * sizeof(REAL)), aligned(sizeof(double)), may_alias));
typedef int64_t FN(integers)
    __attribute__((vector_size(V_LANES * sizeof(REAL)), aligned(sizeof(double)), may_alias));
typedef REAL FN(reals) __attribute__((vector_size(FN(DOUBLES) * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

INLINE FN(doubles) FN(floor)(FN(doubles) x) {
  FN(doubles) one = {0}, r = (x + FLOOR_MAGIC) - FLOOR_MAGIC;
  one = one + 1;
  return r - (FN(doubles))((FN(integers))one & (FN(integers))(r > x));
}

/* One dimension of one vector of points: adds to keys, and to outside where a point is. */
INLINE void FN(locate_some)(const struct fk_layout *layout, int k, const double *u, uint64_t *keys, REAL *out,
                            FN(integers) * outside) {
  double side = (double)layout->side[k], per_side = 1 / side, limit = layout->limit[k];
  /* float would round up to the next block */
  double last = side - side * (sizeof(REAL) == sizeof(float) ? 0x1p-24 : 0x1p-53);
  FN(doubles) most = {0};
  most = most + last;
  FN(doubles) s = *(const FN(doubles) *)u * layout->inverse_spacing, r = FN(floor)(s * per_side);
  FN(doubles) local = s - r * side, magic = {0};
  FN(integers) above = (FN(integers))(local > most);
  local = (FN(doubles))(((FN(integers))most & above) | ((FN(integers))local & ~above));
  *(FN(reals) *)out = __builtin_convertvector(local, FN(reals));
  magic = magic + FLOOR_MAGIC;
  FN(integers) number = (FN(integers))(r + magic) - (FN(integers))magic;
  number <<= layout->shift[k];
  if (layout->quarters && k == layout->d - 1)
    number += (FN(integers))(FN(floor)(local * (4 * per_side)) + magic) - (FN(integers))magic;
  *(FN(integers) *)keys += number;
  *outside |= ~((FN(integers))(r < limit) & (FN(integers))(r > -limit));
}

static bool FN(locate)(const struct fk_layout *layout, const struct fk_grid_points *points, int64_t first,
                       int64_t n, uint64_t *keys, void *coordinates, int64_t ld) {
  FN(integers) outside = {0};
  for (int64_t i = 0; i < n; i++) keys[i] = layout->bias;
  for (int k = 0; k < layout->d; k++) {
    const double *u = points->u + k * points->ld + first;
    REAL *out = (REAL *)coordinates + k * ld;
    int64_t i = 0, left = n % FN(DOUBLES);
    for (; i + FN(DOUBLES) <= n; i += FN(DOUBLES)) FN(locate_some)(layout, k, u + i, keys + i, out + i, &outside);
    if (left) {
      double some[FN(DOUBLES)] = {0};
      uint64_t key[FN(DOUBLES)] = {0};
      REAL local[FN(DOUBLES)];
      memcpy(some, u + i, (size_t)left * sizeof *some);
      memcpy(key, keys + i, (size_t)left * sizeof *key);
      FN(locate_some)(layout, k, some, key, local, &outside);
      memcpy(keys + i, key, (size_t)left * sizeof *key);
      memcpy(out + i, local, (size_t)left * sizeof *local);
    }
  }
  int64_t any = 0;
  for (int l = 0; l < FN(DOUBLES); l++) any |= outside[l];
  return !any;
}

/* Lane l of vector k of a step holds coordinate (k V_LANES + l) % d of some point. */
static void FN(bounds)(int d, const void *points, int64_t n, int64_t *low, int64_t *high) {
  const REAL *p = points;
  REAL least[FK_GRID_MAX_D * V_LANES], most[FK_GRID_MAX_D * V_LANES];
  int64_t i = 0, step = (int64_t)d * V_LANES, total = n * d;
  for (int l = 0; l < step; l++) least[l] = most[l] = p[l % d];
  if (total >= step) {
    V a[FK_GRID_MAX_D], b[FK_GRID_MAX_D];
    for (int k = 0; k < d; k++) a[k] = b[k] = V_LOAD(p + k * V_LANES);
    for (i = step; i + step <= total; i += step)
      for (int k = 0; k < d; k++) {
        V x = V_LOAD(p + i + k * V_LANES);
        a[k] = V_MIN(a[k], x);
        b[k] = V_MAX(b[k], x);
      }
    for (int k = 0; k < d; k++) {
      V_STORE(least + k * V_LANES, a[k]);
      V_STORE(most + k * V_LANES, b[k]);
    }
  }
  for (; i < total; i++) {
    least[i % d] = p[i] < least[i % d] ? p[i] : least[i % d];
    most[i % d] = p[i] > most[i % d] ? p[i] : most[i % d];
  }
  for (int64_t l = d; l < step; l++) {
    least[l % d] = least[l] < least[l % d] ? least[l] : least[l % d];
    most[l % d] = most[l] > most[l % d] ? most[l] : most[l % d];
  }
  for (int k = 0; k < d; k++) {
    low[k] = (int64_t)least[k];
    high[k] = (int64_t)most[k];
  }
}

/* ---- boxes ------------------------------------------------------------------------------------ */

/* Rows of a box, one after the other: false after the last. */
INLINE bool FN(next_row)(const struct fk_box *box, int64_t *at, int64_t *from, int64_t *to) {
  for (int k = 1; k < box->d; k++) {
    *from += box->from[k];
    *to += box->to[k];
    if (++at[k] < box->n[k]) return true;
    *from -= box->n[k] * box->from[k];
    *to -= box->n[k] * box->to[k];
    at[k] = 0;
  }
  return false;
}

static void FN(zero)(void *to, const struct fk_box *box) {
  int64_t at[FK_GRID_MAX_D] = {0}, from = 0, place = 0, n = box->n[0];
  do {
    REAL *row = (REAL *)to + place;
    int64_t x = 0;
    for (; x + V_LANES <= n; x += V_LANES) V_STORE(row + x, V_SET(0));
    for (; x < n; x++) row[x] = 0;
  } while (FN(next_row)(box, at, &from, &place));
}

static void FN(copy)(void *to, const void *from, const struct fk_box *box) {
  int64_t at[FK_GRID_MAX_D] = {0}, source = 0, place = 0, n = box->n[0];
  do {
    REAL *row = (REAL *)to + place;
    const REAL *in = (const REAL *)from + source;
    int64_t x = 0;
    for (; x + V_LANES <= n; x += V_LANES) V_STORE(row + x, V_LOAD(in + x));
    for (; x < n; x++) row[x] = in[x];
  } while (FN(next_row)(box, at, &source, &place));
}

static void FN(add)(double *to, const void *from, const struct fk_box *box) {
  int64_t at[FK_GRID_MAX_D] = {0}, source = 0, place = 0, n = box->n[0];
  do {
    double *row = to + place;
    const REAL *in = (const REAL *)from + source;
    int64_t x = 0;
    for (; x + V_LANES <= n; x += V_LANES) V_ADD_TO(row + x, V_LOAD(in + x));
    for (; x < n; x++) row[x] += (double)in[x];
  } while (FN(next_row)(box, at, &source, &place));
}

static void FN(convert)(void *to, const double *from, int64_t n) {
  REAL *out = to;
  int64_t i = 0;
  for (; i + FN(DOUBLES) <= n; i += FN(DOUBLES))
    *(FN(reals) *)(out + i) = __builtin_convertvector(*(const FN(doubles) *)(from + i), FN(reals));
  for (; i < n; i++) out[i] = (REAL)from[i];
}

/* ---- the filter ------------------------------------------------------------------------------- */

/* Along dimension 0: a number of the input times a vector of taps. `rows` lines of length `side`, `vectors` at a
 * time. */
INLINE void FN(fir_along)(const struct fk_fir *f, const void *const *const ins[2], REAL *out, const int rows,
                          const int vectors) {
  const int64_t side = f->side, reach = f->reach, width = vectors * V_LANES;
  for (int64_t line = 0; line < f->cells / side; line += rows)
    for (int64_t x = 0; x < side; x += width) {
      V sum[8][8];
      FK_UNROLL
      for (int r = 0; r < rows; r++) FK_UNROLL
      for (int v = 0; v < vectors; v++) sum[r][v] = V_SET(0);
      for (int set = 0; set < 2; set++)
        for (int64_t block = -f->blocks; ins[set] && block <= f->blocks; block++) {
          const REAL *in = ins[set][block + f->blocks];
          int64_t begin = x - reach - block * side, end = x + width + reach - block * side;
          if (!in) continue;
          in += line * side;
          if (begin < 0) begin = 0;
          if (end > side) end = side;
          const REAL *tap = (const REAL *)f->taps[set] + x - block * side;
          for (int64_t p = begin; p < end; p++) {
            V k[8];
            FK_UNROLL
            for (int v = 0; v < vectors; v++) k[v] = V_LOAD(tap - p + v * V_LANES);
            FK_UNROLL
            for (int r = 0; r < rows; r++) {
              V a = V_SET(in[r * side + p]);
              FK_UNROLL
              for (int v = 0; v < vectors; v++) sum[r][v] = V_FMA(a, k[v], sum[r][v]);
            }
          }
        }
      FK_UNROLL
      for (int r = 0; r < rows; r++) FK_UNROLL
      for (int v = 0; v < vectors; v++) V_STORE(out + (line + r) * side + x + v * V_LANES, sum[r][v]);
    }
}

/* Along another one: a tap times vectors of the input, for four places of the output. */
INLINE void FN(fir_across)(const struct fk_fir *f, const void *const *const ins[2], REAL *out, const int vectors) {
  enum { PLACES = 4 };
  const int64_t side = f->side, reach = f->reach, stride = f->stride, total = f->cells / side / V_LANES;
  for (int64_t first = 0; first < total; first += vectors) {
    int64_t offset[4];
    for (int v = 0; v < vectors; v++) {
      int64_t cell = (first + v) * V_LANES;
      offset[v] = cell % stride + cell / stride * stride * side;
    }
    for (int64_t y = 0; y < side; y += PLACES) {
      V sum[PLACES][4];
      FK_UNROLL
      for (int t = 0; t < PLACES; t++) FK_UNROLL
      for (int v = 0; v < vectors; v++) sum[t][v] = V_SET(0);
      for (int set = 0; set < 2; set++)
        for (int64_t block = -f->blocks; ins[set] && block <= f->blocks; block++) {
          const REAL *in = ins[set][block + f->blocks];
          int64_t begin = y - reach - block * side, end = y + PLACES + reach - block * side;
          if (!in) continue;
          if (begin < 0) begin = 0;
          if (end > side) end = side;
          const REAL *tap = (const REAL *)f->taps[set] + y - block * side;
          for (int64_t p = begin; p < end; p++) {
            V a[4];
            FK_UNROLL
            for (int v = 0; v < vectors; v++) a[v] = V_LOAD(in + p * stride + offset[v]);
            FK_UNROLL
            for (int t = 0; t < PLACES; t++) {
              V k = V_SET(tap[t - p]);
              FK_UNROLL
              for (int v = 0; v < vectors; v++) sum[t][v] = V_FMA(a[v], k, sum[t][v]);
            }
          }
        }
      FK_UNROLL
      for (int t = 0; t < PLACES; t++) FK_UNROLL
      for (int v = 0; v < vectors; v++) V_STORE(out + (y + t) * stride + offset[v], sum[t][v]);
    }
  }
}

static void FN(fir)(const struct fk_fir *f, const void *const *in0, const void *const *in1, void *out) {
  const void *const *const ins[2] = {in0, in1};
  if (f->stride > 1) {
    if (FIR_VECTORS == 4 && f->cells / f->side / V_LANES % 4 == 0)
      FN(fir_across)(f, ins, out, FIR_VECTORS);
    else
      FN(fir_across)(f, ins, out, 2);
  } else if (f->cells == f->side) {
    FN(fir_along)(f, ins, out, 1, 8);
  } else if (f->side % (2 * V_LANES) == 0) {
    FN(fir_along)(f, ins, out, FIR_ROWS, 2);
  } else {
    FN(fir_along)(f, ins, out, FIR_ROWS, 1);
  }
}

/* ---- the table -------------------------------------------------------------------------------- */

#define COPY(op, D, ROW) FN(op##_d##D##_r##ROW)
#define DIMENSIONS(op, D)                                                                                         \
  {                                                                                                               \
    [3] = COPY(op, D, 4), COPY(op, D, 4), MIDDLE(op, D), MIDDLE(op, D), COPY(op, D, 8), COPY(op, D, 8),           \
    WIDE(op, D)                                                                                                   \
  }
#ifdef EVERY_ROW
#define MIDDLE(op, D) COPY(op, D, 6)
#define WIDE(op, D) COPY(op, D, 10), COPY(op, D, 10), COPY(op, D, 12), COPY(op, D, 12), COPY(op, D, 14)
#elif V_LANES == 2
#define MIDDLE(op, D) COPY(op, D, 8)
#define WIDE(op, D) COPY(op, D, 16), COPY(op, D, 16), COPY(op, D, 16), COPY(op, D, 16), COPY(op, D, 16)
#else
#define MIDDLE(op, D) COPY(op, D, 8)
#define WIDE(op, D) COPY(op, D, 12), COPY(op, D, 12), COPY(op, D, 12), COPY(op, D, 12), COPY(op, D, 16)
#endif
#ifdef FK_SINGLE
#undef WIDE
#define WIDE(op, D)
#endif
#define WIDTHS(op)                                                                                                \
  { DIMENSIONS(op, 1), DIMENSIONS(op, 2), DIMENSIONS(op, 3), DIMENSIONS(op, 4) }

static const struct fk_grid_ops FN(grid_ops) = {.real = sizeof(REAL),
                                                .locate = FN(locate),
                                                .spread = WIDTHS(spread),
                                                .value = WIDTHS(value),
                                                .gradient = WIDTHS(gradient),
                                                .zero = FN(zero),
                                                .copy = FN(copy),
                                                .add = FN(add),
                                                .convert = FN(convert),
                                                .fir = FN(fir),
                                                .bounds = FN(bounds)};

#undef EVERY_ROW
#undef DIMENSIONS
#undef WIDE
#undef MIDDLE
#undef COPY
#undef WIDTHS
#undef FLOOR_MAGIC

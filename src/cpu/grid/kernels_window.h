/* Spreading and interpolation with windows whose rows of weights fill ROW lanes, zeros after the last node.
 * Included for each ROW by kernels_body.h.
 *
 * The windows of a ROW share one copy of the code, which takes the width as it runs: a copy for each would take
 * twice as long to compile, and only saves two or three comparisons a plane. Where that shows there are copies. */
#define LONGEST (ROW % 8 == 0 ? 8 : ROW % 4 == 0 ? 4 : 2)
#define PIECE (V_LANES < LONGEST ? V_LANES : LONGEST) /* lanes a vector */
#define NP (ROW / PIECE)
#define FEWEST (ROW > 6 ? ROW - 3 : ROW - 1) /* nodes of a window of this ROW, or fewer */
#define WFN_(row, name) FN(name##_r##row)
#define WFN__(row, name) WFN_(row, name)
#define WFN(name) WFN__(ROW, name)

/* A loop over rows is unrolled where a row is so short that the loop would cost more than the row: up to ROW of
 * them, with a way out after each that not every window has. */
#if NP > 1
#define UNROLL_ADDED
#define MOST_ADDED width
#define ADD_SPACE static __attribute__((noinline)) /* for three dimensions and for more */
#else
#define UNROLL_ADDED FK_UNROLL
#define MOST_ADDED ROW
#define ADD_SPACE INLINE
#endif
#if NP > 3
#define UNROLL_READ
#define MOST_READ width
#else
#define UNROLL_READ FK_UNROLL
#define MOST_READ ROW
#endif

typedef REAL WFN(vec) __attribute__((vector_size(PIECE * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define PV WFN(vec)

/* Weights along dimensions first .. first + count - 1, for count <= 3 side by side; returns where the stencil
 * starts. */
INLINE int64_t WFN(evaluate)(const struct fk_stencil *s, const void *coefficients, const REAL *point,
                             const int first, const int count, PV w[3][NP]) {
  const REAL *c = coefficients;
  REAL t[3];
  int64_t start = 0;
  FK_UNROLL
  for (int k = 0; k < count; k++) {
    int cell = (int)point[first + k];
    t[k] = 1 - 2 * (point[first + k] - (REAL)cell);
    start += cell * s->stride[first + k];
    FK_UNROLL
    for (int p = 0; p < NP; p++) w[k][p] = *(const PV *)(c + s->degree * FK_GRID_LANES + p * PIECE);
  }
  for (int i = s->degree - 1; i >= 0; i--) FK_UNROLL
  for (int p = 0; p < NP; p++) {
    PV a = *(const PV *)(c + i * FK_GRID_LANES + p * PIECE);
    FK_UNROLL
    for (int k = 0; k < count; k++) w[k][p] = w[k][p] * t[k] + a;
  }
  return start;
}

/* The rows' weights along dimension 0 as vectors, those along the others as numbers. */
INLINE int64_t WFN(weights)(const struct fk_stencil *s, const void *coefficients, const REAL *point,
                            const int dims, PV x[NP], REAL other[][NP * PIECE]) {
  const int together = dims < 3 ? dims : 3;
  PV w[3][NP];
  int64_t start = WFN(evaluate)(s, coefficients, point, 0, together, w);
  FK_UNROLL
  for (int p = 0; p < NP; p++) x[p] = w[0][p];
  FK_UNROLL
  for (int k = 1; k < together; k++) FK_UNROLL
  for (int p = 0; p < NP; p++) *(PV *)(other[k] + p * PIECE) = w[k][p];
  for (int k = 3; dims > 3 && k < s->d; k++) {
    start += WFN(evaluate)(s, coefficients, point, k, 1, w);
    FK_UNROLL
    for (int p = 0; p < NP; p++) *(PV *)(other[k] + p * PIECE) = w[0][p];
  }
  return start;
}

INLINE void WFN(add_plane)(const struct fk_stencil *s, REAL *g, const PV x[NP], const REAL *y, const int width) {
  const int64_t stride = s->stride[1];
  UNROLL_ADDED
  for (int j = 0; j < MOST_ADDED; j++) {
    if (j >= FEWEST && j >= width) break;
    FK_UNROLL
    for (int p = 0; p < NP; p++) *(PV *)(g + j * stride + p * PIECE) += x[p] * y[j];
  }
}

ADD_SPACE void WFN(add_space)(const struct fk_stencil *s, REAL *g, const PV x[NP], const REAL *y, const REAL *z,
                              const int width) {
  for (int i = 0; i < width; i++) {
    PV xz[NP];
    FK_UNROLL
    for (int p = 0; p < NP; p++) xz[p] = x[p] * z[i];
    WFN(add_plane)(s, g + i * s->stride[2], xz, y, width);
  }
}

/* Over the nodes of the dimensions from 3 on: their product, and the place. */
struct WFN(outer) {
  int at[FK_GRID_MAX_D];
  bool more;
};
INLINE int64_t WFN(next)(const struct fk_stencil *s, struct WFN(outer) * o, int64_t place, const int d,
                         const int width) {
  for (int k = 3; k < d; k++) {
    place += s->stride[k];
    if (++o->at[k] < width) return place;
    place -= width * s->stride[k];
    o->at[k] = 0;
  }
  o->more = false;
  return place;
}

INLINE void WFN(spread)(const struct fk_stencil *s, const REAL *points, const REAL *b, int64_t n, REAL *scratch,
                        const int dims, const int width) {
  const int d = dims < 4 ? dims : s->d;
  for (int64_t i = 0; i < n; i++) {
    PV x[NP];
    REAL other[FK_GRID_MAX_D][NP * PIECE];
    REAL *g = scratch + WFN(weights)(s, s->value, points + i * d, dims, x, other);
    FK_UNROLL
    for (int p = 0; p < NP; p++) x[p] *= b[i];
    if (dims == 1) {
      FK_UNROLL
      for (int p = 0; p < NP; p++) *(PV *)(g + p * PIECE) += x[p];
    } else if (dims == 2) {
      WFN(add_plane)(s, g, x, other[1], width);
    } else if (dims == 3) {
      WFN(add_space)(s, g, x, other[1], other[2], width);
    } else {
      struct WFN(outer) o = {{0}, true};
      for (int64_t place = 0; o.more; place = WFN(next)(s, &o, place, d, width)) {
        REAL product = 1;
        for (int k = 3; k < d; k++) product *= other[k][o.at[k]];
        PV scaled[NP];
        FK_UNROLL
        for (int p = 0; p < NP; p++) scaled[p] = x[p] * product;
        WFN(add_space)(s, g + place, scaled, other[1], other[2], width);
      }
    }
  }
}

INLINE REAL WFN(dot)(const PV a[NP], const PV b[NP]) {
  PV product = a[0] * b[0];
  FK_UNROLL
  for (int p = 1; p < NP; p++) product += a[p] * b[p];
  REAL sum = 0;
  FK_UNROLL
  for (int half = PIECE / 2; half > 0; half /= 2) FK_UNROLL
  for (int l = 0; l < half; l++) product[l] += product[l + half];
  sum = product[0];
  return sum;
}

/* Sums over the nodes of the first min(d, 3) dimensions but 0, with the weights and, one at a time, the slopes:
 * sums[0], [1]: slope along 1, [2]: slope along 2. */
INLINE void WFN(read)(const struct fk_stencil *s, const REAL *g, const int d, const bool slopes,
                      REAL w[][NP * PIECE], REAL v[][NP * PIECE], PV sums[3][NP], const int width) {
  const int planes = d > 2 ? width : 1, most = d > 1 ? MOST_READ : 1;
  FK_UNROLL
  for (int q = 0; q < 3; q++) FK_UNROLL
  for (int p = 0; p < NP; p++) sums[q][p] = (PV){0};
  for (int i = 0; i < planes; i++) {
    PV a[NP], b[NP];
    FK_UNROLL
    for (int p = 0; p < NP; p++) a[p] = b[p] = (PV){0};
    UNROLL_READ
    for (int j = 0; j < most; j++) {
      if (d > 1 && j >= FEWEST && j >= width) break;
      FK_UNROLL
      for (int p = 0; p < NP; p++) {
        PV row = *(const PV *)(g + (d > 2 ? i * s->stride[2] : 0) + (d > 1 ? j * s->stride[1] : 0) + p * PIECE);
        if (d == 1) a[p] += row;
        if (d > 1) a[p] += row * w[1][j];
        if (slopes && d > 1) b[p] += row * v[1][j];
      }
    }
    FK_UNROLL
    for (int p = 0; p < NP; p++) {
      if (d < 3) {
        sums[0][p] += a[p];
        sums[1][p] += b[p];
        continue;
      }
      sums[0][p] += a[p] * w[2][i];
      if (slopes) sums[1][p] += b[p] * w[2][i];
      if (slopes) sums[2][p] += a[p] * v[2][i];
    }
  }
}

/* Points, what is read at them, and where that goes. */
struct WFN(reading) {
  const REAL *points;
  int64_t n;
  const REAL *scratch;
  REAL *out, *gradient;
};

INLINE void WFN(interpolate)(const struct fk_stencil *s, struct WFN(reading) reading, const int dims,
                             const bool slopes, const int width) {
  const REAL *points = reading.points, *scratch = reading.scratch;
  REAL *out = reading.out, *gradient = reading.gradient;
  int64_t n = reading.n;
  const int d = dims < 4 ? dims : s->d;
  for (int64_t i = 0; i < n; i++) {
    PV x[NP], dx[NP], sums[3][NP], outer[FK_GRID_MAX_D][NP];
    REAL w[FK_GRID_MAX_D][NP * PIECE], v[FK_GRID_MAX_D][NP * PIECE];
    const REAL *g = scratch + WFN(weights)(s, s->value, points + i * d, dims, x, w);
    if (slopes) WFN(weights)(s, s->slope, points + i * d, dims, dx, v);
    if (dims < 4) {
      WFN(read)(s, g, dims, slopes, w, v, sums, width);
    } else {
      PV part[3][NP];
      FK_UNROLL
      for (int p = 0; p < NP; p++) {
        sums[0][p] = sums[1][p] = sums[2][p] = (PV){0};
        for (int k = 3; k < d; k++) outer[k][p] = (PV){0};
      }
      struct WFN(outer) o = {{0}, true};
      for (int64_t place = 0; o.more; place = WFN(next)(s, &o, place, d, width)) {
        WFN(read)(s, g + place, 3, slopes, w, v, part, width);
        REAL product = 1;
        for (int k = 3; k < d; k++) product *= w[k][o.at[k]];
        FK_UNROLL
        for (int p = 0; p < NP; p++) {
          sums[0][p] += part[0][p] * product;
          if (slopes) sums[1][p] += part[1][p] * product;
          if (slopes) sums[2][p] += part[2][p] * product;
        }
        for (int k = 3; slopes && k < d; k++) {
          REAL slope = v[k][o.at[k]];
          for (int l = 3; l < d; l++)
            if (l != k) slope *= w[l][o.at[l]];
          FK_UNROLL
          for (int p = 0; p < NP; p++) outer[k][p] += part[0][p] * slope;
        }
      }
    }
    out[i] = WFN(dot)(sums[0], x);
    if (slopes) {
      gradient[i] = WFN(dot)(sums[0], dx);
      if (d > 1) gradient[n + i] = WFN(dot)(sums[1], x);
      if (d > 2) gradient[2 * n + i] = WFN(dot)(sums[2], x);
      for (int k = 3; k < d; k++) gradient[k * n + i] = WFN(dot)(outer[k], x);
    }
  }
}

/* By a width that the compiler knows where a row is one piece in a box of rows: 5 to 20 percent there. */
#define SHORT(D) (NP == 1 && D > 2)
#define OF_WIDTH(D, sum, ...)                                                                                     \
  if (!SHORT(D))                                                                                                  \
    sum(__VA_ARGS__, s->width);                                                                                   \
  else if (s->width == ROW)                                                                                       \
    sum(__VA_ARGS__, ROW);                                                                                        \
  else if (ROW - 1 > FEWEST && s->width == ROW - 1)                                                               \
    sum(__VA_ARGS__, ROW - 1);                                                                                    \
  else if (ROW - 2 > FEWEST && s->width == ROW - 2)                                                               \
    sum(__VA_ARGS__, ROW - 2);                                                                                    \
  else                                                                                                            \
    sum(__VA_ARGS__, FEWEST)
#define FOR_DIMENSIONS(D)                                                                                         \
  static void WFN(spread_d##D)(const struct fk_stencil *s, const void *points, const void *b, int64_t n,          \
                               void *scratch) {                                                                   \
    OF_WIDTH(D, WFN(spread), s, points, b, n, scratch, D);                                                        \
  }                                                                                                               \
  static void WFN(value_d##D)(const struct fk_stencil *s, const void *points, int64_t n, const void *scratch,     \
                              void *out, void *gradient) {                                                        \
    struct WFN(reading) reading = {points, n, scratch, out, gradient};                                            \
    OF_WIDTH(D, WFN(interpolate), s, reading, D, false);                                                          \
  }                                                                                                               \
  static void WFN(gradient_d##D)(const struct fk_stencil *s, const void *points, int64_t n, const void *scratch,  \
                                 void *out, void *gradient) {                                                     \
    WFN(interpolate)(s, (struct WFN(reading)){points, n, scratch, out, gradient}, D, true, s->width);             \
  }
FOR_DIMENSIONS(1)
FOR_DIMENSIONS(2)
FOR_DIMENSIONS(3)
FOR_DIMENSIONS(4)

#undef FOR_DIMENSIONS
#undef OF_WIDTH
#undef SHORT
#undef UNROLL_ADDED
#undef UNROLL_READ
#undef MOST_ADDED
#undef MOST_READ
#undef ADD_SPACE
#undef PV
#undef WFN
#undef WFN_
#undef WFN__
#undef FEWEST
#undef NP
#undef PIECE
#undef LONGEST
#undef ROW

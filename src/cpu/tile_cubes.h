/* Products of polynomials of bounded reach, of a panel of points at one target, in double: a part of tile_body.h,
 * by whose macros it is written. What they are stands in loops/cubes.h. */
#define CUBE_VECTORS 4 /* points side by side */
#define CUBE_POINTS (CUBE_VECTORS * V_LANES)
#define CUBE_STEEP 0x1p900

_Static_assert(FK_NEAR_POINTS % CUBE_POINTS == 0 && CUBE_POINTS <= FK_CUBE_POINTS, "the vectors do not fit");

/* In coordinate k how far the points are from the target, and how far within the edge of its cube. */
INLINE void FN(cube_from)(const struct fk_tile_cubes *a, int from, int64_t k, V z[CUBE_VECTORS],
                          V within[CUBE_VECTORS]) {
  const double *x = a->points + k * FK_NEAR_POINTS + from;
  V y = V_SET(a->target[k]), reach = V_SET(a->reach[k]);
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) {
    z[v] = V_SUB(V_LOAD(x + v * V_LANES), y);
    within[v] = V_SUB(reach, V_MAX(z[v], V_SUB(V_SET(0), z[v])));
  }
}

/* The weights of those in the cube, 0 of others; false: none is. What is beyond the edge is so by more than 1 /
 * CUBE_STEEP. */
INLINE bool FN(cube_weights)(const struct fk_tile_cubes *a, int from, V p[CUBE_VECTORS]) {
  V z[CUBE_VECTORS], within[CUBE_VECTORS], least[CUBE_VECTORS];
  unsigned outside = ~0u;
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) least[v] = V_SET(INFINITY);
  for (int64_t k = 0; k < a->d; k++) {
    FN(cube_from)(a, from, k, z, within);
    FK_UNROLL
    for (int v = 0; v < CUBE_VECTORS; v++) least[v] = V_MIN(least[v], within[v]);
  }
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) outside &= V_BELOW(least[v], V_SET(0));
  if (outside == (1u << V_LANES) - 1) return false;
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) {
    V inside = V_FMA(V_MAX(least[v], V_SET(-1)), V_SET(CUBE_STEEP), V_SET(1));
    p[v] = V_MUL(V_LOAD(a->weights + from + v * V_LANES), V_MIN(V_MAX(inside, V_SET(0)), V_SET(1)));
  }
  return true;
}

INLINE void FN(cube_polynomial)(const struct fk_polynomial *of, const V s[CUBE_VECTORS], V f[CUBE_VECTORS]) {
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) f[v] = V_SET(of->c[of->count - 1]);
  for (int i = of->count - 2; i >= 0; i--) FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) f[v] = V_FMA(f[v], s[v], V_SET(of->c[i]));
}

/* The factors of one coordinate; what is `within` becomes s. */
INLINE void FN(cube_factors)(const struct fk_tile_cubes *a, int64_t k, V within[CUBE_VECTORS], V f[CUBE_VECTORS]) {
  V narrow = V_SET(a->narrow[k]), tip[CUBE_VECTORS], s[CUBE_VECTORS];
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) within[v] = V_MUL(V_MAX(within[v], V_SET(0)), narrow);
  FN(cube_polynomial)(&a->value, within, f);
  if (a->tip.count == 0) return;
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) s[v] = V_MAX(V_FMA(within[v], V_SET(2), V_SET(-1)), V_SET(0));
  FN(cube_polynomial)(&a->tip, s, tip);
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) f[v] = V_ADD(f[v], tip[v]);
}

INLINE void FN(cube_add)(double *sum, const V p[CUBE_VECTORS]) {
  V total = V_LOAD(sum);
  FK_UNROLL
  for (int v = 0; v < CUBE_VECTORS; v++) total = V_ADD(p[v], total);
  V_STORE(sum, total);
}

static void FN(cube_values)(const struct fk_tile_cubes *a) {
  V p[CUBE_VECTORS], z[CUBE_VECTORS], within[CUBE_VECTORS], f[CUBE_VECTORS];
  for (int from = 0; from < FK_NEAR_POINTS; from += CUBE_POINTS) {
    if (!FN(cube_weights)(a, from, p)) continue;
    for (int64_t k = 0; k < a->d; k++) {
      FN(cube_from)(a, from, k, z, within);
      FN(cube_factors)(a, k, within, f);
      FK_UNROLL
      for (int v = 0; v < CUBE_VECTORS; v++) p[v] = V_MUL(p[v], f[v]);
    }
    FN(cube_add)(a->sums, p);
  }
}

/* For each k, the product over the other coordinates: that of the coordinates before k is made in a forward pass,
 * that of those after k in a backward pass. The whole product may be 0, so it cannot be divided by a factor. */
static void FN(cube_slopes)(const struct fk_tile_cubes *a) {
  const int64_t d = a->d;
  double *factors = a->work, *slopes = factors + d * FK_CUBE_POINTS;
  V p[CUBE_VECTORS], z[CUBE_VECTORS], within[CUBE_VECTORS], f[CUBE_VECTORS], slope[CUBE_VECTORS];
  for (int from = 0; from < FK_NEAR_POINTS; from += CUBE_POINTS) {
    if (!FN(cube_weights)(a, from, p)) continue;
    for (int64_t k = 0; k < d; k++) {
      FN(cube_from)(a, from, k, z, within);
      FN(cube_factors)(a, k, within, f);
      FN(cube_polynomial)(&a->slope, within, slope);
      FK_UNROLL
      for (int v = 0; v < CUBE_VECTORS; v++) {
        V sign = V_MIN(V_MAX(V_MUL(z[v], V_SET(CUBE_STEEP)), V_SET(-1)), V_SET(1));
        V_STORE(factors + k * FK_CUBE_POINTS + v * V_LANES, f[v]);
        V_STORE(slopes + k * FK_CUBE_POINTS + v * V_LANES, V_MUL(p[v], V_MUL(slope[v], sign)));
        p[v] = V_MUL(p[v], f[v]);
      }
    }
    FN(cube_add)(a->sums, p);
    FK_UNROLL
    for (int v = 0; v < CUBE_VECTORS; v++) p[v] = V_SET(1);
    for (int64_t k = d - 1; k >= 0; k--) {
      FK_UNROLL
      for (int v = 0; v < CUBE_VECTORS; v++) {
        z[v] = V_MUL(p[v], V_LOAD(slopes + k * FK_CUBE_POINTS + v * V_LANES));
        p[v] = V_MUL(p[v], V_LOAD(factors + k * FK_CUBE_POINTS + v * V_LANES));
      }
      FN(cube_add)(a->sums + (1 + k) * FK_CUBE_LANES, z);
    }
  }
}

static void FN(cubes)(const struct fk_tile_cubes *a) {
  if (a->slope.count > 0)
    FN(cube_slopes)(a);
  else
    FN(cube_values)(a);
}

#undef CUBE_STEEP
#undef CUBE_POINTS
#undef CUBE_VECTORS

/* Kernels of a panel of points at a group of targets with what their first and second derivatives are made of, in
 * double: a part of tile_body.h, by whose macros it is written. Targets lie in the lanes. */
#define DERIVATIVES 4     /* points side by side */
#define MOST_POWER 1000.0 /* of a scale that was too low: sums are too large, but not of another sign */

_Static_assert(DERIVATIVES <= EXP2_GROUP && FK_NEAR_POINTS % DERIVATIVES == 0, "the vectors do not fit");

/* 0 where a target meets itself. */
INLINE void FN(derivatives_drop)(const struct fk_tile_derivatives *a, int from, int lane, V *k) {
  if (from + DERIVATIVES <= a->drop + lane || a->drop + lane + V_LANES <= from) return;
  for (int g = 0; g < DERIVATIVES; g++) {
    int64_t own = from + g - a->drop - lane;
    if (own < 0 || own >= V_LANES) continue;
    double kept[V_LANES];
    V_STORE(kept, k[g]);
    kept[own] = 0;
    k[g] = V_LOAD(kept);
  }
}

/* k to F k, (F - F') c k and (F - 2 F' + F'') c^2 k, of q / 2 = s. Where F would be infinite k is 0, and so are
 * these. */
INLINE void FN(derivatives_weights)(const struct fk_tile_derivatives *a, int from, const V *s, const V *k,
                                    V p[3][DERIVATIVES], const int factor) {
  const double f0 = a->factor[0], f1 = a->factor[1], f2 = a->factor[2], furthest = f2 != 0 ? 1e150 : 1e300;
  FK_UNROLL
  for (int g = 0; g < DERIVATIVES; g++) {
    V c = V_SET(a->precision[from + g]);
    p[0][g] = p[1][g] = p[2][g] = k[g];
    if (factor) {
      V linear = V_SET(f1), square = V_SET(f2), t = V_MIN(s[g], V_SET(furthest));
      p[0][g] = V_MUL(k[g], V_FMA(t, V_FMA(t, square, linear), V_SET(f0)));
      p[1][g] = V_MUL(k[g], V_FMA(t, V_FMA(t, square, V_SET(f1 - 2 * f2)), V_SET(f0 - f1)));
      p[2][g] = V_MUL(k[g], V_FMA(t, V_FMA(t, square, V_SET(f1 - 4 * f2)), V_SET(f0 - 2 * f1 + 2 * f2)));
    }
    p[1][g] = V_MUL(p[1][g], c);
    p[2][g] = V_MUL(p[2][g], V_MUL(c, c));
  }
}

INLINE void FN(derivatives_add)(double *sum, const V *p, const V *z) {
  V total = V_LOAD(sum);
  FK_UNROLL
  for (int g = 0; g < DERIVATIVES; g++) total = z ? V_FMA(p[g], z[g], total) : V_ADD(p[g], total);
  V_STORE(sum, total);
}

/* Points from number `from` on less the targets from `lane` on, in coordinate k. */
INLINE void FN(derivatives_from)(const struct fk_tile_derivatives *a, int from, int lane, int64_t k, const int low,
                                 V *z) {
  const int64_t point = k * FK_NEAR_POINTS + from, target = k * FK_NEAR_TARGETS + lane;
  V y = V_LOAD(a->targets + target), y_low = V_LOAD((low ? a->targets_low : a->targets) + target);
  FK_UNROLL
  for (int g = 0; g < DERIVATIVES; g++) {
    z[g] = V_SUB(V_SET(a->points[point + g]), y);
    if (low) z[g] = V_ADD(z[g], V_SUB(V_SET(a->points_low[point + g]), y_low));
  }
}

INLINE void FN(derivatives_body)(const struct fk_tile_derivatives *a, int from, int lane, const int factor,
                                 const int low) {
  double *out = a->sums + lane;
  V z[DERIVATIVES], other[DERIVATIVES], s[DERIVATIVES], k[DERIVATIVES], p[3][DERIVATIVES];
  FK_UNROLL
  for (int g = 0; g < DERIVATIVES; g++) s[g] = V_SET(0);
  for (int64_t j = 0; j < a->d; j++) {
    FN(derivatives_from)(a, from, lane, j, low, z);
    FK_UNROLL
    for (int g = 0; g < DERIVATIVES; g++) s[g] = V_FMA(z[g], z[g], s[g]);
  }
  V scale = V_LOAD(a->log_scale + lane);
  FK_UNROLL
  for (int g = 0; g < DERIVATIVES; g++) {
    s[g] = V_MUL(s[g], V_SET(a->precision[from + g] / 2));
    k[g] = V_SUB(V_FNMA(s[g], V_SET(FK_LOG2E), V_SET(a->log_weight[from + g])), scale);
    k[g] = V_MIN(k[g], V_SET(MOST_POWER));
  }
  FN(exp2)(k, DERIVATIVES);
  FN(derivatives_drop)(a, from, lane, k);
  FN(derivatives_weights)(a, from, s, k, p, factor);
  FN(derivatives_add)(out, p[0], NULL);
  FN(derivatives_add)(out + FK_NEAR_TARGETS, p[1], NULL);
  double *first = out + 2 * FK_NEAR_TARGETS, *second = first + a->d * FK_NEAR_TARGETS;
  for (int64_t j = 0; j < a->d; j++) {
    FN(derivatives_from)(a, from, lane, j, low, z);
    FN(derivatives_add)(first + j * FK_NEAR_TARGETS, p[1], z);
    FK_UNROLL
    for (int g = 0; g < DERIVATIVES; g++) z[g] = V_MUL(z[g], p[2][g]);
    for (int64_t i = 0; i <= j; i++, second += FK_NEAR_TARGETS) {
      FN(derivatives_from)(a, from, lane, i, low, other);
      FN(derivatives_add)(second, z, other);
    }
  }
}

static void FN(derivatives)(const struct fk_tile_derivatives *a) {
  const bool factor = a->factor[0] != 1 || a->factor[1] != 0 || a->factor[2] != 0;
  for (int lane = 0; lane < FK_NEAR_TARGETS; lane += V_LANES)
    for (int from = 0; from < FK_NEAR_POINTS; from += DERIVATIVES)
      if (a->points_low)
        FN(derivatives_body)(a, from, lane, 1, 1);
      else if (factor)
        FN(derivatives_body)(a, from, lane, 1, 0);
      else
        FN(derivatives_body)(a, from, lane, 0, 0);
}

#undef MOST_POWER
#undef DERIVATIVES

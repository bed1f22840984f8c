/* Weights of a panel of points at one target, and weighted sums of the normal distribution function, in double: a
 * part of tile_body.h, by whose macros it is written. Points lie in the lanes. */
#define NORMAL_VECTORS 2 /* side by side: four take more registers than there are */

_Static_assert(NORMAL_VECTORS <= EXP2_GROUP && FK_NEAR_POINTS % (NORMAL_VECTORS * V_LANES) == 0,
               "the vectors do not fit");

INLINE double FN(point_exponents_body)(const double *points, const double *low, int64_t d, const double *target,
                                       const double *target_low, const double *log_weight, const double *precision,
                                       double *out) {
  V least = V_SET(INFINITY);
  for (int from = 0; from < FK_NEAR_POINTS; from += NORMAL_VECTORS * V_LANES) {
    V s[NORMAL_VECTORS];
    FK_UNROLL
    for (int v = 0; v < NORMAL_VECTORS; v++) s[v] = V_SET(0);
    for (int64_t k = 0; k < d; k++) {
      const double *x = points + k * FK_NEAR_POINTS + from;
      FK_UNROLL
      for (int v = 0; v < NORMAL_VECTORS; v++) {
        V z = V_SUB(V_LOAD(x + v * V_LANES), V_SET(target[k]));
        if (low) z = V_ADD(z, V_SUB(V_LOAD(low + (x - points) + v * V_LANES), V_SET(target_low[k])));
        s[v] = V_FMA(z, z, s[v]);
      }
    }
    FK_UNROLL
    for (int v = 0; v < NORMAL_VECTORS; v++) {
      int i = from + v * V_LANES;
      V t = V_FNMA(s[v], V_LOAD(precision + i), V_LOAD(log_weight + i));
      V_STORE(out + i, t);
      least = V_MIN(t, least);
    }
  }
  double lanes[V_LANES];
  V_STORE(lanes, least);
  for (int i = 1; i < V_LANES; i++) lanes[0] = lanes[i] < lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
}

static double FN(point_exponents)(const double *points, const double *low, int64_t d, const double *target,
                                  const double *target_low, const double *log_weight, const double *precision,
                                  double *out) {
  return low ? FN(point_exponents_body)(points, low, d, target, target_low, log_weight, precision, out)
             : FN(point_exponents_body)(points, NULL, d, target, NULL, log_weight, precision, out);
}

INLINE double FN(sum_of_lanes)(V a) {
  double lanes[V_LANES], sum = 0;
  V_STORE(lanes, a);
  for (int i = 0; i < V_LANES; i++) sum += lanes[i];
  return sum;
}

static double FN(powers_of_two)(double *t, int64_t n, double shift) {
  V sum = V_SET(0);
  for (int64_t i = 0; i < n; i += NORMAL_VECTORS * V_LANES) {
    V e[NORMAL_VECTORS];
    FK_UNROLL
    for (int v = 0; v < NORMAL_VECTORS; v++) e[v] = V_SUB(V_LOAD(t + i + v * V_LANES), V_SET(shift));
    FN(exp2)(e, NORMAL_VECTORS);
    FK_UNROLL
    for (int v = 0; v < NORMAL_VECTORS; v++) {
      V_STORE(t + i + v * V_LANES, e[v]);
      sum = V_ADD(sum, e[v]);
    }
  }
  return FN(sum_of_lanes)(sum);
}

/* Phi(-z) exp(z^2 / 2) for z from 0 to 38 as a ratio of polynomials: largest relative error 4.5e-17 before
 * rounding (Remez, 60 digits). All coefficients are positive: nothing cancels. */
static const double FN(mills_above)[] = {0.5,
                                         0.8128437861487178,
                                         0.6559847305285249,
                                         0.3390540453191652,
                                         0.12304788364912074,
                                         0.03259686627592351,
                                         0.006371678279275835,
                                         0.0009079658823041828,
                                         9.053263878921626e-05,
                                         5.735323220063757e-06,
                                         1.7695517985432288e-07};
static const double FN(mills_below)[] = {1.0,
                                         2.4235721331003006,
                                         2.7457002480498507,
                                         1.9230353808673257,
                                         0.9271828125429392,
                                         0.3239572928731986,
                                         0.08395540751725228,
                                         0.016197473464549597,
                                         0.0022903092767499363,
                                         0.0002273752330163772,
                                         1.437632334762631e-05,
                                         4.435608571649617e-07};
#define MILLS_DEGREE ((int)(sizeof FN(mills_above) / sizeof(double)) - 1)

INLINE void FN(mills)(const V *z, V *ratio) {
  V p[NORMAL_VECTORS], q[NORMAL_VECTORS];
  FK_UNROLL
  for (int v = 0; v < NORMAL_VECTORS; v++) {
    p[v] = V_SET(FN(mills_above)[MILLS_DEGREE]);
    q[v] = V_FMA(V_SET(FN(mills_below)[MILLS_DEGREE + 1]), z[v], V_SET(FN(mills_below)[MILLS_DEGREE]));
  }
  FK_UNROLL
  for (int k = MILLS_DEGREE - 1; k >= 0; k--) FK_UNROLL
  for (int v = 0; v < NORMAL_VECTORS; v++) {
    p[v] = V_FMA(p[v], z[v], V_SET(FN(mills_above)[k]));
    q[v] = V_FMA(q[v], z[v], V_SET(FN(mills_below)[k]));
  }
  FK_UNROLL
  for (int v = 0; v < NORMAL_VECTORS; v++) ratio[v] = V_DIV(p[v], q[v]);
}

/* The terms w Phi(z) and w exp(-z^2 / 2) sign / s of NORMAL_VECTORS vectors of points. */
INLINE void FN(normal_terms)(const struct fk_tile_normal *a, int64_t from, V *below, V *density) {
  V z[NORMAL_VECTORS], far[NORMAL_VECTORS], e[NORMAL_VECTORS], ratio[NORMAL_VECTORS];
  FK_UNROLL
  for (int v = 0; v < NORMAL_VECTORS; v++) {
    int64_t i = from + v * V_LANES;
    V narrow = a->narrow ? V_MUL(V_LOAD(a->narrow + i), V_SET(a->sign)) : V_SET(a->sign);
    z[v] = V_MUL(V_SUB(V_SET(a->y), V_LOAD(a->centre + i)), narrow);
    density[v] = narrow;
    e[v] = V_MUL(V_MUL(z[v], z[v]), V_SET(-0.5 * FK_LOG2E));
    far[v] = V_MIN(V_MAX(z[v], V_SUB(V_SET(0), z[v])), V_SET(64)); /* where e is 0 */
  }
  FN(exp2)(e, NORMAL_VECTORS);
  FN(mills)(far, ratio);
  FK_UNROLL
  for (int v = 0; v < NORMAL_VECTORS; v++) {
    V w = V_LOAD(a->weight + from + v * V_LANES);
    V kernel = V_MUL(w, e[v]), tail = V_MUL(kernel, ratio[v]);
    V right = V_MIN(V_MAX(V_MUL(z[v], V_SET(1e300)), V_SET(0)), V_SET(1)); /* 1 where z > 0, else 0 */
    below[v] = V_FMA(right, V_FNMA(tail, V_SET(2), w), tail);              /* w - tail where z > 0 */
    density[v] = V_MUL(kernel, density[v]);
  }
}

static void FN(normal_sums)(struct fk_tile_normal *a) {
  V sums[2] = {V_SET(0), V_SET(0)};
  for (int64_t from = 0; from < a->count; from += NORMAL_VECTORS * V_LANES) {
    V below[NORMAL_VECTORS], density[NORMAL_VECTORS];
    FN(normal_terms)(a, from, below, density);
    FK_UNROLL
    for (int v = 0; v < NORMAL_VECTORS; v++) {
      sums[0] = V_ADD(sums[0], below[v]);
      sums[1] = V_ADD(sums[1], density[v]);
    }
  }
  a->below = FN(sum_of_lanes)(sums[0]);
  a->density = a->sign * 0.398942280401432677940 * FN(sum_of_lanes)(sums[1]);
}

#undef MILLS_DEGREE
#undef NORMAL_VECTORS

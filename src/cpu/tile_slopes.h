/* The slopes power r^(power - 2) k of kernels k = exp(-r^power), from k, for a number of vectors at a time. Where
 * the kernel is 1 to rounding, as at a centre, the slope is 0. Kernels below STRETCHED_LEAST have the power of
 * that. */
#define LEAST_EXPONENT 1e-12

INLINE void FN(slopes_of)(const double *k, const int count, double power, double *out) {
  V x[EXP2_GROUP], n[EXP2_GROUP], t[EXP2_GROUP], apart[EXP2_GROUP];
  FK_UNROLL
  for (int i = 0; i < count; i++) x[i] = V_MAX(V_LOAD(k + i * V_LANES), V_SET(STRETCHED_LEAST));
  FN(logarithms)(x, count, n, t);
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    t[i] = V_MUL(V_ADD(n[i], t[i]), V_SET(1 / FK_LOG2E)); /* -r^power */
    V beyond = V_MUL(V_ADD(t[i], V_SET(LEAST_EXPONENT)), V_SET(-0x1p900));
    apart[i] = V_MIN(V_MAX(beyond, V_SET(0)), V_SET(1));
  }
  FN(stretched)(t, count, 1 - 2 / power);
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    V slope = V_MUL(V_MUL(t[i], V_SET(-power / FK_LOG2E)), V_LOAD(k + i * V_LANES));
    V_STORE(out + i * V_LANES, V_MUL(slope, apart[i]));
  }
}

static void FN(stretched_slopes)(const double *k, int64_t n, double power, double *out) {
  double padded[V_LANES], found[V_LANES];
  int64_t i = 0;
  for (; i + EXP2_GROUP * V_LANES <= n; i += EXP2_GROUP * V_LANES)
    FN(slopes_of)(k + i, EXP2_GROUP, power, out + i);
  for (; i < n; i += V_LANES) {
    const int64_t count = n - i < V_LANES ? n - i : V_LANES;
    for (int64_t l = 0; l < V_LANES; l++) padded[l] = l < count ? k[i + l] : 1;
    FN(slopes_of)(padded, 1, power, found);
    memcpy(out + i, found, sizeof *out * (size_t)count);
  }
}
#undef LEAST_EXPONENT

/* Vector operations in GNU C vector types of 16 bytes: SSE2, NEON or whatever the compiler has.
 * Twins: vec_avx512.h, vec_avx2.h. */
#ifdef FK_SINGLE
#define REAL float
#define V FN(vec)
#define V_LANES 4
#define V_INT uint32_t
#define V_MANTISSA 23
#define V_SHIFT 0x1p23f /* its low bits are an integer */
#define V_BIAS 127
#else
#define REAL double
#define V FN(vec)
#define V_LANES 2
#define V_INT uint64_t
#define V_MANTISSA 52
#define V_SHIFT 0x1p52
#define V_BIAS 1023
#endif
typedef REAL V __attribute__((vector_size(16)));
typedef V_INT FN(bits) __attribute__((vector_size(16)));

static inline V FN(load)(const REAL *p) {
  V a;
  memcpy(&a, p, sizeof a);
  return a;
}
static inline void FN(store)(REAL *p, V a) { memcpy(p, &a, sizeof a); }
/* From a and b the lanes where x > y, and where not: a : b, b where one is NaN. */
static inline V FN(choose)(V x, V y, V a, V b) {
  FN(bits) above = (FN(bits))(x > y), left = (FN(bits))a, right = (FN(bits))b;
  return (V)((left & above) | (right & ~above));
}
static inline V FN(square_root)(V a) {
  for (int lane = 0; lane < V_LANES; lane++) a[lane] = (REAL)sqrt((double)a[lane]);
  return a;
}
static inline unsigned FN(below)(V a, V b) {
  unsigned lanes = 0;
  for (int lane = 0; lane < V_LANES; lane++) lanes |= (unsigned)(a[lane] < b[lane]) << lane;
  return lanes;
}
#define V_LOAD(p) FN(load)(p)
#define V_STORE(p, a) FN(store)(p, a)
#define V_SET(x) ((V){0} + (REAL)(x))
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#define V_MUL(a, b) ((a) * (b))
#define V_DIV(a, b) ((a) / (b))
#define V_SQRT(a) FN(square_root)(a)
#define V_ABS(a) ((V)((FN(bits))(a) << 1 >> 1))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_FNMA(a, b, c) ((c) - (a) * (b))
#define V_MAX(a, b) FN(choose)(a, b, a, b)
#define V_MIN(a, b) FN(choose)(b, a, a, b)
#define V_BELOW(a, b) FN(below)(a, b)
#define V_SUMS(out, a)                                                                                            \
  do {                                                                                                            \
    for (int sum_ = 0; sum_ < V_LANES; sum_++)                                                                    \
      for (int lane_ = 0; lane_ < V_LANES; lane_++) (out)[sum_] += (double)(a)[sum_][lane_];                      \
  } while (0)
/* p * 2^n, n in the low bits of r */
#define V_SCALE(p, r) ((V)((FN(bits))(p) + ((FN(bits))(r) << V_MANTISSA)))
/* the integer n with 2^n <= a < 2^(n + 1), as a REAL, for positive normal numbers */
#define V_EXPONENT(a) ((V)((FN(bits))(a) >> V_MANTISSA | (FN(bits))V_SET(V_SHIFT)) - V_SET(V_SHIFT + V_BIAS))
#define V_ADD_TO(p, a)                                                                                            \
  do {                                                                                                            \
    for (int lane_ = 0; lane_ < V_LANES; lane_++) (p)[lane_] += (a)[lane_];                                       \
  } while (0)

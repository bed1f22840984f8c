/* The exponents of stretched exponentials, -log2(e) (-t)^power, through log2 and exp2: a part of cpu/tile_body.h,
 * after exp2.h. vec_end.h undefines what is defined here. */
#ifdef FK_SINGLE
#define STRETCHED_LEAST 0x1p-120f
#define STRETCHED_MOST 0x1p120f
/* log2((1 + s) / (1 - s)) / s as a polynomial of s^2, |s| <= (sqrt(2) - 1)^2: absolute error 1.8e-10 times s. */
static const float FN(log2_coefficients)[] = {2.88539007289f, 0.961800729868f, 0.576586293424f, 0.434224582134f};
/* 2^f as in exp2.h: relative error 2.0e-9, as the error of an exponent is multiplied by its size. */
static const float FN(finer_coefficients)[] = {0.693147202802f,   0.240226479232f,   0.0555033254636f,
                                               0.00961843639970f, 0.00133988518913f, 0.000153535937119f};
#define POWERS FN(finer_coefficients)
#else
#define STRETCHED_LEAST 0x1p-1000
#define STRETCHED_MOST 0x1p1000
/* Absolute error 2.9e-19 times s. */
static const double FN(log2_coefficients)[] = {2.88539008177792679,  0.961796693926020372, 0.577078016334204187,
                                               0.412198587678791861, 0.320598381874511524, 0.262341172175382299,
                                               0.22075839421106562,  0.215062042909108622};
#define POWERS FN(exp2_coefficients)
#endif

#define LOGS FN(log2_coefficients)
#define ENTRIES(array) ((int)(sizeof(array) / sizeof(REAL)))

/* log2(x) = whole + fraction for `count` vectors of x > 0, whose exponents are numbers. */
INLINE void FN(logarithms)(const V *x, const int count, V *whole, V *fraction) {
  V s[EXP2_GROUP], z[EXP2_GROUP], p[EXP2_GROUP];
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    whole[i] = V_EXPONENT(V_MUL(x[i], V_SET((REAL)1.41421356237309505)));
    V m = V_SCALE(x[i], V_SUB(V_SET(EXP2_MAGIC), whole[i]));
    s[i] = V_DIV(V_SUB(m, V_SET(1)), V_ADD(m, V_SET(1)));
    z[i] = V_MUL(s[i], s[i]);
    p[i] = V_SET(LOGS[ENTRIES(LOGS) - 1]);
  }
  FK_UNROLL
  for (int k = ENTRIES(LOGS) - 2; k >= 0; k--) FK_UNROLL
  for (int i = 0; i < count; i++) p[i] = V_FMA(p[i], z[i], V_SET(LOGS[k]));
  FK_UNROLL
  for (int i = 0; i < count; i++) fraction[i] = V_MUL(p[i], s[i]);
}

/* t <= 0, in place for `count` vectors; power at most 1. 0 stays 0, and numbers from -STRETCHED_LEAST to 0 are
 * close to it, if power is positive. With -t = 2^n m, the power is 2^(power n + power log2(m)). Its exponent is a
 * number of up to a thousand, of which only the fraction counts: `high`, the power in 12 bits, makes a product
 * with n that has no error. */
INLINE void FN(stretched)(V *t, const int count, const REAL power) {
  const REAL head = (REAL)((int)(power * 4096 + (REAL)0.5)) / 4096;
  const V whole = V_SET(power), high = V_SET(head), low = V_SET(power - head);
  V x[EXP2_GROUP], n[EXP2_GROUP], s[EXP2_GROUP], p[EXP2_GROUP];
  FK_UNROLL
  for (int i = 0; i < count; i++)
    x[i] = V_MIN(V_MAX(V_SUB(V_SET(0), t[i]), V_SET(STRETCHED_LEAST)), V_SET(STRETCHED_MOST));
  FN(logarithms)(x, count, n, s);
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    V fraction = V_MUL(s[i], whole), rounded = V_ADD(V_FMA(whole, n[i], fraction), V_SET(EXP2_MAGIC));
    V product = V_FMA(high, n[i], V_SUB(V_SET(EXP2_MAGIC), rounded));
    s[i] = V_ADD(V_FMA(low, n[i], product), fraction);
    n[i] = rounded;
    p[i] = V_SET(POWERS[ENTRIES(POWERS) - 1]);
  }
  FK_UNROLL
  for (int k = ENTRIES(POWERS) - 2; k >= 0; k--) FK_UNROLL
  for (int i = 0; i < count; i++) p[i] = V_FMA(p[i], s[i], V_SET(POWERS[k]));
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    V is_apart = V_MIN(V_MUL(t[i], V_SET(-1 / STRETCHED_LEAST)), V_SET(1)); /* 1, or nearly 0 at distance 0 */
    t[i] = V_MUL(V_MUL(is_apart, V_SET(-(REAL)FK_LOG2E)), V_SCALE(V_FMA(p[i], s[i], V_SET(1)), n[i]));
  }
}
#undef ENTRIES
#undef LOGS
#undef POWERS

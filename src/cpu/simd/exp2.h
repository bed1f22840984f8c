/* 2^t for t <= 0 on the vectors of vec_*.h. The including file defines EXP2_GROUP, the largest number of vectors
 * in one call; vec_end.h undefines what is defined here. */
#ifdef FK_SINGLE
#define EXP2_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
#define EXP2_LOWEST -125.0f
#define EXP2_TINY 0x1p-125f
/* 2^f on [-1/2, 1/2]: degree 5, largest relative error 4.4e-7 (Remez, 50 digits; the constant term is 1). */
static const float FN(exp2_coefficients)[] = {0.693142830611f, 0.240223506502f, 0.0555740046864f,
                                              0.00966628254749f, 0.00111255092635f};
#else
#define EXP2_MAGIC 6755399441055744.0 /* 1.5 * 2^52 */
#define EXP2_LOWEST -1021.0
#define EXP2_TINY 0x1p-1021
/* Degree 10, largest relative error 3.0e-16 before rounding. */
static const double FN(exp2_coefficients)[] = {
    0.693147180559951616,   0.240226506959104722,    0.055504108664346584,     0.00961812910738071427,
    0.00133335582464807205, 0.000154035308008182562, 0.0000152526477476959205, 1.32152356347760388e-6,
    1.02105064588161451e-7, 7.11175868755785227e-9};
#endif

#define INLINE static inline __attribute__((always_inline))
#define DEGREE ((int)(sizeof FN(exp2_coefficients) / sizeof(REAL)))

/* 2^t for t <= 0, exactly 0 below EXP2_LOWEST, in place for `count` vectors. The steps of all vectors are
 * interleaved: one chain alone would wait for itself, and the processor's window holds few whole chains. */
INLINE void FN(exp2)(V *t, const int count) {
  V f[EXP2_GROUP], p[EXP2_GROUP];
  FK_UNROLL
  for (int i = 0; i < count; i++) t[i] = V_MAX(t[i], V_SET(EXP2_LOWEST));
  FK_UNROLL
  for (int i = 0; i < count; i++) {
    V rounded = V_ADD(t[i], V_SET(EXP2_MAGIC));
    f[i] = V_SUB(t[i], V_SUB(rounded, V_SET(EXP2_MAGIC)));
    t[i] = rounded;
    p[i] = V_SET(FN(exp2_coefficients)[DEGREE - 1]);
  }
  FK_UNROLL
  for (int k = DEGREE - 2; k >= 0; k--) FK_UNROLL
  for (int i = 0; i < count; i++) p[i] = V_FMA(p[i], f[i], V_SET(FN(exp2_coefficients)[k]));
  FK_UNROLL
  for (int i = 0; i < count; i++) p[i] = V_FMA(p[i], f[i], V_SET(1));
  FK_UNROLL
  for (int i = 0; i < count; i++) t[i] = V_SUB(V_SCALE(p[i], t[i]), V_SET(EXP2_TINY));
}

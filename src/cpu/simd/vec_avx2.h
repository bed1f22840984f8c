/* Vector operations on AVX2 and FMA, in REAL = double or float. Twins: vec_avx512.h, vec_portable.h. */
#include "vec_x86.h"

#ifdef FK_SINGLE
#define REAL float
#define V __m256
#define V_LANES 8
#define V_OP(name) _mm256_##name##_ps
#define V_BELOW(a, b) ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)))
#define V_SUMS(out, a) FN(sums8)(out, a)
/* p * 2^n, n in the low bits of r */
#define V_SCALE(p, r)                                                                                             \
  _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(r), 23)))
/* the integer n with 2^n <= a < 2^(n + 1), as a REAL, for positive normal numbers */
#define V_EXPONENT(a)                                                                                             \
  _mm256_sub_ps(_mm256_castsi256_ps(_mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(a), 23),                \
                                                    _mm256_castps_si256(V_SET(0x1p23f)))),                        \
                V_SET(0x1p23f + 127))
#define V_ADD_TO(p, a)                                                                                            \
  do {                                                                                                            \
    __m256d lo_ = _mm256_cvtps_pd(_mm256_castps256_ps128(a));                                                     \
    __m256d hi_ = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));                                                   \
    _mm256_storeu_pd(p, _mm256_add_pd(_mm256_loadu_pd(p), lo_));                                                  \
    _mm256_storeu_pd((p) + 4, _mm256_add_pd(_mm256_loadu_pd((p) + 4), hi_));                                      \
  } while (0)
static inline void FN(sums8)(double *out, const __m256 *a) {
  __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
  __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
  __m256 sum = _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
  V_ADD_TO(out, sum);
}
#else
#define REAL double
#define V __m256d
#define V_LANES 4
#define V_OP(name) _mm256_##name##_pd
#define V_BELOW(a, b) ((unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)))
#define V_SUMS(out, a) FN(sums4)(out, a)
#define V_SCALE(p, r)                                                                                             \
  _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(r), 52)))
#define V_EXPONENT(a)                                                                                             \
  _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(_mm256_srli_epi64(_mm256_castpd_si256(a), 52),                \
                                                    _mm256_castpd_si256(V_SET(0x1p52)))),                         \
                V_SET(0x1p52 + 1023))
#define V_ADD_TO(p, a) _mm256_storeu_pd(p, _mm256_add_pd(_mm256_loadu_pd(p), a))
static inline void FN(sums4)(double *out, const __m256d *a) {
  __m256d low = _mm256_hadd_pd(a[0], a[1]), high = _mm256_hadd_pd(a[2], a[3]);
  V_ADD_TO(out, _mm256_add_pd(_mm256_permute2f128_pd(low, high, 0x20), _mm256_permute2f128_pd(low, high, 0x31)));
}
#endif

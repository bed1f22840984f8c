/* Vector operations on AVX-512, in REAL = double or float. Twins: vec_avx2.h, vec_portable.h. */
#include "vec_x86.h"

#ifdef FK_SINGLE
#define REAL float
#define V __m512
#define V_LANES 16
#define V_OP(name) _mm512_##name##_ps
#define V_BELOW(a, b) ((unsigned)_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)) /* bits of the lanes where a < b */
#define V_EXPONENT(a) _mm512_getexp_ps(a) /* the integer n with 2^n <= a < 2^(n + 1), as a REAL, a > 0 */
#define V_SUMS(out, a) FN(sums16)(out, a)
/* p * 2^n, n in the low bits of r */
#define V_SCALE(p, r)                                                                                             \
  _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(r), 23)))
#define V_ADD_TO(p, a)                                                                                            \
  do {                                                                                                            \
    __m512d lo_ = _mm512_cvtps_pd(_mm512_castps512_ps256(a));                                                     \
    __m512d hi_ = _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)));              \
    _mm512_storeu_pd(p, _mm512_add_pd(_mm512_loadu_pd(p), lo_));                                                  \
    _mm512_storeu_pd((p) + 8, _mm512_add_pd(_mm512_loadu_pd((p) + 8), hi_));                                      \
  } while (0)
/* Halves the number of vectors four times: pairs of lanes, then of lane pairs, then of quarters. */
static inline void FN(sums16)(double *out, const __m512 *a) {
  __m512 b[4], c[2], s;
  FK_UNROLL
  for (int i = 0; i < 4; i++) {
    const __m512 *q = a + 4 * i;
    __m512 low = _mm512_add_ps(_mm512_unpacklo_ps(q[0], q[1]), _mm512_unpackhi_ps(q[0], q[1]));
    __m512 high = _mm512_add_ps(_mm512_unpacklo_ps(q[2], q[3]), _mm512_unpackhi_ps(q[2], q[3]));
    __m512d first = _mm512_castps_pd(low), second = _mm512_castps_pd(high);
    b[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
  }
  FK_UNROLL
  for (int i = 0; i < 2; i++)
    c[i] = _mm512_add_ps(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd));
  s = _mm512_add_ps(_mm512_shuffle_f32x4(c[0], c[1], 0x88), _mm512_shuffle_f32x4(c[0], c[1], 0xdd));
  V_ADD_TO(out, s);
}
#else
#define REAL double
#define V __m512d
#define V_LANES 8
#define V_OP(name) _mm512_##name##_pd
#define V_BELOW(a, b) ((unsigned)_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ))
#define V_EXPONENT(a) _mm512_getexp_pd(a)
#define V_SUMS(out, a) FN(sums8)(out, a)
#define V_SCALE(p, r)                                                                                             \
  _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(r), 52)))
#define V_ADD_TO(p, a) _mm512_storeu_pd(p, _mm512_add_pd(_mm512_loadu_pd(p), a))
static inline void FN(sums8)(double *out, const __m512d *a) {
  __m512d b[4], c[2];
  FK_UNROLL
  for (int i = 0; i < 4; i++)
    b[i] = _mm512_add_pd(_mm512_unpacklo_pd(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_pd(a[2 * i], a[2 * i + 1]));
  FK_UNROLL
  for (int i = 0; i < 2; i++)
    c[i] = _mm512_add_pd(_mm512_shuffle_f64x2(b[2 * i], b[2 * i + 1], 0x88),
                         _mm512_shuffle_f64x2(b[2 * i], b[2 * i + 1], 0xdd));
  V_ADD_TO(out, _mm512_add_pd(_mm512_shuffle_f64x2(c[0], c[1], 0x88), _mm512_shuffle_f64x2(c[0], c[1], 0xdd)));
}
#endif

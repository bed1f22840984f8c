/* Compiles FK_BODY, loops on the V_ operations, for AVX2 and FMA in double and in float: FN(name) is
 * name_avx2_f64, then name_avx2_f32, and with float FK_SINGLE is defined. The target is set by pragma, not by a
 * compiler flag, so that the file is always built; isa.c decides at run time whether it is called. Twins:
 * avx512.h, portable.h. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "unroll.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define FN(name) name##_avx2_f64
#include "vec_avx2.h"
#include FK_BODY
#include "vec_end.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx2_f32
#include "vec_avx2.h"
#include FK_BODY
#include "vec_end.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

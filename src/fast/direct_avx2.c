/* The kernels of the pruned sums for AVX2 and FMA; see cpu/tile_avx2.c. */
#include "direct_tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <math.h>

#include "../cpu/unroll.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define FK_ROWS 2

#define FN(name) name##_avx2_f64
#include "../cpu/vec_avx2.h"
#include "direct_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx2_f32
#include "../cpu/vec_avx2.h"
#include "direct_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct fk_direct_isa fk_direct_avx2 = {&ops_avx2_f64, &ops_avx2_f32};
#endif

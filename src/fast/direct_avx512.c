/* The kernels of the pruned sums for AVX-512 (F and DQ); see cpu/tile_avx512.c. */
#include "direct_tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <math.h>

#include "../cpu/unroll.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#define FK_ROWS 4

#define FN(name) name##_avx512_f64
#include "../cpu/vec_avx512.h"
#include "direct_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx512_f32
#include "../cpu/vec_avx512.h"
#include "direct_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct fk_direct_isa fk_direct_avx512 = {&ops_avx512_f64, &ops_avx512_f32};
#endif

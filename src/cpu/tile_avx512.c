/* The tile kernels for AVX-512 (F and DQ). The target is set by pragma, not by a compiler flag, so the file
 * is always built; isa.c decides at run time whether it is called. */
#include "tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <math.h>

#include "unroll.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#define FK_ROWS 8
#define FK_COLS 3

#define FN(name) name##_avx512_f64
#include "vec_avx512.h"
#include "tile_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx512_f32
#include "vec_avx512.h"
#include "tile_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct fk_isa fk_isa_avx512 = {"avx512", &ops_avx512_f64, &ops_avx512_f32};
#endif

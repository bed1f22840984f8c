/* The tile kernels for AVX2 and FMA. The target is set by pragma, not by a compiler flag, so the file
 * is always built; isa.c decides at run time whether it is called. */
#include "tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <math.h>

#include "unroll.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define FK_ROWS 4
#define FK_COLS 3

#define FN(name) name##_avx2_f64
#include "vec_avx2.h"
#include "tile_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx2_f32
#include "vec_avx2.h"
#include "tile_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct fk_isa fk_isa_avx2 = {"avx2", &ops_avx2_f64, &ops_avx2_f32};
#endif

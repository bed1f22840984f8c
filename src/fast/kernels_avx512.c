/* The grid's loops for AVX-512 (F and DQ); chosen at run time, like cpu/tile_avx512.c. */
#include "../cpu/tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <string.h>

#include "../cpu/unroll.h"
#include "kernels.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#define FIR_ROWS 8
#define FIR_VECTORS 4

#define FN(name) name##_avx512_f64
#include "../cpu/vec_avx512.h"
#include "kernels_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx512_f32
#include "../cpu/vec_avx512.h"
#include "kernels_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

extern const struct fk_grid_isa fk_grid_avx512;
const struct fk_grid_isa fk_grid_avx512 = {"avx512", &grid_ops_avx512_f64, &grid_ops_avx512_f32};
#endif

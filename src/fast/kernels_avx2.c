/* The grid's loops for AVX2 and FMA; chosen at run time, like cpu/tile_avx2.c. */
#include "../cpu/tile.h"

#ifdef FK_X86
#include <immintrin.h>
#include <string.h>

#include "../cpu/unroll.h"
#include "kernels.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define FIR_ROWS 4
#define FIR_VECTORS 2

#define FN(name) name##_avx2_f64
#include "../cpu/vec_avx2.h"
#include "kernels_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_avx2_f32
#include "../cpu/vec_avx2.h"
#include "kernels_body.h"
#undef FN

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

extern const struct fk_grid_isa fk_grid_avx2;
const struct fk_grid_isa fk_grid_avx2 = {"avx2", &grid_ops_avx2_f64, &grid_ops_avx2_f32};
#endif

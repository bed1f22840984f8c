/* The tile kernels for AVX-512 (F and DQ). */
#include "tile.h"

#ifdef FK_X86

#define FK_ROWS 8
#define FK_COLS 3
#define FK_BODY "../tile_body.h"
#include "simd/avx512.h"

const struct fk_isa fk_isa_avx512 = {"avx512", &ops_avx512_f64, &ops_avx512_f32, 16};

#endif

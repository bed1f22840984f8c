/* The tile kernels for AVX2 and FMA. */
#include "tile.h"

#ifdef FK_X86

#define FK_ROWS 4
#define FK_COLS 3
#define FK_BODY "../tile_body.h"
#include "simd/avx2.h"

const struct fk_isa fk_isa_avx2 = {"avx2", &ops_avx2_f64, &ops_avx2_f32, 8};

#endif

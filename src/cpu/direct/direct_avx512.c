/* The kernels of the pruned sums for AVX-512 (F and DQ). */
#include "direct_tile.h"

#ifdef FK_X86

#define FK_ROWS 4
#define FK_BODY "../direct/direct_body.h"
#include "../simd/avx512.h"

const struct fk_direct_isa fk_direct_avx512 = {&ops_avx512_f64, &ops_avx512_f32};

#endif

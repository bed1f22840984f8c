/* The kernels of the pruned sums for AVX2 and FMA. */
#include "direct_tile.h"

#ifdef FK_X86

#define FK_ROWS 2
#define FK_BODY "../direct/direct_body.h"
#include "../simd/avx2.h"

const struct fk_direct_isa fk_direct_avx2 = {&ops_avx2_f64, &ops_avx2_f32};

#endif

/* The grid's loops for AVX2 and FMA. */
#include "kernels.h"

#ifdef FK_X86

#define FIR_ROWS 4
#define FIR_VECTORS 2
#define FK_BODY "../grid/kernels_body.h"
#include "../simd/avx2.h"

const struct fk_grid_isa fk_grid_avx2 = {&grid_ops_avx2_f64, &grid_ops_avx2_f32};

#endif

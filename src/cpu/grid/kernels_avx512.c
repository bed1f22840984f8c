/* The grid's loops for AVX-512 (F and DQ). */
#include "kernels.h"

#ifdef FK_X86

#define FIR_ROWS 8
#define FIR_VECTORS 4
#define FK_BODY "../grid/kernels_body.h"
#include "../simd/avx512.h"

const struct fk_grid_isa fk_grid_avx512 = {&grid_ops_avx512_f64, &grid_ops_avx512_f32};

#endif

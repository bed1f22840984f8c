/* The grid's loops for any processor, and which of them are the twins of the chosen tiles. */
#include "kernels.h"

#define FIR_ROWS 4
#define FIR_VECTORS 2
#define FK_BODY "../grid/kernels_body.h"
#include "../simd/portable.h"

static const struct fk_grid_isa portable = {&grid_ops_portable_f64, &grid_ops_portable_f32};

const struct fk_grid_ops *fk_grid_ops(bool single) {
  const struct fk_grid_isa *isa = &portable;
#ifdef FK_X86
  if (fk_isa() == &fk_isa_avx2) isa = &fk_grid_avx2;
  if (fk_isa() == &fk_isa_avx512) isa = &fk_grid_avx512;
#endif
  return single ? isa->f32 : isa->f64;
}

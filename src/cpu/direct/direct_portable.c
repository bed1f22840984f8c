/* The kernels of the pruned sums for any processor, and which of them are the twins of the chosen tiles. */
#include "direct_tile.h"

#define FK_ROWS 2
#define FK_BODY "../direct/direct_body.h"
#include "../simd/portable.h"

const struct fk_direct_isa fk_direct_portable = {&ops_portable_f64, &ops_portable_f32};

const struct fk_direct_isa *fk_direct_isa(void) {
#ifdef FK_X86
  if (fk_isa() == &fk_isa_avx512) return &fk_direct_avx512;
  if (fk_isa() == &fk_isa_avx2) return &fk_direct_avx2;
#endif
  return &fk_direct_portable;
}

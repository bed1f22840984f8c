/* The kernels of the pruned sums for any processor, and which of them are the twins of the chosen tiles. */
#include "direct_tile.h"

#include <math.h>
#include <string.h>

#include "../cpu/unroll.h"

#define FK_ROWS 2

#define FN(name) name##_portable_f64
#include "../cpu/vec_portable.h"
#include "direct_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_portable_f32
#include "../cpu/vec_portable.h"
#include "direct_body.h"
#undef FN

const struct fk_direct_isa fk_direct_portable = {&ops_portable_f64, &ops_portable_f32};

const struct fk_direct_isa *fk_direct_isa(void) {
#ifdef FK_X86
  if (fk_isa() == &fk_isa_avx512) return &fk_direct_avx512;
  if (fk_isa() == &fk_isa_avx2) return &fk_direct_avx2;
#endif
  return &fk_direct_portable;
}

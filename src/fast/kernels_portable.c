/* The grid's loops for any processor, on the compiler's own 16-byte vectors; and the choice among all. */
#include <math.h>
#include <string.h>

#include "../cpu/tile.h"
#include "../cpu/unroll.h"
#include "kernels.h"

#define FIR_ROWS 4
#define FIR_VECTORS 2

#define FN(name) name##_portable_f64
#include "../cpu/vec_portable.h"
#include "kernels_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_portable_f32
#include "../cpu/vec_portable.h"
#include "kernels_body.h"
#undef FN

static const struct fk_grid_isa portable = {"portable", &grid_ops_portable_f64, &grid_ops_portable_f32};
#ifdef FK_X86
extern const struct fk_grid_isa fk_grid_avx2, fk_grid_avx512;
#endif

const struct fk_grid_ops *fk_grid_ops(bool single) {
  const struct fk_grid_isa *isa = &portable;
#ifdef FK_X86
  const char *name = fk_isa()->name;
  if (strcmp(name, "avx2") == 0) isa = &fk_grid_avx2;
  if (strcmp(name, "avx512") == 0) isa = &fk_grid_avx512;
#endif
  return single ? isa->f32 : isa->f64;
}

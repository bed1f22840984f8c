/* The tile kernels for any processor. */
#include "tile.h"

#define FK_ROWS 4
#define FK_COLS 2
#define FK_BODY "../tile_body.h"
#include "simd/portable.h"

const struct fk_isa fk_isa_portable = {"portable", &ops_portable_f64, &ops_portable_f32, 2};

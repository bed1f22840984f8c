/* The tile kernels for any processor, on the compiler's own 16-byte vectors. */
#include "tile.h"

#include <math.h>
#include <string.h>

#include "unroll.h"

#define FK_ROWS 4
#define FK_COLS 2

#define FN(name) name##_portable_f64
#include "vec_portable.h"
#include "tile_body.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_portable_f32
#include "vec_portable.h"
#include "tile_body.h"
#undef FN

const struct fk_isa fk_isa_portable = {"portable", &ops_portable_f64, &ops_portable_f32};

/* Compiles FK_BODY, loops on the V_ operations, for any processor, on the compiler's own 16-byte vectors, in
 * double and in float. Twins: avx2.h, which says more, and avx512.h. */
#include <math.h>
#include <string.h>

#include "unroll.h"

#define FN(name) name##_portable_f64
#include "vec_portable.h"
#include FK_BODY
#include "vec_end.h"
#undef FN

#define FK_SINGLE
#define FN(name) name##_portable_f32
#include "vec_portable.h"
#include FK_BODY
#include "vec_end.h"
#undef FN

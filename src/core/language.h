/* What C does not say by itself: that a header's functions are those of C for nvcc, too, and that a function with
 * a given signature does not need one of its parameters. */
#pragma once

#ifdef __cplusplus
#define FK_BEGIN_C extern "C" {
#define FK_END_C }
#else
#define FK_BEGIN_C
#define FK_END_C
#endif

#define FK_UNUSED __attribute__((unused))

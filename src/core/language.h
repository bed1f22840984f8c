/* Language macros: FK_BEGIN_C and FK_END_C give a header's functions C linkage for nvcc; FK_UNUSED marks a
 * parameter that a callback does not need. */
#pragma once

#ifdef __cplusplus
#define FK_BEGIN_C extern "C" {
#define FK_END_C }
#else
#define FK_BEGIN_C
#define FK_END_C
#endif

#define FK_UNUSED __attribute__((unused))

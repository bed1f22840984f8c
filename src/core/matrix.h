/* Access to matrices of doubles or floats. */
#pragma once

#include "../fk.h"

/* Number i of an array as a double, and its address. Loops are written once, marked FK_EACH_TYPE and called with a
 * constant type, so that the compiler removes the test of the type. */
static inline double fk_number(const void *array, enum fk_type type, int64_t i) {
  return type == FK_FLOAT ? (double)((const float *)array)[i] : ((const double *)array)[i];
}
static inline const void *fk_number_at(const void *array, enum fk_type type, int64_t i) {
  return (const char *)array + (type == FK_FLOAT ? sizeof(float) : sizeof(double)) * (size_t)i;
}

/* Forces the compiler to inline a function wherever it is called. */
#define FK_EACH_TYPE static inline __attribute__((always_inline))

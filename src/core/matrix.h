/* Reading matrices of any type. */
#pragma once

#include "../fk.h"

/* Number i of an array. Loops are written once and called with either type as a constant, so that they do not look
 * at it. */
static inline double fk_number(const void *array, enum fk_type type, int64_t i) {
  return type == FK_FLOAT ? (double)((const float *)array)[i] : ((const double *)array)[i];
}
static inline const void *fk_number_at(const void *array, enum fk_type type, int64_t i) {
  return (const char *)array + (type == FK_FLOAT ? sizeof(float) : sizeof(double)) * (size_t)i;
}

/* Inlined wherever it is called. */
#define FK_EACH_TYPE static inline __attribute__((always_inline))

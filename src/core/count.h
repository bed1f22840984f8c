/* Integer arithmetic. fk_smaller, fk_larger: the minimum and the maximum. fk_pieces: the number of blocks of
 * `size` that hold n items. fk_padded: n rounded up to a multiple of step. */
#pragma once

#include <stdint.h>

static inline int64_t fk_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fk_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fk_pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
static inline int64_t fk_padded(int64_t n, int64_t step) { return fk_pieces(n, step) * step; }

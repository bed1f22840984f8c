/* Keys for the content of an array, of 128 bits, and of rows. */
#pragma once

#include "../fk.h"

FK_BEGIN_C
void fk_hash(const void *data, size_t bytes, int threads, uint64_t key[2]);
/* A number in [0, 1) for every row, by its numbers alone: as if drawn at random, and the same for equal rows. */
void fk_row_keys(const struct fk_matrix *x, double *keys);
FK_END_C

/* Hash keys for the content of an array and for rows of a matrix. */
#pragma once

#include "../fk.h"

FK_BEGIN_C
/* The 128-bit key of `bytes` bytes, the same for any number of threads. Not cryptographic. */
void fk_hash(const void *data, size_t bytes, int threads, uint64_t key[2]);
/* keys[i]: a pseudo-random number in [0, 1) computed from the numbers of row i; equal rows have equal keys. */
void fk_row_keys(const struct fk_matrix *x, int threads, double *keys);
/* Are any two of n such keys equal? */
enum fk_status fk_any_equal(const double *keys, int64_t n, int threads, bool *found, struct fk_error *err);
FK_END_C

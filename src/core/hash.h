/* A key of 128 bits for the content of an array. */
#ifndef FK_CORE_HASH_H
#define FK_CORE_HASH_H

#include "../fk.h"

#ifdef __cplusplus
extern "C" {
#endif
void fk_hash(const void *data, size_t bytes, int threads, uint64_t key[2]);
#ifdef __cplusplus
}
#endif

#endif

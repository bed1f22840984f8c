/* A hash table (open addressing) from 64-bit keys to blocks of memory, which never move. The grid stores its
 * blocks in such tables. */
#pragma once

#include "../../fk.h"

struct fk_blocks {
  int64_t n, capacity; /* keys in the order they came */
  int64_t most;        /* keys; 0: as many as memory takes */
  uint64_t *keys;
  uint32_t *table; /* number of the key + 1 */
  uint64_t mask;
  size_t bytes; /* of a block; 0: keys alone */
  bool zeroed;
  void **slabs;
  int64_t n_slabs;
  int slab_bits; /* 2^slab_bits blocks in a slab */
};

/* Hash of a key. Only high bits of the product are used, because these depend on all bits of the key. */
static inline uint64_t fk_key_hash(uint64_t key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15u;
  return key >> 32;
}

/* init: an empty table of blocks of `bytes`, set to 0 if `zeroed`. clear: removes all keys and keeps the memory.
 * held: bytes of memory. find: the number of the block of a key, -1 if there is none. at: block number i. */
void fk_blocks_init(struct fk_blocks *b, size_t bytes, bool zeroed);
void fk_blocks_clear(struct fk_blocks *b);
void fk_blocks_free(struct fk_blocks *b);
double fk_blocks_held(const struct fk_blocks *b);
static inline int64_t fk_blocks_find(const struct fk_blocks *b, uint64_t key) {
  if (!b->n) return -1;
  for (uint64_t i = fk_key_hash(key) & b->mask;; i = (i + 1) & b->mask) {
    uint32_t at = b->table[i];
    if (!at) return -1;
    if (b->keys[at - 1] == key) return at - 1;
  }
}
/* The number of the key's block, which is added if there is none; -1: memory ran out, or the table has b->most. */
int64_t fk_blocks_insert(struct fk_blocks *b, uint64_t key);

static inline void *fk_blocks_at(const struct fk_blocks *b, int64_t i) {
  int64_t within = i & (((int64_t)1 << b->slab_bits) - 1);
  return (char *)b->slabs[i >> b->slab_bits] + (size_t)within * b->bytes;
}

struct fk_keyed {
  uint64_t key;
  uint32_t major, minor;
};
/* Sorts n items by key, stably. spare: memory for n items. */
void fk_keyed_sort(struct fk_keyed *items, struct fk_keyed *spare, int64_t n);

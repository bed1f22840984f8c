#include "blocks.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/count.h"

enum { SLAB = 1 << 21 }; /* bytes */

void fk_blocks_init(struct fk_blocks *b, size_t bytes, bool zeroed) {
  *b = (struct fk_blocks){.bytes = bytes, .zeroed = zeroed};
  while (bytes && (bytes << (b->slab_bits + 1)) <= SLAB) b->slab_bits++;
}

void fk_blocks_clear(struct fk_blocks *b) {
  if (b->table) memset(b->table, 0, (b->mask + 1) * sizeof *b->table);
  b->n = 0;
}

void fk_blocks_free(struct fk_blocks *b) {
  for (int64_t i = 0; i < b->n_slabs; i++) fk_aligned_free(b->slabs[i]);
  free(b->slabs);
  free(b->keys);
  free(b->table);
  fk_blocks_init(b, b->bytes, b->zeroed);
}

double fk_blocks_held(const struct fk_blocks *b) {
  double slab = (double)b->bytes * (double)((int64_t)1 << b->slab_bits);
  return slab * (double)b->n_slabs + (double)b->capacity * (sizeof *b->keys + 2 * sizeof *b->table);
}

static bool grow(struct fk_blocks *b) {
  int64_t capacity = b->capacity ? 2 * b->capacity : 64;
  if (capacity > INT32_MAX) return false;
  uint64_t *keys = realloc(b->keys, (size_t)capacity * sizeof *keys);
  if (!keys) return false;
  b->keys = keys;
  uint32_t *table = calloc(2 * (size_t)capacity, sizeof *table);
  if (!table) return false;
  free(b->table);
  b->table = table;
  b->capacity = capacity;
  b->mask = 2 * (uint64_t)capacity - 1;
  for (int64_t k = 0; k < b->n; k++) {
    uint64_t i = fk_key_hash(keys[k]) & b->mask;
    while (table[i]) i = (i + 1) & b->mask;
    table[i] = (uint32_t)k + 1;
  }
  return true;
}

static bool add_slab(struct fk_blocks *b) {
  void **slabs = realloc(b->slabs, (size_t)(b->n_slabs + 1) * sizeof *slabs);
  if (!slabs) return false;
  b->slabs = slabs;
  slabs[b->n_slabs] = fk_aligned_alloc(b->bytes << b->slab_bits);
  return slabs[b->n_slabs] && ++b->n_slabs;
}

int64_t fk_blocks_insert(struct fk_blocks *b, uint64_t key) {
  int64_t at = fk_blocks_find(b, key);
  if (at >= 0) return at;
  if (b->most && b->n >= b->most) return -1;
  if (b->n == b->capacity && !grow(b)) return -1;
  if (b->bytes && b->n == b->n_slabs << b->slab_bits && !add_slab(b)) return -1;
  uint64_t i = fk_key_hash(key) & b->mask;
  while (b->table[i]) i = (i + 1) & b->mask;
  b->keys[b->n] = key;
  b->table[i] = (uint32_t)b->n + 1;
  if (b->zeroed) memset(fk_blocks_at(b, b->n), 0, b->bytes);
  return b->n++;
}

void fk_keyed_sort(struct fk_keyed *items, struct fk_keyed *spare, int64_t n) {
  enum { BITS = 8, DIGITS = 1 << BITS };
  struct fk_keyed *from = items, *to = spare;
  for (int shift = 0; shift < 64; shift += BITS) {
    int64_t start[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & (DIGITS - 1)]++;
    if (n == 0 || start[from[0].key >> shift & (DIGITS - 1)] == n) continue;
    for (int k = 0; k < DIGITS; k++) {
      int64_t count = start[k];
      start[k] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    struct fk_keyed *other = from;
    from = to;
    to = other;
  }
  if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}

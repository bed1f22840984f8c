/* Content keys, as fast as memory: eight lanes of multiply and shift over pieces that threads share. Every step is
 * one to one in the word that enters, so that one changed word changes the key; this is no cryptography. */
#include "hash.h"

#include <string.h>

#include "count.h"
#include "matrix.h"
#include "pool.h"
#include "threads.h"

enum { LANES = 8, PIECE = 1 << 18 }; /* bytes of a piece, a multiple of 8 LANES */

static uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ (h >> 29);
}

static void hash_piece(const unsigned char *data, size_t bytes, uint64_t key[2]) {
  uint64_t lane[LANES], word[LANES];
  size_t at = 0;
  for (int l = 0; l < LANES; l++) lane[l] = UINT64_C(0xd1b54a32d192ed03) * (uint64_t)(l + 1);
  for (; at + sizeof word <= bytes; at += sizeof word) {
    memcpy(word, data + at, sizeof word);
    for (int l = 0; l < LANES; l++) lane[l] = mix(lane[l], word[l]);
  }
  memset(word, 0, sizeof word);
  memcpy(word, data + at, bytes - at);
  key[0] = mix(bytes, word[0]);
  key[1] = mix(~(uint64_t)bytes, word[0]);
  for (int l = 0; l < LANES; l++) {
    lane[l] = mix(lane[l], word[l]);
    key[0] = mix(key[0], lane[l]);
    key[1] = mix(key[1], lane[LANES - 1 - l]);
  }
}

struct hash_keys {
  const unsigned char *data;
  size_t bytes;
  _Atomic uint64_t key[2];
};

/* The keys of pieces add up, each mixed with its place: the same for any number of threads. */
static void add_piece(void *data, int64_t p, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  struct hash_keys *k = data;
  size_t first = (size_t)p * PIECE, count = k->bytes - first < PIECE ? k->bytes - first : PIECE;
  uint64_t piece[2];
  hash_piece(k->data + first, count, piece);
  k->key[0] += mix(piece[0], (uint64_t)p);
  k->key[1] += mix(piece[1], ~(uint64_t)p);
}

void fk_hash(const void *data, size_t bytes, int threads, uint64_t key[2]) {
  struct hash_keys keys = {data, bytes, {bytes, ~(uint64_t)bytes}};
  fk_parallel_for(fk_threads_for_bytes(threads, (double)bytes), fk_pieces((int64_t)bytes, PIECE), 1, add_piece,
                  &keys);
  key[0] = keys.key[0];
  key[1] = keys.key[1];
}

void fk_row_keys(const struct fk_matrix *x, double *keys) {
  enum { ROWS = 512 };
  uint64_t key[ROWS];
  for (int64_t first = 0; first < x->n; first += ROWS) {
    int64_t count = fk_smaller(ROWS, x->n - first);
    for (int64_t i = 0; i < count; i++) key[i] = (uint64_t)x->d;
    for (int64_t k = 0; k < x->d; k++) {
      for (int64_t i = 0; i < count; i++) {
        /* -0 is 0 */
        double number = fk_number(x->data, x->type, k * x->ld + first + i) + 0.0;
        uint64_t word;
        memcpy(&word, &number, sizeof word);
        key[i] = mix(key[i], word);
        key[i] = mix(key[i], key[i] >> 32);
      }
    }
    for (int64_t i = 0; i < count; i++) keys[first + i] = 0x1p-53 * (double)(mix(key[i], key[i] >> 31) >> 11);
  }
}

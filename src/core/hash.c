/* Content keys, as fast as memory: eight lanes of multiply and shift over pieces that threads share. Every step is
 * one to one in the word that enters, so that one changed word changes the key; this is no cryptography. */
#include "hash.h"

#include <stdlib.h>
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

/* ---- rows -------------------------------------------------------------------------------------- */

enum { ROWS = 512 };

struct rows {
  const struct fk_matrix *x;
  double *keys;
};

static void add_rows(void *data, int64_t block, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct rows *of = data;
  const struct fk_matrix *x = of->x;
  const int64_t first = block * ROWS, count = fk_smaller(ROWS, x->n - first);
  uint64_t key[ROWS];
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
  for (int64_t i = 0; i < count; i++) of->keys[first + i] = 0x1p-53 * (double)(mix(key[i], key[i] >> 31) >> 11);
}

void fk_row_keys(const struct fk_matrix *x, int threads, double *keys) {
  struct rows of = {x, keys};
  const double bytes = 8 * (double)x->n * (double)(x->d + 1);
  fk_parallel_for(fk_threads_for_bytes(threads, bytes), fk_pieces(x->n, ROWS), 1, add_rows, &of);
}

/* ---- equal keys -------------------------------------------------------------------------------- */

/* Keys are put in order by ranges of their values, of which each has a table of its own. There are as many ranges
 * as parts of the keys, which threads sort: one for few keys. */
enum { MOST_RANGES = 256, RANGE_KEYS = 4096 };

struct equals {
  const double *keys;
  int64_t n, ranges, part; /* keys of a part */
  double *sorted;
  int64_t *places; /* in `sorted`, of the next key of each range in a part, for one part after the other */
  atomic_bool found, failed;
};

static int64_t range_of(const struct equals *of, double key) { return (int64_t)(key * (double)of->ranges); }

static void count_part(void *data, int64_t p, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct equals *of = data;
  int64_t *counts = of->places + p * of->ranges;
  for (int64_t i = p * of->part; i < fk_smaller(of->n, (p + 1) * of->part); i++)
    counts[range_of(of, of->keys[i])]++;
}

static void sort_part(void *data, int64_t p, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct equals *of = data;
  int64_t *places = of->places + p * of->ranges;
  for (int64_t i = p * of->part; i < fk_smaller(of->n, (p + 1) * of->part); i++)
    of->sorted[places[range_of(of, of->keys[i])]++] = of->keys[i];
}

/* The table is in the order of the keys but for those that found their place taken, and at most half full. Where a
 * range ends, the last part has filled it. */
static void look_in_range(void *data, int64_t range, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  struct equals *of = data;
  const int64_t *ends = of->places + (of->ranges - 1) * of->ranges, first = range > 0 ? ends[range - 1] : 0;
  const int64_t places = 2 * (ends[range] - first) + 1;
  double *table = malloc(sizeof *table * (size_t)places);
  if (!table) {
    of->failed = true;
    return;
  }
  for (int64_t at = 0; at < places; at++) table[at] = -1;
  for (int64_t i = first; i < ends[range] && !of->found; i++) {
    const double key = of->sorted[i];
    int64_t at = (int64_t)((key * (double)of->ranges - (double)range) * (double)places);
    while (table[at] >= 0 && table[at] != key) at = at + 1 < places ? at + 1 : 0;
    if (table[at] == key) of->found = true;
    table[at] = key;
  }
  free(table);
}

/* The number of keys that come before those of each range in each part. */
static void add_up(const struct equals *of) {
  int64_t place = 0;
  for (int64_t range = 0; range < of->ranges; range++)
    for (int64_t p = 0; p < of->ranges; p++) {
      int64_t *at = &of->places[p * of->ranges + range], count = *at;
      *at = place;
      place += count;
    }
}

enum fk_status fk_any_equal(const double *keys, int64_t n, int threads, bool *found, struct fk_error *err) {
  const int64_t ranges = fk_smaller(MOST_RANGES, 1 + n / RANGE_KEYS);
  struct equals of = {.keys = keys, .n = n, .ranges = ranges, .part = fk_pieces(n, ranges)};
  of.sorted = malloc(sizeof *of.sorted * (size_t)fk_larger(1, n));
  of.places = calloc((size_t)(ranges * ranges), sizeof *of.places);
  of.failed = !of.sorted || !of.places;
  if (!of.failed) {
    threads = fk_threads_for_bytes(threads, 32.0 * (double)n);
    fk_parallel_for(threads, ranges, 1, count_part, &of);
    add_up(&of);
    fk_parallel_for(threads, ranges, 1, sort_part, &of);
    fk_parallel_for(threads, ranges, 1, look_in_range, &of);
  }
  free(of.sorted);
  free(of.places);
  *found = of.found;
  return of.failed && !*found ? fk_no_memory(err, 16.0 * (double)n, "keys in order") : FK_STATUS_OK;
}

/* Morton keys and their sort. */
#include "spatial_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"

enum { KEY_BITS = 32 };

/* Bits that dimension k needs for cubes of side `longest` / 2^level. */
static int bits_of(double extent, double longest, int level) {
  double cubes = ceil(ldexp(extent / longest, level));
  int bits = 0;
  while (bits < level && ldexp(1, bits) < cubes) bits++;
  return bits;
}

bool fk_spatial_curve_init(struct fk_spatial_curve *curve, int d, const double *low, const double *high,
                           uint32_t (*spread)[4][256]) {
  double longest = 0;
  int level = 0, bits[FK_CURVE_MAX_DIM];
  for (int k = 0; k < d; k++) longest = fmax(longest, high[k] - low[k]);
  if (!(longest > 0) || !isfinite(longest) || !isfinite(ldexp(1, KEY_BITS) / longest)) return false;
  for (int total = 0; total <= KEY_BITS && level < KEY_BITS;) {
    total = 0;
    for (int k = 0; k < d; k++) total += bits_of(high[k] - low[k], longest, level + 1);
    if (total <= KEY_BITS) level++;
  }
  curve->d = d;
  curve->per_side = ldexp(1, level) / longest;
  curve->spread = spread;
  for (int k = 0; k < d; k++) {
    curve->low[k] = low[k];
    bits[k] = bits_of(high[k] - low[k], longest, level);
    curve->last[k] = (uint32_t)((UINT64_C(1) << bits[k]) - 1);
    curve->parts[k] = (bits[k] + 7) / 8;
  }
  /* Bit by bit from the lowest, the dimensions that still have one taking turns. */
  memset(spread, 0, (size_t)d * sizeof *spread);
  for (int bit = 0, to = 0; bit < KEY_BITS; bit++)
    for (int k = 0; k < d; k++) {
      if (bit >= bits[k]) continue;
      for (int byte = 0; byte < 256; byte++)
        if (byte >> bit % 8 & 1) spread[k][bit / 8][byte] |= UINT32_C(1) << to;
      to++;
    }
  return true;
}

/* ---- sort ------------------------------------------------------------------------------------- */

enum { SHORT = 4096, RUN = 16, DIGIT = 11, DIGITS = 1 << DIGIT, MAX_BLOCKS = 64 };

static void insertion(fk_item *a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    fk_item item = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1] > item; j--) a[j] = a[j - 1];
    a[j] = item;
  }
}

/* Items differ by their indices, which rise where keys are equal: no care is needed to be stable. */
static void merge_sort(fk_item *a, fk_item *scratch, int64_t n) {
  fk_item *from = a, *to = scratch;
  for (int64_t i = 0; i < n; i += RUN) insertion(a + i, fk_smaller(RUN, n - i));
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t l = i, middle = fk_smaller(i + run, n), r = middle, end = fk_smaller(i + 2 * run, n);
      for (int64_t o = i; o < end; o++)
        to[o] = r >= end || (l < middle && from[l] <= from[r]) ? from[l++] : from[r++];
    }
    fk_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != a) memcpy(a, from, sizeof *a * (size_t)n);
}

struct radix {
  const fk_item *from;
  fk_item *to;
  int64_t n, size; /* of a block */
  int shift;
  int64_t (*place)[DIGITS];
};

static void count_digits(void *data, int64_t b, FK_UNUSED int64_t last, FK_UNUSED int slot) {
  const struct radix *r = data;
  int64_t *count = r->place[b];
  memset(count, 0, sizeof r->place[b]);
  for (int64_t i = b * r->size, end = fk_smaller(r->n, i + r->size); i < end; i++)
    count[r->from[i] >> r->shift & (DIGITS - 1)]++;
}

static void move_items(void *data, int64_t b, FK_UNUSED int64_t last, FK_UNUSED int slot) {
  const struct radix *r = data;
  int64_t *place = r->place[b];
  for (int64_t i = b * r->size, end = fk_smaller(r->n, i + r->size); i < end; i++)
    r->to[place[r->from[i] >> r->shift & (DIGITS - 1)]++] = r->from[i];
}

/* One pass of the radix sort: each block of items counts its digits and is given its places. */
static void radix_pass(struct radix *r, int blocks, int threads) {
  int64_t sum = 0;
  fk_parallel_for(threads, blocks, 1, count_digits, r);
  for (int digit = 0; digit < DIGITS; digit++)
    for (int b = 0; b < blocks; b++) {
      int64_t count = r->place[b][digit];
      r->place[b][digit] = sum;
      sum += count;
    }
  fk_parallel_for(threads, blocks, 1, move_items, r);
}

enum fk_status fk_sort_items(fk_item *items, fk_item *scratch, int64_t n, int threads, struct fk_error *err) {
  if (n <= SHORT) {
    merge_sort(items, scratch, n);
    return FK_STATUS_OK;
  }
  /* more than threads, as one of these may be late */
  int blocks = threads > 1 ? (int)fk_smaller(fk_smaller(4 * threads, MAX_BLOCKS), 1 + n / (16 * DIGITS)) : 1;
  int64_t(*place)[DIGITS] = malloc(sizeof *place * (size_t)blocks);
  fk_item *from = items, *to = scratch, used = 0;
  if (!place) return fk_no_memory(err, 0, "a sort");
  for (int64_t i = 0; i < n; i++) used |= items[i] ^ items[0];
  for (int shift = KEY_BITS; shift < 2 * KEY_BITS; shift += DIGIT) {
    if (!(used >> shift & (DIGITS - 1))) continue;
    radix_pass(&(struct radix){from, to, n, fk_pieces(n, blocks), shift, place}, blocks, threads);
    fk_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, sizeof *items * (size_t)n);
  free(place);
  return FK_STATUS_OK;
}

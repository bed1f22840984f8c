/* Sources onto the grid.
 *
 * Each chunk is spread to a thread's own scratch, which is then added to the blocks it touches. Every block takes
 * what it is given in one order of the chunks, so the bits do not depend on the threads: a thread waits for its
 * turn at a block. The first chunk under way never waits, and chunks are handed out in that order, so all get
 * done. Neighbours, which share blocks, are not done one after the other but STREAMS apart: else threads would
 * wait for each other at nearly every chunk. */
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "state.h"

enum { STREAMS = 16 };

struct spread_sources {
  const double *b;
  int64_t ld;
};

/* The chunk that is done `at`-th: the streams take turns, each walks through its share. */
static int64_t chunk_at(const struct fk_batch *batch, int64_t at) {
  int64_t stream = at % STREAMS, share = batch->chunks / STREAMS, longer = batch->chunks % STREAMS;
  return stream * share + fk_smaller(stream, longer) + at / STREAMS;
}

/* Blocks for all chunks, and each chunk's turn at them. */
static enum fk_status assign(struct fk_grid *g, const struct fk_batch *batch, uint32_t **turns,
                             struct fk_error *err) {
  int64_t wanted = batch->chunks * g->slots.count;
  uint32_t *count = calloc((size_t)(g->totals.n + wanted), sizeof *count);
  if (wanted > g->slot_capacity) {
    free(g->slot_of);
    free(g->turn_of);
    g->slot_capacity = wanted;
    g->slot_of = malloc((size_t)wanted * sizeof *g->slot_of);
    g->turn_of = malloc((size_t)wanted * sizeof *g->turn_of);
  }
  if (!g->slot_of || !g->turn_of || !count) {
    g->slot_capacity = 0;
    free(count);
    return fk_grid_no_memory(err, "pieces of work");
  }
  for (int64_t order = 0; order < batch->chunks; order++) {
    int64_t i = chunk_at(batch, order);
    const struct fk_chunk *a = &batch->chunk[i];
    for (int slot = 0; slot < g->slots.count; slot++) {
      struct fk_box box;
      int64_t first[FK_GRID_MAX_D], at = i * g->slots.count + slot;
      g->slot_of[at] = UINT32_MAX;
      if (!fk_slot_box(g, a->low, a->high, slot, &box, first)) continue;
      int64_t block = fk_blocks_insert(&g->totals, batch->keys[a->block] + g->slots.key[slot]);
      if (block < 0) {
        free(count);
        return fk_grid_no_block(g, &g->totals, err);
      }
      g->slot_of[at] = (uint32_t)block;
      g->turn_of[at] = count[block]++;
    }
  }
  *turns = count;
  return FK_STATUS_OK;
}

static void gather_b(const struct fk_grid *g, const struct fk_batch *batch, const struct fk_chunk *a,
                     const struct spread_sources *s, int64_t column, void *to) {
  int64_t n = a->end - a->begin;
  const uint32_t *order = batch->order + a->begin;
  const double *b = s->b ? s->b + column * s->ld + batch->first : NULL;
  if (g->spec.single)
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] = b ? (float)b[order[i]] : 1;
  else
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] = b ? b[order[i]] : 1;
}

/* Adding equal terms to a float errs to one side: where points share a cell, as tied ones do, what a scratch takes
 * at a time has at most so many of them. */
enum { FK_FLOAT_TIES = 32 };

/* Points of a chunk that are spread at a time. */
static int64_t points_at_a_time(const struct fk_grid *g, const float *points, int64_t n, uint16_t *count) {
  int d = g->spec.d, most = 0;
  if (n <= FK_FLOAT_TIES) return n;
  memset(count, 0, sizeof *count * (size_t)g->layout.cells);
  for (int64_t i = 0; i < n; i++) {
    int64_t cell = 0;
    for (int k = d - 1; k >= 0; k--) cell = cell * g->layout.side[k] + (int64_t)points[i * d + k];
    int here = ++count[cell];
    most = here > most ? here : most;
  }
  return most <= FK_FLOAT_TIES ? n : fk_larger(FK_FLOAT_TIES, n * FK_FLOAT_TIES / most);
}

/* The scratch of a chunk joins its blocks' totals; other chunks wait from the first part of it to the last. */
static void join_blocks(struct fk_grid *g, const struct fk_chunk *a, int64_t i, int64_t column,
                        const char *scratch, bool first_part, bool last_part, atomic_uint *done) {
  const struct fk_stencil *st = &g->stencil;
  struct fk_box box = {.d = g->spec.d};
  for (int slot = 0; slot < g->slots.count; slot++) {
    uint32_t block = g->slot_of[i * g->slots.count + slot], turn = g->turn_of[i * g->slots.count + slot];
    int64_t first[FK_GRID_MAX_D], from = 0, to = 0, stride = 1;
    if (block == UINT32_MAX) continue;
    fk_slot_box(g, a->low, a->high, slot, &box, first);
    for (int k = 0; k < g->spec.d; k++) {
      box.from[k] = st->stride[k];
      box.to[k] = stride;
      from += first[k] * st->stride[k];
      to += (first[k] - g->slots.at[slot][k] * g->layout.side[k]) * stride;
      stride *= g->layout.side[k];
    }
    double *total = (double *)fk_blocks_at(&g->totals, block) + column * g->layout.cells + to;
    if (done && first_part) fk_turn_wait(&done[block], turn);
    g->ops->add(total, scratch + (size_t)from * g->ops->real, &box);
    if (done && last_part) fk_turn_end(&done[block], turn);
  }
}

static void spread_chunk(struct fk_grid *g, const struct fk_batch *batch, const struct spread_sources *s,
                         int64_t i, int64_t column, atomic_uint *done, char *scratch) {
  const struct fk_chunk *a = &batch->chunk[i];
  const struct fk_stencil *st = &g->stencil;
  size_t real = g->ops->real;
  char *b = scratch + (size_t)st->size * real;
  const char *points = (const char *)batch->points + (size_t)(a->begin * g->spec.d) * real;
  int d = g->spec.d, dims = (int)fk_smaller(d, 4);
  struct fk_box box = {.d = d};
  int64_t origin = 0, n = a->end - a->begin, step = n;
  for (int k = 0; k < d; k++) {
    box.to[k] = st->stride[k];
    box.n[k] = k ? a->high[k] - a->low[k] + st->width : (d > 1 ? st->stride[1] : st->size);
    origin += k ? a->low[k] * st->stride[k] : 0;
  }
  gather_b(g, batch, a, s, column, b);
  if (g->spec.single) step = points_at_a_time(g, (const float *)points, n, fk_grid_counts(g, scratch));
  for (int64_t at = 0; at < n; at += step) {
    int64_t count = fk_smaller(step, n - at);
    g->ops->zero(scratch + (size_t)origin * real, &box);
    g->ops->spread[dims - 1][st->width](st, points + (size_t)(at * d) * real, b + (size_t)at * real, count,
                                        scratch);
    join_blocks(g, a, i, column, scratch, at == 0, at + count == n, done);
  }
}

struct spreading {
  struct fk_grid *grid;
  const struct fk_batch *batch;
  const struct spread_sources *sources;
  int64_t column;
  atomic_uint *done;
};

static void spread_chunks(void *data, int64_t first, int64_t end, int slot) {
  const struct spreading *s = data;
  for (int64_t i = first; i < end; i++)
    spread_chunk(s->grid, s->batch, s->sources, chunk_at(s->batch, i), s->column, s->done, s->grid->scratch[slot]);
}

struct clearing {
  struct fk_blocks *blocks;
  int64_t from;
};

static void clear_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct clearing *c = data;
  for (int64_t i = c->from + first; i < c->from + end; i++)
    memset(fk_blocks_at(c->blocks, i), 0, c->blocks->bytes);
}

static enum fk_status spread(struct fk_grid *g, const struct fk_batch *batch, void *data, struct fk_error *err) {
  const struct spread_sources *s = data;
  uint32_t *turns = NULL;
  int64_t before = g->totals.n;
  enum fk_status status = assign(g, batch, &turns, err);
  free(turns);
  int threads = fk_grid_threads(g, (double)batch->n);
  /* also where memory was short: no block may be left as it came */
  struct clearing clearing = {&g->totals, before};
  fk_parallel_for(threads, g->totals.n - before, fk_step_for_bytes((double)g->totals.bytes), clear_blocks,
                  &clearing);
  if (status) return status;
  atomic_uint *done = NULL;
  if (threads > 1 && !(done = malloc((size_t)g->totals.n * sizeof *done))) return fk_grid_no_memory(err, "blocks");
  for (int64_t column = 0; column < g->spec.columns && !status; column++) {
    for (int64_t k = 0; done && k < g->totals.n; k++) atomic_init(&done[k], 0);
    struct spreading spreading = {g, batch, s, column, done};
    fk_parallel_for(threads, batch->chunks, 1, spread_chunks, &spreading);
    if (column) status = fk_grid_poll(g, (double)column / (double)g->spec.columns, err);
  }
  free(done);
  return status;
}

enum fk_status fk_grid_add(struct fk_grid *g, const struct fk_grid_points *points, const double *b, int64_t ld_b,
                           struct fk_error *err) {
  g->convolved = false;
  return fk_grid_each_batch(g, points, spread, &(struct spread_sources){b, ld_b}, err);
}

enum fk_status fk_grid_add_sorted(struct fk_grid *g, const struct fk_sorted *points, const double *b, int64_t ld_b,
                                  struct fk_error *err) {
  g->convolved = false;
  return fk_grid_each_sorted(g, points, spread, &(struct spread_sources){b, ld_b}, err);
}

/* Targets from the filtered grid. */
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "state.h"

struct targets {
  double *value, *gradient;
  int64_t ld;
};

/* ---- what will be asked for ------------------------------------------------------------------- */

static enum fk_status expect(struct fk_grid *g, const struct fk_batch *batch, FK_UNUSED void *data,
                             struct fk_error *err) {
  for (int64_t i = 0; i < batch->chunks; i++) {
    const struct fk_chunk *a = &batch->chunk[i];
    int64_t before = g->expected.n, at = fk_blocks_insert(&g->expected, batch->keys[a->block]);
    if (at < 0) return fk_grid_no_memory(err, "targets");
    struct fk_extent *e = fk_blocks_at(&g->expected, at);
    for (int k = 0; k < g->spec.d; k++) {
      if (at == before || a->low[k] < e->low[k]) e->low[k] = a->low[k];
      if (at == before || a->high[k] > e->high[k]) e->high[k] = a->high[k];
    }
  }
  g->expecting = true;
  g->convolved = false;
  return FK_STATUS_OK;
}

enum fk_status fk_grid_expect(struct fk_grid *g, const struct fk_grid_points *points, struct fk_error *err) {
  return fk_grid_each_batch(g, points, expect, NULL, err);
}

enum fk_status fk_grid_expect_sorted(struct fk_grid *g, const struct fk_sorted *points, struct fk_error *err) {
  return fk_grid_each_sorted(g, points, expect, NULL, err);
}

static bool all_expected(const struct fk_grid *g, const struct fk_batch *batch) {
  for (int64_t i = 0; i < batch->chunks; i++) {
    const struct fk_chunk *a = &batch->chunk[i];
    int64_t at = fk_blocks_find(&g->expected, batch->keys[a->block]);
    if (at < 0) return false;
    const struct fk_extent *e = fk_blocks_at(&g->expected, at);
    for (int k = 0; k < g->spec.d; k++)
      if (a->low[k] < e->low[k] || a->high[k] > e->high[k]) return false;
  }
  return true;
}

/* ---- interpolation ---------------------------------------------------------------------------- */

/* The cells around a chunk's points, from all the blocks they lie in. False: there are none. */
static bool collect(const struct fk_grid *g, uint64_t key, const struct fk_chunk *a, int64_t column,
                    char *scratch) {
  const struct fk_stencil *st = &g->stencil;
  size_t real = g->ops->real;
  bool any = false;
  int d = g->spec.d;
  for (int slot = 0; slot < g->slots.count; slot++) {
    struct fk_box box;
    int64_t first[FK_GRID_MAX_D], from = 0, to = 0, stride = 1;
    if (!fk_slot_box(g, a->low, a->high, slot, &box, first)) continue;
    int64_t block = fk_blocks_find(&g->result, key + g->slots.key[slot]);
    for (int k = 0; k < d; k++) {
      box.from[k] = stride;
      box.to[k] = st->stride[k];
      to += first[k] * st->stride[k];
      from += (first[k] - g->slots.at[slot][k] * g->layout.side[k]) * stride;
      stride *= g->layout.side[k];
    }
    if (block < 0) {
      g->ops->zero(scratch + (size_t)to * real, &box);
      continue;
    }
    any = true;
    const char *cells = fk_blocks_at(&g->result, block);
    g->ops->copy(scratch + (size_t)to * real, cells + (size_t)(column * g->layout.cells + from) * real, &box);
  }
  return any;
}

/* Points that were near in space are apart in memory: lines are asked for ahead. */
enum { AHEAD = 24 };

static void scatter(const struct fk_grid *g, const uint32_t *order, int64_t n, const void *from, double *to) {
  for (int64_t i = 0; i < n; i++) {
    __builtin_prefetch(to + order[fk_smaller(i + AHEAD, n - 1)], 1);
    to[order[i]] = !from ? 0 : g->spec.single ? (double)((const float *)from)[i] : ((const double *)from)[i];
  }
}

static void evaluate_chunk(const struct fk_grid *g, const struct fk_batch *batch, const struct fk_chunk *a,
                           const struct targets *t, char *scratch) {
  const struct fk_stencil *st = &g->stencil;
  size_t real = g->ops->real;
  int d = g->spec.d, dims = (int)fk_smaller(d, 4);
  int64_t n = a->end - a->begin;
  char *value = scratch + (size_t)st->size * real, *gradient = value + (size_t)n * real;
  const char *points = (const char *)batch->points + (size_t)(a->begin * d) * real;
  const uint32_t *order = batch->order + a->begin;
  for (int64_t column = 0; column < g->spec.columns; column++) {
    bool any = collect(g, batch->keys[a->block], a, column, scratch);
    if (any)
      (t->gradient ? g->ops->gradient : g->ops->value)[dims - 1][st->width](st, points, n, scratch, value,
                                                                            gradient);
    scatter(g, order, n, any ? value : NULL, t->value + column * t->ld + batch->first);
    for (int k = 0; t->gradient && k < d; k++)
      scatter(g, order, n, any ? gradient + (size_t)(k * n) * real : NULL,
              t->gradient + (column * d + k) * t->ld + batch->first);
  }
}

struct evaluation {
  const struct fk_grid *grid;
  const struct fk_batch *batch;
  const struct targets *targets;
};

static void evaluate_chunks(void *data, int64_t first, int64_t end, int slot) {
  const struct evaluation *e = data;
  for (int64_t i = first; i < end; i++)
    evaluate_chunk(e->grid, e->batch, &e->batch->chunk[i], e->targets, e->grid->scratch[slot]);
}

static enum fk_status evaluate(struct fk_grid *g, const struct fk_batch *batch, void *data, struct fk_error *err) {
  if (g->expecting && !all_expected(g, batch))
    return fk_fail(err, FK_STATUS_INVALID, "the grid was made without this target");
  int threads = fk_grid_threads(g, (double)batch->n * (double)g->spec.columns);
  struct evaluation e = {g, batch, data};
  fk_parallel_for(threads, batch->chunks, 1, evaluate_chunks, &e);
  return FK_STATUS_OK;
}

static enum fk_status ready(const struct fk_grid *g, struct fk_error *err) {
  return g->convolved ? FK_STATUS_OK : fk_fail(err, FK_STATUS_INVALID, "the grid has not been filtered yet");
}

enum fk_status fk_grid_evaluate(struct fk_grid *g, const struct fk_grid_points *points, double *value,
                                double *gradient, int64_t ld, struct fk_error *err) {
  enum fk_status status = ready(g, err);
  return status ? status : fk_grid_each_batch(g, points, evaluate, &(struct targets){value, gradient, ld}, err);
}

enum fk_status fk_grid_evaluate_sorted(struct fk_grid *g, const struct fk_sorted *points, double *value,
                                       double *gradient, int64_t ld, struct fk_error *err) {
  enum fk_status status = ready(g, err);
  return status ? status : fk_grid_each_sorted(g, points, evaluate, &(struct targets){value, gradient, ld}, err);
}

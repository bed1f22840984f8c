/* The grid's life: layout of its blocks, memory, and points brought to it batch by batch. */
#include "grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "state.h"

enum fk_status fk_grid_no_memory(struct fk_error *err, const char *what) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for %s of the grid", what);
}

enum fk_status fk_grid_no_block(const struct fk_grid *g, const struct fk_blocks *table, struct fk_error *err) {
  if (!table->most || table->n < table->most) return fk_grid_no_memory(err, "blocks");
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid of the fast engine would take more than %.2g GB",
                 1e-9 * g->spec.most_bytes);
}

double fk_grid_total_bytes(const struct fk_grid *g) {
  return (double)g->totals.bytes + (g->spec.single ? (double)g->narrow.bytes : 0);
}

double fk_grid_result_bytes(const struct fk_grid *g) { return (double)(g->result.bytes + g->between.bytes); }

enum fk_status fk_grid_poll(const struct fk_grid *g, double fraction, struct fk_error *err) {
  const struct fk_poll *poll = &g->spec.poll;
  return poll->fn && poll->fn(poll->data, fraction) ? fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted")
                                                    : FK_STATUS_OK;
}

int fk_grid_threads(const struct fk_grid *g, double n) {
  return (int)fk_smaller(g->threads,
                         fk_threads_for_work(g->spec.threads, n * 20 * pow(g->spec.window.width, g->spec.d)));
}

/* About 4,096 cells a block: 32 kB in double, so that the filter's neighbours stay in the second-level cache. A
 * side is a multiple of 4, that of dimension 0 of every vector. */
static const int64_t sides[FK_GRID_MAX_D][FK_GRID_MAX_D] = {
    {512}, {32, 32}, {16, 16, 16}, {16, 8, 8, 4}, {16, 4, 4, 4, 4}, {16, 4, 4, 4, 4, 4}, {16, 4, 4, 4, 4, 4, 4}};
static const int bits[FK_GRID_MAX_D] = {60, 30, 20, 15, 12, 10, 8};

int64_t fk_grid_sides(int d, int64_t side[FK_GRID_MAX_D]) {
  int64_t cells = 1;
  for (int k = 0; k < d; k++) cells *= side[k] = sides[d - 1][k];
  return cells;
}

void fk_grid_lay_out(struct fk_layout *l, int d, double spacing, bool single_cells) {
  *l = (struct fk_layout){.d = d, .inverse_spacing = 1 / spacing, .cells = 1, .bits = bits[d - 1]};
  if (!single_cells) l->cells = fk_grid_sides(d, l->side);
  for (int k = 0; k < d; k++) {
    uint64_t half = (uint64_t)1 << (l->bits - 1);
    if (single_cells) l->side[k] = 1;
    l->shift[k] = FK_KEY_QUARTERS + k * l->bits;
    l->bias += half << l->shift[k];
    /* room for the neighbours that filters reach */
    l->limit[k] = fmin(0x1p50, (double)(half - (half / 8 < 64 ? half / 8 : 64)));
  }
}

static int row_lanes(int width, bool single) {
  if (width <= 4) return 4;
  if (width <= 8) return 8;
  return width <= 12 && !single ? 12 : 16;
}

static enum fk_status prepare_stencil(struct fk_grid *g, struct fk_error *err) {
  enum { TABLE = (FK_WINDOW_DEGREE + 1) * FK_GRID_LANES };
  double poly[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH];
  struct fk_stencil *s = &g->stencil;
  s->d = g->spec.d;
  s->width = g->spec.window.width;
  s->degree = fk_window_polynomial(&g->spec.window, poly);
  s->size = 1;
  for (int k = 0; k < s->d; k++) {
    int64_t length = g->layout.side[k] + (k ? s->width - 1 : row_lanes(s->width, g->spec.single));
    s->stride[k] = s->size;
    s->size *= length;
    g->spans[k] = (int)fk_pieces(g->layout.side[k] + s->width - 1, g->layout.side[k]);
  }
  s->size = fk_padded(s->size, FK_GRID_LANES) + FK_GRID_LANES;
  g->coefficients = fk_aligned_alloc(2 * TABLE * g->ops->real);
  if (!g->coefficients) return fk_grid_no_memory(err, "the window");
  memset(g->coefficients, 0, 2 * TABLE * g->ops->real);
  s->value = g->coefficients;
  s->slope = (char *)g->coefficients + TABLE * g->ops->real;
  for (int k = 0; k <= s->degree; k++)
    for (int l = 0; l < s->width; l++) {
      /* d/dx = -2 d/dt; its polynomial is kept at the same degree */
      double slope = k < s->degree ? -2 * (k + 1) * poly[k + 1][l] / g->spec.window.spacing : 0;
      if (g->spec.single) {
        ((float *)s->value)[k * FK_GRID_LANES + l] = (float)poly[k][l];
        ((float *)s->slope)[k * FK_GRID_LANES + l] = (float)slope;
      } else {
        ((double *)s->value)[k * FK_GRID_LANES + l] = poly[k][l];
        ((double *)s->slope)[k * FK_GRID_LANES + l] = slope;
      }
    }
  return FK_STATUS_OK;
}

static enum fk_status prepare_slots(struct fk_grid *g, struct fk_error *err) {
  struct fk_slots *slots = &g->slots;
  int count = 1;
  for (int k = 0; k < g->spec.d; k++) count *= g->spans[k];
  slots->key = calloc((size_t)count, sizeof *slots->key);
  slots->at = calloc((size_t)count, sizeof *slots->at);
  if (!slots->key || !slots->at) return fk_grid_no_memory(err, "the blocks");
  slots->count = count;
  for (int i = 0; i < count; i++)
    for (int k = 0, rest = i; k < g->spec.d; k++) {
      slots->at[i][k] = (unsigned char)(rest % g->spans[k]);
      slots->key[i] += (uint64_t)slots->at[i][k] << g->layout.shift[k];
      rest /= g->spans[k];
    }
  return FK_STATUS_OK;
}

static size_t scratch_numbers(const struct fk_grid *g) {
  return (size_t)g->stencil.size + FK_CHUNK * (size_t)(2 + g->spec.d);
}

uint16_t *fk_grid_counts(const struct fk_grid *g, char *scratch) {
  return (uint16_t *)(scratch + scratch_numbers(g) * g->ops->real);
}

static enum fk_status prepare_threads(struct fk_grid *g, struct fk_error *err) {
  size_t numbers = scratch_numbers(g), counts = g->spec.single ? (size_t)g->layout.cells * sizeof(uint16_t) : 0;
  g->scratch = calloc((size_t)g->threads, sizeof *g->scratch);
  if (!g->scratch) return fk_grid_no_memory(err, "the threads");
  for (int t = 0; t < g->threads; t++) {
    g->scratch[t] = fk_aligned_alloc(numbers * g->ops->real + counts);
    if (!g->scratch[t]) return fk_grid_no_memory(err, "the threads");
    memset(g->scratch[t], 0, numbers * g->ops->real);
  }
  return fk_sorter_init(&g->sorter, &g->layout, g->ops, g->threads, err);
}

enum fk_status fk_grid_create(const struct fk_grid_spec *spec, struct fk_grid **grid, struct fk_error *err) {
  *grid = NULL;
  if (spec->d < 1 || spec->d > FK_GRID_MAX_D)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "a grid must have 1 to %d dimensions, not %d", FK_GRID_MAX_D,
                   spec->d);
  /* in one dimension a float cannot tell places in a block apart well enough, and saves little */
  bool single = spec->single && spec->d > 1;
  const struct fk_grid_ops *ops = fk_grid_ops(single);
  if (spec->window.width < 3 || spec->window.width > FK_WINDOW_WIDTH || !ops->spread[0][spec->window.width])
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid has no window of width %d", spec->window.width);
  struct fk_grid *g = calloc(1, sizeof *g);
  if (!g) return fk_grid_no_memory(err, "the plan");
  g->spec = *spec;
  g->spec.single = single;
  g->ops = ops;
  g->threads = fk_threads(spec->threads);
  fk_grid_lay_out(&g->layout, spec->d, spec->window.spacing, false);
  g->layout.quarters = spec->d > 2;
  int planes = spec->use & FK_WINDOW_LAPLACE ? 2 : 1;
  size_t block = (size_t)g->layout.cells * (size_t)spec->columns;
  fk_blocks_init(&g->totals, block * sizeof(double), false);
  fk_blocks_init(&g->expected, sizeof(struct fk_extent), true);
  fk_blocks_init(&g->narrow, block * sizeof(float), false);
  fk_blocks_init(&g->result, block * (size_t)planes * ops->real, false);
  fk_blocks_init(&g->between, block * (size_t)planes * ops->real, false);
  fk_blocks_init(&g->sum, block * (size_t)planes * ops->real, true);
  /* there will be results as well, mostly as many */
  if (spec->most_bytes > 0)
    g->totals.most = 1 + (int64_t)(spec->most_bytes / (fk_grid_total_bytes(g) + fk_grid_result_bytes(g)));
  enum fk_status status = prepare_stencil(g, err);
  if (!status) status = prepare_slots(g, err);
  if (!status) status = prepare_threads(g, err);
  if (status) {
    fk_grid_free(g);
    return status;
  }
  *grid = g;
  return FK_STATUS_OK;
}

void fk_grid_free(struct fk_grid *g) {
  if (!g) return;
  fk_blocks_free(&g->totals);
  fk_blocks_free(&g->expected);
  fk_blocks_free(&g->narrow);
  fk_blocks_free(&g->result);
  fk_blocks_free(&g->between);
  fk_blocks_free(&g->sum);
  fk_sorter_free(&g->sorter);
  fk_batch_free(&g->batch);
  for (int t = 0; g->scratch && t < g->threads; t++) fk_aligned_free(g->scratch[t]);
  free(g->scratch);
  free(g->slots.key);
  free(g->slots.at);
  free(g->slot_of);
  free(g->turn_of);
  fk_aligned_free(g->coefficients);
  free(g);
}

double fk_grid_held(const struct fk_grid *g) {
  return fk_blocks_held(&g->totals) + fk_blocks_held(&g->expected) + fk_blocks_held(&g->narrow) +
         fk_blocks_held(&g->result) + fk_blocks_held(&g->between) + fk_blocks_held(&g->sum);
}

void fk_grid_restart(struct fk_grid *g, const struct fk_poll *poll) {
  fk_blocks_clear(&g->totals);
  g->spec.poll = *poll;
  g->convolved = false;
}

/* ---- points ----------------------------------------------------------------------------------- */

enum fk_status fk_grid_each_batch(struct fk_grid *g, const struct fk_grid_points *points, fk_batch_fn fn,
                                  void *data, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int64_t first = 0, size = 0; !status && first < points->n; first += size) {
    size = fk_batch_size(points->n - first, g->batch.blocks);
    status = fk_batch_sort(&g->sorter, points, first, size, &g->batch, err);
    if (!status) status = fk_grid_poll(g, (double)first / (double)points->n, err);
    if (!status) status = fn(g, &g->batch, data, err);
  }
  return status;
}

enum fk_status fk_grid_each_sorted(struct fk_grid *g, const struct fk_sorted *points, fk_batch_fn fn, void *data,
                                   struct fk_error *err) {
  if (points->d != g->spec.d || points->single != g->spec.single || points->spacing != g->spec.window.spacing)
    return fk_fail(err, FK_STATUS_INVALID, "these points were sorted for another grid");
  for (int64_t i = 0; i < points->n_batches; i++) {
    const struct fk_batch *batch = &points->batches[i];
    enum fk_status status = fk_grid_poll(g, (double)batch->first / (double)points->n, err);
    if (!status) status = fn(g, batch, data, err);
    if (status) return status;
  }
  return FK_STATUS_OK;
}

enum fk_status fk_grid_sort(struct fk_grid *g, const struct fk_grid_points *points, struct fk_sorted **sorted,
                            struct fk_error *err) {
  struct fk_sorted *s = *sorted ? *sorted : calloc(1, sizeof *s);
  *sorted = NULL;
  if (!s) return fk_grid_no_memory(err, "points");
  if (!s->batches)
    *s = (struct fk_sorted){.d = g->spec.d, .single = g->spec.single, .spacing = g->spec.window.spacing};
  int64_t blocks = s->n_batches ? s->batches[s->n_batches - 1].blocks : 0;
  enum fk_status status = FK_STATUS_OK;
  for (int64_t first = 0, size = 0; !status && first < points->n; first += size) {
    struct fk_batch *batches = realloc(s->batches, (size_t)(s->n_batches + 1) * sizeof *batches);
    if (!batches) {
      status = fk_grid_no_memory(err, "points");
      break;
    }
    s->batches = batches;
    struct fk_batch *batch = &batches[s->n_batches++];
    memset(batch, 0, sizeof *batch);
    size = fk_batch_size(points->n - first, blocks);
    status = fk_batch_sort(&g->sorter, points, first, size, batch, err);
    batch->first += s->n;
    blocks = batch->blocks;
    if (!status) status = fk_grid_poll(g, (double)first / (double)points->n, err);
  }
  s->n += points->n;
  if (status)
    fk_sorted_free(s);
  else
    *sorted = s;
  return status;
}

bool fk_slot_box(const struct fk_grid *g, const int16_t *low, const int16_t *high, int slot, struct fk_box *box,
                 int64_t *first) {
  box->d = g->spec.d;
  for (int k = 0; k < g->spec.d; k++) {
    int64_t side = g->layout.side[k], begin = g->slots.at[slot][k] * side;
    first[k] = fk_larger(low[k], begin);
    box->n[k] = fk_smaller(high[k] + g->stencil.width, begin + side) - first[k];
    if (box->n[k] <= 0) return false;
  }
  return true;
}

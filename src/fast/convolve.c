/* The filter, one dimension after the other, on blocks that can be reached; only on those from which an expected
 * target can be reached, where targets were announced.
 *
 * Laplace: with A the sums of G and B those of Q = (t^2/2) G along one of the dimensions so far, a pass makes
 *   A <- G A,  B <- G B + Q A,   and the last one  (1 + d/2) A - B  by  ((1 + d/2) G - Q) A - G B:
 * one filter more on the grid, and no difference of two sums over points.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "state.h"

enum { TAPS = 2 * (FK_WINDOW_REACH + FK_FIR_PAD) + 1, BLOCKS_EACH_WAY = 64 };

/* Of each filter, one array in REAL with zeros around. */
struct filters {
  int reach;
  void *memory, *gauss, *laplace, *last, *minus;
};

static enum fk_status no_memory(struct fk_error *err) { return fk_grid_no_memory(err, "the filtered blocks"); }

static void *fill(const struct fk_grid *g, struct filters *f, int slot, const double *taps) {
  char *start = (char *)f->memory + (size_t)(slot * TAPS) * g->ops->real;
  for (int i = -f->reach; i <= f->reach; i++) {
    int at = TAPS / 2 + i;
    if (g->spec.single)
      ((float *)start)[at] = (float)taps[abs(i)];
    else
      ((double *)start)[at] = taps[abs(i)];
  }
  return start + (size_t)(TAPS / 2) * g->ops->real;
}

static enum fk_status prepare(const struct fk_grid *g, double scale, struct filters *f, struct fk_error *err) {
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1], mixed[FK_WINDOW_REACH + 1] = {0};
  bool both = g->spec.use & FK_WINDOW_LAPLACE;
  enum fk_status status = fk_window_taps(&g->spec.window, scale, gauss, both ? laplace : NULL, &f->reach, err);
  if (status) return status;
  f->memory = fk_aligned_alloc(4 * TAPS * g->ops->real);
  if (!f->memory) return no_memory(err);
  memset(f->memory, 0, 4 * TAPS * g->ops->real);
  f->gauss = fill(g, f, 0, gauss);
  if (!both) return FK_STATUS_OK;
  f->laplace = fill(g, f, 1, laplace);
  for (int i = 0; i <= f->reach; i++) mixed[i] = (1 + 0.5 * g->spec.d) * gauss[i] - laplace[i];
  f->last = fill(g, f, 2, mixed);
  for (int i = 0; i <= f->reach; i++) mixed[i] = -gauss[i];
  f->minus = fill(g, f, 3, mixed);
  return FK_STATUS_OK;
}

/* ---- sets of blocks --------------------------------------------------------------------------- */

/* Keys up to `reach` blocks from those of `from` along k, that are also in `only` (NULL: all are). */
static bool dilate(const struct fk_grid *g, const struct fk_blocks *from, int k, int reach,
                   const struct fk_blocks *only, struct fk_blocks *to) {
  uint64_t step = (uint64_t)1 << g->layout.shift[k];
  for (int64_t i = 0; i < from->n; i++)
    for (int b = -reach; b <= reach; b++) {
      uint64_t key = from->keys[i] + step * (uint64_t)(int64_t)b;
      if (only && fk_blocks_find(only, key) < 0) continue;
      if (fk_blocks_insert(to, key) < 0) return false;
    }
  return true;
}

/* Blocks whose values the expected targets read. */
static bool wanted(const struct fk_grid *g, struct fk_blocks *to) {
  for (int64_t i = 0; i < g->expected.n; i++) {
    const struct fk_extent *e = fk_blocks_at(&g->expected, i);
    for (int slot = 0; slot < g->slots.count; slot++) {
      struct fk_box box;
      int64_t first[FK_GRID_MAX_D];
      if (fk_slot_box(g, e->low, e->high, slot, &box, first) &&
          fk_blocks_insert(to, g->expected.keys[i] + g->slots.key[slot]) < 0)
        return false;
    }
  }
  return true;
}

/* Blocks in an order that walks along dimension k: neighbours are still in the cache. */
static uint32_t *walk(const struct fk_grid *g, const struct fk_blocks *b, int k) {
  struct fk_keyed *items = malloc(2 * (size_t)fk_larger(b->n, 1) * sizeof *items);
  uint32_t *order = malloc((size_t)fk_larger(b->n, 1) * sizeof *order);
  if (items && order) {
    int width = g->layout.bits, low = g->layout.shift[k];
    uint64_t field = (((uint64_t)1 << width) - 1) << low, below = ((uint64_t)1 << low) - 1;
    for (int64_t i = 0; i < b->n; i++) {
      uint64_t key = b->keys[i], rest = (key & ~field & ~below) | (key & below) << width;
      items[i] = (struct fk_keyed){rest | (key & field) >> low, 0, (uint32_t)i};
    }
    fk_keyed_sort(items, items + b->n, b->n);
    for (int64_t i = 0; i < b->n; i++) order[i] = items[i].minor;
  } else {
    free(order);
    order = NULL;
  }
  free(items);
  return order;
}

/* ---- passes ----------------------------------------------------------------------------------- */

struct pass {
  int k, planes_in, planes_out;
  struct fk_fir fir[2]; /* of the first plane of the output, and of the second */
  const struct fk_blocks *in;
  struct fk_blocks *out;
};

static void filter_block(const struct fk_grid *g, const struct pass *p, int64_t number) {
  const void *in[2][2 * BLOCKS_EACH_WAY + 1];
  int each_way = p->fir[0].blocks;
  int64_t near[2 * BLOCKS_EACH_WAY + 1], columns = g->spec.columns;
  size_t plane = (size_t)g->layout.cells * g->ops->real;
  uint64_t step = (uint64_t)1 << g->layout.shift[p->k], key = p->out->keys[number];
  for (int b = -each_way; b <= each_way; b++)
    near[b + each_way] = fk_blocks_find(p->in, key + step * (uint64_t)(int64_t)b);
  char *out = fk_blocks_at(p->out, number);
  for (int64_t column = 0; column < columns; column++) {
    for (int q = 0; q < p->planes_in; q++)
      for (int b = 0; b <= 2 * each_way; b++)
        in[q][b] =
            near[b] < 0 ? NULL : (char *)fk_blocks_at(p->in, near[b]) + (size_t)(q * columns + column) * plane;
    for (int q = 0; q < p->planes_out; q++) {
      const struct fk_fir *f = &p->fir[q];
      bool second = f->taps[1] != NULL;
      g->ops->fir(f, in[0], second ? (const void *const *)in[1] : NULL,
                  out + (size_t)(q * columns + column) * plane);
    }
  }
}

struct some_blocks {
  const struct fk_grid *grid;
  const struct pass *pass;
  const uint32_t *order;
};

static void filter_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct some_blocks *some = data;
  (void)slot;
  for (int64_t i = first; i < end; i++) filter_block(some->grid, some->pass, some->order[i]);
}

static enum fk_status run_pass(const struct fk_grid *g, const struct pass *p, double done, struct fk_error *err) {
  uint32_t *order = walk(g, p->out, p->k);
  if (!order) return no_memory(err);
  double work = (double)g->layout.cells * (double)g->spec.columns * (2 * p->fir[0].reach + 1) * p->planes_out;
  int threads = fk_threads_for_work(g->spec.threads, 2 * work * (double)p->out->n);
  int64_t piece = fk_larger(16 * threads, (int64_t)(1e9 / work));
  enum fk_status status = FK_STATUS_OK;
  for (int64_t first = 0; !status && first < p->out->n; first += piece) {
    int64_t end = fk_smaller(first + piece, p->out->n);
    struct some_blocks some = {g, p, order + first};
    fk_parallel_for(threads, end - first, fk_step_for_work(work), filter_blocks, &some);
    status = fk_grid_poll(g, done + (double)end / (double)p->out->n / g->spec.d, err);
  }
  free(order);
  return status;
}

static void narrow_blocks(void *data, int64_t first, int64_t end, int slot) {
  struct fk_grid *g = data;
  (void)slot;
  for (int64_t i = first; i < end; i++)
    g->ops->convert(fk_blocks_at(&g->narrow, i), fk_blocks_at(&g->totals, i), g->layout.cells * g->spec.columns);
}

/* The totals as the filter's input: themselves, or in float. */
static enum fk_status narrow(struct fk_grid *g, const struct fk_blocks **in, struct fk_error *err) {
  *in = &g->totals;
  if (!g->spec.single) return FK_STATUS_OK;
  *in = &g->narrow;
  fk_blocks_clear(&g->narrow);
  for (int64_t i = 0; i < g->totals.n; i++)
    if (fk_blocks_insert(&g->narrow, g->totals.keys[i]) < 0) return no_memory(err);
  int threads = fk_threads_for_bytes(g->spec.threads, (double)g->totals.n * (double)g->totals.bytes);
  fk_parallel_for(threads, g->totals.n, fk_step_for_bytes((double)g->totals.bytes), narrow_blocks, g);
  return FK_STATUS_OK;
}

/* What the totals leave of the memory, for both tables of results. */
static void limit_results(struct fk_grid *g) {
  if (!(g->spec.most_bytes > 0)) return;
  double left = g->spec.most_bytes - (double)g->totals.n * fk_grid_total_bytes(g);
  g->result.most = g->between.most = 1 + (int64_t)(fmax(left, 0) / fk_grid_result_bytes(g));
}

static enum fk_status filter_all(struct fk_grid *g, const struct filters *f, struct fk_blocks *needed,
                                 struct fk_error *err) {
  int d = g->spec.d;
  bool both = g->spec.use & FK_WINDOW_LAPLACE;
  int64_t stride = 1;
  struct pass p = {.planes_in = 1};
  enum fk_status status = narrow(g, &p.in, err);
  limit_results(g);
  /* what the passes from k on need: needed[k] */
  if (!status && g->expecting) {
    bool fits = wanted(g, &needed[d - 1]);
    for (int k = d - 1; fits && k > 0; k--)
      fits = dilate(g, &needed[k], k, (int)fk_pieces(f->reach, g->layout.side[k]), NULL, &needed[k - 1]);
    if (!fits) status = no_memory(err);
  }
  for (int k = 0; k < d && !status; k++) {
    struct fk_fir fir = {.cells = g->layout.cells, .side = g->layout.side[k], .stride = stride, .reach = f->reach};
    fir.blocks = (int)fk_pieces(f->reach, fir.side);
    stride *= fir.side;
    p.k = k;
    p.out = (d - 1 - k) % 2 ? &g->between : &g->result;
    p.planes_out = both && k < d - 1 ? 2 : 1;
    p.fir[0] = p.fir[1] = fir;
    p.fir[0].taps[0] = both && k == d - 1 ? f->last : f->gauss;
    if (both && k == d - 1 && k > 0) p.fir[0].taps[1] = f->minus;
    p.fir[1].taps[0] = f->laplace;
    if (k > 0) p.fir[1].taps[1] = f->gauss;
    fk_blocks_clear(p.out);
    if (!dilate(g, p.in, k, fir.blocks, g->expecting ? &needed[k] : NULL, p.out))
      return fk_grid_no_block(g, p.out, err);
    fk_blocks_clear(&needed[k]);
    status = run_pass(g, &p, (double)k / d, err);
    p.in = p.out;
    p.planes_in = p.planes_out;
  }
  return status;
}

enum fk_status fk_grid_convolve(struct fk_grid *g, double scale, struct fk_error *err) {
  struct filters f = {0};
  struct fk_blocks needed[FK_GRID_MAX_D];
  for (int k = 0; k < FK_GRID_MAX_D; k++) fk_blocks_init(&needed[k], 0, false);
  g->convolved = false;
  enum fk_status status = prepare(g, scale, &f, err);
  if (!status) status = filter_all(g, &f, needed, err);
  for (int k = 0; k < FK_GRID_MAX_D; k++) fk_blocks_free(&needed[k]);
  fk_aligned_free(f.memory);
  g->convolved = !status;
  return status;
}

/* ---- a sum of filters ------------------------------------------------------------------------- */

static void add_block(const struct fk_grid *g, double weight, const void *from, void *to) {
  int64_t cells = g->layout.cells * g->spec.columns;
  if (g->spec.single)
    for (int64_t i = 0; i < cells; i++) ((float *)to)[i] += (float)weight * ((const float *)from)[i];
  else
    for (int64_t i = 0; i < cells; i++) ((double *)to)[i] += weight * ((const double *)from)[i];
}

struct addition {
  struct fk_grid *grid;
  double weight;
  const int64_t *place;
};

static void add_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct addition *a = data;
  struct fk_grid *g = a->grid;
  (void)slot;
  for (int64_t i = first; i < end; i++)
    add_block(g, a->weight, fk_blocks_at(&g->result, i), fk_blocks_at(&g->sum, a->place[i]));
}

static enum fk_status add_result(struct fk_grid *g, double weight, struct fk_error *err) {
  int64_t n = g->result.n, *place = malloc(sizeof *place * (size_t)fk_larger(n, 1));
  bool fits = place != NULL;
  for (int64_t i = 0; i < n && fits; i++) fits = (place[i] = fk_blocks_insert(&g->sum, g->result.keys[i])) >= 0;
  int threads = fk_threads_for_bytes(g->spec.threads, 3.0 * (double)n * (double)g->sum.bytes);
  struct addition addition = {g, weight, place};
  if (fits) fk_parallel_for(threads, n, fk_step_for_bytes(3.0 * (double)g->sum.bytes), add_blocks, &addition);
  free(place);
  return fits ? FK_STATUS_OK : no_memory(err);
}

enum fk_status fk_grid_convolve_sum(struct fk_grid *g, const double *scales, const double *weights, int count,
                                    struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  fk_blocks_clear(&g->sum);
  for (int c = 0; c < count && !status; c++) {
    status = fk_grid_convolve(g, scales[c], err);
    if (!status) status = add_result(g, weights[c], err);
  }
  struct fk_blocks last = g->result;
  g->result = g->sum;
  g->sum = last;
  g->result.zeroed = false;
  g->sum.zeroed = true;
  fk_blocks_clear(&g->sum);
  g->convolved = !status;
  return status;
}

#include "filter.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "../../grid/window.h"

enum { TAPS = 2 * (FK_WINDOW_REACH + FK_FIR_PAD) + 1, BLOCKS_EACH_WAY = 64, BLOCKS = 2 * BLOCKS_EACH_WAY + 1 };

static enum fk_status no_memory(struct fk_error *err) {
  return fk_no_memory(err, 0, "the filtered blocks of the grid");
}

static enum fk_status no_block(const struct fk_blocks *table, struct fk_error *err) {
  if (!table->most || table->n < table->most) return no_memory(err);
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid of the fast engine would take more than %.2g GB",
                 1e-9 * (double)table->most * (double)table->bytes);
}

/* ---- taps ------------------------------------------------------------------------------------- */

void *fk_filter_memory(const struct fk_grid_ops *ops, int count) {
  void *memory = fk_aligned_alloc((size_t)count * TAPS * ops->real);
  if (memory) memset(memory, 0, (size_t)count * TAPS * ops->real);
  return memory;
}

void *fk_filter_taps(const struct fk_grid_ops *ops, void *memory, int number, const double *taps, int reach) {
  char *start = (char *)memory + (size_t)(number * TAPS) * ops->real;
  for (int i = -reach; i <= reach; i++) {
    int at = TAPS / 2 + i;
    if (ops->real == sizeof(float))
      ((float *)start)[at] = (float)taps[abs(i)];
    else
      ((double *)start)[at] = taps[abs(i)];
  }
  return start + (size_t)(TAPS / 2) * ops->real;
}

/* ---- sets of blocks --------------------------------------------------------------------------- */

/* Keys up to `reach` blocks from those of `from` along k, that are also in `only` (NULL: all are). */
static bool dilate(const struct fk_layout *layout, const struct fk_blocks *from, int k, int reach,
                   const struct fk_blocks *only, struct fk_blocks *to) {
  uint64_t step = (uint64_t)1 << layout->shift[k];
  for (int64_t i = 0; i < from->n; i++)
    for (int b = -reach; b <= reach; b++) {
      uint64_t key = from->keys[i] + step * (uint64_t)(int64_t)b;
      if (only && fk_blocks_find(only, key) < 0) continue;
      if (fk_blocks_insert(to, key) < 0) return false;
    }
  return true;
}

/* Blocks in an order that walks along dimension k: neighbours are still in the cache. */
static uint32_t *walk(const struct fk_layout *layout, const struct fk_blocks *b, int k) {
  struct fk_keyed *items = malloc(2 * (size_t)fk_larger(b->n, 1) * sizeof *items);
  uint32_t *order = malloc((size_t)fk_larger(b->n, 1) * sizeof *order);
  if (items && order) {
    int width = layout->bits, low = layout->shift[k];
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

struct filter_pass {
  const struct fk_filter *filter;
  const struct fk_filter_pass *what;
  struct fk_fir fir;
  int k;
  const struct fk_blocks *in;
  struct fk_blocks *out;
  const uint32_t *order;
  struct fk_scratch more; /* a plane of a third filter and further ones */
};

static void join(const struct fk_grid_ops *ops, void *to, const void *from, int64_t n) {
  if (ops->real == sizeof(float))
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
  else
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)from)[i];
}

/* near: the blocks along the dimension, -1: none. */
static void filter_plane(const struct filter_pass *p, const int64_t *near, int from, int to, int64_t column,
                         char *out, void *more) {
  const struct fk_filter *f = p->filter;
  const struct fk_filter_term *terms = p->what->terms;
  const void *in[2][BLOCKS];
  size_t plane = (size_t)f->layout->cells * f->ops->real;
  for (int t = from; t < to; t += 2) {
    struct fk_fir fir = p->fir;
    int count = to - t > 1 ? 2 : 1;
    for (int i = 0; i < count; i++) {
      size_t offset = (size_t)(terms[t + i].from * f->columns + column) * plane;
      fir.taps[i] = terms[t + i].taps;
      for (int b = 0; b <= 2 * fir.blocks; b++)
        in[i][b] = near[b] < 0 ? NULL : (char *)fk_blocks_at(p->in, near[b]) + offset;
    }
    f->ops->fir(&fir, in[0], count == 2 ? (const void *const *)in[1] : NULL, t == from ? out : more);
    if (t > from) join(f->ops, out, more, f->layout->cells);
  }
}

static void filter_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct filter_pass *p = data;
  const struct fk_filter *f = p->filter;
  const struct fk_filter_term *terms = p->what->terms;
  uint64_t step = (uint64_t)1 << f->layout->shift[p->k];
  size_t plane = (size_t)f->layout->cells * f->ops->real;
  void *more = p->more.memory ? fk_scratch_at(&p->more, slot) : NULL;
  for (int64_t i = first; i < end; i++) {
    int64_t near[BLOCKS], number = p->order[i];
    uint64_t key = p->out->keys[number];
    for (int b = -p->fir.blocks; b <= p->fir.blocks; b++)
      near[b + p->fir.blocks] = fk_blocks_find(p->in, key + step * (uint64_t)(int64_t)b);
    char *out = fk_blocks_at(p->out, number);
    for (int64_t column = 0; column < f->columns; column++)
      for (int from = 0, to; from < p->what->n_terms; from = to) {
        for (to = from + 1; to < p->what->n_terms && terms[to].to == terms[from].to; to++) continue;
        filter_plane(p, near, from, to, column, out + (size_t)(terms[from].to * f->columns + column) * plane,
                     more);
      }
  }
}

static bool has_more(const struct fk_filter_pass *what) {
  for (int t = 2; t < what->n_terms; t++)
    if (what->terms[t].to == what->terms[t - 2].to) return true;
  return false;
}

static enum fk_status run_pass(struct filter_pass *p, struct fk_error *err) {
  const struct fk_filter *f = p->filter;
  double work = (double)f->layout->cells * (double)f->columns * (2 * f->reach + 1) * p->what->n_terms;
  int threads = fk_threads_for_work(f->threads, 2 * work * (double)p->out->n);
  int64_t piece = fk_larger(16 * threads, (int64_t)(fk_costs.grid_cpu.filter_step / work)), n = p->out->n;
  enum fk_status status = FK_STATUS_OK;
  uint32_t *order = walk(f->layout, p->out, p->k);
  p->order = order;
  p->more = (struct fk_scratch){NULL, 0};
  bool ready =
      order && (!has_more(p->what) || fk_scratch_init(&p->more, threads, (size_t)f->layout->cells * f->ops->real));
  if (!ready) status = no_memory(err);
  for (int64_t first = 0; !status && first < n; first += piece) {
    int64_t end = fk_smaller(first + piece, n);
    p->order = order + first;
    fk_parallel_for(threads, end - first, fk_larger(1, fk_step_for_work(2 * work)), filter_blocks, p);
    double done = (p->k + (double)end / (double)n) / f->layout->d;
    status = fk_look_up(&f->poll, done, err);
  }
  if (p->more.memory) fk_scratch_free(&p->more);
  free(order);
  return status;
}

enum fk_status fk_filter_run(const struct fk_filter *f, const struct fk_blocks *in, const struct fk_blocks *wanted,
                             struct fk_blocks *result, struct fk_blocks *between, struct fk_error *err) {
  const struct fk_layout *l = f->layout;
  struct fk_blocks needed[FK_GRID_MAX_D]; /* by the passes that follow */
  const struct fk_blocks *need[FK_GRID_MAX_D] = {NULL};
  struct filter_pass p = {.filter = f, .in = in};
  int64_t stride = 1;
  bool fits = true;
  enum fk_status status = FK_STATUS_OK;
  for (int k = 0; k < FK_GRID_MAX_D; k++) fk_blocks_init(&needed[k], 0, false);
  if (wanted) need[l->d - 1] = wanted;
  for (int k = l->d - 1; wanted && fits && k > 0; k--) {
    fits = dilate(l, need[k], k, (int)fk_pieces(f->reach, l->side[k]), NULL, &needed[k - 1]);
    need[k - 1] = &needed[k - 1];
  }
  if (!fits) status = no_memory(err);
  for (int k = 0; k < l->d && !status; k++) {
    p.k = k;
    p.what = &f->pass[k];
    p.fir = (struct fk_fir){.cells = l->cells, .side = l->side[k], .stride = stride, .reach = f->reach};
    p.fir.blocks = (int)fk_pieces(f->reach, l->side[k]);
    stride *= l->side[k];
    p.out = (l->d - 1 - k) % 2 ? between : result;
    fk_blocks_clear(p.out);
    if (!dilate(l, p.in, k, p.fir.blocks, need[k], p.out))
      status = no_block(p.out, err);
    else
      status = run_pass(&p, err);
    fk_blocks_clear(&needed[k]);
    p.in = p.out;
  }
  for (int k = 0; k < FK_GRID_MAX_D; k++) fk_blocks_free(&needed[k]);
  return status;
}

#include "sorted.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"

/* Points are sorted in shares, more than there are threads, as one of these may be late. */
enum { PIECE = 1024 };
static int most_shares(int threads) { return threads > 1 ? 4 * threads : 1; }

static enum fk_status no_memory(struct fk_error *err) {
  return fk_no_memory(err, 0, "points in the order of the grid");
}

enum fk_status fk_sorter_init(struct fk_sorter *s, const struct fk_layout *layout, const struct fk_grid_ops *ops,
                              int threads, struct fk_error *err) {
  *s = (struct fk_sorter){.layout = layout, .ops = ops, .threads = threads};
  s->finders = calloc((size_t)most_shares(threads), sizeof *s->finders);
  return s->finders ? FK_STATUS_OK : no_memory(err);
}

void fk_sorter_free(struct fk_sorter *s) {
  for (int t = 0; s->finders && t < most_shares(s->threads); t++) {
    fk_blocks_free(&s->finders[t].keys);
    free(s->finders[t].place);
  }
  free(s->finders);
  fk_aligned_free(s->ids);
  fk_aligned_free(s->coordinates);
}

void fk_batch_free(struct fk_batch *b) {
  free(b->keys);
  free(b->start);
  fk_aligned_free(b->order);
  fk_aligned_free(b->points);
  free(b->chunk);
}

int64_t fk_batch_size(int64_t left, int64_t blocks) {
  const struct fk_grid_cpu_costs *c = &fk_costs.grid_cpu;
  int64_t size = fk_smaller(fk_larger(blocks * c->batch_block, c->batch_least), c->batch_most);
  return left < 2 * size ? left : size;
}

/* Keys of the points in a share, numbered as they come; place[id] counts them. */
static bool find(struct fk_sorter *s, const struct fk_grid_points *points, int64_t first, int64_t begin,
                 int64_t end, int64_t n, struct fk_finder *f, bool *inside) {
  uint64_t keys[PIECE];
  fk_blocks_clear(&f->keys);
  for (int64_t i = begin; i < end; i += PIECE) {
    int64_t count = fk_smaller(PIECE, end - i);
    if (!s->ops->locate(s->layout, points, first + i, count, keys,
                        (char *)s->coordinates + (size_t)i * s->ops->real, n))
      *inside = false;
    for (int64_t j = 0; j < count; j++) {
      int64_t id = fk_blocks_find(&f->keys, keys[j]);
      if (id < 0 && (id = fk_blocks_insert(&f->keys, keys[j])) < 0) return false;
      if (id >= f->capacity) {
        int64_t capacity = fk_larger(2 * f->capacity, 1024);
        int64_t *place = realloc(f->place, (size_t)capacity * sizeof *place);
        if (!place) return false;
        memset(place + f->capacity, 0, (size_t)(capacity - f->capacity) * sizeof *place);
        f->place = place;
        f->capacity = capacity;
      }
      f->place[id]++;
      s->ids[i + j] = (uint32_t)id;
    }
  }
  return true;
}

/* All keys in ascending order, and where each share's points of a key go: by share, which is by the points' order.
 */
static bool place(struct fk_sorter *s, int shares, struct fk_batch *b) {
  int64_t total = 0, at = 0;
  for (int t = 0; t < shares; t++) total += s->finders[t].keys.n;
  struct fk_keyed *items = malloc(2 * (size_t)total * sizeof *items);
  if (!items) return false;
  for (int t = 0; t < shares; t++)
    for (int64_t k = 0; k < s->finders[t].keys.n; k++)
      items[at++] = (struct fk_keyed){s->finders[t].keys.keys[k], (uint32_t)t, (uint32_t)k};
  fk_keyed_sort(items, items + total, total);
  if (total + 1 > b->blocks_capacity) {
    free(b->keys);
    free(b->start);
    b->blocks_capacity = total + 1;
    b->keys = malloc((size_t)b->blocks_capacity * sizeof *b->keys);
    b->start = malloc((size_t)b->blocks_capacity * sizeof *b->start);
    if (!b->keys || !b->start) {
      b->blocks_capacity = 0;
      free(items);
      return false;
    }
  }
  b->blocks = 0;
  int64_t sum = 0;
  for (int64_t i = 0; i < total; i++) {
    uint64_t key = items[i].key & ~(uint64_t)FK_KEY_QUARTER_MASK;
    if (i == 0 || key != b->keys[b->blocks - 1]) {
      b->keys[b->blocks] = key;
      b->start[b->blocks++] = sum;
    }
    int64_t *p = &s->finders[items[i].major].place[items[i].minor], count = *p;
    *p = sum;
    sum += count;
  }
  b->start[b->blocks] = sum;
  free(items);
  return true;
}

static void scatter(const struct fk_sorter *s, int64_t begin, int64_t end, int64_t n, int64_t *place,
                    struct fk_batch *b) {
  int d = s->layout->d;
  if (s->ops->real == sizeof(float)) {
    const float *from = s->coordinates;
    float *to = b->points;
    for (int64_t i = begin; i < end; i++) {
      int64_t p = place[s->ids[i]]++;
      for (int k = 0; k < d; k++) to[p * d + k] = from[k * n + i];
      b->order[p] = (uint32_t)i;
    }
  } else {
    const double *from = s->coordinates;
    double *to = b->points;
    for (int64_t i = begin; i < end; i++) {
      int64_t p = place[s->ids[i]]++;
      for (int k = 0; k < d; k++) to[p * d + k] = from[k * n + i];
      b->order[p] = (uint32_t)i;
    }
  }
}

static bool reserve(struct fk_sorter *s, int64_t n, struct fk_batch *b) {
  size_t point = s->ops->real * (size_t)s->layout->d;
  if (n > s->capacity) {
    fk_aligned_free(s->ids);
    fk_aligned_free(s->coordinates);
    s->capacity = n;
    s->ids = fk_aligned_alloc((size_t)n * sizeof *s->ids);
    s->coordinates = fk_aligned_alloc((size_t)n * point);
    if (!s->ids || !s->coordinates) {
      s->capacity = 0;
      return false;
    }
  }
  if (n > b->capacity) {
    fk_aligned_free(b->order);
    fk_aligned_free(b->points);
    b->capacity = n;
    b->order = fk_aligned_alloc((size_t)n * sizeof *b->order);
    b->points = fk_aligned_alloc((size_t)n * point);
    if (!b->order || !b->points) {
      b->capacity = 0;
      return false;
    }
  }
  return true;
}

struct cutting {
  const struct fk_sorter *sorter;
  struct fk_batch *batch;
};

static void find_bounds(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct cutting *cutting = data;
  const struct fk_grid_ops *ops = cutting->sorter->ops;
  int d = cutting->sorter->layout->d;
  for (int64_t i = first; i < end; i++) {
    struct fk_chunk *a = &cutting->batch->chunk[i];
    int64_t low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
    const char *points = cutting->batch->points;
    ops->bounds(d, points + (size_t)(a->begin * d) * ops->real, a->end - a->begin, low, high);
    for (int k = 0; k < d; k++) {
      a->low[k] = (int16_t)low[k];
      a->high[k] = (int16_t)high[k];
    }
  }
}

static bool cut(const struct fk_sorter *s, struct fk_batch *b) {
  int64_t n = 0;
  for (int64_t k = 0; k < b->blocks; k++) n += fk_pieces(b->start[k + 1] - b->start[k], FK_CHUNK);
  if (n > b->chunks_capacity) {
    struct fk_chunk *chunk = realloc(b->chunk, (size_t)n * sizeof *chunk);
    if (!chunk) return false;
    b->chunk = chunk;
    b->chunks_capacity = n;
  }
  b->chunks = 0;
  for (int64_t k = 0; k < b->blocks; k++)
    for (int64_t at = b->start[k]; at < b->start[k + 1]; at += FK_CHUNK)
      b->chunk[b->chunks++] =
          (struct fk_chunk){.block = k, .begin = at, .end = fk_smaller(at + FK_CHUNK, b->start[k + 1])};
  double bytes = (double)s->layout->d * (double)s->ops->real;
  int threads = fk_threads_for_bytes(s->threads, (double)b->n * bytes);
  fk_parallel_for(threads, b->chunks, fk_step_for_bytes(FK_CHUNK * bytes), find_bounds, &(struct cutting){s, b});
  return true;
}

struct sorting {
  struct fk_sorter *sorter;
  const struct fk_grid_points *points;
  int64_t first, n;
  int shares;
  struct fk_batch *batch;
  atomic_bool failed, outside;
};

static void find_share(void *data, int64_t t, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  struct sorting *s = data;
  bool inside = true;
  if (!find(s->sorter, s->points, s->first, s->n * t / s->shares, s->n * (t + 1) / s->shares, s->n,
            &s->sorter->finders[t], &inside))
    s->failed = true;
  if (!inside) s->outside = true;
}

static void scatter_share(void *data, int64_t t, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  struct sorting *s = data;
  struct fk_finder *f = &s->sorter->finders[t];
  if (!s->failed && !s->outside)
    scatter(s->sorter, s->n * t / s->shares, s->n * (t + 1) / s->shares, s->n, f->place, s->batch);
  if (f->place) memset(f->place, 0, (size_t)fk_smaller(f->keys.n + 1, f->capacity) * sizeof *f->place);
}

enum fk_status fk_batch_sort(struct fk_sorter *s, const struct fk_grid_points *points, int64_t first, int64_t n,
                             struct fk_batch *b, struct fk_error *err) {
  if (!reserve(s, n, b)) return no_memory(err);
  b->first = first;
  b->n = n;
  int threads = (int)fk_smaller(s->threads, 1 + n / fk_costs.grid_cpu.sort_thread);
  int shares = (int)fk_smaller(most_shares(threads), 1 + n / fk_costs.grid_cpu.sort_share);
  struct sorting sorting = {.sorter = s, .points = points, .first = first, .n = n, .shares = shares, .batch = b};
  fk_parallel_for(threads, shares, 1, find_share, &sorting);
  if (!sorting.failed && !sorting.outside) sorting.failed = !place(s, shares, b);
  fk_parallel_for(threads, shares, 1, scatter_share, &sorting);
  if (!sorting.failed && !sorting.outside) sorting.failed = !cut(s, b);
  if (sorting.failed) return no_memory(err);
  if (sorting.outside)
    return fk_fail(err, FK_STATUS_UNSUPPORTED,
                   "points are too far apart, in bandwidths, for a grid in %d dimensions", s->layout->d);
  return FK_STATUS_OK;
}

void fk_sorted_free(struct fk_sorted *sorted) {
  if (!sorted) return;
  for (int64_t i = 0; i < sorted->n_batches; i++) fk_batch_free(&sorted->batches[i]);
  free(sorted->batches);
  free(sorted);
}

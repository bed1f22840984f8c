/* Distances to the k-th nearest neighbour. */
#include <math.h>

#include "count.h"
#include "pool.h"
#include "threads.h"

struct search {
  const double *x;
  int64_t n, d, k;
  int64_t from; /* points from `from` on */
  struct fk_scratch heaps;
  double *out;
};

/* The largest of `count` numbers at the top makes room for a smaller one. */
static void replace_top(double *heap, int64_t count, double value) {
  int64_t at = 0;
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (heap[child] <= value) break;
    heap[at] = heap[child];
  }
  heap[at] = value;
}

static double squared_distance(const double *a, const double *b, int64_t d) {
  double sum = 0;
  for (int64_t k = 0; k < d; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

/* Outwards along the first coordinate, until what it alone makes of the distance is too much. */
static double distance_of(const struct search *s, int64_t i, double *heap) {
  const int64_t d = s->d;
  const double *own = s->x + i * d;
  for (int64_t c = 0; c < s->k; c++) heap[c] = INFINITY;
  for (int64_t below = i - 1, above = i + 1; below >= 0 || above < s->n;) {
    double down = below >= 0 ? own[0] - s->x[below * d] : INFINITY;
    double up = above < s->n ? s->x[above * d] - own[0] : INFINITY;
    double gap = down < up ? down : up;
    if (gap * gap >= heap[0]) break;
    int64_t j = down < up ? below-- : above++;
    double square = squared_distance(own, s->x + j * d, d);
    if (square < heap[0]) replace_top(heap, s->k, square);
  }
  return sqrt(heap[0]);
}

static void fill(void *data, int64_t first, int64_t end, int slot) {
  const struct search *s = data;
  double *heap = fk_scratch_at(&s->heaps, slot);
  for (int64_t i = s->from + first; i < s->from + end; i++) s->out[i] = distance_of(s, i, heap);
}

enum fk_status fk_neighbour_distances(const double *x, int64_t n, int64_t d, int64_t k, const struct fk_opts *opts,
                                      double *out, struct fk_error *err) {
  double work = (double)n * (double)(4 * k + 100) * (double)(d + 4);
  int threads = fk_threads_for_work(opts->threads, work);
  struct search search = {.x = x, .n = n, .d = d, .k = k, .out = out};
  if (!fk_scratch_init(&search.heaps, threads, sizeof(double) * (size_t)k))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for %.0f neighbours of a point", (double)k);
  enum fk_status status = FK_STATUS_OK;
  struct fk_chunks progress;
  fk_chunks_start(&progress, &opts->poll, threads, (double)n, work / (double)n);
  for (int64_t to; search.from < n && !status; search.from = to) {
    to = fk_smaller(n, search.from + progress.size);
    fk_parallel_for(threads, to - search.from, fk_step_for_work(work / (double)n), fill, &search);
    status = fk_chunks_done(&progress, to - search.from, err);
  }
  fk_scratch_free(&search.heaps);
  return status;
}

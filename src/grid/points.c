#include "points.h"

#include <string.h>

#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"

struct whitened {
  const struct fk_whitening *w;
  const struct fk_matrix *points;
  struct fk_scratch scratch;
  int64_t first, count, ld;
  double *u;
};

static void whiten_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct whitened *a = data;
  int64_t d = a->w->d;
  double *block = fk_scratch_at(&a->scratch, slot);
  for (int64_t i = first; i < end; i++) {
    int64_t at = i * FK_BLOCK, rows = fk_smaller(a->count - at, FK_BLOCK);
    fk_whiten(a->w, a->points, NULL, a->first + at, rows, block, FK_BLOCK, block + FK_BLOCK * d);
    for (int64_t k = 0; k < d; k++)
      memcpy(a->u + k * a->ld + at, block + k * FK_BLOCK, sizeof(double) * (size_t)rows);
  }
}

enum fk_status fk_grid_whiten(const struct fk_whitening *w, int threads, const struct fk_matrix *points,
                              int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err) {
  struct whitened a = {.w = w, .points = points, .first = first, .count = count, .ld = ld, .u = u};
  double bytes = 16.0 * (double)w->d;
  threads = fk_threads_for_bytes(threads, bytes * (double)count);
  if (!fk_scratch_init(&a.scratch, threads, sizeof(double) * 2 * FK_BLOCK * (size_t)w->d))
    return fk_no_memory(err, 0, "whitening points");
  fk_parallel_for(threads, fk_pieces(count, FK_BLOCK), fk_step_for_bytes(bytes * FK_BLOCK), whiten_blocks, &a);
  fk_scratch_free(&a.scratch);
  return FK_STATUS_OK;
}

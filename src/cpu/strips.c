/* Normal products with a matrix in memory, in one pass through it: a strip of few rows is still in a cache when it
 * is multiplied again. The parts of pieces of the rows are added in their order. */
#include "strips.h"

#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/stored.h"
#include "../core/threads.h"
#include "tile.h"

/* Rows of a strip, a multiple of LEAST: as many as have so many bytes, and at most MOST. */
enum { LEAST = 8, MOST = FK_WEIGHED, STRIP_BYTES = 1 << 18, PIECES = 32 };

/* With more columns than that, a vector holds numbers of one row of v or of the sums, for which v is copied by
 * rows. */
enum { FEW = 3 };

struct strips {
  const struct fk_tile_ops *ops;
  const struct fk_host_normal *of;
  int64_t strip, piece; /* rows */
  int64_t ld;   /* of the parts, an odd number of cache lines: their columns lie in different sets of a cache */
  double *rows; /* v by rows of `width` numbers; NULL: it is not copied */
  int64_t width, row, column; /* row, column: distances between those of the sums, in numbers */
  struct fk_scratch inner, products;
};

static void run_strip(const struct strips *p, int64_t first, int64_t count, double *u, double *product) {
  const struct fk_host_normal *of = p->of;
  const struct fk_dense *K = of->transposed;
  struct fk_tile_vector a = {.n = K->n, .d = count, .ld = K->ld, .columns = of->columns, .alpha = 1};
  a.A = (const double *)K->data + first * K->ld;
  a.y = u;
  if (p->rows) {
    a.x = p->rows, a.ldx = a.ldy = a.columns = p->width;
    p->ops->multiply_across(&a);
  } else {
    memset(u, 0, sizeof *u * (size_t)(p->strip * of->columns));
    a.x = of->v, a.ldx = K->n, a.ldy = p->strip;
    if (of->v) p->ops->multiply_vector_transposed(&a);
  }
  fk_normal_weigh(of, first, count, u, p->row, p->column);
  if (!of->product) return;
  a.x = u, a.ldx = p->column, a.step = p->row, a.columns = of->columns;
  a.y = product, a.ldy = p->ld;
  p->ops->multiply_vector(&a);
}

static void run_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct strips *p = data;
  for (int64_t piece = first; piece < end; piece++) {
    const int64_t last = fk_smaller((piece + 1) * p->piece, p->of->transposed->d);
    double *product = p->of->product ? fk_scratch_at(&p->products, (int)piece) : NULL;
    if (product) memset(product, 0, sizeof *product * (size_t)(p->ld * p->of->columns));
    for (int64_t row = piece * p->piece; row < last; row += p->strip)
      run_strip(p, row, fk_smaller(p->strip, last - row), fk_scratch_at(&p->inner, slot), product);
  }
}

/* Copies v by rows, filled up with 0 to whole vectors. Without v there is nothing to copy. */
static bool copy_rows(struct strips *p) {
  const struct fk_host_normal *of = p->of;
  const int64_t m = of->transposed->n, lanes = p->ops->vector_lanes;
  p->row = 1, p->column = p->strip;
  if (!of->v || of->columns <= FEW) return true;
  p->width = fk_padded(of->columns, lanes);
  p->row = p->width, p->column = 1;
  p->rows = fk_aligned_alloc(sizeof(double) * (size_t)(m * p->width));
  if (!p->rows) return false;
  memset(p->rows, 0, sizeof(double) * (size_t)(m * p->width));
  for (int64_t c = 0; c < of->columns; c++)
    for (int64_t k = 0; k < m; k++) p->rows[k * p->width + c] = of->v[c * m + k];
  return true;
}

/* The parts, in their order. */
static void add_parts(const struct strips *p, int64_t pieces) {
  const int64_t m = p->of->transposed->n;
  for (int64_t c = 0; c < p->of->columns; c++) {
    double *to = p->of->product + c * m;
    if (!p->of->adds) memset(to, 0, sizeof *to * (size_t)m);
    for (int64_t i = 0; i < pieces; i++) {
      const double *part = (const double *)fk_scratch_at(&p->products, (int)i) + c * p->ld;
      for (int64_t k = 0; k < m; k++) to[k] += part[k];
    }
  }
}

enum fk_status fk_strips_normal(int threads, const struct fk_host_normal *of, struct fk_error *err) {
  const int64_t m = of->transposed->n, n = of->transposed->d, line = 8;
  struct strips p = {.ops = fk_isa()->f64, .of = of};
  p.strip = fk_larger(LEAST, fk_smaller(MOST, STRIP_BYTES / (8 * m) / LEAST * LEAST));
  p.piece = fk_padded(fk_pieces(n, PIECES), LEAST);
  p.ld = (fk_pieces(m, line) | 1) * line;
  const int pieces = (int)fk_pieces(n, p.piece);
  const size_t bytes = sizeof(double) * (size_t)(p.ld * of->columns);
  const int passes = (of->v != NULL) + (of->product != NULL);
  threads = fk_threads_for_work(threads, passes * (double)n * (double)m * (double)of->columns);
  bool fits =
      copy_rows(&p) &&
      fk_scratch_init(&p.inner, threads, sizeof(double) * (size_t)(p.strip * fk_larger(p.width, of->columns))) &&
      (!of->product || fk_scratch_init(&p.products, pieces, bytes));
  if (fits) {
    fk_parallel_for(threads, pieces, 1, run_pieces, &p);
    if (of->product) add_parts(&p, pieces);
  }
  fk_aligned_free(p.rows);
  fk_scratch_free(&p.inner);
  fk_scratch_free(&p.products);
  return fits ? FK_STATUS_OK : fk_no_memory(err, (double)bytes * pieces, "parts of a product");
}

/* Products of matrices, by the loops that sum values over kernels: a tile's kernels are a piece of A, the values
 * one of B. R's own BLAS takes ten times as long, and knows one thread. */
#include <string.h>
#include "../core/costs.h"

#include "../core/count.h"
#include "../core/host.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "tile.h"

/* A thread has FK_TILE_COLS rows by so many columns of C at a time, and adds to them for so many of the inner
 * index: what it reads again and again stays in the first caches. */
enum { COLUMNS = 128, DEPTH = 192 };

struct gemm {
  const struct fk_tile_ops *ops;
  bool transposed, transposed_b;
  double alpha, beta;
  const double *A, *B;
  double *C;
  int64_t m, n, inner, lda, ldb, ldc;
  struct fk_scratch rooms;
};

/* Working memory of a thread. */
struct gemm_room {
  double A[DEPTH * FK_TILE_COLS], B[DEPTH * COLUMNS], C[FK_TILE_COLS * COLUMNS];
};

/* A's rows from `row` on and its columns from k on, one column after the other. Either matrix is read along its
 * columns. */
static void pack_A(const struct gemm *g, int64_t row, int64_t rows, int64_t k, int64_t depth, double *to) {
  const int64_t lanes = fk_padded(rows, g->ops->panel);
  for (int64_t i = 0; i < rows && g->transposed; i++) {
    const double *from = g->A + k + (row + i) * g->lda;
    for (int64_t l = 0; l < depth; l++) to[l * FK_TILE_COLS + i] = from[l];
  }
  for (int64_t l = 0; l < depth && !g->transposed; l++)
    memcpy(to + l * FK_TILE_COLS, g->A + row + (k + l) * g->lda, sizeof *to * (size_t)rows);
  for (int64_t l = 0; l < depth && lanes > rows; l++) /* numbers, which nobody reads */
    memset(to + l * FK_TILE_COLS + rows, 0, sizeof *to * (size_t)(lanes - rows));
}

/* Packs these rows of B, times alpha, into panels of columns. */
static void pack_B(const struct gemm *g, int64_t column, int64_t columns, int64_t k, int64_t depth, double *to) {
  const int64_t panel = g->ops->panel;
  for (int64_t first = 0; first < depth; first += panel, to += panel * columns) {
    const int64_t lanes = fk_smaller(panel, depth - first);
    for (int64_t l = 0; l < lanes && g->transposed_b; l++) {
      const double *from = g->B + column + (k + first + l) * g->ldb;
      for (int64_t v = 0; v < columns; v++) to[v * panel + l] = g->alpha * from[v];
    }
    for (int64_t v = 0; v < columns && !g->transposed_b; v++) {
      const double *from = g->B + k + first + (column + v) * g->ldb;
      for (int64_t l = 0; l < lanes; l++) to[v * panel + l] = g->alpha * from[l];
    }
    for (int64_t v = 0; v < columns && lanes < panel; v++)
      memset(to + v * panel + lanes, 0, sizeof *to * (size_t)(panel - lanes));
  }
}

static void scale_C(const struct gemm *g, double *C, int64_t rows, int64_t columns) {
  for (int64_t v = 0; v < columns && g->beta != 1; v++)
    for (int64_t i = 0; i < rows; i++) C[i + v * g->ldc] = g->beta == 0 ? 0 : g->beta * C[i + v * g->ldc];
}

/* Whole vectors of rows go to C itself, what is left through the room. */
static void run_tile(const struct gemm *g, int64_t row, int64_t column, struct gemm_room *room) {
  const int64_t rows = fk_smaller(FK_TILE_COLS, g->m - row), columns = fk_smaller(COLUMNS, g->n - column);
  const bool whole = rows % g->ops->panel == 0;
  double *C = g->C + row + column * g->ldc;
  struct fk_tile_values values = {.n_cols = (int)fk_padded(rows, g->ops->panel), .n_values = columns};
  values.kernel = room->A;
  values.values = room->B;
  values.out = whole ? C : room->C;
  values.ld = whole ? g->ldc : FK_TILE_COLS;
  scale_C(g, C, rows, columns);
  if (!whole) memset(room->C, 0, sizeof *room->C * (size_t)(columns * FK_TILE_COLS));
  for (int64_t k = 0; k < g->inner; k += DEPTH) {
    const int64_t depth = fk_smaller(DEPTH, g->inner - k);
    values.n_rows = (int)fk_padded(depth, g->ops->panel);
    memset(room->A + depth * FK_TILE_COLS, 0, sizeof *room->A * (size_t)((values.n_rows - depth) * FK_TILE_COLS));
    pack_A(g, row, rows, k, depth, room->A);
    pack_B(g, column, columns, k, depth, room->B);
    g->ops->col_values(&values);
  }
  for (int64_t v = 0; v < columns && !whole; v++)
    for (int64_t i = 0; i < rows; i++) C[i + v * g->ldc] += room->C[i + v * FK_TILE_COLS];
}

static void run_tiles(void *data, int64_t first, int64_t end, int slot) {
  const struct gemm *g = data;
  const int64_t tiles = fk_pieces(g->m, FK_TILE_COLS);
  struct gemm_room *room = fk_scratch_at(&g->rooms, slot);
  for (int64_t tile = first; tile < end; tile++)
    run_tile(g, tile % tiles * FK_TILE_COLS, tile / tiles * COLUMNS, room);
}

/* ---- of few columns --------------------------------------------------------------------------- */

/* Their time is that of reading A: copies of its tiles would take longer. */
enum { PIECE = 256 }; /* rows of C */

static void run_vectors(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct gemm *g = data;
  for (int64_t v = 0; v < g->n; v++) {
    struct fk_tile_vector a = {.x = g->B + v * g->ldb, .ld = g->lda, .alpha = g->alpha};
    a.y = g->C + first + v * g->ldc;
    a.A = g->A + first * (g->transposed ? g->lda : 1);
    a.n = g->transposed ? g->inner : end - first;
    a.d = g->transposed ? end - first : g->inner;
    scale_C(g, a.y, end - first, 1);
    (g->transposed ? g->ops->multiply_vector_transposed : g->ops->multiply_vector)(&a);
  }
}

static enum fk_status gemm(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                           const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err) {
  struct gemm g = {.ops = fk_isa()->f64, .alpha = alpha, .beta = beta, .m = C->n, .n = C->d};
  g.transposed = flags & FK_TRANSPOSED;
  g.transposed_b = flags & FK_TRANSPOSED_B;
  g.inner = g.transposed ? A->n : A->d;
  g.A = A->data, g.B = B->data, g.C = C->data;
  threads = fk_threads_for_work(threads, (double)g.m * (double)g.n * (double)g.inner);
  g.lda = A->ld, g.ldb = B->ld, g.ldc = C->ld;
  if (g.n < fk_costs.dense.few_columns && !g.transposed_b) {
    fk_parallel_for(threads, g.m, PIECE, run_vectors, &g);
    return FK_STATUS_OK;
  }
  const int64_t tiles = fk_pieces(g.m, FK_TILE_COLS) * fk_pieces(g.n, COLUMNS);
  if (!fk_scratch_init(&g.rooms, threads, sizeof(struct gemm_room)))
    return fk_no_memory(err, 0, "a block of a matrix");
  fk_parallel_for(threads, tiles, 1, run_tiles, &g);
  fk_scratch_free(&g.rooms);
  return FK_STATUS_OK;
}

/* ---- what core asks for ----------------------------------------------------------------------- */

static void block_solve(const double *chol, int64_t d, double *u, int64_t width) {
  fk_isa()->f64->block_solve(chol, d, u, width);
}

static void block_multiply(const double *A, int64_t d, const double *u, int64_t width, double *out) {
  fk_isa()->f64->block_multiply(A, d, u, width, out);
}

const struct fk_host_ops fk_host = {block_solve, block_multiply, gemm};

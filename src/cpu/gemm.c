/* Products of matrices, in blocks that stay in the second-level cache. The reference BLAS takes ten times as long,
 * and has one thread. */
#include <string.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/host.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "strips.h"
#include "tile.h"
#include "triangle.h"

/* A work item is a tile of C of at most ROWS x COLUMNS numbers. It adds products of DEPTH columns of A at a time,
 * which are packed in panels, by groups of columns of B, which stay in the first-level cache. The order of
 * additions to a number of C depends on DEPTH alone. */
enum { ROWS = 192, COLUMNS = 384, LEAST_COLUMNS = 96, TILES = 16, DEPTH = 256, AT_ONCE = 32 };

struct gemm {
  const struct fk_tile_ops *ops;
  bool transposed, transposed_b, lower, upper; /* the last two: only this triangle of C */
  double alpha, beta;
  const double *A, *B;
  double *C;
  int64_t m, n, inner, lda, ldb, ldc;
  int64_t rows, columns, depth; /* of a tile, at most */
  struct fk_scratch rooms;
};

/* Working memory of a thread: panels of A, a group of columns of B, a block of C. */
struct gemm_room {
  double *A, *B, *C;
};
static struct gemm_room room_of(const struct gemm *g, int slot) {
  double *A = fk_scratch_at(&g->rooms, slot), *B = A + g->rows * g->depth, *C = B + g->ops->row_step * g->depth;
  return (struct gemm_room){A, B, C};
}

/* Packs rows of A from `row` on and columns from k on into panels, [panel][column][row]. Few columns at a time, so
 * that their pages stay in the first-level TLB. */
static void pack_A(const struct gemm *g, int64_t row, int64_t rows, int64_t k, int64_t depth, double *to) {
  const int64_t panel = g->ops->panel, padding = fk_padded(rows, panel) - rows;
  double *last = to + rows / panel * panel * depth + rows % panel;
  for (int64_t l = 0; l < depth && padding; l++) memset(last + l * panel, 0, sizeof *to * (size_t)padding);
  for (int64_t l = 0; l < depth; l += AT_ONCE) {
    const int64_t columns = fk_smaller(AT_ONCE, depth - l);
    for (int64_t first = 0; first < rows; first += panel) {
      const int64_t lanes = fk_smaller(panel, rows - first), i = row + first;
      double *there = to + first * depth + l * panel;
      if (g->transposed)
        g->ops->transposed(g->A + k + l + i * g->lda, g->lda, columns, lanes, 1, there, panel);
      else
        g->ops->copied(g->A + i + (k + l) * g->lda, g->lda, lanes, columns, 1, there, panel);
    }
  }
}

/* Packs a group of columns of B, times alpha, as [row][column]. */
static void pack_B(const struct gemm *g, int64_t column, int64_t k, int64_t depth, double *to) {
  const int64_t group = g->ops->row_step, lanes = fk_smaller(group, g->n - column);
  if (lanes < group) memset(to, 0, sizeof *to * (size_t)(group * depth));
  if (g->transposed_b)
    g->ops->copied(g->B + column + k * g->ldb, g->ldb, lanes, depth, g->alpha, to, group);
  else
    g->ops->transposed(g->B + k + column * g->ldb, g->ldb, depth, lanes, g->alpha, to, group);
}

/* The rows of C that a column has in a block of rows. */
static int64_t first_row(const struct gemm *g, int64_t row, int64_t column) {
  return g->lower ? fk_larger(row, column) : row;
}
static int64_t end_row(const struct gemm *g, int64_t end, int64_t column) {
  return g->upper ? fk_smaller(end, column + 1) : end;
}

static void scale_C(const struct gemm *g, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  for (int64_t j = column; j < column + columns && g->beta != 1; j++) {
    double *C = g->C + j * g->ldc;
    for (int64_t i = first_row(g, row, j); i < end_row(g, row + rows, j); i++)
      C[i] = g->beta == 0 ? 0 : g->beta * C[i];
  }
}

/* C += A B of a panel of rows by a group of columns. If a part of it is not of C, it is computed beside C. */
static void run_block(const struct gemm *g, int64_t row, int64_t column, int64_t depth, const double *A,
                      const struct gemm_room *room) {
  const int64_t panel = g->ops->panel, group = g->ops->row_step;
  const int64_t end = fk_smaller(g->m, row + panel), last = fk_smaller(g->n, column + group);
  struct fk_tile_multiply a = {A, room->B, depth, g->C + row + column * g->ldc, g->ldc};
  if (first_row(g, row, column) >= end || end_row(g, end, last - 1) <= row) return;
  if (end - row == panel && last - column == group && first_row(g, row, last - 1) == row &&
      end_row(g, end, column) == end) {
    g->ops->multiply(&a);
    return;
  }
  a.C = room->C;
  a.ld = panel;
  memset(room->C, 0, sizeof *room->C * (size_t)(panel * group));
  g->ops->multiply(&a);
  for (int64_t j = column; j < last; j++)
    for (int64_t i = first_row(g, row, j); i < end_row(g, end, j); i++)
      g->C[i + j * g->ldc] += room->C[i - row + (j - column) * panel];
}

static void run_tile(const struct gemm *g, int64_t row, int64_t column, const struct gemm_room *room) {
  const int64_t rows = fk_smaller(g->rows, g->m - row), columns = fk_smaller(g->columns, g->n - column);
  if (first_row(g, row, column) >= row + rows || end_row(g, row + rows, column + columns - 1) <= row) return;
  scale_C(g, row, rows, column, columns);
  for (int64_t k = 0; k < g->inner; k += DEPTH) {
    const int64_t depth = fk_smaller(DEPTH, g->inner - k);
    pack_A(g, row, rows, k, depth, room->A);
    for (int64_t j = column; j < column + columns; j += g->ops->row_step) {
      pack_B(g, j, k, depth, room->B);
      for (int64_t i = 0; i < rows; i += g->ops->panel) run_block(g, row + i, j, depth, room->A + i * depth, room);
    }
  }
}

static void run_tiles(void *data, int64_t first, int64_t end, int slot) {
  const struct gemm *g = data;
  const int64_t tiles = fk_pieces(g->m, g->rows);
  const struct gemm_room room = room_of(g, slot);
  for (int64_t tile = first; tile < end; tile++)
    run_tile(g, tile % tiles * g->rows, tile / tiles * g->columns, &room);
}

/* ---- of few columns --------------------------------------------------------------------------- */

/* Their time is that of reading A: copies of its tiles would take longer. */
enum { PIECE = 256 }; /* rows of C */

static void run_vectors(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct gemm *g = data;
  struct fk_tile_vector a = {
      .x = g->B, .ld = g->lda, .alpha = g->alpha, .columns = g->n, .ldx = g->ldb, .ldy = g->ldc, .step = 1};
  scale_C(g, first, end - first, 0, g->n);
  a.y = g->C + first;
  a.A = g->A + first * (g->transposed ? g->lda : 1);
  a.n = g->transposed ? g->inner : end - first;
  a.d = g->transposed ? end - first : g->inner;
  (g->transposed ? g->ops->multiply_vector_transposed : g->ops->multiply_vector)(&a);
}

static enum fk_status gemm(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                           const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err) {
  struct gemm g = {.ops = fk_isa()->f64, .alpha = alpha, .beta = beta, .m = C->n, .n = C->d};
  g.transposed = flags & FK_TRANSPOSED;
  g.transposed_b = flags & FK_TRANSPOSED_B;
  g.lower = flags & FK_HOST_LOWER;
  g.upper = flags & FK_HOST_UPPER;
  g.inner = g.transposed ? A->n : A->d;
  g.A = A->data, g.B = B->data, g.C = C->data;
  g.lda = A->ld, g.ldb = B->ld, g.ldc = C->ld;
  if (g.m == 0 || g.n == 0) return FK_STATUS_OK;
  threads = fk_threads_for_work(threads, fk_costs.dense.awake * (double)g.m * (double)g.n * (double)g.inner);
  if (g.n < fk_costs.dense.few_columns && !g.transposed_b && !g.lower && !g.upper) {
    fk_parallel_for(threads, g.m, PIECE, run_vectors, &g);
    return FK_STATUS_OK;
  }
  const int64_t group = g.ops->row_step, panel = g.ops->panel;
  g.rows = fk_smaller(ROWS, fk_padded(g.m, panel));
  g.depth = fk_smaller(DEPTH, g.inner);
  g.columns = threads == 1 ? COLUMNS : fk_larger(LEAST_COLUMNS, fk_smaller(COLUMNS, g.n * g.m / ROWS / TILES));
  g.columns = fk_padded(g.columns, group);
  const size_t numbers = (size_t)((g.rows + group) * g.depth + panel * group);
  if (!fk_scratch_init(&g.rooms, threads, sizeof(double) * numbers))
    return fk_no_memory(err, 0, "a block of a matrix");
  fk_parallel_for(threads, fk_pieces(g.m, g.rows) * fk_pieces(g.n, g.columns), 1, run_tiles, &g);
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

static void stretched_slopes(const double *k, int64_t n, double power, double *out) {
  fk_isa()->f64->stretched_slopes(k, n, power, out);
}

const struct fk_host_ops fk_host = {block_solve,        block_multiply,    gemm,
                                    fk_strips_normal,   fk_triangle_solve, fk_triangle_factor,
                                    fk_triangle_invert, stretched_slopes};

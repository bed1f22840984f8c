/* Matrices of either type, and parts of them. */
#include "matrix.h"

#include <string.h>

#include "count.h"
#include "pool.h"
#include "threads.h"

struct fk_matrix fk_part(const struct fk_matrix *x, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  struct fk_matrix part = *x;
  part.data = fk_number_at(x->data, x->type, column * x->ld + row);
  part.n = rows;
  part.d = columns;
  part.resident = NULL;
  return part;
}

bool fk_is_same(const struct fk_matrix *a, const struct fk_matrix *b) {
  bool there = a->data == b->data && (a->data || a->resident == b->resident);
  return there && a->type == b->type && a->n == b->n && a->d == b->d && a->ld == b->ld;
}

/* ---- rows as doubles -------------------------------------------------------------------------- */

FK_EACH_TYPE void gather(const void *column, enum fk_type type, const int64_t *rows, int64_t count, double *to) {
  for (int64_t r = 0; r < count; r++) to[r] = fk_number(column, type, rows[r]);
}

void fk_gather(const struct fk_matrix *x, const int64_t *rows, int64_t count, double *to, int64_t ld) {
  for (int64_t k = 0; k < x->d; k++) {
    const void *column = fk_number_at(x->data, x->type, k * x->ld);
    if (x->type == FK_FLOAT)
      gather(column, FK_FLOAT, rows, count, to + k * ld);
    else
      gather(column, FK_DOUBLE, rows, count, to + k * ld);
  }
}

void fk_thin_out(const struct fk_matrix *x, int64_t count, double *to) {
  double step = (double)x->n / (double)count;
  for (int64_t k = 0; k < x->d; k++)
    for (int64_t i = 0; i < count; i++) { /* somewhere in each share: equal distances would fit to a lattice */
      double place = (double)i + 0x1p-32 * (double)(uint32_t)(i * 2654435769);
      to[k * count + i] = fk_number(x->data, x->type, k * x->ld + (int64_t)(place * step));
    }
}

void fk_read(const struct fk_matrix *x, int64_t k, int64_t first, int64_t count, double *to) {
  const void *from = fk_number_at(x->data, x->type, k * x->ld + first);
  if (x->type == FK_DOUBLE)
    memcpy(to, from, sizeof(double) * (size_t)count);
  else
    for (int64_t i = 0; i < count; i++) to[i] = fk_number(from, FK_FLOAT, i);
}

enum { PIECE = 1 << 15 }; /* numbers, 256 kB */

struct copy {
  const struct fk_matrix *from;
  double *to;
  int64_t ld, pieces;
};

static void copy_piece(void *data, int64_t i, FK_UNUSED int64_t end, FK_UNUSED int slot) {
  const struct copy *c = data;
  int64_t column = i / c->pieces, row = i % c->pieces * PIECE;
  fk_read(c->from, column, row, fk_smaller(PIECE, c->from->n - row), c->to + column * c->ld + row);
}

void fk_copy_rows(const struct fk_matrix *from, double *to, int64_t ld, int threads) {
  struct copy c = {from, to, ld, fk_pieces(from->n, PIECE)};
  fk_parallel_for(fk_threads_to_copy(threads, from->n * from->d), c.pieces * from->d, 1, copy_piece, &c);
}

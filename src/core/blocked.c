/* Factors, products and inverses of triangles in blocks. What is to the left of a block's column, or above its
 * row, is done: the block takes what it needs of it in long products, and is written once. */
#include "blocked.h"

#include <math.h>

#include "blas.h"
#include "costs.h"
#include "count.h"
#include "threads.h"

static int where(const struct fk_blocked *how) {
  if (how->ops == &fk_dense_own) return FK_DENSE_HOST;
  if (how->ops != &fk_dense_host) return FK_DENSE_DEVICE;
  return fk_blas_is_tuned() ? FK_DENSE_TUNED : FK_DENSE_HOST;
}

static int64_t block_of(const struct fk_blocked *how, int64_t n) {
  if (how->block > 0) return how->block;
  return n <= fk_costs.dense.whole[where(how)] ? fk_larger(n, 1) : fk_costs.dense.block[where(how)];
}

/* The number of rows of a strip beside a block: enough to keep a device busy, few enough between two polls. */
static int64_t strip_of(const struct fk_blocked *how) {
  return how->block > 0 ? 2 * how->block : fk_costs.dense.strip[where(how)];
}

/* With `done` of n columns: either operation takes 3 x^2 - 2 x^3 of its time for the first x of them. */
static enum fk_status look_up(const struct fk_blocked *how, int64_t done, int64_t n, struct fk_error *err) {
  double x = (double)done / (double)n;
  return fk_look_up(&how->poll, x * x * (3 - 2 * x), err);
}

/* Rows (of an upper triangle: columns) at .. at + count - 1 of A, and of these numbers first .. end - 1: so what
 * follows is written for a lower triangle, and the upper one is its mirror image. */
static struct fk_dense beside(const struct fk_dense *A, bool upper, int64_t at, int64_t count, int64_t first,
                              int64_t end) {
  return upper ? fk_dense_part(A, first, at, end - first, count) : fk_dense_part(A, at, first, count, end - first);
}

/* ---- A = L L' --------------------------------------------------------------------------------- */

/* X := (X - Y Z') L^-T, L being the block on the diagonal, Z what is left of it, X and Y a strip below them. */
static enum fk_status factor_strip(const struct fk_blocked *how, bool upper, const struct fk_dense *corner,
                                   const struct fk_dense *Y, const struct fk_dense *Z, const struct fk_dense *X,
                                   struct fk_error *err) {
  const struct fk_dense_ops *ops = how->ops;
  enum fk_status status = FK_STATUS_OK;
  if (upper ? Z->n > 0 : Z->d > 0)
    status = upper ? ops->gemm(how->device, FK_TRANSPOSED, -1, Z, Y, 1, X, err)
                   : ops->gemm(how->device, FK_TRANSPOSED_B, -1, Y, Z, 1, X, err);
  if (status) return status;
  return ops->trsm(how->device, FK_TRANSPOSED | (upper ? FK_UPPER : FK_RIGHT), 1, corner, X, err);
}

enum fk_status fk_blocked_potrf(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                int64_t *pivot, struct fk_error *err) {
  const struct fk_dense_ops *ops = how->ops;
  const bool upper = flags & FK_UPPER;
  const int64_t n = A->n, block = block_of(how, n), strip = strip_of(how);
  enum fk_status status = fk_dense_check_square(A, NULL, err);
  *pivot = 0;
  for (int64_t first = 0; first < n && !status && *pivot == 0; first += block) {
    const int64_t end = fk_smaller(n, first + block), count = end - first;
    struct fk_dense corner = fk_dense_part(A, first, first, count, count),
                    Z = beside(A, upper, first, count, 0, first);
    if (first > 0) status = ops->syrk(how->device, upper ? FK_UPPER | FK_TRANSPOSED : 0, -1, &Z, 1, &corner, err);
    if (!status) status = ops->potrf(how->device, flags, &corner, pivot, err);
    if (*pivot > 0) *pivot += first;
    for (int64_t at = end; at < n && !status && *pivot == 0; at += strip) {
      const int64_t rows = fk_smaller(n - at, strip);
      struct fk_dense X = beside(A, upper, at, rows, first, end), Y = beside(A, upper, at, rows, 0, first);
      status = factor_strip(how, upper, &corner, &Y, &Z, &X, err);
      if (!status) status = look_up(how, first, n, err);
    }
    if (!status) status = look_up(how, end, n, err);
  }
  return status;
}

/* ---- L'L -------------------------------------------------------------------------------------- */

/* X := L'X + Z'Y, L being the block on the diagonal, Z what is below it, X and Y a strip to the left of them. */
static enum fk_status multiply_strip(const struct fk_blocked *how, bool upper, const struct fk_dense *corner,
                                     const struct fk_dense *Y, const struct fk_dense *Z, const struct fk_dense *X,
                                     struct fk_error *err) {
  const struct fk_dense_ops *ops = how->ops;
  enum fk_status status =
      ops->trmm(how->device, FK_TRANSPOSED | (upper ? FK_UPPER | FK_RIGHT : 0), 1, corner, X, err);
  if (status || (upper ? Z->d == 0 : Z->n == 0)) return status;
  return upper ? ops->gemm(how->device, FK_TRANSPOSED_B, 1, Y, Z, 1, X, err)
               : ops->gemm(how->device, FK_TRANSPOSED, 1, Z, Y, 1, X, err);
}

enum fk_status fk_blocked_lauum(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                struct fk_error *err) {
  const struct fk_dense_ops *ops = how->ops;
  const bool upper = flags & FK_UPPER;
  const int64_t n = A->n, block = block_of(how, n), strip = strip_of(how);
  enum fk_status status = fk_dense_check_square(A, NULL, err);
  for (int64_t first = 0; first < n && !status; first += block) {
    const int64_t end = fk_smaller(n, first + block), count = end - first;
    struct fk_dense corner = fk_dense_part(A, first, first, count, count),
                    Z = beside(A, upper, end, n - end, first, end);
    for (int64_t at = 0; at < first && !status; at += strip) {
      const int64_t to = fk_smaller(first, at + strip);
      struct fk_dense X = beside(A, upper, first, count, at, to), Y = beside(A, upper, end, n - end, at, to);
      status = multiply_strip(how, upper, &corner, &Y, &Z, &X, err);
      if (!status) status = look_up(how, first, n, err);
    }
    if (!status) status = ops->lauum(how->device, flags, &corner, err);
    if (!status && end < n)
      status = ops->syrk(how->device, upper ? FK_UPPER : FK_TRANSPOSED, 1, &Z, 1, &corner, err);
    if (!status) status = look_up(how, end, n, err);
  }
  return status;
}

/* ---- L^-1 ------------------------------------------------------------------------------------- */

/* Columns or rows of a strip beside a triangle of order n, which take about as long as a block's strip. */
static int64_t strip_beside(const struct fk_blocked *how, int64_t n) {
  const int64_t block = block_of(how, 2 * n), strip = strip_of(how);
  return fk_larger(block, block * strip / n * strip / n);
}

struct inversion {
  const struct fk_blocked *how;
  unsigned upper; /* FK_UPPER or 0 */
  double done, total;
};

static enum fk_status count_work(struct inversion *t, double work, struct fk_error *err) {
  t->done += work;
  return fk_look_up(&t->how->poll, t->done / t->total, err);
}

/* X := factor T^-1 X, or with FK_RIGHT factor X T^-1. */
static enum fk_status solve_strips(struct inversion *t, unsigned side, double factor, const struct fk_dense *T,
                                   const struct fk_dense *X, struct fk_error *err) {
  const int64_t length = side ? X->n : X->d, strip = strip_beside(t->how, T->n);
  enum fk_status status = FK_STATUS_OK;
  for (int64_t at = 0; at < length && !status; at += strip) {
    const int64_t count = fk_smaller(strip, length - at);
    struct fk_dense part = side ? fk_dense_part(X, at, 0, count, X->d) : fk_dense_part(X, 0, at, X->n, count);
    status = t->how->ops->trsm(t->how->device, side | t->upper, factor, T, &part, err);
    if (!status) status = count_work(t, (double)T->n * (double)T->n * (double)count, err);
  }
  return status;
}

/* In halves: what is below the diagonal becomes -L22^-1 L21 L11^-1. */
static enum fk_status invert(struct inversion *t, const struct fk_dense *A, struct fk_error *err) {
  const int64_t n = A->n, block = block_of(t->how, n), half = fk_padded(fk_pieces(n, 2), block);
  if (n <= block) {
    enum fk_status status = t->how->ops->trtri(t->how->device, t->upper, A, err);
    return status ? status : count_work(t, (double)n * (double)n * (double)n / 3, err);
  }
  struct fk_dense first = fk_dense_part(A, 0, 0, half, half),
                  last = fk_dense_part(A, half, half, n - half, n - half),
                  X = t->upper ? fk_dense_part(A, 0, half, half, n - half)
                               : fk_dense_part(A, half, 0, n - half, half);
  enum fk_status status = solve_strips(t, 0, -1, t->upper ? &first : &last, &X, err);
  if (!status) status = solve_strips(t, FK_RIGHT, 1, t->upper ? &last : &first, &X, err);
  if (!status) status = invert(t, &first, err);
  return status ? status : invert(t, &last, err);
}

enum fk_status fk_blocked_trtri(const struct fk_blocked *how, unsigned flags, const struct fk_dense *A,
                                struct fk_error *err) {
  const double n = (double)A->n;
  struct inversion t = {how, flags & FK_UPPER, 0, n * n * n / 3 + 1};
  enum fk_status status = fk_dense_check_square(A, NULL, err);
  return status || A->n == 0 ? status : invert(&t, A, err);
}

/* ---- A^-1 = L^-T L^-1 ------------------------------------------------------------------------- */

enum fk_status fk_blocked_inverse(const struct fk_blocked *how, const struct fk_dense *A, const struct fk_dense *B,
                                  double *log_det, struct fk_error *err) {
  const double *diagonal = A->data;
  int64_t pivot = 0;
  enum fk_status status = fk_blocked_potrf(how, 0, A, &pivot, err);
  *log_det = pivot ? NAN : 0;
  if (status || pivot) return status;
  for (int64_t i = 0; i < A->n; i++) *log_det += 2 * log(diagonal[i * (A->ld + 1)]);
  status = fk_blocked_trtri(how, 0, A, err);
  if (!status) status = how->ops->syrk(how->device, FK_TRANSPOSED, 1, A, 0, B, err);
  return status ? status : how->ops->transpose(how->device, 0, B, NULL, B, err);
}

/* Dense operations by the BLAS and LAPACK that come with R. Beside the reference BLAS, and in fk_dense_own, gemm
 * is our own (cpu/gemm.c), and so are small triangles (cpu/triangle.c) but for their products; syrk, trmm, trsm,
 * potrf and trtri are made of them. Nothing else of R is used below src/r; their arguments are valid, so that the
 * error handler, which would jump, is never called. */
#include "dense.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "aligned.h"
#include "blas.h"
#include "count.h"
#include "host.h"
#include "pool.h"
#include "threads.h"

#ifndef USE_FC_LEN_T
#define USE_FC_LEN_T
#endif
#include <R_ext/BLAS.h>
#include <R_ext/Lapack.h>
#ifndef FCONE
#define FCONE
#endif

static const char *side(unsigned flags) { return flags & FK_RIGHT ? "R" : "L"; }
static const char *triangle(unsigned flags) { return flags & FK_UPPER ? "U" : "L"; }
static const char *transposed(unsigned flags, unsigned flag) { return flags & flag ? "T" : "N"; }

/* A matrix with dimensions of type int, for BLAS. */
struct view {
  double *data;
  int n, d, ld;
};

static enum fk_status view_of(const struct fk_dense *A, struct view *out, struct fk_error *err) {
  if (A->type != FK_DOUBLE)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "dense operations on the host need double precision");
  if (A->ld > INT_MAX || A->d > INT_MAX)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "a matrix of %.0f x %.0f is too large for BLAS", (double)A->n,
                   (double)A->d);
  *out = (struct view){A->data, (int)A->n, (int)A->d, (int)A->ld};
  return FK_STATUS_OK;
}

/* The views of two matrices, if `status` says that they go together. */
static enum fk_status views_of(enum fk_status status, const struct fk_dense *A, struct view *a,
                               const struct fk_dense *B, struct view *b, struct fk_error *err) {
  if (!status) status = view_of(A, a, err);
  return status ? status : view_of(B, b, err);
}

static enum fk_status host_ready(FK_UNUSED int device, FK_UNUSED const struct fk_dense *A, FK_UNUSED int64_t order,
                                 FK_UNUSED struct fk_error *err) {
  return FK_STATUS_OK;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static enum fk_status host_alloc(FK_UNUSED int device, struct fk_dense *A, struct fk_error *err) {
  size_t bytes;
  A->data = NULL;
  A->ld = fk_larger(A->n, 1);
  enum fk_status status = fk_dense_bytes(A, &bytes, err);
  if (status) return status;
  A->data = fk_aligned_alloc(bytes);
  return A->data ? FK_STATUS_OK
                 : fk_fail(err, FK_STATUS_ALLOC, "out of memory for a matrix of %.0f x %.0f", (double)A->n,
                           (double)A->d);
}

static void host_free(FK_UNUSED int device, struct fk_dense *A) {
  fk_aligned_free(A->data);
  A->data = NULL;
}

static enum fk_status host_copy(int device, const struct fk_dense *from, const struct fk_dense *to,
                                struct fk_error *err) {
  struct view x, y;
  enum fk_status status = views_of(fk_dense_check_copy(from, to, err), from, &x, to, &y, err);
  if (status) return status;
  struct fk_matrix rows = fk_doubles(x.data, x.n, x.d);
  rows.ld = x.ld;
  fk_copy_rows(&rows, y.data, y.ld, device);
  return status;
}

/* Squares of numbers that stay in the first cache while one side is read along the other. */
enum { SQUARE = 32 };

struct transpose {
  struct view from, to;
  const double *s;
  bool upper; /* of `from` */
};

/* Columns of squares. */
static void transpose_columns(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct transpose *t = data;
  const int64_t n = t->to.n, ld = t->to.ld, from_ld = t->from.ld;
  for (int64_t column = first * SQUARE; column < fk_smaller(n, end * SQUARE); column += SQUARE)
    for (int64_t row = t->upper ? column : 0; row < (t->upper ? n : column + 1); row += SQUARE)
      for (int64_t j = column; j < fk_smaller(n, column + SQUARE); j++) {
        int64_t begin = t->upper ? fk_larger(row, j) : row;
        int64_t last = t->upper ? fk_smaller(n, row + SQUARE) : fk_smaller(j + 1, row + SQUARE);
        for (int64_t i = begin; i < last; i++)
          t->to.data[i + j * ld] = t->from.data[j + i * from_ld] * (t->s ? t->s[j] : 1);
      }
}

static enum fk_status host_transpose(int device, unsigned flags, const struct fk_dense *A,
                                     const struct fk_dense *s, const struct fk_dense *B, struct fk_error *err) {
  struct transpose t = {.s = s ? s->data : NULL, .upper = flags & FK_UPPER};
  enum fk_status status = views_of(fk_dense_check_transpose(A, s, B, err), A, &t.from, B, &t.to, err);
  if (status) return status;
  double bytes = 8.0 * (double)B->n * (double)B->n;
  fk_parallel_for(fk_threads_for_bytes(device, bytes), fk_pieces(B->n, SQUARE), 1, transpose_columns, &t);
  return FK_STATUS_OK;
}

struct scale {
  struct view from, to;
  const double *s;
};

static void scale_columns(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct scale *t = data;
  for (int64_t j = first; j < end; j++) {
    const double *from = t->from.data + j * t->from.ld;
    double *to = t->to.data + j * t->to.ld;
    for (int64_t i = 0; i < t->to.n; i++) to[i] = from[i] * t->s[i];
  }
}

static enum fk_status host_scale(int device, const struct fk_dense *A, const struct fk_dense *s,
                                 const struct fk_dense *B, struct fk_error *err) {
  struct scale t = {.s = s->data};
  enum fk_status status = views_of(fk_dense_check_scale(A, s, B, err), A, &t.from, B, &t.to, err);
  if (status) return status;
  double bytes = 16.0 * (double)B->n * (double)B->d;
  fk_parallel_for(fk_threads_for_bytes(device, bytes), B->d, 1, scale_columns, &t);
  return FK_STATUS_OK;
}

struct squares {
  struct view from;
  double *to;
  bool upper;
};

/* Four sums, so that one addition need not wait for another. */
static void square_columns(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct squares *t = data;
  for (int64_t j = first; j < end; j++) {
    const double *column = t->from.data + j * t->from.ld;
    const int64_t last = t->upper ? j + 1 : t->from.n;
    double sums[4] = {0};
    int64_t i = t->upper ? 0 : j;
    for (; i + 4 <= last; i += 4)
      for (int l = 0; l < 4; l++) sums[l] += column[i + l] * column[i + l];
    for (; i < last; i++) sums[0] += column[i] * column[i];
    t->to[j] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

static enum fk_status host_squares(int device, unsigned flags, const struct fk_dense *A, const struct fk_dense *s,
                                   struct fk_error *err) {
  struct squares t = {.to = s->data, .upper = flags & FK_UPPER};
  enum fk_status status = fk_dense_check_square(A, s, err);
  if (!status) status = view_of(A, &t.from, err);
  if (status) return status;
  const double bytes = 4.0 * (double)A->n;
  fk_parallel_for(fk_threads_for_bytes(device, bytes * (double)A->n), A->n, fk_step_for_bytes(bytes),
                  square_columns, &t);
  return FK_STATUS_OK;
}

/* ---- products --------------------------------------------------------------------------------- */

static enum fk_status gemm_views(unsigned flags, const struct fk_dense *A, struct view *a,
                                 const struct fk_dense *B, struct view *b, const struct fk_dense *C,
                                 struct view *c, struct fk_error *err) {
  enum fk_status status = views_of(fk_dense_check_gemm(flags, A, B, C, err), A, a, B, b, err);
  return status ? status : view_of(C, c, err);
}

static enum fk_status own_gemm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                               const struct fk_dense *B, double beta, const struct fk_dense *C,
                               struct fk_error *err) {
  struct view a, b, c;
  enum fk_status status = gemm_views(flags, A, &a, B, &b, C, &c, err);
  return status ? status : fk_host.gemm(device, flags, alpha, A, B, beta, C, err);
}

static enum fk_status host_gemm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                const struct fk_dense *B, double beta, const struct fk_dense *C,
                                struct fk_error *err) {
  struct view a, b, c;
  if (!fk_blas_is_tuned()) return own_gemm(device, flags, alpha, A, B, beta, C, err);
  enum fk_status status = gemm_views(flags, A, &a, B, &b, C, &c, err);
  if (status) return status;
  F77_CALL(dgemm)
  (transposed(flags, FK_TRANSPOSED), transposed(flags, FK_TRANSPOSED_B), &c.n, &c.d,
   flags & FK_TRANSPOSED ? &a.n : &a.d, &alpha, a.data, &a.ld, b.data, &b.ld, &beta, c.data, &c.ld FCONE FCONE);
  return FK_STATUS_OK;
}

static enum fk_status own_syrk(int device, unsigned flags, double alpha, const struct fk_dense *A, double beta,
                               const struct fk_dense *C, struct fk_error *err) {
  struct view a, c;
  const unsigned how = flags & FK_TRANSPOSED ? FK_TRANSPOSED : FK_TRANSPOSED_B;
  enum fk_status status = views_of(fk_dense_check_syrk(flags, A, C, err), A, &a, C, &c, err);
  if (status) return status;
  return fk_host.gemm(device, how | (flags & FK_UPPER ? FK_HOST_UPPER : FK_HOST_LOWER), alpha, A, A, beta, C, err);
}

static enum fk_status host_syrk(int device, unsigned flags, double alpha, const struct fk_dense *A, double beta,
                                const struct fk_dense *C, struct fk_error *err) {
  struct view a, c;
  if (!fk_blas_is_tuned()) return own_syrk(device, flags, alpha, A, beta, C, err);
  enum fk_status status = views_of(fk_dense_check_syrk(flags, A, C, err), A, &a, C, &c, err);
  if (status) return status;
  F77_CALL(dsyrk)
  (triangle(flags), transposed(flags, FK_TRANSPOSED), &c.n, flags & FK_TRANSPOSED ? &a.n : &a.d, &alpha, a.data,
   &a.ld, &beta, c.data, &c.ld FCONE FCONE);
  return FK_STATUS_OK;
}

/* A triangle's product or solution, by the library. */
static void by_library(bool solve, unsigned flags, double alpha, const struct view *a, const struct view *b) {
  const char *from = side(flags), *which = triangle(flags), *how = transposed(flags, FK_TRANSPOSED);
  if (solve) F77_CALL(dtrsm)
  (from, which, how, "N", &b->n, &b->d, &alpha, a->data, &a->ld, b->data, &b->ld FCONE FCONE FCONE FCONE);
  else F77_CALL(dtrmm)(from, which, how, "N", &b->n, &b->d, &alpha, a->data, &a->ld, b->data,
                       &b->ld FCONE FCONE FCONE FCONE);
}

/* The triangles of a matrix in halves, what is beside them, and the halves of B, of which `one` is complete before
 * the other. */
struct halves {
  struct fk_dense first, last, beside, one, other;
  const struct fk_dense *of_one, *of_other;
};

/* Orders up to which a triangle is solved by fk_host, or multiplied by the library. */
enum { SOLVED = FK_HOST_TRIANGLE, MULTIPLIED = 48 };

/* Rows (right: columns) from .. to - 1 of B. */
static struct fk_dense strip_of(const struct fk_dense *B, bool right, int64_t from, int64_t to) {
  return right ? fk_dense_part(B, 0, from, B->n, to - from) : fk_dense_part(B, from, 0, to - from, B->d);
}

static void halve(unsigned flags, bool solve, const struct fk_dense *A, const struct fk_dense *B,
                  struct halves *out) {
  const bool right = flags & FK_RIGHT, turned = flags & FK_TRANSPOSED, upper = flags & FK_UPPER;
  const bool ascending = ((upper == turned) != right) == solve;
  const int64_t n = A->n, half = fk_padded(n / 2, solve ? SOLVED : MULTIPLIED);
  struct fk_dense begin = strip_of(B, right, 0, half), rest = strip_of(B, right, half, n);
  out->first = fk_dense_part(A, 0, 0, half, half);
  out->last = fk_dense_part(A, half, half, n - half, n - half);
  out->beside = upper ? fk_dense_part(A, 0, half, half, n - half) : fk_dense_part(A, half, 0, n - half, half);
  out->one = ascending ? begin : rest;
  out->other = ascending ? rest : begin;
  out->of_one = ascending ? &out->first : &out->last;
  out->of_other = ascending ? &out->last : &out->first;
}

/* trsm (solve) or trmm in halves. A solution of one half is subtracted from the other half; a product of one half
 * is complete when the other half's numbers are added to it. */
static enum fk_status in_halves(bool solve, int device, unsigned flags, double alpha, const struct fk_dense *A,
                                const struct fk_dense *B, struct fk_error *err) {
  struct halves h;
  struct view a, b;
  enum fk_status status = views_of(FK_STATUS_OK, A, &a, B, &b, err);
  if (status) return status;
  if (solve && A->n <= SOLVED) return fk_host.solve(device, flags, alpha, A, B, err);
  if (!solve && A->n <= MULTIPLIED) {
    by_library(solve, flags, alpha, &a, &b);
    return status;
  }
  const bool right = flags & FK_RIGHT;
  const unsigned how = !(flags & FK_TRANSPOSED) ? 0 : right ? FK_TRANSPOSED_B : FK_TRANSPOSED;
  halve(flags, solve, A, B, &h);
  const struct fk_dense *given = solve ? &h.one : &h.other, *taken = solve ? &h.other : &h.one;
  status = in_halves(solve, device, flags, alpha, h.of_one, &h.one, err);
  if (!status)
    status = fk_host.gemm(device, how, solve ? -1 : alpha, right ? given : &h.beside, right ? &h.beside : given,
                          solve ? alpha : 1, taken, err);
  return status ? status : in_halves(solve, device, flags, solve ? 1 : alpha, h.of_other, &h.other, err);
}

static enum fk_status with_triangle(bool own, bool solve, int device, unsigned flags, double alpha,
                                    const struct fk_dense *A, const struct fk_dense *B, struct fk_error *err) {
  struct view a, b;
  enum fk_status status = views_of(fk_dense_check_triangle(flags, A, B, err), A, &a, B, &b, err);
  if (status || b.n == 0 || b.d == 0) return status;
  if (own) return in_halves(solve, device, flags, alpha, A, B, err);
  by_library(solve, flags, alpha, &a, &b);
  return FK_STATUS_OK;
}

static enum fk_status own_trmm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                               const struct fk_dense *B, struct fk_error *err) {
  return with_triangle(true, false, device, flags, alpha, A, B, err);
}
static enum fk_status host_trmm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                const struct fk_dense *B, struct fk_error *err) {
  return with_triangle(!fk_blas_is_tuned(), false, device, flags, alpha, A, B, err);
}

static enum fk_status own_trsm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                               const struct fk_dense *B, struct fk_error *err) {
  return with_triangle(true, true, device, flags, alpha, A, B, err);
}
static enum fk_status host_trsm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                const struct fk_dense *B, struct fk_error *err) {
  return with_triangle(!fk_blas_is_tuned(), true, device, flags, alpha, A, B, err);
}

/* ---- factors and inverses --------------------------------------------------------------------- */

/* Reports an invalid argument of LAPACK, which would be an error in this file. */
static enum fk_status refused(const char *routine, int info, struct fk_error *err) {
  return fk_fail(err, FK_STATUS_INTERNAL, "LAPACK routine %s reports that argument %d is invalid", routine, -info);
}

/* In halves: what is beside the first factor is solved with it, and its square is subtracted from the last
 * triangle. */
static enum fk_status factor(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                             struct fk_error *err) {
  if (A->n <= SOLVED) return fk_host.factor(flags, A, pivot, err);
  struct halves h;
  const bool upper = flags & FK_UPPER;
  halve(flags, true, A, A, &h);
  enum fk_status status = factor(device, flags, &h.first, pivot, err);
  if (status || *pivot) return status;
  status = in_halves(true, device, FK_TRANSPOSED | (upper ? FK_UPPER : FK_RIGHT), 1, &h.first, &h.beside, err);
  if (!status) status = own_syrk(device, upper ? FK_UPPER | FK_TRANSPOSED : 0, -1, &h.beside, 1, &h.last, err);
  if (!status) status = factor(device, flags, &h.last, pivot, err);
  if (*pivot) *pivot += h.first.n;
  return status;
}

static enum fk_status square_view(const struct fk_dense *A, struct view *out, struct fk_error *err) {
  enum fk_status status = fk_dense_check_square(A, NULL, err);
  return status ? status : view_of(A, out, err);
}

static enum fk_status own_potrf(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                                struct fk_error *err) {
  struct view a;
  *pivot = 0;
  enum fk_status status = square_view(A, &a, err);
  return status || a.n == 0 ? status : factor(device, flags, A, pivot, err);
}

static enum fk_status host_potrf(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                                 struct fk_error *err) {
  struct view a;
  int info = 0;
  if (!fk_blas_is_tuned()) return own_potrf(device, flags, A, pivot, err);
  *pivot = 0;
  enum fk_status status = square_view(A, &a, err);
  if (status || a.n == 0) return status;
  F77_CALL(dpotrf)(triangle(flags), &a.n, a.data, &a.ld, &info FCONE);
  if (info < 0) return refused("dpotrf", info, err);
  for (int i = 0; i < a.n && info == 0; i++) /* NaN need not show in info */
    if (!(a.data[i + (int64_t)i * a.ld] > 0)) info = i + 1;
  *pivot = info;
  return FK_STATUS_OK;
}

static enum fk_status host_lauum(FK_UNUSED int device, unsigned flags, const struct fk_dense *A,
                                 struct fk_error *err) {
  struct view a;
  int info = 0;
  enum fk_status status = square_view(A, &a, err);
  if (status) return status;
  F77_CALL(dlauum)(triangle(flags), &a.n, a.data, &a.ld, &info FCONE);
  return info ? refused("dlauum", info, err) : FK_STATUS_OK;
}

/* In halves: what is below the diagonal becomes -L22^-1 L21 L11^-1. */
static enum fk_status invert(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  if (A->n <= SOLVED) return fk_host.invert(flags, A, err);
  struct halves h;
  const bool upper = flags & FK_UPPER;
  halve(flags, true, A, A, &h);
  enum fk_status status = in_halves(true, device, flags, -1, upper ? &h.first : &h.last, &h.beside, err);
  if (!status) status = in_halves(true, device, flags | FK_RIGHT, 1, upper ? &h.last : &h.first, &h.beside, err);
  if (!status) status = invert(device, flags, &h.first, err);
  return status ? status : invert(device, flags, &h.last, err);
}

static enum fk_status own_trtri(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  struct view a;
  enum fk_status status = square_view(A, &a, err);
  return status || a.n == 0 ? status : invert(device, flags & FK_UPPER, A, err);
}

static enum fk_status host_trtri(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  struct view a;
  int info = 0;
  if (!fk_blas_is_tuned()) return own_trtri(device, flags, A, err);
  enum fk_status status = square_view(A, &a, err);
  if (status || a.n == 0) return status;
  F77_CALL(dtrtri)(triangle(flags), "N", &a.n, a.data, &a.ld, &info FCONE FCONE);
  return info < 0 ? refused("dtrtri", info, err) : FK_STATUS_OK;
}

enum fk_status fk_host_eigen(unsigned flags, const struct fk_dense *A, const struct fk_dense *values,
                             struct fk_error *err) {
  struct view a, w;
  int info = 0, ask = -1;
  double best = 0;
  enum fk_status status = views_of(fk_dense_check_square(A, values, err), A, &a, values, &w, err);
  if (status || a.n == 0) return status;
  F77_CALL(dsyev)("V", triangle(flags), &a.n, a.data, &a.ld, w.data, &best, &ask, &info FCONE FCONE);
  int numbers = (int)best;
  double *work = malloc(sizeof *work * (size_t)numbers);
  if (!work) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %d", numbers);
  F77_CALL(dsyev)("V", triangle(flags), &a.n, a.data, &a.ld, w.data, work, &numbers, &info FCONE FCONE);
  free(work);
  if (info < 0) return refused("dsyev", info, err);
  return info ? fk_fail(err, FK_STATUS_INTERNAL, "eigenvalues did not converge") : FK_STATUS_OK;
}

/* ---- copies: done when they are asked for ------------------------------------------------------- */

static enum fk_status host_copy_beside(int device, FK_UNUSED int source, const struct fk_dense *from,
                                       const struct fk_dense *to, struct fk_error *err) {
  return host_copy(device, from, to, err);
}

static enum fk_status host_turn(FK_UNUSED int device, FK_UNUSED struct fk_error *err) { return FK_STATUS_OK; }

static enum fk_status host_alloc_here(struct fk_dense *A, struct fk_error *err) { return host_alloc(0, A, err); }
static void host_free_here(struct fk_dense *A) { host_free(0, A); }

/* Allocations tell. */
static enum fk_status host_room(FK_UNUSED int device, double *bytes, FK_UNUSED struct fk_error *err) {
  *bytes = INFINITY;
  return FK_STATUS_OK;
}

#define SAME_IN_BOTH                                                                                              \
  .name = "host", .ready = host_ready, .alloc = host_alloc, .free = host_free, .send = host_copy,                 \
  .fetch = host_copy, .lauum = host_lauum, .squares = host_squares, .transpose = host_transpose,                  \
  .scale = host_scale, .copy = host_copy_beside, .turn = host_turn, .wait = host_turn,                            \
  .alloc_here = host_alloc_here, .free_here = host_free_here, .room = host_room

const struct fk_dense_ops fk_dense_host = {
    SAME_IN_BOTH,      .gemm = host_gemm,   .syrk = host_syrk,   .trmm = host_trmm,
    .trsm = host_trsm, .potrf = host_potrf, .trtri = host_trtri,
};
const struct fk_dense_ops fk_dense_own = {
    SAME_IN_BOTH,     .gemm = own_gemm,   .syrk = own_syrk,   .trmm = own_trmm,
    .trsm = own_trsm, .potrf = own_potrf, .trtri = own_trtri,
};

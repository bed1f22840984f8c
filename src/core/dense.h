/* Operations on dense matrices, those of BLAS and LAPACK: a table for the host and one for CUDA devices.
 *
 *   ops = fk_dense_ops(backend, err)
 *   ops->alloc(device, &A, err) -> send -> potrf, trsm, ... -> fetch -> free
 *
 * Matrices are column-major, column k at data + k * ld, in double or in float (on the host in double alone: R has
 * no other BLAS). `device` is a CUDA device's number; of the host, the number of threads, as far as BLAS lets us
 * choose, and the default where it is not positive. What a device does, it does one after the other: fetch, potrf
 * and syev wait for it. The same bits for the same matrices, machine and libraries.
 */
#pragma once

#include "../fk.h"

FK_BEGIN_C

struct fk_dense {
  void *data;
  enum fk_type type;
  int64_t n, d, ld; /* rows, columns, from one column to the next */
  uint64_t place;   /* of the memory that alloc() gave; 0: of the host */
};

/* None of them: the lower triangle, from the left, not transposed. */
enum fk_dense_flag {
  FK_UPPER = 1,
  FK_RIGHT = 2,
  FK_TRANSPOSED = 4,   /* A is */
  FK_TRANSPOSED_B = 8, /* of gemm */
  /* Of gemm, of doubles with FK_TRANSPOSED alone: devices take two halves for each number of A and B, hi + lo, and
   * tensor cores add up hi hi + hi lo + lo hi in floats. That is off by some 2^-20 of the norms of two columns,
   * 2^-15 where all terms of long sums have one sign, however large or small the columns are. The host takes
   * doubles. */
  FK_HALVES = 16
};

/* The matrix that is named last is overwritten. Of a triangle, the other one is neither read nor written, but by
 * syev: so A's lower and B's upper triangle of order n fit into one of n x (n + 1), B from its second column on.
 */
struct fk_dense_ops {
  const char *name;

  /* Has this machine what operations need? It is loaded now. And is A (NULL: none), which alloc() gave, still
   * there, or lost with its device? */
  enum fk_status (*ready)(int device, const struct fk_dense *A, struct fk_error *err);
  /* A of the given n, d and type: its data and ld, nothing that is set yet. To be freed: NULL is fine, and so is a
   * matrix that was lost with its device. */
  enum fk_status (*alloc)(int device, struct fk_dense *A, struct fk_error *err);
  void (*free)(int device, struct fk_dense *A);
  /* From the host's memory and back, between matrices of one type and size. */
  enum fk_status (*send)(int device, const struct fk_dense *from, const struct fk_dense *to, struct fk_error *err);
  enum fk_status (*fetch)(int device, const struct fk_dense *from, const struct fk_dense *to,
                          struct fk_error *err);

  /* C = alpha A B + beta C, either of A and B transposed; beta 0: C is not read. */
  enum fk_status (*gemm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err);
  /* A triangle of C = alpha A A' + beta C; FK_TRANSPOSED: of A'A. */
  enum fk_status (*syrk)(int device, unsigned flags, double alpha, const struct fk_dense *A, double beta,
                         const struct fk_dense *C, struct fk_error *err);
  /* A a triangle: B = alpha A B, FK_RIGHT: alpha B A; and B = alpha A^-1 B or alpha B A^-1. */
  enum fk_status (*trmm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, struct fk_error *err);
  enum fk_status (*trsm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, struct fk_error *err);
  /* L of A = L L', FK_UPPER: R of A = R'R. *pivot 0, or the order of the first leading minor that is not positive
   * (NaN is not); A is lost then. That is no failure: add to the diagonal and come again. */
  enum fk_status (*potrf)(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                          struct fk_error *err);
  /* The same triangle of L'L, FK_UPPER: of R R'. Large matrices: core/blocked.h. */
  enum fk_status (*lauum)(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err);
  /* A triangle of A to the other one of B, B = A' diag(s): row for column, and column k times s[k], s being n x 1;
   * NULL: ones. FK_UPPER: A's upper triangle. B may be A. */
  enum fk_status (*transpose)(int device, unsigned flags, const struct fk_dense *A, const struct fk_dense *s,
                              const struct fk_dense *B, struct fk_error *err);
  /* B = diag(s) A, s being n x 1. B may be A. */
  enum fk_status (*scale)(int device, const struct fk_dense *A, const struct fk_dense *s, const struct fk_dense *B,
                          struct fk_error *err);
  /* Eigenvalues of a symmetric A, of which one triangle is read, ascending, to the n x 1 matrix `values`;
   * eigenvectors to the columns of A. */
  enum fk_status (*syev)(int device, unsigned flags, const struct fk_dense *A, const struct fk_dense *values,
                         struct fk_error *err);

  /* Copies beside calculations, from and to the host and other devices; all on a `device` that has matrices there.
   * copy: begins when device `source` (-1: the host) has done what it was told so far, and this one what it was
   * told before its last turn. turn: what the device is told from now on waits for its copies; waits itself for
   * what was told before the turn before. wait: for all, copies too. */
  enum fk_status (*copy)(int device, int source, const struct fk_dense *from, const struct fk_dense *to,
                         struct fk_error *err);
  enum fk_status (*turn)(int device, struct fk_error *err);
  enum fk_status (*wait)(int device, struct fk_error *err);
  /* Memory of the host from where copies are fastest, as alloc and free; and bytes that a device has for us. */
  enum fk_status (*alloc_here)(struct fk_dense *A, struct fk_error *err);
  void (*free_here)(struct fk_dense *A);
  enum fk_status (*room)(int device, double *bytes, struct fk_error *err);
};

extern const struct fk_dense_ops fk_dense_host, fk_dense_cuda;
/* Those of a back end; FK_BACKEND_AUTO: of the host. NULL: this build has none. */
const struct fk_dense_ops *fk_dense_ops(enum fk_backend backend, struct fk_error *err);

/* n x d doubles of the host, one column after the other. */
static inline struct fk_dense fk_dense_of(const double *data, int64_t n, int64_t d) {
  struct fk_dense A = {(void *)data, FK_DOUBLE, n, d, n > 1 ? n : 1, 0};
  return A;
}
static inline size_t fk_type_size(enum fk_type type) { return type == FK_DOUBLE ? sizeof(double) : sizeof(float); }
/* n x d of it, from a row and a column on. */
static inline struct fk_dense fk_dense_part(const struct fk_dense *A, int64_t row, int64_t column, int64_t n,
                                            int64_t d) {
  struct fk_dense part = {
      (char *)A->data + (size_t)(row + column * A->ld) * fk_type_size(A->type), A->type, n, d, A->ld, A->place};
  return part;
}
/* The diagonal of a square one, as a row. */
static inline struct fk_dense fk_dense_diagonal(const struct fk_dense *A) {
  struct fk_dense diagonal = {A->data, A->type, 1, A->n, A->ld + 1, A->place};
  return diagonal;
}

/* gemm with FK_HALVES: rows of A and B that are halves at a time, and the bytes that it works in where A and B
 * have no more than `rows` rows, C no more than `side` rows and columns. */
enum { FK_HALVES_ROWS = 4096, FK_HALVES_PARTS = 3, FK_HALVES_PADDED = 64 };
static inline double fk_halves_bytes(int64_t rows, int64_t side) {
  const int64_t at_once = rows < FK_HALVES_ROWS ? rows + FK_HALVES_PADDED : FK_HALVES_ROWS;
  const int64_t halves = 2 * FK_HALVES_PARTS * at_once, floats = side + FK_HALVES_PADDED, doubles = 2;
  return (double)side * (double)(2 * halves + 4 * floats + 8 * doubles);
}

/* ---- for the tables: FK_STATUS_INTERNAL where matrices do not go together ---------------------- */

enum fk_status fk_dense_check_copy(const struct fk_dense *from, const struct fk_dense *to, struct fk_error *err);
enum fk_status fk_dense_check_gemm(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                   const struct fk_dense *C, struct fk_error *err);
enum fk_status fk_dense_check_syrk(unsigned flags, const struct fk_dense *A, const struct fk_dense *C,
                                   struct fk_error *err);
/* Of trmm and trsm. */
enum fk_status fk_dense_check_triangle(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                       struct fk_error *err);
enum fk_status fk_dense_check_transpose(const struct fk_dense *A, const struct fk_dense *s,
                                        const struct fk_dense *B, struct fk_error *err);
enum fk_status fk_dense_check_scale(const struct fk_dense *A, const struct fk_dense *s, const struct fk_dense *B,
                                    struct fk_error *err);
/* Of potrf and lauum, and of syev; values NULL: there are none. */
enum fk_status fk_dense_check_square(const struct fk_dense *A, const struct fk_dense *values,
                                     struct fk_error *err);
/* Bytes of A with its ld; FK_STATUS_ALLOC where they are more than there can be. */
enum fk_status fk_dense_bytes(const struct fk_dense *A, size_t *bytes, struct fk_error *err);

FK_END_C

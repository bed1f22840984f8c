/* Operations of BLAS and LAPACK on dense matrices: a table of functions for the host and one for CUDA devices.
 *
 *   ops = fk_dense_ops(backend, err)
 *   ops->alloc(device, &A, err) -> send -> potrf, trsm, ... -> fetch -> free
 *
 * Matrices are column-major, column k at data + k * ld, in double or in float. The host has doubles only, as R has
 * no other BLAS. `device` is the number of a CUDA device; for the host it is a number of threads, if BLAS has a
 * choice, and <= 0 means the default. Operations of a device run asynchronously, in order; fetch and potrf
 * wait for them. Results have the same bits for the same matrices, machine and libraries.
 *
 * All operations return a status. They fail with FK_STATUS_INTERNAL if sizes or types do not match, with
 * FK_STATUS_ALLOC, FK_STATUS_DEVICE or FK_STATUS_UNSUPPORTED.
 */
#pragma once

#include "../fk.h"

FK_BEGIN_C

struct fk_dense {
  void *data;
  enum fk_type type;
  int64_t n, d, ld; /* rows; columns; distance between columns, in numbers */
  uint64_t place;   /* number of the device memory that alloc() gave; 0: memory of the host */
};

/* Flags of operations. Without flags: the lower triangle, from the left, not transposed. */
enum fk_dense_flag {
  FK_UPPER = 1,
  FK_RIGHT = 2,
  FK_TRANSPOSED = 4,   /* A is transposed */
  FK_TRANSPOSED_B = 8, /* B is transposed; for gemm */
  /* For gemm of doubles with FK_TRANSPOSED only. Devices split each number of A and B into two FP16 terms, hi +
   * lo, and tensor cores sum hi hi + hi lo + lo hi in FP32. The error is about 2^-20 of the product of the norms
   * of two columns, 2^-15 if all terms of long sums have one sign, at any scale of the columns. The host uses
   * doubles. */
  FK_HALVES = 16
};

/* Operations overwrite their last matrix. None reads or writes the triangle beyond the one that is named: so a
 * lower triangle A and an upper triangle B of order n fit into one n x (n + 1) matrix, B from its second column
 * on. */
struct fk_dense_ops {
  const char *name;

  /* Starts what operations on matrices of this order need. If A is not NULL, fails with FK_STATUS_LOST if the
   * memory of A, from alloc(), was lost with its device. */
  enum fk_status (*ready)(int device, const struct fk_dense *A, int64_t order, struct fk_error *err);
  /* alloc: allocates data for A->n, A->d and A->type, uninitialised, and sets ld and place. The caller frees A by
   * free(), which accepts NULL data and matrices that were lost with their device. */
  enum fk_status (*alloc)(int device, struct fk_dense *A, struct fk_error *err);
  void (*free)(int device, struct fk_dense *A);
  /* send copies from the host to the device, fetch back; both matrices have one type and size. */
  enum fk_status (*send)(int device, const struct fk_dense *from, const struct fk_dense *to, struct fk_error *err);
  enum fk_status (*fetch)(int device, const struct fk_dense *from, const struct fk_dense *to,
                          struct fk_error *err);

  /* C = alpha A B + beta C, with A or B transposed by flags. With beta = 0, C is not read. */
  enum fk_status (*gemm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, double beta, const struct fk_dense *C, struct fk_error *err);
  /* One triangle of C = alpha A A' + beta C; with FK_TRANSPOSED, A'A. */
  enum fk_status (*syrk)(int device, unsigned flags, double alpha, const struct fk_dense *A, double beta,
                         const struct fk_dense *C, struct fk_error *err);
  /* For triangular A, trmm: B = alpha A B, with FK_RIGHT alpha B A; trsm: B = alpha A^-1 B, or alpha B A^-1. */
  enum fk_status (*trmm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, struct fk_error *err);
  enum fk_status (*trsm)(int device, unsigned flags, double alpha, const struct fk_dense *A,
                         const struct fk_dense *B, struct fk_error *err);
  /* Cholesky factor: L of A = L L', with FK_UPPER R of A = R'R. *pivot is 0, or the order of the first leading
   * minor that is not positive (or NaN). A is then overwritten, but the status is FK_STATUS_OK: the caller may
   * increase the diagonal and try again. */
  enum fk_status (*potrf)(int device, unsigned flags, const struct fk_dense *A, int64_t *pivot,
                          struct fk_error *err);
  /* Replaces a triangle L by the lower triangle of L'L; with FK_UPPER, R by the upper triangle of R R'. For large
   * matrices use core/blocked.h. */
  enum fk_status (*lauum)(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err);
  /* Replaces a triangle, whose diagonal has no zeros, by its inverse. For large matrices use core/blocked.h. */
  enum fk_status (*trtri)(int device, unsigned flags, const struct fk_dense *A, struct fk_error *err);
  /* s = sums of squares of the columns of a triangle of A, n x 1. */
  enum fk_status (*squares)(int device, unsigned flags, const struct fk_dense *A, const struct fk_dense *s,
                            struct fk_error *err);
  /* Transposes the lower triangle of A (with FK_UPPER, the upper one) into the other triangle of B = A' diag(s),
   * where s is n x 1; NULL: ones. B may be A. */
  enum fk_status (*transpose)(int device, unsigned flags, const struct fk_dense *A, const struct fk_dense *s,
                              const struct fk_dense *B, struct fk_error *err);
  /* B = diag(s) A, where s is n x 1. B may be A. */
  enum fk_status (*scale)(int device, const struct fk_dense *A, const struct fk_dense *s, const struct fk_dense *B,
                          struct fk_error *err);

  /* Asynchronous copies between devices and from and to the host, which overlap with computations of `device`.
   * copy: starts after all operations that device `source` (-1: the host) has been given so far, and after those
   * that `device` was given before its last turn. turn: later operations of the device wait for its copies; the
   * call itself waits for the operations before the previous turn. wait: waits for all operations and copies. */
  enum fk_status (*copy)(int device, int source, const struct fk_dense *from, const struct fk_dense *to,
                         struct fk_error *err);
  enum fk_status (*turn)(int device, struct fk_error *err);
  enum fk_status (*wait)(int device, struct fk_error *err);
  /* alloc_here and free_here: host memory with the fastest copies to the device (pinned). room: bytes of the
   * device that are available. */
  enum fk_status (*alloc_here)(struct fk_dense *A, struct fk_error *err);
  void (*free_here)(struct fk_dense *A);
  enum fk_status (*room)(int device, double *bytes, struct fk_error *err);
};

/* fk_dense_own: the host by our own code, but for lauum, for threads that each have a matrix. */
extern const struct fk_dense_ops fk_dense_host, fk_dense_own, fk_dense_cuda;
/* On the host: eigenvalues of a symmetric A, ascending, go to the n x 1 matrix `values`, eigenvectors to the
 * columns of A. One triangle of A is read. */
enum fk_status fk_host_eigen(unsigned flags, const struct fk_dense *A, const struct fk_dense *values,
                             struct fk_error *err);
/* The table of a back end, a constant; for FK_BACKEND_AUTO that of the host. NULL, with err set, if there is
 * none. */
const struct fk_dense_ops *fk_dense_ops(enum fk_backend backend, struct fk_error *err);

/* A view of n x d contiguous doubles of the host. */
static inline struct fk_dense fk_dense_of(const double *data, int64_t n, int64_t d) {
  struct fk_dense A = {(void *)data, FK_DOUBLE, n, d, n > 1 ? n : 1, 0};
  return A;
}
static inline size_t fk_type_size(enum fk_type type) { return type == FK_DOUBLE ? sizeof(double) : sizeof(float); }
/* A view of the n x d part of A that begins at `row` and `column`. */
static inline struct fk_dense fk_dense_part(const struct fk_dense *A, int64_t row, int64_t column, int64_t n,
                                            int64_t d) {
  struct fk_dense part = {
      (char *)A->data + (size_t)(row + column * A->ld) * fk_type_size(A->type), A->type, n, d, A->ld, A->place};
  return part;
}
/* A view of the diagonal of a square matrix, as a row. */
static inline struct fk_dense fk_dense_diagonal(const struct fk_dense *A) {
  struct fk_dense diagonal = {A->data, A->type, 1, A->n, A->ld + 1, A->place};
  return diagonal;
}

/* gemm with FK_HALVES: the number of rows of A and B that are split into FP16 at a time, and the bytes of device
 * memory that it works in if A and B have at most `rows` rows and C at most `side` rows and columns. */
enum { FK_HALVES_ROWS = 4096, FK_HALVES_PARTS = 3, FK_HALVES_PADDED = 64 };
static inline double fk_halves_bytes(int64_t rows, int64_t side) {
  const int64_t at_once = rows < FK_HALVES_ROWS ? rows + FK_HALVES_PADDED : FK_HALVES_ROWS;
  const int64_t halves = 2 * FK_HALVES_PARTS * at_once, floats = side + FK_HALVES_PADDED, doubles = 2;
  return (double)side * (double)(2 * halves + 4 * floats + 8 * doubles);
}

/* ---- checks of arguments, for the tables: FK_STATUS_INTERNAL if sizes or types do not match ----- */

/* copy needs equal dimensions; gemm needs C = op(A) op(B), and syrk C = A' A or A A', to be defined. */
enum fk_status fk_dense_check_copy(const struct fk_dense *from, const struct fk_dense *to, struct fk_error *err);
enum fk_status fk_dense_check_gemm(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                   const struct fk_dense *C, struct fk_error *err);
enum fk_status fk_dense_check_syrk(unsigned flags, const struct fk_dense *A, const struct fk_dense *C,
                                   struct fk_error *err);
/* For trmm and trsm. */
enum fk_status fk_dense_check_triangle(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                       struct fk_error *err);
enum fk_status fk_dense_check_transpose(const struct fk_dense *A, const struct fk_dense *s,
                                        const struct fk_dense *B, struct fk_error *err);
enum fk_status fk_dense_check_scale(const struct fk_dense *A, const struct fk_dense *s, const struct fk_dense *B,
                                    struct fk_error *err);
/* For potrf, lauum and trtri (values = NULL), and for fk_host_eigen() and squares. */
enum fk_status fk_dense_check_square(const struct fk_dense *A, const struct fk_dense *values,
                                     struct fk_error *err);
/* Sets *bytes to the size of A, with its ld. Fails with FK_STATUS_ALLOC if it exceeds the address space. */
enum fk_status fk_dense_bytes(const struct fk_dense *A, size_t *bytes, struct fk_error *err);

FK_END_C

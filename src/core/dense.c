/* Checks that the sizes and types of matrices match. */
#include "dense.h"

#include "count.h"

enum fk_status fk_dense_bytes(const struct fk_dense *A, size_t *bytes, struct fk_error *err) {
  double all = (double)A->ld * (double)A->d * (double)fk_type_size(A->type);
  *bytes = 0;
  if (A->n < 0 || A->d < 0 || A->ld < A->n)
    return fk_fail(err, FK_STATUS_INTERNAL, "a matrix cannot have %.0f x %.0f numbers", (double)A->n,
                   (double)A->d);
  if (all > 0.5 * (double)PTRDIFF_MAX)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a matrix of %.0f x %.0f", (double)A->n, (double)A->d);
  *bytes = (size_t)(A->ld * A->d) * fk_type_size(A->type);
  return FK_STATUS_OK;
}

/* ---- checks of sizes and types ---------------------------------------------------------------- */

/* The sizes that an operation wants of a matrix, and the type of all. */
static bool is_a(const struct fk_dense *A, int64_t n, int64_t d, enum fk_type type) {
  return A->type == type && A->n == n && A->d == d && n >= 0 && d >= 0 && A->ld >= fk_larger(n, 1);
}

static enum fk_status verdict(bool fine, const char *operation, const struct fk_dense *A, const struct fk_dense *B,
                              struct fk_error *err) {
  if (fine) return FK_STATUS_OK;
  return fk_fail(err, FK_STATUS_INTERNAL,
                 "%s: sizes or types of matrices of %.0f x %.0f and %.0f x %.0f do not match", operation,
                 (double)A->n, (double)A->d, (double)B->n, (double)B->d);
}

enum fk_status fk_dense_check_copy(const struct fk_dense *from, const struct fk_dense *to, struct fk_error *err) {
  bool fine = is_a(from, from->n, from->d, to->type) && is_a(to, from->n, from->d, to->type);
  return verdict(fine, "copy", from, to, err);
}

enum fk_status fk_dense_check_gemm(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                   const struct fk_dense *C, struct fk_error *err) {
  bool transposed = flags & FK_TRANSPOSED, transposed_b = flags & FK_TRANSPOSED_B;
  int64_t inner = transposed ? A->n : A->d;
  bool fine = is_a(A, transposed ? inner : C->n, transposed ? C->n : inner, C->type) &&
              is_a(B, transposed_b ? C->d : inner, transposed_b ? inner : C->d, C->type) &&
              is_a(C, C->n, C->d, C->type);
  if (flags & FK_HALVES) fine = fine && transposed && !transposed_b && C->type == FK_DOUBLE;
  return verdict(fine, "gemm", A, B, err);
}

enum fk_status fk_dense_check_syrk(unsigned flags, const struct fk_dense *A, const struct fk_dense *C,
                                   struct fk_error *err) {
  bool transposed = flags & FK_TRANSPOSED;
  bool fine = is_a(A, transposed ? A->n : C->n, transposed ? C->n : A->d, C->type) && is_a(C, C->n, C->n, C->type);
  return verdict(fine, "syrk", A, C, err);
}

enum fk_status fk_dense_check_triangle(unsigned flags, const struct fk_dense *A, const struct fk_dense *B,
                                       struct fk_error *err) {
  int64_t order = flags & FK_RIGHT ? B->d : B->n;
  bool fine = is_a(A, order, order, B->type) && is_a(B, B->n, B->d, B->type);
  return verdict(fine, "trmm or trsm", A, B, err);
}

enum fk_status fk_dense_check_transpose(const struct fk_dense *A, const struct fk_dense *s,
                                        const struct fk_dense *B, struct fk_error *err) {
  bool fine = is_a(A, B->n, B->n, B->type) && is_a(B, B->n, B->n, B->type) && (!s || is_a(s, B->n, 1, B->type));
  return verdict(fine, "transpose", A, B, err);
}

enum fk_status fk_dense_check_scale(const struct fk_dense *A, const struct fk_dense *s, const struct fk_dense *B,
                                    struct fk_error *err) {
  bool fine = is_a(A, B->n, B->d, B->type) && is_a(B, B->n, B->d, B->type) && is_a(s, B->n, 1, B->type);
  return verdict(fine, "scale", A, B, err);
}

enum fk_status fk_dense_check_square(const struct fk_dense *A, const struct fk_dense *values,
                                     struct fk_error *err) {
  bool fine = is_a(A, A->n, A->n, A->type) && (!values || is_a(values, A->n, 1, A->type));
  return verdict(fine, "potrf, lauum, trtri, eigenvalues or squares", A, values ? values : A, err);
}

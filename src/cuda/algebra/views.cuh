/* Matrices as the code of this folder sees them, and the handle that calls come with. */
#ifndef FK_CUDA_ALGEBRA_VIEWS_CUH
#define FK_CUDA_ALGEBRA_VIEWS_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#include "../../core/count.h"
#include "../device/libraries.cuh"

/* A matrix on the device: number (i, j) is at[i * down + j * right], where one of the strides is 1. So a
 * transposed matrix is a view, too, and an upper triangle is the lower one of the transposed view. */
template <typename T>
struct fk_view {
  T *at;
  int64_t n, d, down, right;

  fk_view part(int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    return {at + row * down + column * right, rows, columns, down, right};
  }
  fk_view<const T> read() const { return {at, n, d, down, right}; }
  fk_view turned() const { return {at, d, n, right, down}; }
  fk_view upside_down() const { return {at + (n - 1) * down, n, d, -down, right}; }
  /* the last row and the last column first: an upper triangle becomes a lower one */
  fk_view reversed() const { return {at + (n - 1) * down + (d - 1) * right, n, d, -down, -right}; }
};

/* What takes the place of handles of cuBLAS and cuSOLVER. */
struct fk_algebra {
  cudaStream_t stream;
  int multiprocessors, shared_most; /* bytes of shared memory that a block may have */
  void *workspace;
  size_t workspace_bytes;
};

/* Operations are queued on the stream; cudaGetLastError() tells if a launch failed. Numbers are double or float.
 */

/* One triangle, or all of a product. */
enum fk_part { FK_ALL, FK_LOWER, FK_ABOVE };

/* Distances of consecutive matrices, and their number. */
struct fk_batch {
  int64_t a, b, c, count;
};

/* C = alpha A B + beta C. With beta = 0, C is not read; with alpha = 0, A and B are not. */
template <typename T>
void fk_product(const struct fk_algebra *algebra, T alpha, fk_view<const T> A, fk_view<const T> B, T beta,
                fk_view<T> C, enum fk_part part = FK_ALL, struct fk_batch batch = {0, 0, 0, 1});
/* The same for C = alpha A'B + beta C with FP16 numbers and FP32 sums; C is FP32 or FP16. Columns of A and B begin
 * at multiples of 16 bytes and have an even number of rows. False: they do not. */
template <typename Out>
bool fk_product_halves(const struct fk_algebra *algebra, float alpha, fk_view<const __half> A,
                       fk_view<const __half> B, float beta, fk_view<Out> C, struct fk_batch batch = {0, 0, 0, 1});

/* B = alpha L^-1 B, or B = alpha L B, for a triangle L. */
template <typename T>
void fk_solve(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B);
template <typename T>
void fk_multiply(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B);

/* fk_solve_few() solves systems with few columns, and fk_multiply_vector() computes y = alpha A x + beta y for a
 * matrix whose columns are contiguous; both read each number of the matrix once. fk_solve_few() returns false if
 * there are more than FK_FEW_COLUMNS (device/libraries.cuh) columns, or no workspace. */
template <typename T>
bool fk_solve_few(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B);
template <typename T>
void fk_multiply_vector(const struct fk_algebra *algebra, T alpha, fk_view<const T> A, const T *x, T beta, T *y);

/* In place of a lower triangle: L of A = L L', where *info becomes the order of the first leading minor that is
 * not positive, or 0; L^-1; the lower triangle of L'L. */
template <typename T>
void fk_cholesky(const struct fk_algebra *algebra, fk_view<T> A, int *info);
template <typename T>
void fk_invert(const struct fk_algebra *algebra, fk_view<T> L);
template <typename T>
void fk_square(const struct fk_algebra *algebra, fk_view<T> L);

#endif

/* Sums with more values than a launch takes: kernels are evaluated once, as a matrix of some rows and columns at a
 * time, which cuBLAS multiplies with all values. The kernel sum is computed apart, since a product with 129
 * columns takes twice the time of 128.
 * ||   passes_matrix.cu   when to use matrices, their sizes, the values, and the sums over all runs of columns
 *   matrix_halves.cu   a matrix in FP16 and its products
 *   matrix_doubles.cu  a matrix in FP64 and its products
 * || cuBLAS may add in another order for another shape. The shapes therefore depend on the sizes of the task
 * alone, and padding rows are computed, too. */
#ifndef FK_CUDA_MATRIX_PASS_CUH
#define FK_CUDA_MATRIX_PASS_CUH

#include "job.cuh"
#include "../device/libraries.cuh"

enum { FK_MATRIX_RUN = 2048 /* most columns of one FP32 sum */ };

/* Columns are in `runs` of `run` each, padded with zeros. A matrix has `rows` rows and `at_once` runs. */
struct fk_matrix_plan {
  int64_t rows, run, runs, at_once;
};

struct fk_matrix_pass {
  struct fk_cuda_job *job;
  struct fk_pass_view view;
  struct fk_matrix_plan plan;
  struct fk_cuda_packed packed; /* of FP16 */
  struct fk_blas blas;
  bool halves;
  void *kernels;  /* [row][at_once][run]; in FP16 [row][at_once][lo, hi][run] */
  void *values;   /* [value][runs][run]; in FP16 [value][runs][hi, lo][run] */
  void *weights;  /* [runs][run]; floats with FP16, else doubles */
  void *sums;     /* [at_once][value][row]; floats or doubles */
  double *masses; /* in FP16 [at_once][row], else [row] */
  /* FP16: the factors of the sums of values, [at_once][row] */
  double *scales;
  /* FP64: |u|^2, and padded rows if there are fewer than in the plan */
  double *column_square, *row_square, *rows;
};

/* The rows and columns of the next step. */
struct fk_matrix_piece {
  int64_t first_row, rows, first_run, runs;
};

/* For either precision: allocate what only it needs; compute the kernel sums and sums of a piece. */
enum fk_status fk_matrix_halves_room(struct fk_matrix_pass *pass, struct fk_error *err);
enum fk_status fk_matrix_halves(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                struct fk_error *err);
enum fk_status fk_matrix_doubles_room(struct fk_matrix_pass *pass, struct fk_error *err);
enum fk_status fk_matrix_doubles(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                 struct fk_error *err);

#endif

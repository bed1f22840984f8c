/* Sums with more values than a launch takes: kernels are evaluated once, as a matrix of some rows and columns at a
 * time, which cuBLAS multiplies with all values. The mass is none of its columns: 129 of them would take twice the
 * time of 128.
 *
 *   passes_matrix.cu   when, how much at once, the values, and the sums of all runs of columns
 *   matrix_halves.cu   a matrix in halves and its products
 *   matrix_doubles.cu  the same in double
 *
 * cuBLAS may add in another order for another shape: that of its products goes by the sizes of the task alone, and
 * rows that are not there are computed, too.
 */
#ifndef FK_CUDA_MATRIX_PASS_CUH
#define FK_CUDA_MATRIX_PASS_CUH

#include "job.cuh"
#include "../device/libraries.cuh"

#ifdef FK_CUDA_LIBRARIES

enum { FK_MATRIX_RUN = 2048 /* columns of one FP32 sum at most */ };

/* Columns are in `runs` of `run` each, padded with zeros; a matrix has `rows` and `at_once` of the runs. */
struct fk_matrix_plan {
  int64_t rows, run, runs, at_once;
};

struct fk_matrix_pass {
  struct fk_cuda_job *job;
  struct fk_pass_view view;
  struct fk_matrix_plan plan;
  struct fk_cuda_packed packed; /* of halves */
  cublasHandle_t blas;
  bool halves;
  void *kernels;  /* [row][at_once][run], halves as [row][at_once][lo, hi][run] */
  void *values;   /* [value][runs][run], halves as [value][runs][hi, lo][run] */
  void *weights;  /* [runs][run]; floats beside halves, else doubles */
  void *sums;     /* [at_once][value][row]; floats or doubles */
  double *masses; /* of halves [at_once][row], else [row] */
  /* of halves: what sums of values are multiplied with, [at_once][row] */
  double *scales;
  /* in double: |u|^2, and rows where there are fewer than the plan has */
  double *column_square, *row_square, *rows;
};

/* What is done next. */
struct fk_matrix_piece {
  int64_t first_row, rows, first_run, runs;
};

/* Room for what only they need, and a piece's masses and sums. */
enum fk_status fk_matrix_halves_room(struct fk_matrix_pass *pass, struct fk_error *err);
enum fk_status fk_matrix_halves(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                struct fk_error *err);
enum fk_status fk_matrix_doubles_room(struct fk_matrix_pass *pass, struct fk_error *err);
enum fk_status fk_matrix_doubles(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                 struct fk_error *err);

#endif
#endif

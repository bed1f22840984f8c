/* Sums on CUDA cores: by differences of the coordinates, or by products of them. */
#ifndef FK_CUDA_FMA_TASK_CUH
#define FK_CUDA_FMA_TASK_CUH

#include "../device/common.cuh"

/* Rows (targets) against columns (sources), in the precision of T. Shifts and largest exponents: of Gaussians and
 * of kernels of the root. */
template <typename T>
struct fk_fma_task {
  enum fk_form_type form;
  const T *rows, *cols;         /* [d][ld], scaled so that t is -|x - y|^2 */
  const T *rows_low, *cols_low; /* what they lack, in double alone; NULL: 0 */
  bool relative;                /* values are the differences of the coordinates, x - y; with low parts alone */
  int64_t ld_rows, n_cols, ld_cols;
  int d;
  const T *weight; /* of the columns, NULL: ones */
  const T *values; /* [n_values][ld_cols] */
  int n_values;
  double factor[3];               /* polynomial of t or its root; of products see enum fk_form_type */
  const double *shift;            /* of the rows, taken off the exponent; NULL: none */
  bool find_max;                  /* the largest exponent of a term in the place of the mass */
  bool tails;                     /* weights of any range: they go into the exponents */
  const int64_t *self;            /* the source that each row is, NULL: row r is source r + self_offset; */
  bool exclude_self;              /* which it does not meet, then */
  int64_t self_offset, first_col; /* first_col: the source that column 0 is */
  int64_t first_row;              /* of this launch */
  int64_t rows_here, ld_acc;
  int slots;
  int64_t cols_per_slot;
  bool short_sums; /* those in T have at most 64 terms, as those that conjugate gradients go by */
  double least;    /* < 0: few kernels reach 2^least, and others may be left out */
  double *acc;     /* [slot][1 + n_values][ld_acc], written */
};
cudaError_t fk_fma_launch(const struct fk_fma_task<float> *task, cudaStream_t stream);
cudaError_t fk_fma_launch(const struct fk_fma_task<double> *task, cudaStream_t stream);
/* u times scale, in the precision of T. */
cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, float *out, cudaStream_t stream);
cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, double *out, cudaStream_t stream);
/* Those with low parts; and these of u times scale. */
cudaError_t fk_fma_launch_doubled(const struct fk_fma_task<double> *task, cudaStream_t stream);
cudaError_t fk_fma_pack_low(const double *u, const double *low, int64_t count, double scale, double *out,
                            cudaStream_t stream);

#endif

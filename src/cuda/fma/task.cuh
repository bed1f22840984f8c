/* Sums on CUDA cores: by differences of the coordinates, their absolute values, or products of coordinates. */
#ifndef FK_CUDA_FMA_TASK_CUH
#define FK_CUDA_FMA_TASK_CUH

#include "../device/common.cuh"

/* Rows (targets) against columns (sources), in the precision of T. Shifts and largest exponents exist for
 * kernels that fall exponentially. */
template <typename T>
struct fk_fma_task {
  enum fk_form_type form;
  const T *rows, *cols;         /* [d][ld], scaled so that t = -|x - y|^2, or a = -sum |x_k - y_k| */
  const T *rows_low, *cols_low; /* low parts, in double only; NULL: 0 */
  bool relative;                /* values are the differences x - y of the coordinates; needs low parts */
  int64_t ld_rows, n_cols, ld_cols;
  int d;
  const T *weight; /* weights of the columns; NULL: ones */
  const T *values; /* [n_values][ld_cols] */
  int n_values;
  double power;                   /* of FK_FORM_STRETCHED */
  double factor[3];               /* polynomial of t or its root; for kernels of products see enum fk_form_type */
  const double *shift;            /* of the rows, subtracted from the exponent; NULL: none */
  bool find_max;                  /* return the largest exponent of a term in place of the kernel sum */
  bool tails;                     /* weights of any magnitude: they go into the exponents */
  const int64_t *self;            /* the source that each row is; NULL: row r is source r + self_offset */
  bool exclude_self;              /* then a row does not meet its own source */
  int64_t self_offset, first_col; /* first_col: the source of column 0 */
  int64_t first_row;              /* first row of this launch */
  int64_t rows_here, ld_acc;
  int slots;
  int64_t cols_per_slot;
  bool short_sums; /* sums in T have at most 64 terms, as conjugate gradients need */
  double least;    /* < 0: few kernels reach 2^least, and others may be omitted */
  double *acc;     /* [slot][1 + n_values][ld_acc], overwritten */
};
template <typename T>
static inline void fk_fma_takes_form(struct fk_fma_task<T> *task, const struct fk_kernel_form *form) {
  task->form = form->type;
  task->power = form->power;
  for (int i = 0; i < 3; i++) task->factor[i] = form->factor[i];
}
cudaError_t fk_fma_launch(const struct fk_fma_task<float> *task, cudaStream_t stream);
cudaError_t fk_fma_launch(const struct fk_fma_task<double> *task, cudaStream_t stream);
/* Converts u times scale to the precision of T. */
cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, float *out, cudaStream_t stream);
cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, double *out, cudaStream_t stream);
/* Sums of points with low parts; and the packing of low parts of u times scale. */
cudaError_t fk_fma_launch_doubled(const struct fk_fma_task<double> *task, cudaStream_t stream);
cudaError_t fk_fma_pack_low(const double *u, const double *low, int64_t count, double scale, double *out,
                            cudaStream_t stream);

#endif

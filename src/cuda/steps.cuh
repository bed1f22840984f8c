/* The steps of a job on one device, each a launch or two.
 *
 * Everything on the device lies in the order [column][point], point by point next to each other, but for the
 * halves of tensor.cuh. Numbers are doubles until a method packs them in its own precision.
 */
#ifndef FK_CUDA_STEPS_CUH
#define FK_CUDA_STEPS_CUH

#include "common.cuh"
#include "sums_wgmma.cuh"
#include "tensor.cuh"

/* Whitened points, [d][ld]. low: what the coordinates lack of points that reach far, whose differences are to keep
 * all their digits (doubled.cuh); NULL: 0. */
struct fk_cuda_points {
  double *u;
  int64_t n, ld;
  int d;
  double *low;
};

/* How a set of sources is summed. */
enum fk_cuda_method { FK_METHOD_DOUBLE, FK_METHOD_SINGLE, FK_METHOD_MMA, FK_METHOD_WGMMA, FK_METHOD_DMMA };

/* ---- points (points.cu) ----------------------------------------------------------------------- */

/* The whitening on the device: centre, then the matrix or its diagonal. */
struct fk_cuda_whitening {
  const struct fk_whitening *host;
  double *centre;
  const double *matrix;
};
/* To the buffer; a centre that the host does not know is 0 until fk_cuda_centre() finds it. */
enum fk_status fk_cuda_whitening_init(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer,
                                      const struct fk_whitening *host, struct fk_cuda_whitening *whitening,
                                      struct fk_error *err);
/* raw: n x d, ld apart, with weights or none (NULL). */
struct fk_cuda_raw {
  const double *x, *weights;
  int64_t n, ld;
  int d;
};
enum fk_status fk_cuda_centre(struct fk_cuda_context *context, const struct fk_cuda_raw *raw,
                              const struct fk_cuda_whitening *whitening, struct fk_error *err);
/* raw: column-major, ld_raw apart. Points of the padding, n to points->ld, become 0. */
enum fk_status fk_cuda_whiten(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                              const double *raw, int64_t ld_raw, struct fk_cuda_points *points,
                              struct fk_error *err);
/* points->low of points that were whitened so; 0 where a coordinate is no number. */
enum fk_status fk_cuda_whiten_low(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                                  const double *raw, int64_t ld_raw, const struct fk_cuda_points *points,
                                  struct fk_error *err);
/* The points A x, A being d x d on the device. */
enum fk_status fk_cuda_multiply(struct fk_cuda_context *context, const double *A, const double *raw,
                                int64_t ld_raw, struct fk_cuda_points *points, struct fk_error *err);
/* The largest |u|^2 of all points: at the staging buffer when the device is done, as parts whose largest it is. */
enum fk_status fk_cuda_radius2(struct fk_cuda_context *context, const struct fk_cuda_points *points, int *parts,
                               struct fk_error *err);

/* ---- sums on CUDA cores (sums_fma.cuh, sums_fma_doubled.cu) ----------------------------------- */

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

/* ---- Gaussian sums in double on tensor cores (dmma_pack.cu, sums_dmma.cu) -------------------- */

/* Points scaled by sqrt(log2 e), eight coordinates of a point side by side: [k][ld][8], zero padded, where
 * k = ceil(d / 8). */
struct fk_dmma_points {
  double *octets;
  int64_t ld;
  int k;
};
struct fk_dmma_task {
  struct fk_dmma_points rows, cols;
  const double *offset; /* of the columns, -|x|^2/2 and the logarithm of a weight; far below all in the padding */
  const double *magic;  /* of the rows: EXP2_MAGIC (dmma.cuh) - |y|^2/2, rounded as that does */
  /* With a polynomial of t, or NULL: of the rows -|y|^2/2, and weights of the columns that are not in the offset.
   */
  const double *norm, *weight;
  double factor[3];
  const double *values; /* [n_values][cols.ld] */
  int n_values;
  int64_t self; /* row r does not meet column r + self, which may be none */
  int64_t n_cols, first_row, rows_here, ld_acc;
  int slots;
  int64_t cols_per_slot;
  double *acc; /* [slot][1 + n_values][ld_acc], written */
};
cudaError_t fk_dmma_launch(const struct fk_dmma_task *task, cudaStream_t stream);
/* weights: divided by `scale` they go to the offset, or to `weight` where that is wanted; NULL: ones. */
struct fk_dmma_cols {
  struct fk_dmma_points to;
  double *offset, *weight;
  const double *weights;
  double scale;
};
cudaError_t fk_dmma_pack_cols(const struct fk_cuda_points *points, const struct fk_dmma_cols *cols,
                              cudaStream_t stream);
/* undo: what the sums of a row are to be multiplied with. */
struct fk_dmma_rows {
  struct fk_dmma_points to;
  double *magic, *norm, *undo;
};
cudaError_t fk_dmma_pack_rows(const struct fk_cuda_points *points, const struct fk_dmma_rows *rows,
                              cudaStream_t stream);

/* ---- sums on tensor cores (tensor_pack.cu, sums_mma.cu, sums_wgmma.cu) ------------------------ */

/* The grids of the high parts, 2^-g, and of the norms, 2^-norm. */
struct fk_tensor_grid {
  int g, norm;
  double row_limit;   /* of |x|^2 of the rows */
  double scale;       /* of the coordinates */
  double step, steps; /* 2^-g and 2^g */
  bool low_low;       /* lo.lo is large enough to be seen */
};
/* radius2: the largest |u|^2, in kernel standard deviations; rows2: that of the rows, 0: rows further out are to
 * be done again. False where the points are too wide. */
bool fk_tensor_grid_choose(double radius2, double rows2, int d, bool single, struct fk_tensor_grid *grid);
/* The largest radius of sources whose rows come from `reach` further out. */
double fk_tensor_radius(double reach, int d, bool single);

struct fk_tensor_pack {
  struct fk_tensor_grid grid;
  const double *weight; /* of sources, or NULL */
  double weight_scale;
  bool weight_in_offset; /* its power of two, with the mantissa in the values */
  bool coarse;           /* high parts are the nearest halves */
  bool high_norms;       /* the norms of rows are those of their high parts */
  bool stays;      /* points are not moved to where their norms are on the grid: what that leaves is in `weight` */
  const int *list; /* of columns, those below 0 are none; NULL: all are some */
};
/* Where packed columns go: n_pad x k halves, and n_pad of the others, those of them that are wanted. */
struct fk_tensor_cols {
  __half *hi, *lo;
  float *offset, *weight, *col_factor; /* weight and col_factor: NULL where they are not wanted */
  float factor1;
  int64_t n_pad;
  int k;
};
cudaError_t fk_tensor_pack_cols(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_cols *to, cudaStream_t stream);
/* And packed rows. */
struct fk_tensor_rows {
  __half *hi, *lo;
  float *offset, *factor0; /* factor0: NULL where it is not wanted */
  double *undo; /* what sums are multiplied with to take off shift and the offset's rounding; NaN: too far out for
                   the grid */
  int64_t n_pad;
  int k;
  const double *mass; /* of an earlier pass: the exponent is raised so that the kernels sum to about 2^shift; NULL:
                         none */
  int shift;
  double factor[2];
};
cudaError_t fk_tensor_pack_rows(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_rows *to, cudaStream_t stream);
/* Columns first on of values, [..][ld], times scale, of n points, and last the ones, to to->hi and to->lo. */
struct fk_tensor_columns {
  const double *values;
  int64_t ld, n, n_pad;
  double scale;
  int first;
};
cudaError_t fk_tensor_pack_values(const struct fk_tensor_columns *from, const struct fk_tensor_pack *pack,
                                  const struct fk_tensor_values *to, cudaStream_t stream);

cudaError_t fk_mma_launch(const struct fk_tensor_task *task, cudaStream_t stream);
/* Columns of values beside the ones in one launch, and the width that their tiles are padded to. */
enum { FK_MMA_VALUES = 64 };
int fk_mma_value_width(int n_values, int k);

/* ---- results (finish.cu) ---------------------------------------------------------------------- */

/* Of each of `rows` rows the sums of its slots, in their order, are added to the result, or begin it; or the
 * largest is taken. */
struct fk_finish {
  const double *acc;              /* [slot][widths][ld_acc] */
  int slots, widths, first_value; /* first_value > 0: values alone, the mass being in the result already */
  int64_t ld_acc, first_row, rows;
  const double *undo;                 /* [first_row + row], a factor of the row; NULL: 1 */
  double value_scale;                 /* a factor of all but the mass */
  bool largest, first;                /* first: the result holds nothing yet */
  const struct fk_tensor_part *parts; /* of the rows, who have fewer slots, of so many columns; NULL: none */
  int64_t cols_per_slot;
  double *result; /* [0: mass; 1 + value][ld_result] */
  int64_t ld_result;
};
cudaError_t fk_finish_slots(const struct fk_finish *finish, cudaStream_t stream);
/* Columns times a factor, and their own scale, or divided by that: data[w], w = 0 the mass where `inverse` is
 * false. */
cudaError_t fk_finish_scale(double *data, int widths, int64_t ld, int64_t rows, double factor, const double *scale,
                            bool inverse, cudaStream_t stream);
/* Sums beside a mass that was rounded in the same way: made those of the exact mass. */
cudaError_t fk_finish_ratio(double *result, int widths, int64_t ld, int64_t rows, const double *mass,
                            cudaStream_t stream);
/* Sums of the high parts of coordinates at those points themselves: the low part of its own stands for all of a
 * row's, which makes the sum of a point without neighbours exact. */
cudaError_t fk_finish_own_low(double *result, int widths, int64_t ld, int64_t rows,
                              const struct fk_tensor_points *points, double scale, cudaStream_t stream);
/* How many rows fk_rows_below() would find, to *found on the device. */
cudaError_t fk_finish_count_lost(const double *mass, int64_t n, double threshold, unsigned long long *found,
                                 cudaStream_t stream);
/* Largest exponents: an infinite one has nothing to take off. */
cudaError_t fk_finish_shift(double *shift, int64_t rows, cudaStream_t stream);

/* ---- leave-one-out of debiased points (debiased_loo.cu) --------------------------------------- */

enum fk_status fk_cuda_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                    struct fk_stats *stats, struct fk_error *err);
/* The matrix of kernels (matrix.cu); sources and targets are on the host. */
enum fk_status fk_cuda_matrix(const struct fk_task *task, const struct fk_opts *opts, const struct fk_dense *K,
                              struct fk_error *err);
/* ---- normal products (normal.cuh) ------------------------------------------------------------- */

enum fk_status fk_cuda_normal(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                              double *product, struct fk_stats *stats, struct fk_error *err);
double fk_cuda_normal_seconds(const struct fk_work *work, const struct fk_opts *opts);

/* Shared with engine.cu. */
void fk_cuda_describe(struct fk_stats *stats, struct fk_cuda_context *const *contexts, int count,
                      const char *method, const char *precision);

#endif

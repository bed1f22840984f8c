/* From the sums of slots to results, in FP64 and in a fixed order. */
#ifndef FK_CUDA_FINISH_CUH
#define FK_CUDA_FINISH_CUH

#include "../device/common.cuh"
#include "../tensor/tensor.cuh"

/* For each of `rows` rows: adds the sums of its slots, in order, to the result, or starts the result with them; or
 * takes the largest. */
struct fk_finish {
  const double *acc;              /* [slot][widths][ld_acc] */
  int slots, widths, first_value; /* first_value > 0: values only; the kernel sum is there */
  int64_t ld_acc, first_row, rows;
  const double *undo;                 /* [first_row + row]: a factor of the row; NULL: 1 */
  double value_scale;                 /* a factor of all columns but the kernel sum */
  bool largest, first;                /* true: the result is written, not added to */
  const struct fk_tensor_part *parts; /* of the rows, which have fewer slots of cols_per_slot columns; NULL:
                                       * none */
  int64_t cols_per_slot;
  double *result; /* [0: kernel sum; 1 + value][ld_result] */
  int64_t ld_result;
};
cudaError_t fk_finish_slots(const struct fk_finish *finish, cudaStream_t stream);
/* Multiplies columns by `factor` and by their own scale, or divides by that scale if `inverse`. data[w]: w = 0 is
 * the kernel sum unless `inverse`. */
cudaError_t fk_finish_scale(double *data, int widths, int64_t ld, int64_t rows, double factor, const double *scale,
                            bool inverse, cudaStream_t stream);
/* Rescales sums whose kernels were rounded like those of their kernel sum, to match the exact kernel sum. */
cudaError_t fk_finish_ratio(double *result, int widths, int64_t ld, int64_t rows, const double *mass,
                            cudaStream_t stream);
/* For sums of the high parts of coordinates at the sources themselves: adds the row's own low part times its
 * kernel sum. This makes the sum of a point without neighbours exact. */
cudaError_t fk_finish_own_low(double *result, int widths, int64_t ld, int64_t rows,
                              const struct fk_tensor_points *points, double scale, cudaStream_t stream);
/* Replaces kernel sums by their logarithms; NaN for sums that are below the threshold or NaN. */
cudaError_t fk_finish_logs(double *mass, int64_t rows, double threshold, cudaStream_t stream);
/* Replaces infinite largest exponents by 0, so that nothing is subtracted. */
cudaError_t fk_finish_shift(double *shift, int64_t rows, cudaStream_t stream);

#endif

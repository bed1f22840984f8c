/* From the sums of the slots to results, in FP64 and in a fixed order. */
#ifndef FK_CUDA_FINISH_CUH
#define FK_CUDA_FINISH_CUH

#include "../device/common.cuh"
#include "../tensor/tensor.cuh"

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
/* The logarithms of masses in their place; NaN for those that are below the threshold, or NaN. */
cudaError_t fk_finish_logs(double *mass, int64_t rows, double threshold, cudaStream_t stream);
/* Largest exponents: an infinite one has nothing to take off. */
cudaError_t fk_finish_shift(double *shift, int64_t rows, cudaStream_t stream);

#endif

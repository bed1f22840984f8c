/* From the sums of slots to results, in FP64 and in a fixed order. */
#include <math.h>

#include "finish.cuh"

static dim3 grid_for(int64_t rows, int widths) {
  return dim3(fk_blocks(rows, FK_THREADS), (unsigned)fk_smaller(widths, 1024));
}

static __global__ void slots_kernel(const struct fk_finish f) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= f.rows) return;
  int64_t row = f.first_row + r;
  double undo = f.undo ? f.undo[row] : 1;
  int slots = f.slots;
  if (f.parts) {
    const struct fk_tensor_part part = f.parts[row / FK_TENSOR_UNIT];
    slots = (int)((part.end - part.first + f.cols_per_slot - 1) / f.cols_per_slot);
  }
  for (int w = blockIdx.y; w < f.widths; w += gridDim.y) {
    if (w == 0 && f.first_value > 0) continue;
    double sum = f.largest ? -INFINITY : 0, *out = f.result + (w == 0 ? 0 : f.first_value + w) * f.ld_result + row;
#pragma unroll 8
    for (int s = 0; s < slots; s++) {
      double part = f.acc[((int64_t)s * f.widths + w) * f.ld_acc + r];
      sum = f.largest ? fmax(sum, part) : sum + part;
    }
    if (!f.largest) sum *= undo * (w == 0 ? 1 : f.value_scale);
    *out = f.first ? sum : f.largest ? fmax(*out, sum) : *out + sum;
  }
}

cudaError_t fk_finish_slots(const struct fk_finish *finish, cudaStream_t stream) {
  slots_kernel<<<grid_for(finish->rows, finish->widths), FK_THREADS, 0, stream>>>(*finish);
  return cudaGetLastError();
}

static __global__ void scale_kernel(double *data, int widths, int64_t ld, int64_t rows, double factor,
                                    const double *scale, bool inverse) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int w = blockIdx.y; w < widths; w += gridDim.y) {
    double own = !scale ? 1 : inverse ? 1 / scale[w] : w > 0 ? scale[w - 1] : 1;
    data[w * ld + r] *= factor * own;
  }
}

cudaError_t fk_finish_scale(double *data, int widths, int64_t ld, int64_t rows, double factor, const double *scale,
                            bool inverse, cudaStream_t stream) {
  if (factor == 1 && !scale) return cudaSuccess;
  scale_kernel<<<grid_for(rows, widths), FK_THREADS, 0, stream>>>(data, widths, ld, rows, factor, scale, inverse);
  return cudaGetLastError();
}

static __global__ void ratio_kernel(double *result, int widths, int64_t ld, int64_t rows, const double *mass) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double rounded = result[r], ratio = rounded != 0 ? mass[r] / rounded : 1;
  for (int w = 1; w < widths; w++) result[w * ld + r] *= ratio;
  result[r] = mass[r];
}

cudaError_t fk_finish_ratio(double *result, int widths, int64_t ld, int64_t rows, const double *mass,
                            cudaStream_t stream) {
  ratio_kernel<<<fk_blocks(rows, FK_THREADS), FK_THREADS, 0, stream>>>(result, widths, ld, rows, mass);
  return cudaGetLastError();
}

static __global__ void own_low_kernel(double *result, int widths, int64_t ld, int64_t rows, const __half *lo,
                                      int k, double scale) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int w = 1; w < widths; w++)
    result[w * ld + r] += result[r] * scale * (double)__half2float(lo[r * k + w - 1]);
}

cudaError_t fk_finish_own_low(double *result, int widths, int64_t ld, int64_t rows,
                              const struct fk_tensor_points *points, double scale, cudaStream_t stream) {
  own_low_kernel<<<fk_blocks(rows, FK_THREADS), FK_THREADS, 0, stream>>>(result, widths, ld, rows, points->lo,
                                                                         points->k, scale);
  return cudaGetLastError();
}

static __global__ void shift_kernel(double *shift, int64_t rows) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows && !isfinite(shift[r])) shift[r] = 0;
}

cudaError_t fk_finish_shift(double *shift, int64_t rows, cudaStream_t stream) {
  shift_kernel<<<fk_blocks(rows, FK_THREADS), FK_THREADS, 0, stream>>>(shift, rows);
  return cudaGetLastError();
}

static __global__ void logs_kernel(double *mass, int64_t rows, double threshold) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) mass[r] = fabs(mass[r]) >= threshold ? log(fabs(mass[r])) : NAN;
}

cudaError_t fk_finish_logs(double *mass, int64_t rows, double threshold, cudaStream_t stream) {
  logs_kernel<<<fk_blocks(rows, FK_THREADS), FK_THREADS, 0, stream>>>(mass, rows, threshold);
  return cudaGetLastError();
}

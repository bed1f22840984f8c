/* Whitening on the device, u = L^-1 (x - centre), and the extent of the points. Twin of core/whiten.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../device/doubled.cuh"
#include "points.cuh"

enum fk_status fk_cuda_whitening_init(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer,
                                      const struct fk_whitening *host, struct fk_cuda_whitening *whitening,
                                      struct fk_error *err) {
  int64_t d = host->d, numbers = d + d * d;
  fk_host_array<double> both(numbers);
  double *data;
  if (!both.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  if (host->centre) memcpy(both.at, host->centre, sizeof *data * (size_t)d);
  memcpy(both.at + d, host->dense ? host->dense : host->chol, sizeof *data * (size_t)(d * d));
  FK_TRY(fk_cuda_send(context, buffer, fk_doubles(both.at, numbers, 1), &data, err));
  *whitening = (struct fk_cuda_whitening){host, data, data + d};
  return FK_STATUS_OK;
}

static __global__ void diagonal_kernel(const double *raw, int64_t ld_raw, const double *centre, const double *L,
                                       double *u, int64_t n, int64_t ld, int d) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= ld) return;
  for (int k = blockIdx.y; k < d; k += gridDim.y) {
    double scale = 1 / L[k + (int64_t)k * d];
    u[k * ld + i] = i < n ? (raw[k * ld_raw + i] - centre[k]) * scale : 0;
  }
}

/* A block holds `width` points in shared memory, [d][width]; 256 / width threads work on each point. */
static __global__ void matrix_kernel(const double *raw, int64_t ld_raw, const double *centre, const double *A,
                                     bool solve, const struct fk_cuda_points to, int width) {
  const int64_t n = to.n, ld = to.ld;
  const int d = to.d;
  extern __shared__ double points[];
  int p = threadIdx.x % width, lane = threadIdx.x / width, lanes = blockDim.x / width;
  int64_t i = (int64_t)blockIdx.x * width + p;
  for (int k = lane; k < d; k += lanes)
    points[k * width + p] = i < n ? raw[k * ld_raw + i] - (centre ? centre[k] : 0) : 0;
  __syncthreads();
  for (int k = 0; solve && k < d; k++) { /* column by column of the lower factor */
    double pivot = points[k * width + p] / A[k + (int64_t)k * d];
    for (int r = k + 1 + lane; r < d; r += lanes) points[r * width + p] -= A[r + (int64_t)k * d] * pivot;
    __syncthreads();
    if (lane == 0) points[k * width + p] = pivot;
    __syncthreads();
  }
  if (i >= ld) return;
  for (int k = lane; k < d; k += lanes) {
    double sum = 0;
    for (int l = 0; !solve && l < d; l++) sum += A[k + (int64_t)l * d] * points[l * width + p];
    to.u[k * ld + i] = solve ? points[k * width + p] : sum;
  }
}

static enum fk_status launch_matrix(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                                    bool solve, const double *raw, int64_t ld_raw, struct fk_cuda_points *points,
                                    struct fk_error *err) {
  int d = points->d, width = 16;
  while (width > 1 && sizeof(double) * (size_t)(d * width) > 48 << 10) width /= 2;
  size_t bytes = sizeof(double) * (size_t)(d * width);
  FK_CUDA_TRY(cudaFuncSetAttribute(matrix_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
  matrix_kernel<<<fk_blocks(points->ld, width), FK_THREADS, bytes, context->stream>>>(
      raw, ld_raw, whitening->centre, whitening->matrix, solve, *points, width);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_cuda_multiply(struct fk_cuda_context *context, const double *A, const double *raw,
                                int64_t ld_raw, struct fk_cuda_points *points, struct fk_error *err) {
  struct fk_cuda_whitening matrix = {NULL, NULL, A};
  return launch_matrix(context, &matrix, false, raw, ld_raw, points, err);
}

enum fk_status fk_cuda_whiten(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                              const double *raw, int64_t ld_raw, struct fk_cuda_points *points,
                              struct fk_error *err) {
  const struct fk_whitening *host = whitening->host;
  if (!host->diagonal || host->dense)
    return launch_matrix(context, whitening, !host->dense, raw, ld_raw, points, err);
  dim3 grid(fk_blocks(points->ld, FK_THREADS), (unsigned)fk_smaller(points->d, 64));
  diagonal_kernel<<<grid, FK_THREADS, 0, context->stream>>>(raw, ld_raw, whitening->centre, whitening->matrix,
                                                            points->u, points->n, points->ld, points->d);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_cuda_bring(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                             const struct fk_cuda_whitening *whitening, const struct fk_matrix *x, double **raw,
                             struct fk_cuda_points *points, struct fk_error *err) {
  points->n = x->n;
  points->d = (int)x->d;
  FK_TRY(fk_cuda_take(context, arena, points->ld * x->d, &points->u, err));
  FK_TRY(fk_cuda_send_to(context, arena, *x, raw, err));
  return fk_cuda_whiten(context, whitening, *raw, x->n, points, err);
}

/* ---- low parts -------------------------------------------------------------------------------- */

enum way { DIAGONAL, SOLVE, MULTIPLY };

/* Coordinate k of point i. SOLVE reads the coordinates before k, which must be there. */
template <enum way WAY>
static __device__ struct doubled coordinate_of(const double *raw, int64_t ld_raw, const double *centre,
                                               const double *A, const struct fk_cuda_points &to, int64_t i,
                                               int k) {
  struct doubled x = {0, 0};
  for (int l = 0; l < to.d && WAY == MULTIPLY; l++)
    x = minus_product(x, -A[k + (int64_t)l * to.d], sum_of(raw[l * ld_raw + i], -centre[l]));
  if (WAY == MULTIPLY) return x;
  x = sum_of(raw[k * ld_raw + i], -centre[k]);
  for (int l = 0; l < k && WAY == SOLVE; l++)
    x = minus_product(x, A[k + (int64_t)l * to.d], sum_of(to.u[l * to.ld + i], to.low[l * to.ld + i]));
  return product_of(x, 1 / A[k + (int64_t)k * to.d]);
}

/* One thread for each point and, except for SOLVE, for each group of its coordinates. */
template <enum way WAY>
static __global__ void low_kernel(const double *raw, int64_t ld_raw, const double *centre, const double *A,
                                  const struct fk_cuda_points to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= to.ld) return;
  for (int k = blockIdx.y; k < to.d; k += gridDim.y) {
    double lacks = 0;
    if (i < to.n) {
      struct doubled x = coordinate_of<WAY>(raw, ld_raw, centre, A, to, i, k);
      lacks = (x.high - to.u[k * to.ld + i]) + x.low;
    }
    to.low[k * to.ld + i] = isfinite(lacks) ? lacks : 0;
  }
}

enum fk_status fk_cuda_whiten_low(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                                  const double *raw, int64_t ld_raw, const struct fk_cuda_points *points,
                                  struct fk_error *err) {
  const struct fk_whitening *host = whitening->host;
  const double *centre = whitening->centre, *A = whitening->matrix;
  const bool solves = !host->dense && !host->diagonal;
  dim3 grid(fk_blocks(points->ld, FK_THREADS), solves ? 1 : (unsigned)fk_smaller(points->d, 64));
  if (host->dense)
    low_kernel<MULTIPLY><<<grid, FK_THREADS, 0, context->stream>>>(raw, ld_raw, centre, A, *points);
  else if (solves)
    low_kernel<SOLVE><<<grid, FK_THREADS, 0, context->stream>>>(raw, ld_raw, centre, A, *points);
  else
    low_kernel<DIAGONAL><<<grid, FK_THREADS, 0, context->stream>>>(raw, ld_raw, centre, A, *points);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- how far they reach ----------------------------------------------------------------------- */

/* Each block writes its largest value to host memory, which saves a copy. The maximum does not depend on the
 * order. */
static __global__ void radius_kernel(const double *u, int64_t n, int64_t ld, int d, double *largest_of_block) {
  __shared__ double of_warp[FK_THREADS / 32];
  double largest = 0;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    double square = 0;
    for (int k = 0; k < d; k++) square += u[k * ld + i] * u[k * ld + i];
    largest = fmax(largest, square);
  }
  for (int step = 16; step > 0; step /= 2) largest = fmax(largest, __shfl_xor_sync(~0u, largest, step));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < FK_THREADS / 32 && threadIdx.x == 0; w++) largest = fmax(largest, of_warp[w]);
  if (threadIdx.x == 0) largest_of_block[blockIdx.x] = largest;
}

static int radius_blocks(const struct fk_cuda_context *context, int64_t n) {
  return (int)fk_smaller(fk_blocks(n, FK_THREADS), fk_smaller(2 * context->multiprocessors, FK_RADIUS_ANSWERS));
}

enum fk_status fk_cuda_find_radius2(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                    struct fk_error *err) {
  radius_kernel<<<radius_blocks(context, points->n), FK_THREADS, 0, context->stream>>>(
      points->u, points->n, points->ld, points->d, context->answers);
  return FK_CUDA_STATUS(cudaGetLastError());
}

double fk_cuda_radius2(const struct fk_cuda_context *context, const struct fk_cuda_points *points) {
  const int blocks = radius_blocks(context, points->n);
  double radius2 = 0;
  for (int i = 0; i < blocks; i++) radius2 = fmax(radius2, context->answers[i]);
  return radius2;
}

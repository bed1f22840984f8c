/* What must be known of the points before a grid is made: their extent, which bins they occupy, and how large b
 * is. */
#include <math.h>
#include <string.h>

#include "grid.cuh"

/* The inverse of L, or the matrix itself, in units of cells. */
enum fk_status fk_grid_map_init(const struct fk_whitening *w, double spacing, struct fk_grid_map *map,
                                struct fk_error *err) {
  int d = (int)w->d;
  if (w->d < 1 || w->d > FK_GRID_MAX_D)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the grid is for 1 to %d dimensions", FK_GRID_MAX_D);
  *map = (struct fk_grid_map){};
  map->d = d;
  for (int k = 0; k < d; k++) map->centre[k] = w->centre[k];
  for (int c = 0; c < d; c++)
    for (int k = 0; k < d; k++) {
      if (w->dense) {
        map->matrix[k][c] = w->dense[k + c * d] / spacing;
        continue;
      }
      double sum = k == c ? 1 / spacing : 0;
      for (int l = c; l < k; l++) sum -= w->chol[k + l * d] * map->matrix[l][c];
      map->matrix[k][c] = k < c ? 0 : sum / w->chol[k + k * d];
    }
  return FK_STATUS_OK;
}

/* ---- extent ----------------------------------------------------------------------------------- */

/* Extent of each block's points, written to host memory: [block][low, high][d]. */
template <int D>
static __global__ void extent_kernel(const __grid_constant__ struct fk_grid_map map,
                                     const struct fk_grid_raw points, double *of_block) {
  __shared__ double of_warp[2 * D][FK_THREADS / 32];
  double reach[2 * D];
#pragma unroll
  for (int k = 0; k < 2 * D; k++) reach[k] = INFINITY;
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < points.n;
       i += (int64_t)gridDim.x * FK_THREADS) {
    double y[D];
    fk_grid_place<D>(map, points.x, points.ld, i, y);
#pragma unroll
    for (int k = 0; k < D; k++) {
      bool bad = !isfinite(y[k]);
      reach[k] = fmin(reach[k], bad ? -INFINITY : y[k]);
      reach[D + k] = fmin(reach[D + k], bad ? -INFINITY : -y[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < 2 * D; k++) {
    for (int step = 16; step > 0; step /= 2) reach[k] = fmin(reach[k], __shfl_xor_sync(~0u, reach[k], step));
    if (threadIdx.x % 32 == 0) of_warp[k][threadIdx.x / 32] = reach[k];
  }
  __syncthreads();
  if (threadIdx.x < 2 * D) {
    double least = INFINITY;
    for (int w = 0; w < FK_THREADS / 32; w++) least = fmin(least, of_warp[threadIdx.x][w]);
    of_block[blockIdx.x * 2 * D + threadIdx.x] = threadIdx.x < D ? least : -least;
  }
}

enum fk_status fk_grid_extent(struct fk_cuda_context *context, const struct fk_grid_map *map,
                              const struct fk_grid_raw *points, double *low, double *high, struct fk_error *err) {
  int d = map->d, blocks = (int)fk_smaller(fk_blocks(points->n, FK_THREADS), 8 * context->multiprocessors);
  double *of_block = (double *)context->staging[0];
  if (points->n == 0) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaEventSynchronize(context->staged[0]));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  fk_with_constant<1, FK_GRID_MAX_D>(d, [&](auto dim) {
    extent_kernel<decltype(dim)::value><<<blocks, FK_THREADS, 0, context->stream>>>(*map, *points, of_block);
  });
  FK_CUDA_TRY(cudaGetLastError());
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  for (int b = 0; b < blocks; b++)
    for (int k = 0; k < d; k++) {
      low[k] = fmin(low[k], of_block[b * 2 * d + k]);
      high[k] = fmax(high[k], of_block[b * 2 * d + d + k]);
    }
  return FK_STATUS_OK;
}

/* ---- marks ------------------------------------------------------------------------------------ */

template <int D>
static __global__ void mark_kernel(const __grid_constant__ struct fk_grid_map map, const struct fk_grid_raw points,
                                   const __grid_constant__ struct fk_grid_bins bins, unsigned char *marks) {
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < points.n;
       i += (int64_t)gridDim.x * FK_THREADS) {
    double y[D];
    fk_grid_place<D>(map, points.x, points.ld, i, y);
#pragma unroll
    for (int k = 0; k < D; k++) {
      int64_t bin = ((int64_t)floor(y[k]) - bins.origin[k]) / bins.cells[k];
      unsigned char *mark = marks + (size_t)k * bins.bins + bin;
      if (bin >= 0 && bin < bins.bins && !*mark) *mark = 1;
    }
  }
}

enum fk_status fk_grid_mark(struct fk_cuda_context *context, const struct fk_grid_map *map,
                            const struct fk_grid_raw *points, const struct fk_grid_bins *bins,
                            unsigned char *marks, struct fk_error *err) {
  int d = map->d, blocks = (int)fk_smaller(fk_blocks(points->n, FK_THREADS), 8 * context->multiprocessors);
  size_t bytes = (size_t)d * (size_t)bins->bins;
  unsigned char *on_device;
  if (points->n == 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &context->grid->survey, (int64_t)bytes, &on_device, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_CUDA_TRY(cudaMemsetAsync(on_device, 0, bytes, context->stream));
  fk_with_constant<1, FK_GRID_MAX_D>(d, [&](auto dim) {
    mark_kernel<decltype(dim)::value><<<blocks, FK_THREADS, 0, context->stream>>>(*map, *points, *bins, on_device);
  });
  FK_CUDA_TRY(cudaGetLastError());
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  for (size_t first = 0; first < bytes; first += FK_STAGING_BYTES) {
    size_t here = (size_t)fk_smaller((int64_t)(bytes - first), FK_STAGING_BYTES);
    FK_CUDA_TRY(cudaEventSynchronize(context->staged[0]));
    FK_CUDA_TRY(
        cudaMemcpyAsync(context->staging[0], on_device + first, here, cudaMemcpyDeviceToHost, context->stream));
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    for (size_t i = 0; i < here; i++) marks[first + i] |= (unsigned char)context->staging[0][i];
  }
  return FK_STATUS_OK;
}

/* ---- b ---------------------------------------------------------------------------------------- */

static __global__ void exponents_kernel(const double *b, int64_t ld, int64_t n, unsigned long long *counts) {
  __shared__ unsigned here[FK_GRID_EXPONENTS];
  b += blockIdx.y * ld;
  counts += (size_t)blockIdx.y * FK_GRID_EXPONENTS;
  for (int e = threadIdx.x; e < FK_GRID_EXPONENTS; e += FK_THREADS) here[e] = 0;
  __syncthreads();
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * FK_THREADS)
    if (b[i] != 0) atomicAdd(&here[(unsigned)__double2hiint(b[i]) >> 20 & 2047], 1u);
  __syncthreads();
  for (int e = threadIdx.x; e < FK_GRID_EXPONENTS; e += FK_THREADS)
    if (here[e]) atomicAdd(&counts[e], (unsigned long long)here[e]);
}

enum fk_status fk_grid_exponents(struct fk_cuda_context *context, const double *b, int64_t ld, int64_t n,
                                 int64_t columns, unsigned long long *counts, struct fk_error *err) {
  const int64_t most = fk_smaller(columns, 256); /* in one transfer; the staging buffer has room */
  unsigned blocks = (unsigned)fk_smaller(fk_blocks(n, FK_THREADS), 4 * context->multiprocessors);
  unsigned long long *on_device;
  if (n == 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &context->grid->survey, most * FK_GRID_EXPONENTS, &on_device, err));
  for (int64_t first = 0; first < columns; first += most) {
    int64_t here = fk_smaller(most, columns - first), items = here * FK_GRID_EXPONENTS;
    size_t bytes = sizeof *on_device * (size_t)items;
    FK_CUDA_TRY(cudaEventSynchronize(context->staged[0]));
    if (first == 0) FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    FK_CUDA_TRY(cudaMemsetAsync(on_device, 0, bytes, context->stream));
    exponents_kernel<<<dim3(blocks, (unsigned)here), FK_THREADS, 0, context->stream>>>(b + first * ld, ld, n,
                                                                                       on_device);
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_CUDA_TRY(cudaMemcpyAsync(context->staging[0], on_device, bytes, cudaMemcpyDeviceToHost, context->stream));
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    for (int64_t i = 0; i < items; i++)
      counts[first * FK_GRID_EXPONENTS + i] += ((unsigned long long *)context->staging[0])[i];
  }
  return FK_STATUS_OK;
}

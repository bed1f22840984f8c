/* Some rows' sums of all pairs, in double: what a grid's results are checked against. */
#include "grid.cuh"

enum { THREADS = 256, ROWS = 8, VALUES = 2 * ROWS };

/* Of ROWS rows, y, in the map's coordinates: [block][sum of b k, sum of |b| k][row], straight to the host's
 * memory. */
struct rows_of {
  double y[ROWS][FK_CUDA_GRID_D];
};

template <int D>
static __global__ void rows_kernel(const __grid_constant__ struct fk_grid_map map, const struct fk_grid_raw points,
                                   const double *b, const __grid_constant__ struct rows_of rows,
                                   const double3 factor, double *of_block) {
  __shared__ double of_warp[VALUES][THREADS / 32];
  double sum[VALUES];
#pragma unroll
  for (int v = 0; v < VALUES; v++) sum[v] = 0;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < points.n; i += (int64_t)gridDim.x * THREADS) {
    double x[D], weight = b ? b[i] : 1;
    fk_grid_place<D>(map, points.x, points.ld, i, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      double half = 0;
#pragma unroll
      for (int k = 0; k < D; k++) half += (x[k] - rows.y[r][k]) * (x[k] - rows.y[r][k]);
      half /= 2;
      double k = exp(-half) * (factor.x + half * (factor.y + half * factor.z));
      sum[r] += weight * k;
      sum[ROWS + r] += fabs(weight) * k;
    }
  }
#pragma unroll
  for (int v = 0; v < VALUES; v++) {
    for (int step = 16; step > 0; step /= 2) sum[v] += __shfl_xor_sync(~0u, sum[v], step);
    if (threadIdx.x % 32 == 0) of_warp[v][threadIdx.x / 32] = sum[v];
  }
  __syncthreads();
  if (threadIdx.x < VALUES) {
    double total = 0;
    for (int w = 0; w < THREADS / 32; w++) total += of_warp[threadIdx.x][w];
    of_block[blockIdx.x * VALUES + threadIdx.x] = total;
  }
}

/* y of row r: matrix (row - centre) */
static void place(const struct fk_grid_map *map, const struct fk_points *rows, int64_t r, double *y) {
  for (int k = 0; k < map->d; k++) {
    y[k] = 0;
    for (int l = 0; l < map->d; l++) y[k] += map->matrix[k][l] * (rows->data[l * rows->n + r] - map->centre[l]);
  }
}

enum fk_status fk_grid_add_rows(struct fk_cuda_context *context, const struct fk_grid_map *map,
                                const struct fk_grid_raw *points, const double *b, const struct fk_points *rows,
                                const double factor[3], double *sums, double *absolute, struct fk_error *err) {
  int blocks = (int)fk_smaller(fk_blocks(points->n, THREADS), 4 * context->multiprocessors);
  double *of_block = (double *)context->staging[0];
  double3 f = {factor[0], factor[1], factor[2]};
  for (int64_t first = 0; first < rows->n && points->n > 0; first += ROWS) {
    struct rows_of here = {};
    int64_t count = fk_smaller(ROWS, rows->n - first);
    for (int64_t r = 0; r < count; r++) place(map, rows, first + r, here.y[r]);
    FK_CUDA_TRY(cudaEventSynchronize(context->staged[0]));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    switch (map->d) {
      case 1: rows_kernel<1><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      case 2: rows_kernel<2><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      case 3: rows_kernel<3><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      case 4: rows_kernel<4><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      case 5: rows_kernel<5><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      case 6: rows_kernel<6><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
      default: rows_kernel<7><<<blocks, THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block); break;
    }
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    for (int k = 0; k < blocks; k++)
      for (int64_t r = 0; r < count; r++) {
        sums[first + r] += of_block[k * VALUES + r];
        absolute[first + r] += of_block[k * VALUES + ROWS + r];
      }
  }
  return FK_STATUS_OK;
}

/* Packs points for FP64 sums on tensor cores. */
#include <math.h>

#include "../device/exp2.cuh"
#include "pack.cuh"

enum { THREADS = 128 };
/* An exponent far below all others, for columns of weight 0 and rows so far out that they have no kernels. It
 * stays in the range that exp2_above() needs for t. */
#define FAR (-1e6)

/* Packs point i; returns -|x|^2/2 of the packed coordinates. */
static __device__ double pack_point(const struct fk_cuda_points &points, int64_t i,
                                    const struct fk_dmma_points &to) {
  double square = 0;
  for (int k = 0; k < to.k; k++)
    for (int q = 0; q < 8; q++) {
      double x = 8 * k + q < points.d ? points.u[(8 * k + q) * points.ld + i] * sqrt(FK_LOG2E) : 0;
      to.octets[(k * to.ld + i) * 8 + q] = x;
      square += x * x;
    }
  return -square / 2;
}

static __global__ void cols_kernel(const struct fk_cuda_points points, const struct fk_dmma_cols cols) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points.ld) return;
  double offset = pack_point(points, i, cols.to), weight = i < points.n ? 1 : 0;
  if (cols.weights && i < points.n) weight = cols.weights[i] / cols.scale;
  if (cols.weight) cols.weight[i] = weight;
  cols.offset[i] = weight == 0 ? FAR : cols.weight ? offset : offset + log2(weight);
}

cudaError_t fk_dmma_pack_cols(const struct fk_cuda_points *points, const struct fk_dmma_cols *cols,
                              cudaStream_t stream) {
  cols_kernel<<<fk_blocks(points->ld, THREADS), THREADS, 0, stream>>>(*points, *cols);
  return cudaGetLastError();
}

static __global__ void rows_kernel(const struct fk_cuda_points points, const struct fk_dmma_rows rows) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points.ld) return;
  double norm = pack_point(points, i, rows.to);
  if (!(norm > FAR)) {
    for (int k = 0; k < rows.to.k; k++)
      for (int q = 0; q < 8; q++) rows.to.octets[(k * rows.to.ld + i) * 8 + q] = 0;
    norm = FAR;
  }
  double magic = EXP2_MAGIC + norm;
  rows.magic[i] = magic;
  rows.undo[i] = exp2(norm - (magic - EXP2_MAGIC));
  if (rows.norm) rows.norm[i] = norm;
}

cudaError_t fk_dmma_pack_rows(const struct fk_cuda_points *points, const struct fk_dmma_rows *rows,
                              cudaStream_t stream) {
  rows_kernel<<<fk_blocks(points->ld, THREADS), THREADS, 0, stream>>>(*points, *rows);
  return cudaGetLastError();
}

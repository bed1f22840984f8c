/* Leave-one-out sums of an SD-KDE by mma.sync; see sums_loo.cuh. A warp computes the exponents of its rows with 16
 * sources and with the means of these sources, as sums_mma.cu does. Stages of means come first in shared memory.
 */
#include "sums_loo.cuh"

#include "mma_block.cuh"

/* Of a smaller s eps does not change 1 - eps. */
#define LEAST_S -14.5f

static __device__ __forceinline__ float reciprocal(float x) {
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

template <int STEPS>
struct loo_block {
  typedef struct mma_block<STEPS, 0, false, true> mma;
  typedef struct mma_shape<STEPS, 0, false> shape;
  static const int MT = shape::tiles;

  mma means, sources;
  struct fk_loo_numbers row[MT][2];
  const struct fk_loo_numbers *columns;

  __device__ __forceinline__ loo_block(const struct fk_loo_tensor &a, char *shared)
      : means(a.means, shared), sources(a.sources, shared + 2 * shape::stage_bytes) {
    columns = a.columns;
    means.load_rows();
    means.clear();
#pragma unroll
    for (int m = 0; m < MT; m++)
      for (int half = 0; half < 2; half++) row[m][half] = a.rows[means.row(m, half)];
  }

  __device__ __forceinline__ void fetch(int stage, int64_t col) {
    means.fetch_points(stage, col, 0);
    sources.fetch_points(stage, col, 0);
  }

  /* Exponents of columns b .. b + 15 of a stage; those of the sources are the third and fourth. */
  __device__ __forceinline__ void exponents(float (*e)[2][4], int stage, int b) {
#pragma unroll
    for (int m = 0; m < MT; m++) means.start(e[m], m, means.offsets(stage), b);
    means.exponents(e, stage, b);
  }

  /* t = f^2 t, where any f of the warp differs from 1. */
  __device__ __forceinline__ void stretch(float (*t)[2][4], const float (*s)[2][4], int64_t col) const {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < 8 * MT; i++) largest = fmaxf(largest, s[i / 8][i / 4 % 2][i % 4]);
    if (!__any_sync(~0u, largest > LEAST_S)) return;
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const float4 both = *(const float4 *)(columns + col + 8 * n + 2 * means.t);
#pragma unroll
      for (int i = 0; i < 4 * MT; i++) {
        const struct fk_loo_numbers of_row = row[i / 4][i / 2 % 2];
        float eps = exp2_fast(fmaf(2.0f, s[i / 4][n][i % 4], of_row.s + (i % 2 ? both.z : both.x)));
        float f = reciprocal(1.0f - eps), before = t[i / 4][n][i % 4];
        t[i / 4][n][i % 4] = fmaf(fmaf(f, f, -1.0f), before + (of_row.t + (i % 2 ? both.w : both.y)), before);
      }
    }
  }

  /* Omits the pairs of points with themselves. */
  __device__ __forceinline__ void leave_out(float (*t)[2][4], int64_t col) const {
    const int64_t to_diagonal = means.row0 + means.self - col;
    if (means.self == INT64_MIN || to_diagonal <= -16 * MT || to_diagonal >= 16) return;
    const int diagonal = (int)to_diagonal + means.g;
#pragma unroll
    for (int i = 0; i < 8 * MT; i++)
      if (diagonal + i / 8 * 16 + i / 2 % 2 * 8 == i / 4 % 2 * 8 + 2 * means.t + i % 2)
        t[i / 8][i / 4 % 2][i % 4] = -INFINITY;
  }

  /* Multiplies kernels by the weights of their columns. */
  __device__ __forceinline__ void weigh(float (*kernel)[2][4], int64_t col) const {
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const float2 w = *(const float2 *)(means.a.weight + col + 8 * n + 2 * means.t);
#pragma unroll
      for (int i = 0; i < 4 * MT; i++) kernel[i / 4][n][i % 4] *= i % 2 ? w.y : w.x;
    }
  }

  __device__ __forceinline__ void do_stage(int stage, int64_t col) {
#pragma unroll 1
    for (int b = 0; b < STAGE; b += 16) {
      float t[MT][2][4], s[MT][2][4];
      exponents(s, stage + 2, b);
      exponents(t, stage, b);
      stretch(t, s, col + b);
      leave_out(t, col + b);
#pragma unroll
      for (int m = 0; m < MT; m++) means.to_kernels(t[m], m, col + b);
      weigh(t, col + b);
      means.add_mass(t);
    }
  }
};

template <int STEPS>
static __global__ void __launch_bounds__(THREADS) loo_kernel(const struct fk_loo_tensor a) {
  extern __shared__ __align__(16) char shared[];
  struct loo_block<STEPS> block(a, shared);
  const int64_t begin = block.means.begin, end = block.means.end;
  block.fetch(0, begin);
  copy_commit();
  for (int64_t col = begin; col < end; col += STAGE) {
    int stage = (int)((col - begin) / STAGE) & 1;
    if (col + STAGE < end) block.fetch(stage ^ 1, col + STAGE);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    block.do_stage(stage, col);
    if ((col + STAGE - begin) % FK_TENSOR_FLUSH == 0 || col + STAGE >= end) block.means.flush(false);
    __syncthreads();
  }
  block.means.store_mass();
}

template <int STEPS>
static cudaError_t launch(const struct fk_loo_tensor *task, cudaStream_t stream) {
  typedef struct mma_shape<STEPS, 0, false> shape;
  const int bytes = 4 * shape::stage_bytes;
  cudaError_t code = cudaFuncSetAttribute(loo_kernel<STEPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (code != cudaSuccess) return code;
  dim3 grid(fk_blocks(task->means.n_rows, shape::rows), (unsigned)task->means.slots);
  loo_kernel<STEPS><<<grid, THREADS, (size_t)bytes, stream>>>(*task);
  return cudaGetLastError();
}

cudaError_t fk_loo_tensor_launch(const struct fk_loo_tensor *task, cudaStream_t stream) {
  return fk_with_constant<1, FK_LOO_WIDE / 16>(
      task->means.cols.k / 16, [=](auto steps) { return launch<decltype(steps)::value>(task, stream); });
}

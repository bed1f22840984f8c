/* Finds the centres of frames: greedily, on a sample of the points, the ball that takes most of the remaining
 * points. Which points are in the ball about which candidate is computed once, as bits, in float; the frames
 * themselves are made in double. */
#include <cooperative_groups.h>

#include "frames.cuh"

/* SAMPLE: largest sample; plus the common centre, a power of two. The sample has 1 / SHARE of the points, but at
 * least LEAST_SAMPLE. */
enum { ROWS = 32, SAMPLE = 4095, LEAST_SAMPLE = 1023, SHARE = 8 };
enum { LEAST = 2 /* fewest points of a frame */ };

/* Candidate 0 is the common centre, which is best if points reach slightly too far; candidate i is point i - 1. */
struct centre_sample {
  int count, d, words; /* 32-bit words of a candidate */
  int64_t ld;
  float *u;                 /* [d][ld] */
  unsigned *near;           /* [candidate][word]: a bit for each point that the candidate's frame would include */
  unsigned long long *best; /* [frame] */
};

static __device__ int64_t point_of(const struct centre_sample &s, const struct fk_cuda_points &points,
                                   int candidate) {
  return (int64_t)(candidate - 1) * points.n / s.count;
}

static __global__ void sample_kernel(const struct fk_cuda_points points, const struct centre_sample s) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.ld) return;
  const bool drawn = i > 0 && i <= s.count;
  const int64_t from = drawn ? point_of(s, points, i) : 0;
  for (int k = blockIdx.y; k < s.d; k += gridDim.y)
    s.u[k * s.ld + i] = drawn ? (float)points.u[k * points.ld + from] : 0;
}

/* A thread has a point; a block has some candidates. */
static __global__ void near_kernel(const struct centre_sample s, float radius2) {
  __shared__ float rows[FK_TENSOR_WIDE][ROWS];
  const int row0 = blockIdx.y * ROWS, j = blockIdx.x * FK_THREADS + threadIdx.x;
  for (int i = threadIdx.x; i < s.d * ROWS; i += FK_THREADS)
    rows[i / ROWS][i % ROWS] = s.u[i / ROWS * s.ld + row0 + i % ROWS];
  __syncthreads();
  float sum[ROWS] = {};
  for (int k = 0; k < s.d; k++) {
    const float x = s.u[k * s.ld + j];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float z = x - rows[k][r];
      sum[r] += z * z;
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    unsigned word = __ballot_sync(~0u, j > 0 && j <= s.count && sum[r] <= radius2);
    if (threadIdx.x % 32 == 0) s.near[(row0 + r) * s.words + j / 32] = word;
  }
}

/* The words of a candidate that belong to a lane. */
static __device__ uint4 words_of(const struct centre_sample &s, int candidate) {
  const int at = threadIdx.x % 32;
  return 4 * at < s.words ? ((const uint4 *)(s.near + (int64_t)candidate * s.words))[at] : make_uint4(0, 0, 0, 0);
}

/* Counts the points left for a candidate. Returns the count and the complement of the candidate's number, so that
 * the first of equals is the largest. By a warp. */
static __device__ unsigned long long count_left(const struct centre_sample &s, uint4 left, int candidate) {
  const uint4 near = words_of(s, candidate);
  int count =
      __popc(near.x & left.x) + __popc(near.y & left.y) + __popc(near.z & left.z) + __popc(near.w & left.w);
  for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(~0u, count, step);
  return (unsigned long long)count << 32 | (unsigned)~candidate;
}

/* All blocks run at once; each warp keeps track of the remaining points. */
static __global__ void choose_kernel(const struct fk_cuda_points points, const struct centre_sample s,
                                     double *centre, int *frames) {
  __shared__ unsigned long long best;
  const int warp = (blockIdx.x * FK_THREADS + threadIdx.x) / 32, warps = gridDim.x * FK_THREADS / 32;
  uint4 left = make_uint4(~0u, ~0u, ~0u, ~0u);
  int f = 0;
  for (; f < FK_FRAMES; f++) {
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    unsigned long long mine = 0;
#pragma unroll 4
    for (int c = warp; c <= s.count; c += warps) mine = max(mine, count_left(s, left, c));
    if (threadIdx.x % 32 == 0) atomicMax(&best, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(s.best + f, best);
    cooperative_groups::this_grid().sync();
    mine = __ldcg(s.best + f);
    if ((mine >> 32) < LEAST) break;
    const int candidate = (int)~(unsigned)mine;
    const uint4 near = words_of(s, candidate);
    left.x &= ~near.x, left.y &= ~near.y, left.z &= ~near.z, left.w &= ~near.w;
    if (blockIdx.x == 0)
      for (int k = threadIdx.x; k < s.d; k += FK_THREADS)
        centre[f * s.d + k] = candidate ? points.u[k * points.ld + point_of(s, points, candidate)] : 0;
  }
  if (warp == 0) *frames = f;
}

static int sample_size(int64_t n) {
  return (int)fk_smaller(n, fk_larger(LEAST_SAMPLE, fk_smaller(n / SHARE, SAMPLE)));
}

enum fk_status fk_cuda_frame_centres(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                     double radius, double *centre, unsigned long long *best, int *count,
                                     struct fk_cuda_arena *arena, struct fk_error *err) {
  struct centre_sample s = {sample_size(points->n), points->d};
  s.ld = fk_padded(s.count + 1, FK_THREADS);
  s.words = (int)(s.ld / 32);
  FK_TRY(fk_cuda_take(context, arena, s.ld * s.d, &s.u, err));
  FK_TRY(fk_cuda_take(context, arena, s.ld * s.words, &s.near, err));
  s.best = best;
  const unsigned blocks = fk_blocks(s.ld, FK_THREADS);
  sample_kernel<<<dim3(blocks, (unsigned)s.d), FK_THREADS, 0, context->stream>>>(*points, s);
  near_kernel<<<dim3(blocks, fk_blocks(s.ld, ROWS)), FK_THREADS, 0, context->stream>>>(s,
                                                                                       (float)(radius * radius));
  FK_CUDA_TRY(cudaGetLastError());
  void *arguments[] = {(void *)points, &s, &centre, &count};
  return FK_CUDA_STATUS(cudaLaunchCooperativeKernel(
      (const void *)choose_kernel, (unsigned)context->multiprocessors, FK_THREADS, arguments, 0, context->stream));
}

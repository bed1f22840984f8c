/* The centre of points on a device; twin of core/whiten.c, which explains the rule. Sums run over parts of fixed
 * length, so that the bits depend on the points alone. */
#include "points.cuh"

enum { PART = 1 << 14 };

/* Distance from the mean, in bandwidths, at which a point counts as pulling the mean away from the others. */
#define WIDE 200

struct centre_extent {
  double sum, low, high, least; /* least: smallest absolute value */
};

static __device__ __forceinline__ double nearer(double a, double b) { return fabs(b) < fabs(a) ? b : a; }

static __device__ __forceinline__ struct centre_extent join(struct centre_extent a, struct centre_extent b) {
  return {a.sum + b.sum, fmin(a.low, b.low), fmax(a.high, b.high), nearer(a.least, b.least)};
}

/* Joins the values of all threads of a block; the first thread has the result. */
static __device__ struct centre_extent join_block(struct centre_extent own) {
  __shared__ struct centre_extent shared[FK_THREADS];
  shared[threadIdx.x] = own;
  __syncthreads();
  for (int step = FK_THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + step]);
    __syncthreads();
  }
  return shared[0];
}

static __device__ __forceinline__ struct centre_extent none() { return {0, INFINITY, -INFINITY, INFINITY}; }

static __device__ __forceinline__ struct centre_extent read_part(const struct centre_extent *part) {
  return {__ldcg(&part->sum), __ldcg(&part->low), __ldcg(&part->high), __ldcg(&part->least)};
}

static __device__ struct centre_extent join_parts(const struct centre_extent *parts, int64_t count) {
  struct centre_extent own = none();
  for (int64_t i = threadIdx.x; i < count; i += FK_THREADS) own = join(own, read_part(parts + i));
  return join_block(own);
}

/* The centre of column k. By one thread. */
static __device__ double centre_of(struct centre_extent all, const struct fk_cuda_whitening &whitening, int k,
                                   int d) {
  double variance = 0;
  for (int l = 0; l <= k; l++) {
    double factor = whitening.matrix[k + (int64_t)l * d];
    variance += factor * factor;
  }
  double distance = WIDE * sqrt(variance);
  bool near = all.sum - all.low <= distance && all.high - all.sum <= distance;
  return near ? all.sum : all.least;
}

/* Is this block the last of its column to arrive? The place of the column's centre, initially 0, counts the
 * blocks. */
static __device__ bool is_last(double *centre) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd((unsigned long long *)centre, 1ull) == gridDim.x - 1;
  }
  __syncthreads();
  return last;
}

/* Weights are divided by their total, *total, first, so that the sum of large coordinates does not overflow. The
 * last block of a column joins its parts (CENTRE). */
template <bool CENTRE>
static __global__ void parts_kernel(const struct fk_cuda_raw raw, const double *total, struct centre_extent *parts,
                                    const struct fk_cuda_whitening whitening) {
  const int k = blockIdx.y;
  int64_t first = (int64_t)blockIdx.x * PART, end = first + PART < raw.n ? first + PART : raw.n;
  double scale = 1 / (total ? *total : (double)raw.n);
  struct centre_extent own = none();
  for (int64_t i = first + threadIdx.x; i < end; i += FK_THREADS) {
    double x = raw.x[k * raw.ld + i];
    own = join(own, {(raw.weights && total ? raw.weights[i] * scale : scale) * x, x, x, x});
  }
  own = join_block(own);
  if (threadIdx.x == 0) parts[(int64_t)k * gridDim.x + blockIdx.x] = own;
  if (!CENTRE || !is_last(whitening.centre + k)) return;
  own = join_parts(parts + (int64_t)k * gridDim.x, gridDim.x);
  if (threadIdx.x == 0) whitening.centre[k] = centre_of(own, whitening, k, raw.d);
}

static __global__ void total_kernel(const struct centre_extent *parts, int64_t count, double n, double *total) {
  struct centre_extent all = join_parts(parts, count);
  if (threadIdx.x == 0) *total = all.sum * n;
}

enum fk_status fk_cuda_centre(struct fk_cuda_context *context, const struct fk_cuda_raw *raw,
                              const struct fk_cuda_whitening *whitening, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct centre_extent *parts;
  int64_t count = fk_pieces(raw->n, PART);
  double *total = NULL;
  FK_TRY(fk_cuda_take(context, &arena, count * raw->d + 1, &parts, err));
  if (raw->weights) { /* the sum of the weights is n times the mean of a column of them */
    struct fk_cuda_raw column = {raw->weights, NULL, raw->n, raw->n, 1};
    total = (double *)(parts + count * raw->d);
    parts_kernel<false><<<dim3((unsigned)count, 1), FK_THREADS, 0, context->stream>>>(column, NULL, parts, {});
    total_kernel<<<1, FK_THREADS, 0, context->stream>>>(parts, count, (double)raw->n, total);
  }
  parts_kernel<true><<<dim3((unsigned)count, (unsigned)raw->d), FK_THREADS, 0, context->stream>>>(
      *raw, total, parts, *whitening);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* See order.cuh. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lists.cuh"
#include "order.cuh"
#include "../device/sort.cuh"

enum { SAMPLE = 512, AXES = 8, QUANTILES = 1024, WINDOW = 128 };

/* ---- pairs of a sample ------------------------------------------------------------------------ */

/* Counts of pairs within the squared reach, and within half of it. */
struct near_pairs {
  int all, half;
};

static __global__ void near_kernel(const struct fk_cuda_points points, double reach, struct near_pairs *counts) {
  const int64_t n = points.n, i = (int64_t)blockIdx.x * n / SAMPLE;
  struct near_pairs mine = {0, 0};
  for (int s = threadIdx.x; s < SAMPLE; s += FK_THREADS) {
    int64_t j = ((int64_t)s * n + n / 2) / SAMPLE; /* halfway between the others */
    double sum = 0;
    for (int k = 0; k < points.d; k++) {
      double z = points.u[k * points.ld + i] - points.u[k * points.ld + j];
      sum += z * z;
    }
    mine.all += sum <= reach;
    mine.half += sum <= reach / 2;
  }
  __shared__ struct near_pairs total;
  if (threadIdx.x == 0) total = {0, 0};
  __syncthreads();
  if (mine.all) atomicAdd(&total.all, mine.all);
  if (mine.half) atomicAdd(&total.half, mine.half);
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/* In the answers, behind those of the radius. */
static struct near_pairs *near_answers(const struct fk_cuda_context *context) {
  static_assert(SAMPLE * sizeof(struct near_pairs) <= (FK_ANSWERS - FK_RADIUS_ANSWERS) * sizeof(double), "room");
  return (struct near_pairs *)(context->answers + FK_RADIUS_ANSWERS);
}

enum fk_status fk_cuda_count_near(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_error *err) {
  near_kernel<<<SAMPLE, FK_THREADS, 0, context->stream>>>(*points, fk_reach_of_one(points->n),
                                                          near_answers(context));
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* Near points fill a ball, whose dimension follows from how their number grows with its radius. Where blocks meet,
 * the ball grows by the radii of a tile of rows and of a stage, taken as balls of that many points. */
double fk_cuda_guess_kept(const struct fk_cuda_context *context, const struct fk_cuda_points *points) {
  const struct near_pairs *counts = near_answers(context);
  const double tile = 64, stage = 256;
  double all = 0, half = 0;
  for (int i = 0; i < SAMPLE; i++) all += counts[i].all, half += counts[i].half;
  double share = fmax(all, 1) / ((double)SAMPLE * SAMPLE), in_reach = fmax(share * (double)points->n, 1);
  double d = fmin(half > 0 ? 2 * log2(all / half) : (double)points->d, (double)points->d);
  if (d <= 0) return share;
  return share * pow(1 + pow(tile / in_reach, 1 / d) + pow(stage / in_reach, 1 / d), d);
}

/* ---- the curve -------------------------------------------------------------------------------- */

/* Coordinate `axis` is cut into 2^bits cells, narrow at its median and wider beyond `spread`. */
struct fk_hilbert_curve {
  int axes, bits, axis[AXES];
  double median[FK_TENSOR_WIDE], width[FK_TENSOR_WIDE],
      spread; /* width: distance of the quantiles an eighth from the ends */
};

/* A block sorts a sample of each coordinate. */
static __global__ void quantile_kernel(const struct fk_cuda_points points, struct fk_hilbert_curve *curve) {
  static_assert(QUANTILES == 4 * FK_THREADS, "two pairs for each thread");
  __shared__ double u[QUANTILES];
  const int k = blockIdx.x;
  for (int i = threadIdx.x; i < QUANTILES; i += FK_THREADS)
    u[i] = points.u[k * points.ld + (int64_t)i * points.n / QUANTILES];
  for (int size = 2; size <= QUANTILES; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int p = threadIdx.x; p < QUANTILES / 2; p += FK_THREADS) {
        int i = 2 * p - p % step, j = i + step;
        double a = u[i], b = u[j];
        if ((a > b) == ((i & size) == 0)) u[i] = b, u[j] = a;
      }
    }
  __syncthreads();
  if (threadIdx.x > 0) return;
  curve->median[k] = u[QUANTILES / 2];
  curve->width[k] = u[QUANTILES * 7 / 8] - u[QUANTILES / 8];
}

static int axes_of(int d) { return d < AXES ? d : AXES; }
static int bits_of(int axes) { return axes < 4 ? 16 : 60 / axes; }

/* Chooses the coordinates of largest spread, all in units of the largest, so that cells are cubes. */
static __global__ void axes_kernel(struct fk_hilbert_curve *curve, int d, int axes, int bits) {
  curve->axes = axes;
  curve->bits = bits;
  for (int a = 0; a < curve->axes; a++) {
    int widest = -1;
    for (int k = 0; k < d; k++) {
      bool taken = false;
      for (int b = 0; b < a; b++) taken |= curve->axis[b] == k;
      if (!taken && (widest < 0 || curve->width[k] > curve->width[widest])) widest = k;
    }
    curve->axis[a] = widest;
  }
  curve->spread = fmax(curve->width[curve->axis[0]], 1.0);
}

/* The place of a cell on the Hilbert curve; Skilling (2004), "Programming the Hilbert curve". */
static __device__ uint64_t place_on_curve(unsigned (&x)[AXES], int axes, int bits) {
  const unsigned top = 1u << (bits - 1);
  for (unsigned q = top; q > 1; q >>= 1)
    for (int a = 0; a < axes; a++) {
      unsigned flip = x[a] & q ? 0 : (x[0] ^ x[a]) & (q - 1);
      x[0] ^= x[a] & q ? q - 1 : flip;
      x[a] ^= flip;
    }
  for (int a = 1; a < axes; a++) x[a] ^= x[a - 1];
  unsigned turn = 0;
  for (unsigned q = top; q > 1; q >>= 1)
    if (x[axes - 1] & q) turn ^= q - 1;
  uint64_t place = 0;
  for (int bit = bits - 1; bit >= 0; bit--)
    for (int a = 0; a < axes; a++) place = place << 1 | ((x[a] ^ turn) >> bit & 1);
  return place;
}

static __global__ void key_kernel(const struct fk_cuda_points points, const struct fk_hilbert_curve *curve,
                                  uint64_t *key, int *index) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points.n) return;
  const int axes = curve->axes, bits = curve->bits;
  unsigned cell[AXES] = {};
  for (int a = 0; a < axes; a++) {
    int k = curve->axis[a];
    double z = (points.u[k * points.ld + i] - curve->median[k]) / curve->spread;
    double at = (1 + z / (1 + fabs(z))) / 2 * (double)(1u << bits);
    cell[a] = (unsigned)fmin(fmax(at, 0.0), (double)((1u << bits) - 1));
  }
  key[i] = place_on_curve(cell, axes, bits);
  index[i] = (int)i;
}

/* ---- orders ----------------------------------------------------------------------------------- */

enum fk_status fk_cuda_order_rows(struct fk_cuda_context *context, const struct fk_cuda_order *order,
                                  const struct fk_cuda_points *rows, uint64_t *key, int *list,
                                  struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  uint64_t *own;
  const int64_t n = rows->n;
  FK_TRY(fk_cuda_take(context, &arena, n + (n + 1) / 2, &own, err));
  int *index = (int *)(own + n);
  key_kernel<<<fk_blocks(n, FK_THREADS), FK_THREADS, 0, context->stream>>>(*rows, order->curve, own, index);
  FK_CUDA_TRY(cudaGetLastError());
  const int axes = axes_of(rows->d);
  struct fk_cuda_sort by_key = {own, key, index, list, n, axes * bits_of(axes)};
  return fk_cuda_sort(context, &by_key, err);
}

enum fk_status fk_cuda_order_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_cuda_order *order, struct fk_error *err) {
  const int64_t n = points->n, curve_bytes = fk_padded(sizeof(struct fk_hilbert_curve), 256),
                key_bytes = fk_padded(8 * n, 256);
  char *block;
  FK_TRY(fk_cuda_room(context, &order->buffer, curve_bytes + key_bytes + fk_padded(4 * n, 256), &block, err));
  order->curve = (struct fk_hilbert_curve *)block;
  order->key = (uint64_t *)(block + curve_bytes);
  order->order = (int *)(block + curve_bytes + key_bytes);
  quantile_kernel<<<points->d, FK_THREADS, 0, context->stream>>>(*points, order->curve);
  const int axes = axes_of(points->d);
  axes_kernel<<<1, 1, 0, context->stream>>>(order->curve, points->d, axes, bits_of(axes));
  FK_CUDA_TRY(cudaGetLastError());
  return fk_cuda_order_rows(context, order, points, order->key, order->order, err);
}

void fk_cuda_order_free(struct fk_cuda_context *context, struct fk_cuda_order *order) {
  fk_cuda_drop(context, &order->buffer);
  memset(order, 0, sizeof *order);
}

/* ---- lower bounds of sums --------------------------------------------------------------------- */

/* The first of n sorted keys that is not below this one. */
static __device__ int64_t find_key(const uint64_t *keys, int64_t n, uint64_t key) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static __global__ void least_kernel(const struct fk_least t) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = t.sources.n;
  if (i >= t.rows.n) return;
  int64_t first = find_key(t.source_key, n, t.row_key[i]) - WINDOW / 2;
  first = max((int64_t)0, min(first, n - WINDOW));
  const int64_t end = min(first + WINDOW, n), own = t.own == INT64_MIN ? -1 : i + t.own;
  float sum = 0;
  for (int64_t j = first; j < end; j++) {
    double square = 0;
    for (int k = 0; k < t.sources.d; k++) {
      double z = t.rows.u[k * t.rows.ld + i] - t.sources.u[k * t.sources.ld + j];
      square += z * z;
    }
    float weight = t.weight ? (float)(t.weight[j] / t.weight_scale) : 1.0f;
    if (j != own) sum += weight * exp2f((float)(-FK_LOG2E / 2 * square));
  }
  t.least[i] = 0.999 * (double)sum;
}

cudaError_t fk_order_least(const struct fk_least *least, cudaStream_t stream) {
  least_kernel<<<fk_blocks(least->rows.n, 128), 128, 0, stream>>>(*least);
  return cudaGetLastError();
}

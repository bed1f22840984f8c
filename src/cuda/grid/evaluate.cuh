/* Interpolates from nodes to targets. Each thread has a point, in the order of the cells, so that the lanes of a
 * warp read the same nodes or nearby ones. Weights of axis 0 are in registers; those of the other axes are in
 * shared memory, where each thread has its own column. */
#ifndef FK_CUDA_GRID_EVALUATE_CUH
#define FK_CUDA_GRID_EVALUATE_CUH

#include "grid.cuh"

struct evaluate_task {
  struct fk_grid_sorted sorted;
  int d, record, outer; /* outer: number of pairs of places in the axes from 2 on */
  unsigned nodes, stride[FK_GRID_MAX_D];
  const void *grid; /* [columns][nodes] */
  int64_t columns;
  double per_cell; /* 1 / spacing: slopes are per cell */
  double *value, *gradient;
  int64_t ld;
};

/* Sums over the rows of axes 0 and 1 at one place in the other axes: the value, and its slopes along both axes. */
template <typename T, int W, bool GRADIENT>
static __device__ __forceinline__ void evaluate_rows(const struct evaluate_task &t, const T *nodes,
                                                     const T *weights, const T *slopes, const T *value,
                                                     const T *slope, T sums[3]) {
  sums[0] = sums[1] = sums[2] = 0;
#pragma unroll
  for (int m = 0; m < W; m++) {
    if (t.d == 1 && m > 0) break;
    T along = 0, sloping = 0;
#pragma unroll
    for (int l = 0; l < W; l++) {
      T node = nodes[l];
      along += value[l] * node;
      if (GRADIENT) sloping += slope[l] * node;
    }
    T w = t.d == 1 ? (T)1 : weights[m * blockDim.x];
    sums[0] += w * along;
    if (GRADIENT) {
      sums[1] += w * sloping;
      if (t.d > 1) sums[2] += slopes[m * blockDim.x] * along;
    }
    nodes += t.stride[1];
  }
}

/* The result without any source nearby. */
template <bool GRADIENT>
static __device__ __forceinline__ void evaluate_nothing(const struct evaluate_task &t, unsigned index) {
  for (int64_t q = 0; q < t.columns; q++) {
    t.value[q * t.ld + index] = 0;
    for (int k = 0; k < t.d && GRADIENT; k++) t.gradient[(q * t.d + k) * t.ld + index] = 0;
  }
}

/* The next place in the axes from 2 on, four bits each. */
template <typename T, int W>
static __device__ __forceinline__ void evaluate_next(const struct evaluate_task &t, unsigned &place,
                                                     const T *&nodes) {
  for (int k = 0; k + 2 < t.d; k++) {
    place += 1u << 4 * k;
    nodes += t.stride[k + 2];
    if ((place >> 4 * k & 15) < (unsigned)W) break;
    place -= (unsigned)W << 4 * k;
    nodes -= (size_t)W * t.stride[k + 2];
  }
}

/* Writes the weights of the axes from 1 on, and their slopes, to shared memory. */
template <typename T, int W, bool GRADIENT>
static __device__ __forceinline__ void evaluate_weights(int d, const struct fk_grid_window<T, W> &window,
                                                        const T (&f)[8], T *weights, T *slopes) {
  const int threads = (int)blockDim.x;
  T other[W], other_slope[W];
  for (int k = 1; k < d; k++) {
    fk_grid_weights<GRADIENT>(window, fk_grid_pick(f, k), other, other_slope);
#pragma unroll
    for (int l = 0; l < W; l++) {
      weights[((k - 1) * W + l) * threads] = other[l];
      if (GRADIENT) slopes[((k - 1) * W + l) * threads] = other_slope[l];
    }
  }
}

template <typename T, int W, bool GRADIENT>
static __global__ void __launch_bounds__(128)
    evaluate_kernel(const __grid_constant__ struct evaluate_task t,
                    const __grid_constant__ struct fk_grid_window<T, W> window) {
  extern __shared__ __align__(16) char shared[];
  const int threads = (int)blockDim.x, last = FK_GRID_MAX_D - 2; /* the axes from 2 on */
  int i = blockIdx.x * threads + threadIdx.x;
  if (i >= t.sorted.count) return;
  unsigned key = t.sorted.key[i], index = t.sorted.index[i];
  if (key >= t.nodes) return evaluate_nothing<GRADIENT>(t, index);
  T *weights = (T *)shared + threadIdx.x, *slopes = weights + (t.d - 1) * W * threads;
  T f[8], value[W], slope[W];
  fk_grid_load((const T *)t.sorted.fractions, t.record, index, f);
  fk_grid_weights<GRADIENT>(window, f[0], value, slope);
  evaluate_weights<T, W, GRADIENT>(t.d, window, f, weights, slopes);
  for (int64_t q = 0; q < t.columns; q++) {
    const T *nodes = (const T *)t.grid + (size_t)q * t.nodes + key;
    T sum = 0, grad[FK_GRID_MAX_D];
#pragma unroll
    for (int k = 0; k < FK_GRID_MAX_D; k++) grad[k] = 0;
    unsigned place = 0;
    for (int o = 0; o < t.outer; o++) {
      T sums[3], factor = 1;
      evaluate_rows<T, W, GRADIENT>(t, nodes, weights, slopes, value, slope, sums);
      if (GRADIENT) {
        /* the product of all weights, and the products with one of them replaced by its slope */
        T before[last + 1], after = 1;
#pragma unroll
        for (int k = 0; k < last; k++) {
          before[k] = factor;
          if (k + 2 < t.d) factor *= weights[((k + 1) * W + (place >> 4 * k & 15)) * threads];
        }
#pragma unroll
        for (int k = last - 1; k >= 0; k--)
          if (k + 2 < t.d) {
            int at = ((k + 1) * W + (place >> 4 * k & 15)) * threads;
            grad[k + 2] += before[k] * after * slopes[at] * sums[0];
            after *= weights[at];
          }
        grad[0] += factor * sums[1];
        grad[1] += factor * sums[2];
      } else {
        for (int k = 0; k + 2 < t.d; k++) factor *= weights[((k + 1) * W + (place >> 4 * k & 15)) * threads];
      }
      sum += factor * sums[0];
      evaluate_next<T, W>(t, place, nodes);
    }
    t.value[q * t.ld + index] = (double)sum;
    if (GRADIENT) {
#pragma unroll
      for (int k = 0; k < FK_GRID_MAX_D; k++)
        if (k < t.d) t.gradient[(q * t.d + k) * t.ld + index] = (double)grad[k] * t.per_cell;
    }
  }
}

template <typename T, int W>
static enum fk_status evaluate(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                               struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  struct evaluate_task t = {};
  int d = grid->spec.map.d, threads = 128;
  size_t each = sizeof(T) * (size_t)((d - 1) * W * (gradient ? 2 : 1));
  while (threads > 32 && each * threads > 48 << 10) threads /= 2;
  t.sorted = grid->sorted;
  t.d = d;
  t.record = fk_grid_record(d);
  t.outer = 1;
  for (int k = 2; k < d; k++) t.outer *= W;
  t.nodes = grid->target.nodes;
  for (int k = 0; k < d; k++) t.stride[k] = grid->target.axis[k].stride;
  t.grid = grid->out;
  t.columns = grid->spec.columns;
  t.per_cell = 1 / grid->spec.window.spacing;
  t.value = value;
  t.gradient = gradient;
  t.ld = ld;
  struct fk_grid_window<T, W> window = fk_grid_window_of<T, W>(grid);
  unsigned blocks = fk_blocks(t.sorted.count, threads);
  if (gradient)
    evaluate_kernel<T, W, true><<<blocks, threads, each * threads, context->stream>>>(t, window);
  else
    evaluate_kernel<T, W, false><<<blocks, threads, each * threads, context->stream>>>(t, window);
  return FK_CUDA_STATUS(cudaGetLastError());
}

#endif

/* Spreads sources to nodes. A warp takes a tile of consecutive sorted points. While the cell stays the same, it
 * sums the nodes of the stencil in registers; when the cell changes, it adds them to the grid, as integers.
 * || The lanes share the stencil's rows (a row has the window's width of nodes along axis 0). If there are fewer
 * rows than lanes, groups of lanes take every second, fourth, ... point. If there are more, a lane has several
 * rows, and other warps, along the second axis of the launch, take the rest. */
#ifndef FK_CUDA_GRID_SPREAD_CUH
#define FK_CUDA_GRID_SPREAD_CUH

#include "grid.cuh"

struct spread_task {
  struct fk_grid_sorted sorted;
  const double *b;
  int64_t ld_b;
  int d, record, tile, lanes, rows; /* lanes of a group, rows of the stencil */
  int one, pitch;                   /* of a point's weights: the place of a 1, and their number */
  unsigned nodes, stride[FK_GRID_MAX_D];
  const double *scale;
  unsigned long long *total;
};

enum { SPREAD_WARPS = 4 };

/* Rows of a lane: 1 or this number. */
constexpr int spread_rows = 4;

template <typename T, int W>
struct spread_sizes {
  static const int vector = 16 / (int)sizeof(T), padded = (W + vector - 1) / vector * vector;
};

/* A row of the stencil: the places of its factors among a point's weights, and its first node. */
struct spread_row {
  int first, second; /* of axes 1 and 2 */
  unsigned rest;     /* of the axes from 3 on: the nodes, four bits each */
  unsigned node;
};

template <typename T, int W>
static __device__ struct spread_row spread_row_of(const struct spread_task &t, int row) {
  const int padded = spread_sizes<T, W>::padded;
  struct spread_row r = {t.one, t.one, 0, 0};
  if (row >= t.rows) row = 0; /* this result is not used */
  for (int k = 1; k < t.d; k++) {
    int l = row % W;
    row /= W;
    r.node += (unsigned)l * t.stride[k];
    if (k == 1) r.first = padded + l;
    if (k == 2) r.second = padded + W + l;
    if (k > 2) r.rest |= (unsigned)l << 4 * (k - 3);
  }
  return r;
}

/* Moves float sums to double after every 32 points: the rounding errors of equal terms, as from ties, all have one
 * sign. Sums in double need no second level. */
template <typename T, int W, int K>
struct spread_sums {
  T acc[K][W];
};
template <int W, int K>
struct spread_sums<float, W, K> {
  float acc[K][W];
  double whole[K][W];
};

template <typename T, int W, int K>
static __device__ void spread_clear(struct spread_sums<T, W, K> &s, int k) {
#pragma unroll
  for (int l = 0; l < W; l++) {
    s.acc[k][l] = 0;
    if constexpr (sizeof(T) == 4) s.whole[k][l] = 0;
  }
}

template <typename T, int W, int K>
static __device__ void spread_fold(struct spread_sums<T, W, K> &s) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int l = 0; l < W; l++) {
        s.whole[k][l] += (double)s.acc[k][l];
        s.acc[k][l] = 0;
      }
  }
}

/* The place of a warp's sums. */
struct spread_to {
  unsigned long long *total;
  double scale;
  int first_row, lane;
};

/* Joins the sums of the groups and adds them to the grid. */
template <typename T, int W, int K>
static __device__ void spread_flush(const struct spread_task &t, const struct spread_row *rows,
                                    const struct spread_to &to, unsigned cell, struct spread_sums<T, W, K> &s) {
#pragma unroll
  for (int k = 0; k < K; k++) {
    double sum[W];
#pragma unroll
    for (int l = 0; l < W; l++) {
      sum[l] = (double)s.acc[k][l];
      if constexpr (sizeof(T) == 4) sum[l] += s.whole[k][l];
      for (int step = t.lanes; step < 32; step *= 2) sum[l] += __shfl_xor_sync(~0u, sum[l], step);
    }
    if (to.lane < t.lanes && to.first_row + k * t.lanes + to.lane < t.rows) {
#pragma unroll
      for (int l = 0; l < W; l++)
        atomicAdd(to.total + cell + rows[k].node + l, (unsigned long long)__double2ll_rn(sum[l] * to.scale));
    }
    spread_clear(s, k);
  }
}

/* Writes a point's weights of all axes to its lane's place in shared memory. */
template <typename T, int W>
static __device__ __forceinline__ void spread_weights(const struct spread_task &t,
                                                      const struct fk_grid_window<T, W> &window, unsigned index,
                                                      T weight, T *own) {
  const int padded = spread_sizes<T, W>::padded;
  T f[8], value[W], slope[1];
  fk_grid_load((const T *)t.sorted.fractions, t.record, index, f);
  fk_grid_weights<false>(window, f[0], value, slope);
#pragma unroll
  for (int l = 0; l < W; l++) own[l] = value[l] * weight;
  for (int k = 1; k < t.d; k++) {
    fk_grid_weights<false>(window, fk_grid_pick(f, k), value, slope);
#pragma unroll
    for (int l = 0; l < W; l++) own[padded + (k - 1) * W + l] = value[l];
  }
}

template <typename T, int W, int K>
static __global__ void __launch_bounds__(32 * SPREAD_WARPS)
    spread_kernel(const __grid_constant__ struct spread_task t,
                  const __grid_constant__ struct fk_grid_window<T, W> window) {
  extern __shared__ __align__(16) char shared[];
  const int vector = spread_sizes<T, W>::vector, padded = spread_sizes<T, W>::padded;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slot = lane % t.lanes, group = lane / t.lanes,
      groups = 32 / t.lanes;
  int64_t first = ((int64_t)blockIdx.x * (blockDim.x / 32) + warp) * t.tile;
  if (first >= t.sorted.count) return;
  int end = min((int)first + t.tile, t.sorted.count), first_row = (int)blockIdx.y * K * t.lanes;
  T *batch = (T *)shared + warp * 32 * t.pitch, *own = batch + lane * t.pitch;
  const double *b = t.b ? t.b + blockIdx.z * t.ld_b : NULL;
  struct spread_to to = {t.total + (size_t)blockIdx.z * t.nodes, t.scale[blockIdx.z], first_row, lane};
  struct spread_row rows[K];
#pragma unroll
  for (int k = 0; k < K; k++) rows[k] = spread_row_of<T, W>(t, first_row + k * t.lanes + slot);
  struct spread_sums<T, W, K> sums;
#pragma unroll
  for (int k = 0; k < K; k++) spread_clear(sums, k);
  own[t.one] = 1;
  unsigned cell = t.nodes; /* no cell yet */
  for (int base = (int)first; base < end; base += 32) {
    unsigned key = base + lane < end ? t.sorted.key[base + lane] : t.nodes;
    int count = __popc(__ballot_sync(~0u, key < t.nodes)); /* points outside come last */
    if (count == 0) break;
    if (lane < count) {
      unsigned index = t.sorted.index[base + lane];
      spread_weights<T, W>(t, window, index, b ? (T)b[index] : (T)1, own);
    }
    __syncwarp();
    for (int p = 0; p < count;) {
      unsigned here = __shfl_sync(~0u, key, p);
      if (here != cell) {
        if (cell != t.nodes) spread_flush<T, W, K>(t, rows, to, cell, sums);
        cell = here;
      }
      int next = p + __popc(__ballot_sync(~0u, key == here));
      for (int i = p + group; i < next; i += groups) {
        const T *weights = batch + i * t.pitch;
        T row[padded];
#pragma unroll
        for (int l = 0; l < padded; l += vector) *(float4 *)(row + l) = *(const float4 *)(weights + l);
#pragma unroll
        for (int k = 0; k < K; k++) {
          if (K > 1 && first_row + k * t.lanes >= t.rows) break;
          T factor = weights[rows[k].first] * weights[rows[k].second];
          for (int c = 3; c < t.d; c++)
            factor *= weights[padded + (c - 1) * W + (rows[k].rest >> 4 * (c - 3) & 15)];
#pragma unroll
          for (int l = 0; l < W; l++) sums.acc[k][l] += factor * row[l];
        }
      }
      p = next;
    }
    spread_fold(sums);
    __syncwarp();
  }
  if (cell != t.nodes) spread_flush<T, W, K>(t, rows, to, cell, sums);
}

template <typename T, int W>
static enum fk_status spread(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  struct spread_task t = {};
  const int vector = spread_sizes<T, W>::vector;
  int d = grid->spec.map.d;
  t.sorted = grid->sorted;
  t.b = b;
  t.ld_b = ld_b;
  t.d = d;
  t.record = fk_grid_record(d);
  t.tile = grid->tile;
  t.rows = 1;
  for (int k = 1; k < d; k++) t.rows *= W;
  t.lanes = 1;
  while (t.lanes < 32 && t.lanes < t.rows) t.lanes *= 2;
  t.one = spread_sizes<T, W>::padded + (d - 1) * W;
  t.pitch = (int)fk_padded(t.one + 1, vector);
  if (t.pitch / vector % 2 == 0) t.pitch += vector; /* adjacent lanes use different banks */
  t.nodes = grid->source.nodes;
  for (int k = 0; k < d; k++) t.stride[k] = grid->source.axis[k].stride;
  t.scale = grid->scale;
  t.total = grid->total;
  bool several = t.rows > t.lanes;
  unsigned passes = fk_blocks(t.rows, t.lanes * (several ? spread_rows : 1));
  struct fk_grid_window<T, W> window = fk_grid_window_of<T, W>(grid);
  int warps = SPREAD_WARPS, bytes_of_warp = (int)sizeof(T) * 32 * t.pitch;
  while (warps > 1 && warps * bytes_of_warp > 48 << 10) warps /= 2;
  dim3 blocks(fk_blocks(fk_pieces(t.sorted.count, t.tile), warps), passes, 1);
  for (int64_t q = 0; q < grid->spec.columns; q += 32768) { /* limit of a launch's third dimension */
    blocks.z = (unsigned)fk_smaller(32768, grid->spec.columns - q);
    t.b = b ? b + q * ld_b : NULL;
    t.scale = grid->scale + q;
    t.total = grid->total + (size_t)q * t.nodes;
    if (several)
      spread_kernel<T, W, spread_rows><<<blocks, 32 * warps, warps * bytes_of_warp, context->stream>>>(t, window);
    else
      spread_kernel<T, W, 1><<<blocks, 32 * warps, warps * bytes_of_warp, context->stream>>>(t, window);
    FK_CUDA_TRY(cudaGetLastError());
  }
  return FK_STATUS_OK;
}

#endif

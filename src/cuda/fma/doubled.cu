/* Sums on CUDA cores of points far from the origin, whose coordinates have low parts (doubled.cuh). The difference
 * of the high parts of two close points has no rounding error, and the difference of the low parts restores what
 * the high parts lost. Built from parts of the wide kernel of sums.cuh, for any number of dimensions, since such
 * points are rare. Twin of cpu/tile_doubled.h. */
#include "sums.cuh"

enum { VALUES = SIDE }; /* columns of values in one launch */

template <int V>
struct doubled_memory {
  struct wide_memory<double, V> high;
  union { /* low parts; with more columns a block would not fit on Turing */
    struct {
      double rows[wide_shape<double>::depth][TILE], cols[wide_shape<double>::depth][TILE];
    } slice;
    double values[TILE][VALUES];
  } low;
};

/* Adds `depth` coordinates to the exponents of a thread's rows and columns. */
template <enum kernel_code CODE, int V>
static __device__ __forceinline__ void add_doubled(const struct doubled_memory<V> &m, int depth,
                                                   double (&t)[PER_THREAD][PER_THREAD]) {
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
#pragma unroll 1
  for (int k = 0; k < depth; k++) {
    double x[PER_THREAD], x_low[PER_THREAD];
#pragma unroll
    for (int c = 0; c < PER_THREAD; c++)
      x[c] = m.high.cols[k][tx + SIDE * c], x_low[c] = m.low.slice.cols[k][tx + SIDE * c];
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++) {
      double y = m.high.rows[k][ty * PER_THREAD + r], y_low = m.low.slice.rows[k][ty * PER_THREAD + r];
#pragma unroll
      for (int c = 0; c < PER_THREAD; c++) {
        double z = (y - x[c]) + (y_low - x_low[c]);
        add_coordinate<CODE>(z, 0.0, t[r][c]);
      }
    }
  }
}

/* Computes all exponents of a tile. */
template <enum kernel_code CODE, int V>
static __device__ __forceinline__ void sum_tile(const struct fk_fma_task<double> &a, const struct wide_tile &tile,
                                                struct doubled_memory<V> &m, double (&t)[PER_THREAD][PER_THREAD]) {
  const int depth = wide_shape<double>::depth;
  int64_t end_row = a.first_row + a.rows_here;
  for (int r = 0; r < PER_THREAD; r++)
    for (int c = 0; c < PER_THREAD; c++) t[r][c] = 0;
  for (int k0 = 0; k0 < a.d; k0 += depth) {
    __syncthreads();
    load_slice<double>(m.high.rows, a.rows, a.ld_rows, tile.row0, end_row, k0, a.d);
    load_slice<double>(m.low.slice.rows, a.rows_low, a.ld_rows, tile.row0, end_row, k0, a.d);
    load_slice<double>(m.high.cols, a.cols, a.ld_cols, tile.col0, tile.end, k0, a.d);
    load_slice<double>(m.low.slice.cols, a.cols_low, a.ld_cols, tile.col0, tile.end, k0, a.d);
    __syncthreads();
    add_doubled<CODE, V>(m, a.d - k0 < depth ? a.d - k0 : depth, t);
  }
}

/* The coordinate whose differences a thread's rows sum. */
struct own_coordinate {
  double high[PER_THREAD], low[PER_THREAD];
};
static __device__ __forceinline__ struct own_coordinate load_own(const struct fk_fma_task<double> &a,
                                                                 struct wide_values values, int64_t row0) {
  struct own_coordinate y;
  int v = threadIdx.x % SIDE;
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = row0 + threadIdx.x / SIDE * PER_THREAD + r, at = (values.first + v) * a.ld_rows + i;
    bool there = v < values.n && i < a.first_row + a.rows_here;
    y.high[r] = there ? a.rows[at] : 0;
    y.low[r] = there ? a.rows_low[at] : 0;
  }
  return y;
}

/* Adds kernels times differences of coordinates; differences of the padding are 0. */
static __device__ __forceinline__ void add_differences(const struct fk_fma_task<double> &a,
                                                       struct wide_values values, const struct wide_tile &tile,
                                                       const struct own_coordinate &y,
                                                       struct doubled_memory<VALUES> &m,
                                                       double (&out)[PER_THREAD][1]) {
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  __syncthreads(); /* all threads have read the slices */
  for (int i = threadIdx.x; i < TILE * VALUES; i += SIDE * SIDE) {
    int v = i / TILE, p = i % TILE;
    int64_t at = (values.first + v) * a.ld_cols + tile.col0 + p;
    bool there = v < values.n && tile.col0 + p < tile.end;
    m.high.values[p][v] = there ? a.cols[at] : 0;
    m.low.values[p][v] = there ? a.cols_low[at] : 0;
  }
  __syncthreads();
#pragma unroll 4
  for (int j = 0; j < TILE; j++) {
    double x = m.high.values[j][tx], x_low = m.low.values[j][tx];
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++) {
      double z = (x - y.high[r]) + (x_low - y.low[r]);
      out[r][0] += m.high.kernel[ty * PER_THREAD + r][j] * z;
    }
  }
}

/* RELATIVE: values are differences of coordinates. */
template <int V, enum kernel_code CODE, bool RELATIVE>
static __global__ void __launch_bounds__(SIDE *SIDE)
    doubled_kernel(const struct fk_fma_task<double> a, const struct wide_values values) {
  extern __shared__ double shared[];
  struct doubled_memory<V> &m = *(struct doubled_memory<V> *)shared;
  int ty = threadIdx.x / SIDE, tiles = 0;
  const double *powers = powers_for<double>();
  int64_t begin = (int64_t)blockIdx.y * a.cols_per_slot, end = begin + a.cols_per_slot;
  struct wide_tile tile = {a.first_row + (int64_t)blockIdx.x * TILE, begin, end < a.n_cols ? end : a.n_cols};
  double mass[PER_THREAD], out[PER_THREAD][1], mass_total[PER_THREAD], out_total[PER_THREAD][1], shift[PER_THREAD],
      t[PER_THREAD][PER_THREAD];
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = tile.row0 + ty * PER_THREAD + r;
    mass[r] = a.find_max ? -INFINITY : 0;
    shift[r] = is_shifted<double, CODE> && a.shift && i < a.first_row + a.rows_here ? a.shift[i] : 0;
    mass_total[r] = out[r][0] = out_total[r][0] = 0;
  }
  struct own_coordinate y = {};
  if (RELATIVE) y = load_own(a, values, tile.row0);
  for (; tile.col0 < tile.end; tile.col0 += TILE) {
    sum_tile<CODE, V>(a, tile, m, t);
    add_kernels<double, V, CODE>(a, powers, tile, t, shift, mass, m.high);
    if constexpr (RELATIVE)
      add_differences(a, values, tile, y, m, out);
    else if constexpr (V > 0)
      add_values<double, V, 1>(a, values, tile.col0, tile.end, m.high, out);
    if (++tiles % FLUSH_TILES == 0 && !a.find_max) flush_wide(mass, out, mass_total, out_total);
  }
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = tile.row0 - a.first_row + ty * PER_THREAD + r;
    double total = a.find_max ? mass[r] : mass_total[r] + mass[r];
    out_total[r][0] += out[r][0];
    store_row<double, V, 1>(a, values, i, total, out_total[r]);
  }
}

template <int V, enum kernel_code CODE, bool RELATIVE>
static cudaError_t launch_part(const struct fk_fma_task<double> *a, struct wide_values values,
                               cudaStream_t stream) {
  dim3 grid(fk_blocks(a->rows_here, TILE), (unsigned)a->slots);
  const int bytes = (int)sizeof(struct doubled_memory<V>);
  cudaError_t code =
      cudaFuncSetAttribute(doubled_kernel<V, CODE, RELATIVE>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (code != cudaSuccess) return code;
  doubled_kernel<V, CODE, RELATIVE><<<grid, SIDE * SIDE, bytes, stream>>>(*a, values);
  return cudaGetLastError();
}

/* Each group of columns computes the kernels again. */
template <enum kernel_code CODE>
static cudaError_t launch_doubled(const struct fk_fma_task<double> *a, cudaStream_t stream) {
  cudaError_t code = cudaSuccess;
  if (a->n_values == 0 || a->find_max) return launch_part<0, CODE, false>(a, {0, 0}, stream);
  for (int v = 0; v < a->n_values && code == cudaSuccess; v += VALUES) {
    const struct wide_values values = {v, a->n_values - v < VALUES ? a->n_values - v : VALUES};
    if constexpr (CODE == PLAIN || CODE == GENERAL) /* values are coordinates for Gaussian kernels only */
      code = a->relative ? launch_part<VALUES, CODE, true>(a, values, stream)
                         : launch_part<VALUES, CODE, false>(a, values, stream);
    else
      code = launch_part<VALUES, CODE, false>(a, values, stream);
  }
  return code;
}

cudaError_t fk_fma_launch_doubled(const struct fk_fma_task<double> *a, cudaStream_t stream) {
  if (kernel_code_of(a) == PRODUCT) return cudaErrorInvalidValue; /* values that are not differences */
  return fk_with_constant<PLAIN, IMQ>(
      kernel_code_of(a), [&](auto code) { return launch_doubled<code_in<decltype(code)>>(a, stream); });
}

/* ---- packing ---------------------------------------------------------------------------------- */

static __global__ void pack_low_kernel(const double *u, const double *low, int64_t count, double scale,
                                       double *out) {
  int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    double lacks = __fma_rn(low[i], scale, __fma_rn(u[i], scale, -__dmul_rn(u[i], scale)));
    out[i] = isfinite(lacks) ? lacks : 0;
  }
}

cudaError_t fk_fma_pack_low(const double *u, const double *low, int64_t count, double scale, double *out,
                            cudaStream_t stream) {
  unsigned blocks = (unsigned)fk_smaller(fk_blocks(count, 256), 4096);
  pack_low_kernel<<<blocks, 256, 0, stream>>>(u, low, count, scale, out);
  return cudaGetLastError();
}

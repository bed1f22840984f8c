/* Kernel sums on CUDA cores in float (f32.cu) or double (f64.cu). Direct distances have no cancellation however
 * far the points reach; kernels of x'y use products, in double only, and ABSOLUTE sums of absolute differences.
 * For d <= 4 a thread keeps its targets in registers; otherwise a block multiplies tiles of 64 targets by 64
 * sources like a matrix product. Twin of cpu/tile_body.h.
 * || Float sums are added to FP64 after 64 terms, or after NARROW_COLS if sums need not be short. */
#include <type_traits>

#include "../device/exp2.cuh"
#include "../device/copy_async.cuh"
#include "task.cuh"

/* powers: the table for exp2 in double. */
template <typename T>
__device__ __forceinline__ T exp2_of(const double *powers, T t);
template <>
__device__ __forceinline__ float exp2_of<float>(const double *, float t) {
  return exp2_fast(t);
}
template <>
__device__ __forceinline__ double exp2_of<double>(const double *powers, double t) {
  return exp2_any(powers, t);
}
template <typename T>
__device__ __forceinline__ const double *powers_for() {
  return sizeof(T) == sizeof(double) ? exp2_table() : NULL;
}

/* The column of the row's own source. */
template <typename T>
__device__ __forceinline__ int64_t own_column(const struct fk_fma_task<T> &a, int64_t row) {
  return (a.self ? a.self[row] : row + a.self_offset) - a.first_col;
}

/* How a kernel is computed: Gaussians PLAIN, or GENERAL with shift or polynomial, or another form. PRODUCT: all
 * kernels of x'y. */
enum kernel_code { PLAIN, GENERAL, ROOT, STRETCHED, ABSOLUTE, CAUCHY, IMQ, PRODUCT };

/* Only sums in double are shifted. */
template <typename T, enum kernel_code CODE>
static constexpr bool is_shifted = CODE >= GENERAL &&CODE <= ABSOLUTE && sizeof(T) == sizeof(double);

/* The weight of column j. In the tails it is the mantissa; the exponent (base 2) is returned. */
template <typename T>
__device__ __forceinline__ T split_weight(const struct fk_fma_task<T> &a, int64_t j, T *weight) {
  int exponent = 0;
  *weight = a.weight ? a.weight[j] : (T)1;
  if (sizeof(T) == sizeof(double) && a.tails) *weight = frexp(*weight, &exponent);
  return (T)exponent;
}

template <typename T>
__device__ __forceinline__ T kernel_of_product(const struct fk_fma_task<T> &a, T product) {
  T t = (T)a.factor[0] + (T)a.factor[1] * product;
  if (a.form == FK_FORM_TANH) return tanh(t);
  int exponent = (int)a.factor[2];
  T power = exponent & 1 ? t : (T)1;
  while (exponent >>= 1) {
    t *= t;
    if (exponent & 1) power *= t;
  }
  return power;
}

/* The exponent (base 2) of kernels that have one, from t or a. */
template <enum kernel_code CODE, typename T>
__device__ __forceinline__ T to_exponent(const struct fk_fma_task<T> &a, T t) {
  if (CODE == ROOT) return -sqrt(-t);
  if (CODE == STRETCHED) return (T)-FK_LOG2E * pow(-t, (T)a.power);
  return t;
}

/* One kernel value from t, a or a product. */
template <typename T, enum kernel_code CODE>
__device__ __forceinline__ T kernel_of(const struct fk_fma_task<T> &a, const double *powers, T t, double shift) {
  if (CODE == PLAIN) return exp2_of<T>(powers, t);
  if (CODE == CAUCHY) return 1 / (1 - t);
  if (CODE == IMQ) return 1 / sqrt(1 - t);
  if (CODE == PRODUCT) return kernel_of_product(a, t);
  t = to_exponent<CODE>(a, t);
  /* a source of weight 0 may be nearer than the nearest counted one: avoid overflow */
  T kernel = exp2_of<T>(powers, is_shifted<T, CODE> ? (T)fmin(0.0, (double)t - shift) : t);
  if (CODE == STRETCHED || CODE == ABSOLUTE) return kernel;
  /* far below underflow the polynomial could overflow: avoid 0 times infinity */
  T s = t < (T)-1e30 ? (T)-1e30 : t;
  return kernel * ((T)a.factor[0] + s * ((T)a.factor[1] + s * (T)a.factor[2]));
}

template <typename T>
static enum kernel_code kernel_code_of(const struct fk_fma_task<T> *a) {
  switch (a->form) {
    case FK_FORM_ROOT: return ROOT;
    case FK_FORM_STRETCHED: return STRETCHED;
    case FK_FORM_ABSOLUTE: return ABSOLUTE;
    case FK_FORM_CAUCHY: return CAUCHY;
    case FK_FORM_IMQ: return IMQ;
    case FK_FORM_POWER:
    case FK_FORM_TANH: return PRODUCT;
    case FK_FORM_GAUSSIAN: break;
  }
  return a->shift || a->factor[0] != 1 || a->factor[1] != 0 || a->factor[2] != 0 ? GENERAL : PLAIN;
}

/* ---- few dimensions --------------------------------------------------------------------------- */

enum { NARROW_THREADS = 128, NARROW_COLS = 256, SHORT = 64 };
typedef std::true_type yes;
typedef std::false_type no;
template <typename T>
struct narrow_rows {
  static const int count = sizeof(T) == 4 ? 4 : 2;
};

/* Columns of a tile, their weights last. */
template <typename T, int D, bool SHIFTED>
static __device__ __forceinline__ void load_columns(const struct fk_fma_task<T> &a, int64_t first, int count,
                                                    T (*tile)[NARROW_COLS], T *exponents) {
  for (int c = threadIdx.x; c < count; c += NARROW_THREADS) {
#pragma unroll
    for (int k = 0; k < D; k++) tile[k][c] = a.cols[k * a.ld_cols + first + c];
    T exponent = split_weight(a, first + c, &tile[D][c]);
    if (SHIFTED) exponents[c] = exponent;
  }
}

/* The contribution of a coordinate of a row and a column to t: to minus their squared distance, to minus the sum
 * of their absolute differences, or to their product. */
template <enum kernel_code CODE, typename T>
__device__ __forceinline__ void add_coordinate(T y, T x, T &t) {
  T z = y - x;
  if (CODE == PRODUCT)
    t += y * x;
  else if (CODE == ABSOLUTE)
    t -= fabs(z);
  else
    t -= z * z;
}

template <enum kernel_code CODE, typename T, int D>
__device__ __forceinline__ T exponent_of(const T (&row)[D], const T (&x)[D]) {
  T t = 0;
#pragma unroll
  for (int k = 0; k < D; k++) add_coordinate<CODE>(row[k], x[k], t);
  return t;
}

template <typename T, int R, int W>
static __device__ __forceinline__ void store_narrow(const struct fk_fma_task<T> &a, int64_t first,
                                                    const double (&total)[R][W]) {
  for (int r = 0; r < R; r++) {
    int64_t i = first + r * NARROW_THREADS;
    for (int w = 0; w < W && i < a.rows_here; w++)
      a.acc[((int64_t)blockIdx.y * W + w) * a.ld_acc + i] = total[r][w];
  }
}

/* VALUES: also sums the coordinates themselves. */
template <typename T, int D, bool VALUES, enum kernel_code CODE>
static __global__ void __launch_bounds__(NARROW_THREADS) narrow_kernel(const struct fk_fma_task<T> a) {
  const int R = narrow_rows<T>::count, W = 1 + (VALUES ? D : 0), step = a.short_sums ? SHORT : NARROW_COLS;
  __shared__ T tile[D + 1][NARROW_COLS], exponents[is_shifted<T, CODE> ? NARROW_COLS : 1];
  const double *powers = powers_for<T>();
  T row[R][D], sum[R][W];
  double total[R][W], shift[R];
  int64_t own[R], end_row = a.first_row + a.rows_here;
  int64_t first = a.first_row + (int64_t)blockIdx.x * NARROW_THREADS * R + threadIdx.x;
  for (int r = 0; r < R; r++) {
    int64_t i = first + r * NARROW_THREADS;
    for (int k = 0; k < D; k++) row[r][k] = i < end_row ? a.rows[k * a.ld_rows + i] : 0;
    for (int w = 0; w < W; w++) total[r][w] = 0;
    shift[r] = is_shifted<T, CODE> && a.shift && i < end_row ? a.shift[i] : 0;
    own[r] = a.exclude_self && i < end_row ? own_column(a, i) : -1;
  }
  int64_t begin = (int64_t)blockIdx.y * a.cols_per_slot;
  int64_t end = begin + a.cols_per_slot < a.n_cols ? begin + a.cols_per_slot : a.n_cols;
  for (int64_t c0 = begin; c0 < end; c0 += step) {
    int count = (int)(end - c0 < step ? end - c0 : step);
    __syncthreads();
    load_columns<T, D, is_shifted<T, CODE>>(a, c0, count, tile, exponents);
    __syncthreads();
    int own_here[R]; /* column of the tile */
    bool meets = false;
#pragma unroll
    for (int r = 0; r < R; r++) {
      own_here[r] = own[r] >= c0 && own[r] < c0 + count ? (int)(own[r] - c0) : -1;
      meets |= own_here[r] >= 0;
#pragma unroll
      for (int w = 0; w < W; w++) sum[r][w] = 0;
    }
    /* look: only in tiles that have a row's own source; few: a warp skips columns that all its lanes omit */
    auto add_columns = [&](auto look, auto few) {
#pragma unroll 4
      for (int c = 0; c < count; c++) {
        T x[D], weight = tile[D][c], exponent = is_shifted<T, CODE> ? exponents[c] : (T)0;
#pragma unroll
        for (int k = 0; k < D; k++) x[k] = tile[k][c];
#pragma unroll
        for (int r = 0; r < R; r++) {
          const T t = exponent_of<CODE>(row[r], x);
          const bool left_out = (look.value && c == own_here[r]) || (few.value && t < (T)a.least);
          if (few.value && __all_sync(~0u, left_out)) continue;
          T kernel = (left_out ? (T)0 : weight) * kernel_of<T, CODE>(a, powers, t, shift[r] - exponent);
          sum[r][0] += kernel;
#pragma unroll
          for (int k = 0; k < W - 1; k++) sum[r][1 + k] += kernel * x[k];
        }
      }
    };
    const bool few = sizeof(T) == sizeof(double) && a.least < 0;
    few ? add_columns(yes(), yes()) : meets ? add_columns(yes(), no()) : add_columns(no(), no());
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int w = 0; w < W; w++) total[r][w] += (double)sum[r][w];
  }
  store_narrow(a, first - a.first_row, total);
}

/* Calls f() with the task's kernel as a constant. Kernels of products are summed in double only. */
template <typename T, typename F>
static cudaError_t with_code(const struct fk_fma_task<T> *a, F f) {
  const enum kernel_code code = kernel_code_of(a), last = sizeof(T) == sizeof(double) ? PRODUCT : IMQ;
  return code > last ? cudaErrorInvalidValue : fk_with_constant < PLAIN,
         sizeof(T) == sizeof(double) ? PRODUCT : IMQ > (code, f);
}
template <typename C>
static constexpr enum kernel_code code_in = (enum kernel_code)C::value;

template <typename T, int D>
static cudaError_t launch_narrow(const struct fk_fma_task<T> *a, cudaStream_t stream) {
  dim3 grid(fk_blocks(a->rows_here, NARROW_THREADS * narrow_rows<T>::count), (unsigned)a->slots);
  return with_code(a, [&](auto code) {
    constexpr enum kernel_code CODE = code_in<decltype(code)>;
    constexpr bool VALUES = CODE == PLAIN || CODE == GENERAL; /* values are coordinates for Gaussian kernels
                                                               * only */
    if (VALUES && a->n_values > 0)
      narrow_kernel<T, D, VALUES, CODE><<<grid, NARROW_THREADS, 0, stream>>>(*a);
    else
      narrow_kernel<T, D, false, CODE><<<grid, NARROW_THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
  });
}

/* ---- any number of dimensions ----------------------------------------------------------------- */

/* A block of 16 x 16 threads computes a tile of 64 x 64. A thread has rows 4 ty .. 4 ty + 3 and columns tx, tx +
 * 16, ... Kernel values go through shared memory to be multiplied with VALUES columns of values at a time. */
enum { TILE = 64, SIDE = 16, PER_THREAD = TILE / SIDE, FLUSH_TILES = SHORT / PER_THREAD };
template <typename T>
struct wide_shape {
  static const int depth = sizeof(T) == 4 ? 16 : 8, values = sizeof(T) == 4 ? 64 : 32;
};
enum { VALUE_GROUPS = 4 }; /* at most 64 columns of values in one launch, in registers 4 x 4 */

template <typename T, int V>
struct wide_memory {
  T rows[wide_shape<T>::depth][TILE], cols[wide_shape<T>::depth][TILE];
  T kernel[V ? TILE : 1][V ? TILE + 1 : 1], values[V ? TILE : 1][V ? V : 1];
};

template <typename T>
static __device__ void load_slice(T (*to)[TILE], const T *from, int64_t ld, int64_t first, int64_t end, int k0,
                                  int d) {
  for (int i = threadIdx.x; i < wide_shape<T>::depth * TILE; i += SIDE * SIDE) {
    int k = i / TILE, p = i % TILE;
    to[k][p] = k0 + k < d && first + p < end ? from[(k0 + k) * ld + first + p] : (T)0;
  }
}

/* Adds a slice of coordinates to the exponents of a thread's rows and columns. */
template <enum kernel_code CODE, typename T, int V>
static __device__ __forceinline__ void add_slice(const struct wide_memory<T, V> &m, int tx, int ty,
                                                 T (&t)[PER_THREAD][PER_THREAD]) {
#pragma unroll
  for (int k = 0; k < wide_shape<T>::depth; k++) {
    T y[PER_THREAD], x[PER_THREAD];
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++) y[r] = m.rows[k][ty * PER_THREAD + r];
#pragma unroll
    for (int c = 0; c < PER_THREAD; c++) x[c] = m.cols[k][tx + SIDE * c];
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++)
#pragma unroll
      for (int c = 0; c < PER_THREAD; c++) add_coordinate<CODE>(y[r], x[c], t[r][c]);
  }
}

/* Columns first_value on of the values, n_values of them. */
struct wide_values {
  int first, n;
};

/* Adds kernels times values. */
template <typename T, int V, int G>
static __device__ __forceinline__ void add_values(const struct fk_fma_task<T> &a, struct wide_values values,
                                                  int64_t col0, int64_t end, struct wide_memory<T, V> &m,
                                                  T (&out)[PER_THREAD][G]) {
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  for (int i = threadIdx.x; i < TILE * V; i += SIDE * SIDE) {
    int v = i / TILE, p = i % TILE;
    m.values[p][v] = v < values.n && col0 + p < end ? a.values[(values.first + v) * a.ld_cols + col0 + p] : (T)0;
  }
  __syncthreads();
#pragma unroll 8
  for (int j = 0; j < TILE; j++)
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++)
#pragma unroll
      for (int g = 0; g < G; g++)
        out[r][g] += m.kernel[ty * PER_THREAD + r][j] * m.values[j][V ? tx + SIDE * g : 0];
}

/* Moves sums that have run long enough in T to double. */
template <typename T, int G>
static __device__ __forceinline__ void flush_wide(T (&mass)[PER_THREAD], T (&out)[PER_THREAD][G],
                                                  double (&mass_total)[PER_THREAD],
                                                  double (&out_total)[PER_THREAD][G]) {
  for (int r = 0; r < PER_THREAD; r++) {
    mass_total[r] += (double)mass[r];
    mass[r] = 0;
    for (int g = 0; g < G; g++) out_total[r][g] += (double)out[r][g], out[r][g] = 0;
  }
}

/* Stores the sums of a thread's row r; the kernel sum is first added over the 16 threads of the row. */
template <typename T, int V, int G>
static __device__ __forceinline__ void store_row(const struct fk_fma_task<T> &a, struct wide_values values,
                                                 int64_t row, double total, const double (&out)[G]) {
  int tx = threadIdx.x % SIDE;
  for (int step = SIDE / 2; step > 0; step /= 2) {
    double other = __shfl_xor_sync(~0u, total, step);
    total = a.find_max ? fmax(total, other) : total + other;
  }
  if (row >= a.rows_here) return;
  double *acc = a.acc + (int64_t)blockIdx.y * (1 + a.n_values) * a.ld_acc + row;
  if (tx == 0 && values.first == 0) *acc = total;
  for (int g = 0; g < G && V; g++) {
    int v = tx + SIDE * g;
    if (v < values.n) acc[(1 + values.first + v) * a.ld_acc] = out[g];
  }
}

/* A block's rows and a tile's columns; `end` is the first column beyond the slot. */
struct wide_tile {
  int64_t row0, col0, end;
};

/* Turns a tile's exponents into kernels: adds them to the kernel sums, or takes the largest exponent, and stores
 * them for the product with values. */
template <typename T, int V, enum kernel_code CODE>
static __device__ __forceinline__ void add_kernels(const struct fk_fma_task<T> &a, const double *powers,
                                                   const struct wide_tile &tile,
                                                   const T (&t)[PER_THREAD][PER_THREAD],
                                                   const double (&shift)[PER_THREAD], T (&mass)[PER_THREAD],
                                                   struct wide_memory<T, V> &m) {
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t end_row = a.first_row + a.rows_here;
#pragma unroll
  for (int c = 0; c < PER_THREAD; c++) {
    int64_t j = tile.col0 + tx + SIDE * c;
    T weight = 0, exponent = j < tile.end ? split_weight(a, j, &weight) : 0;
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++) {
      int64_t i = tile.row0 + ty * PER_THREAD + r;
      bool out_of_it = weight == 0 || (a.exclude_self && i < end_row && own_column(a, i) == j);
      if (a.find_max) {
        T term = to_exponent<CODE>(a, t[r][c]) + exponent;
        if (!out_of_it && term > mass[r]) mass[r] = term;
        continue;
      }
      T kernel = out_of_it ? (T)0 : weight * kernel_of<T, CODE>(a, powers, t[r][c], shift[r] - exponent);
      mass[r] += kernel;
      if (V) m.kernel[ty * PER_THREAD + r][tx + SIDE * c] = kernel;
    }
  }
}

template <typename T, int V, enum kernel_code CODE>
static __global__ void __launch_bounds__(SIDE *SIDE)
    wide_kernel(const struct fk_fma_task<T> a, const struct wide_values values) {
  extern __shared__ double shared[];
  struct wide_memory<T, V> &m = *(struct wide_memory<T, V> *)shared;
  const int G = V ? V / SIDE : 1, depth = wide_shape<T>::depth;
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  const double *powers = powers_for<T>();
  int64_t row0 = a.first_row + (int64_t)blockIdx.x * TILE, end_row = a.first_row + a.rows_here;
  int64_t begin = (int64_t)blockIdx.y * a.cols_per_slot;
  int64_t end = begin + a.cols_per_slot < a.n_cols ? begin + a.cols_per_slot : a.n_cols;
  T mass[PER_THREAD], out[PER_THREAD][G];
  double mass_total[PER_THREAD], out_total[PER_THREAD][G], shift[PER_THREAD];
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = row0 + ty * PER_THREAD + r;
    mass[r] = a.find_max ? (T)-INFINITY : (T)0;
    mass_total[r] = 0;
    shift[r] = is_shifted<T, CODE> && a.shift && i < end_row ? a.shift[i] : 0;
    for (int g = 0; g < G; g++) out[r][g] = 0, out_total[r][g] = 0;
  }
  int tiles = 0;
  for (int64_t col0 = begin; col0 < end; col0 += TILE) {
    T t[PER_THREAD][PER_THREAD];
    for (int r = 0; r < PER_THREAD; r++)
      for (int c = 0; c < PER_THREAD; c++) t[r][c] = 0;
    for (int k0 = 0; k0 < a.d; k0 += depth) {
      __syncthreads();
      load_slice<T>(m.rows, a.rows, a.ld_rows, row0, end_row, k0, a.d);
      load_slice<T>(m.cols, a.cols, a.ld_cols, col0, end, k0, a.d);
      __syncthreads();
      add_slice<CODE, T, V>(m, tx, ty, t);
    }
    add_kernels<T, V, CODE>(a, powers, {row0, col0, end}, t, shift, mass, m);
    if constexpr (V > 0) add_values<T, V, G>(a, values, col0, end, m, out);
    if (++tiles % FLUSH_TILES == 0 && !a.find_max) flush_wide(mass, out, mass_total, out_total);
  }
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = row0 - a.first_row + ty * PER_THREAD + r;
    double total = a.find_max ? (double)mass[r] : mass_total[r] + (double)mass[r];
    for (int g = 0; g < G && V; g++) out_total[r][g] += (double)out[r][g];
    store_row<T, V, G>(a, values, i, total, out_total[r]);
  }
}

template <typename T, int V, enum kernel_code CODE>
static cudaError_t launch_wide_part(const struct fk_fma_task<T> *a, int first_value, int n_values,
                                    cudaStream_t stream) {
  dim3 grid(fk_blocks(a->rows_here, TILE), (unsigned)a->slots);
  size_t bytes = sizeof(struct wide_memory<T, V>);
  cudaError_t code =
      cudaFuncSetAttribute(wide_kernel<T, V, CODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (code != cudaSuccess) return code;
  wide_kernel<T, V, CODE><<<grid, SIDE * SIDE, bytes, stream>>>(*a, {first_value, n_values});
  return cudaGetLastError();
}

/* Each group of columns computes the kernels again. */
template <typename T, enum kernel_code CODE>
static cudaError_t launch_wide(const struct fk_fma_task<T> *a, cudaStream_t stream) {
  const int V = wide_shape<T>::values;
  if (a->n_values == 0 || a->find_max) return launch_wide_part<T, 0, CODE>(a, 0, 0, stream);
  if (a->n_values <= SIDE) return launch_wide_part<T, SIDE, CODE>(a, 0, a->n_values, stream);
  cudaError_t code = cudaSuccess;
  for (int v = 0; v < a->n_values && code == cudaSuccess; v += V)
    code = launch_wide_part<T, V, CODE>(a, v, a->n_values - v < V ? a->n_values - v : V, stream);
  return code;
}

template <typename T>
static cudaError_t launch(const struct fk_fma_task<T> *a, cudaStream_t stream) {
  /* the narrow kernel sums no values but coordinates */
  if (a->d <= 4 && !a->find_max && (a->n_values == 0 || a->values == a->cols))
    return fk_with_constant<1, 4>(a->d, [&](auto d) { return launch_narrow<T, decltype(d)::value>(a, stream); });
  return with_code(a, [&](auto code) { return launch_wide<T, code_in<decltype(code)>>(a, stream); });
}

/* ---- packing ---------------------------------------------------------------------------------- */

template <typename T>
static __global__ void pack_kernel(const double *u, int64_t count, double scale, T *out) {
  int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = (T)(u[i] * scale);
}

template <typename T>
static cudaError_t pack(const double *u, int64_t count, double scale, T *out, cudaStream_t stream) {
  pack_kernel<T><<<(unsigned)fk_smaller(fk_blocks(count, 256), 4096), 256, 0, stream>>>(u, count, scale, out);
  return cudaGetLastError();
}

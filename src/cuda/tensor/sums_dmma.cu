/* Gaussian sums in FP64 on tensor cores, from Ampere on.
 * || A warp has 16 rows. For a tile of COLS columns it computes the exponents x.y - |x|^2/2 in its accumulators.
 * -|y|^2/2 is part of the constant that rounds the exponent for 2^t; its rounding error is in the row's `undo`.
 * The kernels are the left operand of the products with the values, without moving (dmma.cuh).
 * || Columns come through shared memory in slices of octets of coordinates and two stages: one slice is used while
 * the next is copied. A block's rows stay in shared memory if there is room; otherwise they come with each slice.
 */
#include "dmma.cuh"
#include "../device/exp2.cuh"
#include "mma.cuh"
#include "sums_dmma.cuh"

enum {
  WARPS = 8,
  THREADS = 32 * WARPS,
  ROWS = 16 * WARPS,
  COLS = 32,
  SUBTILES = COLS / 8,
  SLICE = 2 /* octets */
};

/* The values are columns first .. first + n - 1 of those of the task. */
struct dmma_values {
  int first, n;
};

/* Sizes in doubles. TILES: tiles of 8 values. The columns of a value are 8 doubles further apart than their
 * number, so that a quarter of a warp reads different banks. */
template <int TILES, bool GENERAL>
struct dmma_shape {
  static const int slice = SLICE * COLS * 8, row_slice = SLICE * ROWS * 8;
  static const int apart = COLS + 8, numbers = (GENERAL ? 2 : 1) * COLS + 8 * TILES * apart;
  static const int before_rows = 2 * (slice + numbers);
};

template <int TILES, bool GENERAL>
struct dmma_block {
  typedef struct dmma_shape<TILES, GENERAL> shape;

  const struct fk_dmma_task &a;
  const struct dmma_values part;
  const bool stay;
  double *shared;
  const double *powers;
  int lane, warp, g, t;
  int64_t row0;                                                  /* of the block */
  double magic[2], norm[2], mass[2], sums[TILES ? TILES : 1][4]; /* of the rows g and g + 8 */

  __device__ __forceinline__ dmma_block(const struct fk_dmma_task &task, struct dmma_values values, bool rows_stay,
                                        double *memory)
      : a(task), part(values), stay(rows_stay), shared(memory) {
    lane = threadIdx.x % 32;
    warp = threadIdx.x / 32;
    g = lane / 4;
    t = lane % 4;
    row0 = a.first_row + (int64_t)blockIdx.x * ROWS;
    powers = exp2_table();
  }

  /* ---- shared memory ---- */

  __device__ __forceinline__ double *columns(int stage) const { return shared + stage * shape::slice; }
  __device__ __forceinline__ double *offsets(int stage) const { return columns(2) + stage * shape::numbers; }
  __device__ __forceinline__ double *weights(int stage) const { return offsets(stage) + COLS; }
  __device__ __forceinline__ double *values(int stage) const { return offsets(stage) + (GENERAL ? 2 : 1) * COLS; }
  /* Octet i of a slice that begins with octet k. */
  __device__ __forceinline__ double *rows(int stage, int k, int i) const {
    return shared + shape::before_rows + (stay ? (k + i) * ROWS * 8 : stage * shape::row_slice + i * ROWS * 8);
  }

  /* Fetches octets k .. k + count - 1 of `points` points, one octet after the other. */
  static __device__ __forceinline__ void fetch_octets(double *to, const struct fk_dmma_points &from, int64_t first,
                                                      int points, int k, int count) {
#pragma unroll 1
    for (int i = threadIdx.x; i < 4 * count * points; i += THREADS) {
      int octet = i / (4 * points), rest = i % (4 * points);
      copy_async(to + 2 * i, from.octets + ((k + octet) * from.ld + first) * 8 + 2 * rest);
    }
  }

  __device__ __forceinline__ void fetch_slice(int stage, int64_t col, int k) const {
    int count = a.cols.k - k < SLICE ? a.cols.k - k : SLICE;
    fetch_octets(columns(stage), a.cols, col, COLS, k, count);
    if (!stay) fetch_octets(rows(stage, k, 0), a.rows, row0, ROWS, k, count);
  }

  /* Fetches offsets, weights and values of a tile's columns. */
  __device__ __forceinline__ void fetch_numbers(int stage, int64_t col) const {
    int i = threadIdx.x;
    if (i < COLS / 2) copy_async(offsets(stage) + 2 * i, a.offset + col + 2 * i);
    if (GENERAL && a.weight && i < COLS / 2) copy_async(weights(stage) + 2 * i, a.weight + col + 2 * i);
#pragma unroll 1
    for (; i < part.n * COLS / 2; i += THREADS) {
      int v = i / (COLS / 2), c = i % (COLS / 2) * 2;
      copy_async(values(stage) + v * shape::apart + c, a.values + (part.first + v) * a.cols.ld + col + c);
    }
  }

  __device__ __forceinline__ void load_rows() {
    if (stay) fetch_octets(rows(0, 0, 0), a.rows, row0, ROWS, 0, a.rows.k);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = row0 + 16 * warp + g + 8 * half;
      magic[half] = a.magic[row];
      norm[half] = GENERAL ? a.norm[row] : 0;
      mass[half] = 0;
    }
#pragma unroll
    for (int v = 0; v < TILES; v++)
#pragma unroll
      for (int q = 0; q < 4; q++) sums[v][q] = 0;
  }

  /* ---- a tile ---- */

  __device__ __forceinline__ void start(double (&e)[SUBTILES][4], int stage) const {
#pragma unroll
    for (int j = 0; j < SUBTILES; j++) {
      double2 offset = *(const double2 *)(offsets(stage) + 8 * j + 2 * t);
      e[j][0] = e[j][2] = offset.x;
      e[j][1] = e[j][3] = offset.y;
    }
  }

  __device__ __forceinline__ void multiply(double (&e)[SUBTILES][4], int stage, int k) const {
#pragma unroll
    for (int i = 0; i < SLICE; i++) {
      if (k + i >= a.cols.k) break;
      const double *row = rows(stage, k, i) + (16 * warp + g) * 8 + 2 * t;
      double2 upper = *(const double2 *)row, lower = *(const double2 *)(row + 8 * 8);
      double y[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
      for (int j = 0; j < SUBTILES; j++)
        dmma(e[j], y, *(const double2 *)(columns(stage) + (i * COLS + 8 * j + g) * 8 + 2 * t));
    }
  }

  /* Turns the exponents of 8 columns into kernels; own: the column, of these 8, that the block's first row omits.
   */
  __device__ __forceinline__ void to_kernels(double (&e)[4], const double *weight, int64_t own) const {
#pragma unroll
    for (int q = 0; q < 4; q++) {
      double kernel = exp2_above(powers, e[q], magic[q / 2]);
      if (GENERAL) {
        double s = e[q] + norm[q / 2];
        kernel *= a.factor[0] + s * (a.factor[1] + s * a.factor[2]);
        if (a.weight) kernel *= weight[2 * t + q % 2];
      }
      e[q] = kernel;
    }
    if (own <= -ROWS || own >= 8) return;
#pragma unroll
    for (int q = 0; q < 4; q++)
      if (own + 16 * warp + g + 8 * (q / 2) == 2 * t + q % 2) e[q] = 0;
  }

  __device__ __forceinline__ void add_up(double (&e)[SUBTILES][4], int stage, int64_t col) {
#pragma unroll
    for (int j = 0; j < SUBTILES; j++) {
      to_kernels(e[j], weights(stage) + 8 * j, row0 + a.self - (col + 8 * j));
#pragma unroll
      for (int q = 0; q < 4; q++) mass[q / 2] += e[j][q];
      double kernels[4];
      dmma_turn(e[j], kernels);
#pragma unroll
      for (int v = 0; v < TILES; v++)
        dmma(sums[v], kernels, *(const double2 *)(values(stage) + (8 * v + g) * shape::apart + 8 * j + 2 * t));
    }
  }

  /* ---- results ---- */

  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = row0 - a.first_row + 16 * warp + g + 8 * half;
      double *acc = a.acc + (int64_t)blockIdx.y * (1 + a.n_values) * a.ld_acc + row;
      double total = mass[half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      if (t == 0 && part.first == 0) *acc = total;
#pragma unroll
      for (int v = 0; v < TILES; v++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
          int value = 8 * v + 2 * t + q;
          if (value < part.n) acc[(1 + part.first + value) * a.ld_acc] = sums[v][2 * half + q];
        }
    }
  }
};

template <int TILES, bool GENERAL>
static __global__ void __launch_bounds__(THREADS, 2)
    dmma_kernel(const struct fk_dmma_task a, const struct dmma_values part, const bool stay) {
  extern __shared__ __align__(16) double shared[];
  struct dmma_block<TILES, GENERAL> block(a, part, stay, shared);
  const int64_t begin = blockIdx.y * a.cols_per_slot;
  const int64_t end = begin + a.cols_per_slot < a.n_cols ? begin + a.cols_per_slot : a.n_cols;
  block.load_rows();
  block.fetch_slice(0, begin, 0);
  block.fetch_numbers(0, begin);
  copy_commit();
  int stage = 0, tile = 0; /* this slice's stage, and that of this tile's other numbers */
  for (int64_t col = begin; col < end; col += COLS, tile ^= 1) {
    double e[SUBTILES][4];
    for (int k = 0; k < a.cols.k; k += SLICE, stage ^= 1) {
      copy_wait<0>();
      __syncthreads(); /* this slice has arrived, and no thread needs the previous one */
      if (k + SLICE < a.cols.k) {
        block.fetch_slice(stage ^ 1, col, k + SLICE);
      } else if (col + COLS < end) {
        block.fetch_slice(stage ^ 1, col + COLS, 0);
        block.fetch_numbers(tile ^ 1, col + COLS);
      }
      copy_commit();
      if (k == 0) block.start(e, tile);
      block.multiply(e, stage, k);
    }
    block.add_up(e, tile, col);
  }
  block.store();
}

/* ---- launches --------------------------------------------------------------------------------- */

template <int TILES, bool GENERAL>
static cudaError_t launch_part(const struct fk_dmma_task *a, struct dmma_values part, cudaStream_t stream) {
  typedef struct dmma_shape<TILES, GENERAL> shape;
  const size_t least = sizeof(double) * shape::before_rows, all = least + sizeof(double) * ROWS * 8 * a->rows.k;
  int device, most;
  cudaError_t code = cudaGetDevice(&device);
  if (code == cudaSuccess) code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (code != cudaSuccess) return code;
  const bool stay = a->rows.k <= 2 * SLICE || all + sizeof(double) * EXP2_PARTS <= (size_t)most;
  const size_t bytes = stay ? all : least + sizeof(double) * 2 * shape::row_slice;
  code =
      cudaFuncSetAttribute(dmma_kernel<TILES, GENERAL>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (code != cudaSuccess) return code;
  dim3 grid(fk_blocks(a->rows_here, ROWS), (unsigned)a->slots);
  dmma_kernel<TILES, GENERAL><<<grid, THREADS, bytes, stream>>>(*a, part, stay);
  return cudaGetLastError();
}

/* Each group of 64 values computes the kernels again. */
template <bool GENERAL>
static cudaError_t launch(const struct fk_dmma_task *a, cudaStream_t stream) {
  cudaError_t code = cudaSuccess;
  int first = 0;
  do {
    struct dmma_values part = {first, a->n_values - first < 64 ? a->n_values - first : 64};
    code = part.n == 0    ? launch_part<0, GENERAL>(a, part, stream)
           : part.n <= 8  ? launch_part<1, GENERAL>(a, part, stream)
           : part.n <= 16 ? launch_part<2, GENERAL>(a, part, stream)
           : part.n <= 32 ? launch_part<4, GENERAL>(a, part, stream)
                          : launch_part<8, GENERAL>(a, part, stream);
    first += part.n;
  } while (code == cudaSuccess && first < a->n_values);
  return code;
}

cudaError_t fk_dmma_launch(const struct fk_dmma_task *task, cudaStream_t stream) {
  return task->norm ? launch<true>(task, stream) : launch<false>(task, stream);
}

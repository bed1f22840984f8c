/* A block of sums_mma.cu: its rows in registers, its columns in shared memory, and the steps of a warp.
 * STEPS: number of products of depth 16 that make one exponent, with the rows in registers; 0: any number, with
 * rows in shared memory, too (d > 64). */
#ifndef FK_CUDA_MMA_BLOCK_CUH
#define FK_CUDA_MMA_BLOCK_CUH

#include "../device/common.cuh"
#include "mma.cuh"
#include "sums_mma.cuh"

enum { WARPS = 8, THREADS = 32 * WARPS, STAGE = 64 /* columns */, SLICE = 16 /* depth, where STEPS is 0 */ };

/* VALUES: number of 8-wide tiles of values, including the ones. COORDINATES: the values are the points' own FP16
 * terms, and the ones come from a register. PLAIN: no factor, no weight, no omitted pair. */
template <int STEPS, int VALUES, bool COORDINATES>
struct mma_shape {
  static const int tiles = STEPS == 1 && VALUES <= 3 ? 2 : STEPS == 0 ? 2 : 1; /* MT */
  static const int rows = 16 * tiles * WARPS;
  static const int depth = STEPS ? 16 * STEPS : SLICE;
  static const int point_bytes = 4 * depth + 16; /* hi and lo */
  static const int value_bytes = VALUES && !COORDINATES ? 32 * VALUES + 16 : 0;
  static const int stage_bytes = STAGE * (point_bytes + sizeof(float)) + (STEPS ? 0 : rows * point_bytes);
  /* Tensor cores truncate, so sums of values leave them for a second level: FP32 in shared memory if there is
   * room, and then FP64 like other sums; otherwise FP64 at once. */
  static const int sums = tiles * (4 * VALUES + (COORDINATES ? 4 : 0)); /* per thread */
  static const bool near = VALUES > 0 && sums <= 32;
  static const int near_offset = 2 * (stage_bytes + STAGE * value_bytes);
  static const int shared_bytes = near_offset + (near ? THREADS * sums * (int)sizeof(float) : 0);
  static const int flush = VALUES > 0 && !near ? FK_TENSOR_VALUE_FLUSH : FK_TENSOR_FLUSH;
};

template <int STEPS, int VALUES, bool COORDINATES, bool PLAIN>
struct mma_block {
  typedef struct mma_shape<STEPS, VALUES, COORDINATES> shape;
  static const int MT = shape::tiles;

  const struct fk_tensor_task &a;
  char *shared;
  int lane, warp, g, t; /* of a fragment: rows g and g + 8, columns 2t and 2t + 1 */
  int64_t row0;         /* of the warp */
  int64_t begin, end;   /* of the columns */
  int64_t self;         /* row r omits column r + self */

  uint32_t hi[MT][STEPS ? STEPS : 1][4], lo[MT][STEPS ? STEPS : 1][4], both[MT][STEPS ? STEPS : 1][4];
  float offset[MT][2], factor0[MT][2];
  float mass[MT][2], sums[MT][VALUES ? VALUES : 1][4], ones[MT][4];
  double total[MT][2];

  __device__ __forceinline__ mma_block(const struct fk_tensor_task &task, char *memory) : a(task), shared(memory) {
    lane = threadIdx.x % 32;
    warp = threadIdx.x / 32;
    g = lane / 4;
    t = lane % 4;
    row0 = a.first_row + (int64_t)blockIdx.x * shape::rows + warp * 16 * MT;
    begin = 0, end = a.cols.n_pad, self = a.self;
    if (a.parts) {
      const struct fk_tensor_part part =
          a.parts[(a.first_row + (int64_t)blockIdx.x * shape::rows) / FK_TENSOR_UNIT];
      begin = part.first, end = part.end, self = part.self;
    }
    begin += (int64_t)blockIdx.y * a.cols_per_slot;
    end = begin + a.cols_per_slot < end ? begin + a.cols_per_slot : end;
  }

  /* True for a slot beyond the columns of the rows' part. */
  __device__ __forceinline__ bool is_none() const { return a.parts && begin >= end; }

  /* Short sums run over one stage. */
  __device__ __forceinline__ int flush_columns() const {
    static_assert(STAGE == FK_TENSOR_SHORT, "a stage is one short sum");
    return VALUES == 0 && !PLAIN && a.short_sums ? STAGE : shape::flush;
  }

  __device__ __forceinline__ int64_t row(int m, int half) const {
    int64_t r = row0 + m * 16 + g + 8 * half;
    return r < a.rows.n_pad ? r : a.rows.n_pad - 1;
  }

  __device__ __forceinline__ void load_rows() {
    const uint32_t *high = (const uint32_t *)a.rows.hi, *low = (const uint32_t *)a.rows.lo;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
      for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
          int64_t word = row(m, q & 1) * (shape::depth / 2) + 8 * s + t + 4 * (q >> 1);
          hi[m][s][q] = high[word];
          lo[m][s][q] = low[word];
          both[m][s][q] = a.low_low ? hi[m][s][q] : add_halves(hi[m][s][q], lo[m][s][q]);
        }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        offset[m][half] = a.rows.offset[row(m, half)];
        factor0[m][half] = a.factor0 ? a.factor0[row(m, half)] : 0;
        total[m][half] = 0;
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < MT; m++) {
      mass[m][0] = mass[m][1] = 0;
#pragma unroll
      for (int q = 0; q < 4; q++) ones[m][q] = 0;
#pragma unroll
      for (int v = 0; v < VALUES; v++)
#pragma unroll
        for (int q = 0; q < 4; q++) sums[m][v][q] = 0;
    }
  }

  /* ---- shared memory ---- */

  __device__ __forceinline__ char *points(int stage) const { return shared + stage * shape::stage_bytes; }
  __device__ __forceinline__ float *offsets(int stage) const {
    return (float *)(points(stage) + STAGE * shape::point_bytes);
  }
  __device__ __forceinline__ char *row_points(int stage) const {
    return points(stage) + STAGE * (shape::point_bytes + sizeof(float));
  }
  __device__ __forceinline__ char *values(int stage) const {
    return shared + 2 * shape::stage_bytes + stage * STAGE * shape::value_bytes;
  }

  /* Points of k FP16 terms each, of which `depth` are fetched from k0 on. */
  struct halves {
    const __half *high, *low;
    int k, k0, depth;
  };

  /* Fetches hi and lo of `count` points side by side. */
  static __device__ __forceinline__ void fetch_halves(char *to, int stride, struct halves from, int64_t first,
                                                      int count) {
    int chunks = from.depth / 8;
    for (int i = threadIdx.x; i < 2 * count * chunks; i += THREADS) {
      int chunk = i % chunks, part = i / chunks % 2, point = i / (2 * chunks);
      const __half *at = (part ? from.low : from.high) + (first + point) * from.k + from.k0 + 8 * chunk;
      copy_async(to + point * stride + 16 * (part * chunks + chunk), at);
    }
  }

  __device__ __forceinline__ void fetch_points(int stage, int64_t col, int k0) {
    fetch_halves(points(stage), shape::point_bytes, {a.cols.hi, a.cols.lo, a.cols.k, k0, shape::depth}, col,
                 STAGE);
    if (threadIdx.x < STAGE / 4)
      copy_async(offsets(stage) + 4 * threadIdx.x, a.cols.offset + col + 4 * threadIdx.x);
    if (STEPS) return;
    int64_t first = a.first_row + (int64_t)blockIdx.x * shape::rows;
    int count = (int)(a.rows.n_pad - first < shape::rows ? a.rows.n_pad - first : shape::rows);
    fetch_halves(row_points(stage), shape::point_bytes, {a.rows.hi, a.rows.lo, a.rows.k, k0, shape::depth}, first,
                 count);
  }

  __device__ __forceinline__ void fetch_values(int stage, int64_t col) {
    if (VALUES && !COORDINATES)
      fetch_halves(values(stage), shape::value_bytes, {a.values.hi, a.values.lo, a.values.width, 0, 8 * VALUES},
                   col, STAGE);
  }

  /* ---- exponents ---- */

  /* Loads the rows of a slice from shared memory. */
  __device__ __forceinline__ void load_row_slice(uint32_t (*high)[4], uint32_t (*low)[4], int stage) const {
#pragma unroll
    for (int m = 0; m < MT; m++) {
      const char *row =
          row_points(stage) + (warp * 16 * MT + m * 16 + lane % 16) * shape::point_bytes + lane / 16 * 16;
      load_matrices(high[m], row);
      load_matrices(low[m], row + 2 * SLICE);
    }
  }

  /* Loads columns b .. b + 15 as the right operand of two products. */
  __device__ __forceinline__ void load_columns(uint32_t *to, const char *stage_points, int b, int part,
                                               int step) const {
    load_matrices(to, stage_points + (b + lane % 8 + lane / 16 * 8) * shape::point_bytes +
                          2 * shape::depth * part + 32 * step + lane / 8 % 2 * 16);
  }

  static __device__ __forceinline__ void multiply(float (*e)[4], const uint32_t *row, const uint32_t *columns) {
    mma_m16n8k16(e[0], row, columns[0], columns[1]);
    mma_m16n8k16(e[1], row, columns[2], columns[3]);
  }

  __device__ __forceinline__ void start(float (*e)[4], int m, const float *stage_offsets, int b) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
      float2 c = *(const float2 *)(stage_offsets + b + 8 * n + 2 * t);
      e[n][0] = offset[m][0] + c.x;
      e[n][1] = offset[m][0] + c.y;
      e[n][2] = offset[m][1] + c.x;
      e[n][3] = offset[m][1] + c.y;
    }
  }

  /* Adds products of high parts first: they leave a small number. */
  __device__ __forceinline__ void exponents(float (*e)[2][4], int stage, int b) const {
    uint32_t columns[STEPS ? STEPS : 1][4];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      load_columns(columns[s], points(stage), b, 0, s);
#pragma unroll
      for (int m = 0; m < MT; m++) multiply(e[m], hi[m][s], columns[s]);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
#pragma unroll
      for (int m = 0; m < MT; m++) multiply(e[m], lo[m][s], columns[s]);
      uint32_t low[4];
      load_columns(low, points(stage), b, 1, s);
#pragma unroll
      for (int m = 0; m < MT; m++) {
        multiply(e[m], both[m][s], low);
        if (a.low_low) multiply(e[m], lo[m][s], low);
      }
    }
  }

  /* ---- kernels and what they are summed with ---- */

  /* Applies the factor and the weight, and omits the pair of a point with itself. */
  __device__ __forceinline__ float adjusted(float kernel, float exponent, int m, int half, int64_t c) const {
    if (a.factor0) {
      float factor = factor0[m][half] + (a.col_factor ? a.col_factor[c] : 0);
      /* where the kernel is 0 the exponent may be infinite */
      kernel *= fmaf(a.factor1, fmaxf(exponent, -1e30f), factor);
    }
    if (!VALUES && a.weight) kernel *= a.weight[c];
    return self != INT64_MIN && row0 + m * 16 + g + 8 * half + self == c ? 0 : kernel;
  }

  __device__ __forceinline__ void to_kernels(float (*e)[4], int m, int64_t col) const {
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int q = 0; q < 4; q++) {
        float exponent = e[n][q];
        e[n][q] = exp2_fast(exponent);
        if (!PLAIN) e[n][q] = adjusted(e[n][q], exponent, m, q >> 1, col + 8 * n + 2 * t + (q & 1));
      }
  }

  /* Adds kernel x values of 16 columns; `part` of the values is hi or lo. */
  __device__ __forceinline__ void multiply_values(uint32_t (*kernel)[4], const char *at, int part) {
    const int low = COORDINATES ? 2 * shape::depth : 16 * VALUES;
#pragma unroll
    for (int v = 0; v < VALUES; v += 2) { /* the tile after an odd last one is read, but not used */
      uint32_t value[4];
      load_matrices_transposed(value, at + part * low + 16 * v);
#pragma unroll
      for (int m = 0; m < MT; m++) {
        mma_m16n8k16(sums[m][v], kernel[m], value[0], value[1]);
        if (v + 1 < VALUES) mma_m16n8k16(sums[m][v + 1 < VALUES ? v + 1 : 0], kernel[m], value[2], value[3]);
      }
    }
  }

  __device__ __forceinline__ void add_mass(float (*e)[2][4]) {
#pragma unroll
    for (int m = 0; m < MT; m++) {
      mass[m][0] += (e[m][0][0] + e[m][0][1]) + (e[m][1][0] + e[m][1][1]);
      mass[m][1] += (e[m][0][2] + e[m][0][3]) + (e[m][1][2] + e[m][1][3]);
    }
  }

  __device__ __forceinline__ void add_up(float (*e)[2][4], const char *stage_points, const char *stage_values,
                                         int b) {
    if constexpr (VALUES > 0)
      add_values(e, stage_points, stage_values, b);
    else
      add_mass(e);
  }

  __device__ __forceinline__ void add_values(float (*e)[2][4], const char *stage_points, const char *stage_values,
                                             int b) {
    uint32_t kernel[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
      for (int i = 0; i < 4; i++) kernel[m][i] = pack_halves(e[m][i >> 1][i % 2 * 2], e[m][i >> 1][i % 2 * 2 + 1]);
    }
    const int stride = COORDINATES ? shape::point_bytes : shape::value_bytes;
    const char *at =
        (COORDINATES ? stage_points : stage_values) + (b + lane % 8 + lane / 8 % 2 * 8) * stride + lane / 16 * 16;
#pragma unroll
    for (int part = 0; part < 2; part++) multiply_values(kernel, at, part);
    if (COORDINATES)
#pragma unroll
      for (int m = 0; m < MT; m++) mma_m16n8k16(ones[m], kernel[m], 0x3c003c00, 0x3c003c00);
    if constexpr (!COORDINATES)
      if (a.single) add_rest(e, kernel, at);
  }

  __device__ __forceinline__ void add_rest(float (*e)[2][4], uint32_t (*kernel)[4], const char *at) {
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        kernel[m][i] = pack_rest(e[m][i >> 1][i % 2 * 2], e[m][i >> 1][i % 2 * 2 + 1], kernel[m][i]);
    }
    multiply_values(kernel, at, 0);
  }

  __device__ __forceinline__ void do_stage(int stage, int64_t col) {
#pragma unroll 1
    for (int b = 0; b < STAGE; b += 16) {
      float e[MT][2][4];
#pragma unroll
      for (int m = 0; m < MT; m++) start(e[m], m, offsets(stage), b);
      exponents(e, stage, b);
#pragma unroll
      for (int m = 0; m < MT; m++) to_kernels(e[m], m, col + b);
      add_up(e, points(stage), values(stage), b);
    }
  }

  /* ---- the second level in shared memory ---- */

  __device__ __forceinline__ float *near_sum(int i) const {
    return (float *)(shared + shape::near_offset) + i * THREADS + threadIdx.x;
  }

  /* Calls f with each sum of the tensor cores and its number. */
  template <typename F>
  __device__ __forceinline__ void for_sums(F f) {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int q = 0; q < 4; q++) {
#pragma unroll
        for (int v = 0; v < VALUES; v++) f(sums[m][v][q], (m * VALUES + v) * 4 + q);
        if (COORDINATES) f(ones[m][q], (MT * VALUES + m) * 4 + q);
      }
  }

  __device__ __forceinline__ void clear_near() {
    for_sums([&](float &, int i) { *near_sum(i) = 0; });
  }
  __device__ __forceinline__ void settle() {
    for_sums([&](float &sum, int i) {
      *near_sum(i) += sum;
      sum = 0;
    });
  }
  __device__ __forceinline__ void fetch_settled() {
    for_sums([&](float &sum, int i) {
      sum += *near_sum(i);
      *near_sum(i) = 0;
    });
  }

  /* ---- results ---- */

  __device__ __forceinline__ double *result(int w, int m, int half) const {
    int64_t pad = (a.n_rows + FK_TENSOR_ROWS - 1) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
    int64_t r = row0 - a.first_row + m * 16 + g + 8 * half;
    if (r >= pad) return NULL;
    return a.acc + ((int64_t)blockIdx.y * (1 + (a.has_values ? a.values.n_values : 0)) + w) * pad + r;
  }

  static __device__ __forceinline__ void put(double *to, float value, bool first) {
    if (to) *to = first ? (double)value : *to + (double)value;
  }

  /* Adds sums to the second level, in FP64: registers for the kernel sum, this block's part of acc for values. */
  __device__ __forceinline__ void flush(bool first) {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        total[m][half] += (double)mass[m][half];
        if (COORDINATES && t == 0) put(result(0, m, half), ones[m][2 * half], first);
#pragma unroll
        for (int v = 0; v < VALUES; v++)
#pragma unroll
          for (int q = 0; q < 2; q++) {
            int w = 8 * v + 2 * t + q;
            if (w < a.values.n_values) put(result(1 + w, m, half), sums[m][v][2 * half + q], first);
            if (!COORDINATES && w == a.values.n_values) put(result(0, m, half), sums[m][v][2 * half + q], first);
          }
      }
    clear();
  }

  __device__ __forceinline__ void store_mass() {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        double sum = total[m][half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        double *to = result(0, m, half);
        if (t == 0 && to) *to = sum;
      }
  }
};

#endif

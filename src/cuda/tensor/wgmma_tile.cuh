/* The steps of a warpgroup of sums_wgmma.cu for a tile: exponents, kernels, and sums with values. For sm_90a. */
#ifndef FK_CUDA_WGMMA_TILE_CUH
#define FK_CUDA_WGMMA_TILE_CUH

#include "mma.cuh"
#include "wgmma.cuh"
#include "wgmma_layout.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace {

/* ---- Tiles. A thread holds rows lane / 4 and 8 on, and of every 8 columns two: register 4 j + 2 h + i is row h,
 * column 8 j + 2 (lane % 4) + i. R: registers of a tile of exponents ---- */

template <int K>
struct row_tile {
  uint32_t hi[K / 16][4], lo[K / 16][4], both[K / 16][4], offset[4]; /* A operands; both: hi + lo rounded to
                                                                      * FP16 */
  float factor[2];
};

/* Sets the A operand of the offset of row h. */
__device__ __forceinline__ void set_offset(uint32_t (&offset)[4], int h, struct offset_pieces p, int quad) {
  uint4 o = offset_features(p, true);
  offset[h] = quad == 0 ? o.x : quad == 1 ? o.y : quad == 2 ? o.z : o.w;
  offset[2 + h] = 0;
}

/* The offset of a column: first, second, third, and then 256. */
__device__ __forceinline__ struct offset_pieces packed_pieces(const uint32_t *features) {
  uint2 offset = *(const uint2 *)features;
  return {offset.x & 0xffff, offset.x >> 16, offset.y & 0xffff};
}

/* PACKED: rows are packed like columns. */
template <int K, bool PACKED>
__device__ __forceinline__ void load_rows(struct row_tile<K> *tile, const struct sums_args &args, int64_t row,
                                          int quad) {
  constexpr struct layout L = layout_of(K, 0, SHORT);
  /* from one group of 8 features to the next, in words */
  constexpr int STEP = PACKED ? L.block_bytes / 4 : 4;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    int64_t r = min(row + 8 * h, args.rows.n_pad - 1);
    const uint32_t *hi = (const uint32_t *)(args.rows.hi + r * K), *lo = (const uint32_t *)(args.rows.lo + r * K);
    struct offset_pieces p;
    if constexpr (PACKED) {
      const uint32_t *column = (const uint32_t *)(args.row_stages + r / L.cols * L.bytes + r % L.cols * 16);
      hi = column + L.hi * STEP, lo = column + L.lo * STEP;
      p = packed_pieces(column + L.offsets * STEP);
    } else {
      p = pieces_of(args.rows.offset[r]);
    }
#pragma unroll
    for (int i = 0; i < K / 8; i++) {
      uint32_t high = hi[STEP * i + quad], low = lo[STEP * i + quad];
      tile->hi[i / 2][i % 2 * 2 + h] = high;
      tile->lo[i / 2][i % 2 * 2 + h] = low;
      tile->both[i / 2][i % 2 * 2 + h] = add_halves(high, low);
    }
    set_offset(tile->offset, h, p, quad);
    tile->factor[h] = args.row_factor ? args.row_factor[r] : 0.0f;
  }
}

/* s = exponents. Offsets come first, then hi.hi, which cancels most of them exactly. If lo.lo is not added, (hi +
 * lo).lo, rounded, has most of it, which matters for points that meet themselves. tile16: address of the tile's
 * first block, in units of 16 bytes. */
template <int K, int PRODUCTS, int R>
__device__ __forceinline__ void start_exponents(float (&s)[R], const struct row_tile<K> &rows, uint32_t tile16,
                                                const struct layout &l) {
  pin(s);
  wgmma_fence();
  wgmma<2 * R, false, false>(s, rows.offset,
                             descriptor(tile16 + l.offsets * (l.block_bytes / 16), l.block_bytes, CORE_BYTES));
#pragma unroll
  for (int product = 0; product < PRODUCTS; product++) {
#pragma unroll
    for (int k = 0; k < K / 16; k++) {
      int block = (product < 2 ? l.hi : l.lo) + 2 * k;
      const uint32_t *row = product % 2 ? rows.lo[k] : product == 2 && PRODUCTS == 3 ? rows.both[k] : rows.hi[k];
      wgmma<2 * R, false>(s, row, descriptor(tile16 + block * (l.block_bytes / 16), l.block_bytes, CORE_BYTES));
    }
  }
  wgmma_commit();
}

/* t += p values, p: 64 rows x 2 R columns of kernels */
template <int N, int PARTS, int R>
__device__ __forceinline__ void start_values(float (&t)[N / 2], const uint32_t (&p)[R], uint32_t tile16,
                                             const struct layout &l) {
  pin(t);
  wgmma_fence();
#pragma unroll
  for (int part = 0; part < PARTS; part++) {
    uint32_t from = tile16 + (l.value_at + part * l.value_step) * (l.block_bytes / 16);
#pragma unroll
    for (int k = 0; k < R / 4; k++)
      wgmma<N, true>(t, p + 4 * k, descriptor(from + k * (2 * CORE_BYTES / 16), CORE_BYTES, l.block_bytes));
  }
  wgmma_commit();
}

/* Row h omits column diagonal + 8 h of the tile. */
template <int R>
__device__ __forceinline__ void leave_out(float (&s)[R], int diagonal, int quad) {
#pragma unroll
  for (int i = 0; i < R; i++) {
    if (i / 4 * 8 + 2 * quad + i % 2 == diagonal + i / 2 % 2 * 8) s[i] = -1e4f;
  }
}

/* s = 2^s [factor]. `weight`, `factor`: shared addresses of the tile's numbers, from column 2 (lane % 4) on. */
template <int EXTRA, int R>
__device__ __forceinline__ void exponentials(float (&s)[R], const float (&row_factor)[2], float factor1,
                                             uint32_t factor) {
#pragma unroll
  for (int j = 0; j < R / 4; j++) {
    float2 f = EXTRA == FACTOR ? load_pair(factor + 32 * j) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int i = 4 * j; i < 4 * j + 4; i++) {
      float t = s[i];
      s[i] = exp2_fast(t);
      if (has_factor(EXTRA)) s[i] *= fmaf(factor1, t, row_factor[i / 2 % 2] + (i % 2 ? f.y : f.x));
    }
  }
}

/* mass += weight 2^s [factor], for columns 8 first to 8 end - 1 of the tile. The column decides which exponentials
 * the FMA pipe takes, so that the bits of a row do not depend on its place in the tile. */
template <int EXTRA, int ON_FMA, int DEGREE, int R>
__device__ __forceinline__ void add_mass(float (&mass)[2], const float (&s)[R], const float (&row_factor)[2],
                                         float factor1, uint32_t weight, uint32_t factor, int first, int end) {
#pragma unroll
  for (int j = first; j < end; j++) {
    float2 w = has_weight(EXTRA) ? load_pair(weight + 32 * j) : make_float2(1.0f, 1.0f);
    float2 f = EXTRA == FACTOR ? load_pair(factor + 32 * j) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float e[2], g[2] = {w.x, w.y};
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float t = s[4 * j + 2 * h + i];
        e[i] = (2 * j + i) % 8 < ON_FMA ? exp2_polynomial<DEGREE, has_factor(EXTRA)>(t) : exp2_fast(t);
        if (has_factor(EXTRA)) g[i] *= fmaf(factor1, t, row_factor[h] + (i ? f.y : f.x));
      }
      mass[h] = has_weight(EXTRA) || has_factor(EXTRA) ? fmaf(g[0], e[0], fmaf(g[1], e[1], mass[h]))
                                                       : mass[h] + (e[0] + e[1]);
    }
  }
}

/* The sums of a thread between two flushes; short sums end within a tile. */
template <int EXTRA>
struct sum_of {
  typedef float type;
};
template <>
struct sum_of<SHORT> {
  typedef double type;
};

/* The sums of a tile. `weight`, `factor`: shared addresses of the tile's numbers, from column 2 (lane % 4) on. */
template <int EXTRA, int ON_FMA, int DEGREE, int R>
__device__ __forceinline__ void add_masses(typename sum_of<EXTRA>::type (&sums)[2], const float (&s)[R],
                                           const float (&row_factor)[2], float factor1, uint32_t weight,
                                           uint32_t factor) {
  if constexpr (EXTRA == SHORT) {
#pragma unroll
    for (int j = 0; j < R / 4; j += FK_TENSOR_SHORT / 8) {
      float part[2] = {0.0f, 0.0f};
      add_mass<EXTRA, ON_FMA, DEGREE>(part, s, row_factor, factor1, weight, factor, j, j + FK_TENSOR_SHORT / 8);
      for (int h = 0; h < 2; h++) sums[h] += (double)part[h];
    }
  } else {
    add_mass<EXTRA, ON_FMA, DEGREE>(sums, s, row_factor, factor1, weight, factor, 0, R / 4);
  }
}

/* A thread's accumulators for 8 columns are what an A operand holds for 8 features. */
template <int R>
__device__ __forceinline__ void round_kernels(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++) p[i] = pack_halves(s[2 * i], s[2 * i + 1]);
}

/* p = 2^s rounded to FP16 */
template <int ON_FMA, int R>
__device__ __forceinline__ void coarse_kernels(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++)
    p[i] = i / 2 % 8 < ON_FMA ? exp2_halves(s[2 * i], s[2 * i + 1])
                              : pack_halves(exp2_fast(s[2 * i]), exp2_fast(s[2 * i + 1]));
}

/* The rounding error of p. */
template <int R>
__device__ __forceinline__ void round_rest(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++) p[i] = pack_rest(s[2 * i], s[2 * i + 1], p[i]);
}

/* ---- Where sums go ---- */

/* Decided by a vote, like the lengths of lists. */
__device__ __forceinline__ bool is_near(uint32_t turn, int warpgroup) {
  return __any_sync(~0u, turn >> (28 + warpgroup) & 1);
}

/* The column, from the slot's first, where the first row of the warp meets itself; NEVER if nowhere. */
__device__ __forceinline__ int first_diagonal(int64_t warp_row, int64_t self, int64_t first_col) {
  int64_t to_diagonal = warp_row + self - first_col;
  bool meets = self != INT64_MIN && to_diagonal > -16 && to_diagonal < INT32_MAX;
  return meets ? (int)to_diagonal : NEVER;
}

__device__ __forceinline__ double *acc_of_slot(const struct sums_args &args) {
  return args.acc + (int64_t)blockIdx.y * (args.n_values + 1) * args.n_rows_pad;
}

__device__ __forceinline__ void store_mass(const struct sums_args &args, double (&mass)[2], int64_t row,
                                           int quad) {
  double *acc = acc_of_slot(args);
  for (int h = 0; h < 2; h++) {
    mass[h] += __shfl_xor_sync(~0u, mass[h], 1);
    mass[h] += __shfl_xor_sync(~0u, mass[h], 2);
    if (quad == 0 && row + 8 * h < args.n_rows_pad) acc[row + 8 * h] = mass[h];
  }
}

} // namespace

#endif

#endif

/* Sums of Gaussian kernels on Hopper's warpgroup tensor cores (wgmma, sm_90a); tensor.cuh says what is summed.
 *
 * A block owns 64 rows a warpgroup and walks over the columns of its slot, which bulk copies bring into a ring of
 * shared memory. A warpgroup takes a tile of columns at a time: products of halves make the exponents t in its
 * accumulators, 2^t is taken there, and the kernels, rounded to fp16, lie in the very registers where the A
 * operand of the product with the values wants them. Nothing is overlapped by hand: four warpgroups share a
 * multiprocessor, and one's products run during another's exponentials, 16 a clock, 256 clocks for 64 x 64: the
 * bound. Beside running products every other instruction costs most of a clock, so there are few; offsets enter as
 * one more product, since adding them to all accumulators took 7 % of the time.
 *
 * Coordinates lie in shared memory once, in core matrices of 8 columns x 8 features without swizzle: read K-major
 * they are the B operand of the exponents, read transposed that of the values.
 */
#include "sums_wgmma.cuh"

#include "mma.cuh"
#include "wgmma.cuh"

/* How to cut the columns. Blocks run in waves of one a multiprocessor, and a block begins and ends in the time of
 * a few hundred columns; of the cuts within 1 % of the best, that with the fewest slots, each a copy of the sums.
 * Counts on 132 multiprocessors whatever there are: sums have the same bits on any number of devices. */
void fk_wgmma_plan(int64_t n_cols, int64_t n_rows_total, bool has_values, int *slots, int64_t *cols_per_slot) {
  const int64_t multiprocessors = 132, block_rows = 256, unit = FK_TENSOR_FLUSH, max_slots = 256;
  const int64_t ends = has_values ? 300 : 200, most_cols = has_values ? 131072 : INT64_MAX; /* of one FP32 sum */
  int64_t units = (n_cols + unit - 1) / unit, row_blocks = (n_rows_total + block_rows - 1) / block_rows;
  int64_t best_time = INT64_MAX / 2;
  *slots = 1, *cols_per_slot = unit;
  for (int64_t n = max_slots < units ? max_slots : units; n >= 1; n--) {
    int64_t per_slot = (units + n - 1) / n * unit, used = (units * unit + per_slot - 1) / per_slot;
    int64_t waves = (row_blocks * used + multiprocessors - 1) / multiprocessors, time = waves * (per_slot + ends);
    if (per_slot > most_cols || time > best_time + best_time / 100) continue;
    if (time < best_time) best_time = time;
    *slots = (int)used, *cols_per_slot = per_slot;
  }
}

#ifdef FK_CUDA_SM90A

namespace {

enum {
  TILE_ROWS = 64,   /* of a warpgroup */
  CORE_BYTES = 128, /* a core matrix: 8 columns of 8 halves */
  SHARED_BYTES = 226 * 1024,
  FLUSH_COLS = FK_TENSOR_VALUE_FLUSH,
  MASS_FLUSH_COLS = 4096, /* a thread's own sums round, and are of a quarter of these */
  COORDINATES = -1,       /* the width of the values where they are the coordinates */
  UNSUPPORTED = -2,
  NONE = -1000,
  NEVER = -(1 << 20) /* as a distance to the diagonal */
};

/* What a kernel does beside the plain sum. All but PLAIN leave out the pair of a point with itself, where it has
 * to be; POLYNOMIAL: a factor of the rows alone; WEIGHT: weights of the columns; FACTOR: those, and a factor of
 * both. */
enum extra { PLAIN, SELF, POLYNOMIAL, WEIGHT, FACTOR };
__host__ __device__ constexpr bool has_weight(int extra) { return extra == WEIGHT || extra == FACTOR; }
__host__ __device__ constexpr bool has_factor(int extra) { return extra == POLYNOMIAL || extra == FACTOR; }

/* Products of halves: COARSE: without the low parts of columns and, where coordinates are summed, of rows and of
 * those coordinates; REST of the rounded kernels with values, too; LOW: and lo.lo. */
enum precision { COARSE, ROUNDED, REST, LOW };
__host__ __device__ constexpr int products_of(int width, int precision) {
  return precision == LOW ? 4 : precision != COARSE ? 3 : width == 0 ? 2 : 1;
}

/* ---- Columns, packed as they lie in shared memory ---- */

/* A stage is a row of blocks of 8 features, [block][column][8 halves], then floats of the columns. */
struct layout {
  int cols;                                      /* of a stage */
  int ones, hi, lo, value_hi, value_lo, offsets; /* first blocks, or NONE; a block that none owns is zero */
  int n_blocks, block_bytes, floats_at, bytes;
  /* The product with the values: value_parts runs of value_n features from blocks value_at and value_at +
   * value_step, added into the same accumulators; low halves of their own are `side` blocks on, or 0. */
  int value_n, value_parts, value_at, value_step, side;
};

__host__ __device__ constexpr struct layout layout_of(int k, int width, int extra) {
  struct layout l = {};
  int kb = k / 8, wb = width / 8;
  l.ones = l.lo = l.value_hi = l.value_lo = NONE, l.hi = 0;
  /* Products of less than 26 features take the time of 26: low halves go beside the high ones while these are few,
   * else into the same accumulators, to save registers. */
  if (width == COORDINATES) {
    bool few = k == 16;
    l.ones = 0, l.hi = 1, l.lo = few ? 1 + kb : 2 + kb;
    l.n_blocks = l.lo + kb;
    l.value_n = few ? 8 + 2 * k : 8 + k, l.value_parts = few ? 1 : 2, l.value_step = 1 + kb, l.side = few ? kb : 0;
  } else {
    l.lo = kb;
    l.n_blocks = 2 * kb;
    if (width > 0) {
      bool few = width <= 24;
      l.value_at = l.value_hi = l.n_blocks, l.value_lo = l.value_hi + wb;
      l.n_blocks += 2 * wb;
      l.value_n = few ? 2 * width : width, l.value_parts = few ? 1 : 2, l.value_step = wb, l.side = few ? wb : 0;
    }
  }
  l.offsets = l.n_blocks;
  l.n_blocks += 2;
  l.cols = l.n_blocks <= 8 ? 256 : l.n_blocks <= 16 ? 128 : 64;
  l.block_bytes = 16 * l.cols;
  l.floats_at = l.n_blocks * l.block_bytes;
  l.bytes = l.floats_at + (has_weight(extra) + (extra == FACTOR)) * l.cols * (int)sizeof(float);
  return l;
}

/* Packed alike, but coarse sums do without the low parts. */
__host__ __device__ constexpr struct layout layout_of(int k, int width, int precision, int extra) {
  struct layout l = layout_of(k, width, extra);
  if (precision == COARSE && width == COORDINATES) l.value_n = 8 + k, l.value_parts = 1, l.side = 0;
  return l;
}

struct pack_args {
  struct layout layout;
  struct fk_tensor_points cols;
  struct fk_tensor_values values;
  const float *weight, *factor;
  char *packed;
};

enum { HALF_1 = 0x3c00, HALF_256 = 0x5c00 };

/* An offset as 256 first + second + third; absent columns are far away, but no infinity meets a 0. */
struct pieces {
  uint32_t first, second, third;
};

__device__ __forceinline__ struct pieces pieces_of(float offset) {
  offset = fmaxf(offset, -1.5e7f);
  __half first = __float2half_rn(offset / 256.0f);
  float rest = offset - 256.0f * __half2float(first);
  __half second = __float2half_rn(rest), third = __float2half_rn(rest - __half2float(second));
  struct pieces p = {__half_as_ushort(first), __half_as_ushort(second), __half_as_ushort(third)};
  return p;
}

/* Row and column of the product that makes offsets: (256, 1, 1, r1, r2, r3) (c1, c2, c3, 256, 1, 1)' */
__device__ __forceinline__ uint4 offset_features(struct pieces p, bool row) {
  uint32_t a[3] = {HALF_256 | HALF_1 << 16, HALF_1 | p.first << 16, p.second | p.third << 16};
  uint32_t b[3] = {p.first | p.second << 16, p.third | HALF_256 << 16, HALF_1 | HALF_1 << 16};
  return row ? make_uint4(a[0], a[1], a[2], 0) : make_uint4(b[0], b[1], b[2], 0);
}

__device__ __forceinline__ uint4 block_of_column(const struct pack_args &a, int block, int64_t col) {
  const struct layout &l = a.layout;
  int kb = a.cols.k / 8;
  bool present = col < a.cols.n_pad;
  const __half *from = NULL;
  if (block == l.ones) return make_uint4(0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u);
  if (block == l.offsets) return offset_features(pieces_of(present ? a.cols.offset[col] : -INFINITY), false);
  if (block >= l.hi && block < l.hi + kb) from = a.cols.hi + col * a.cols.k + 8 * (block - l.hi);
  if (block >= l.lo && block < l.lo + kb) from = a.cols.lo + col * a.cols.k + 8 * (block - l.lo);
  if (l.value_hi != NONE && block >= l.value_hi && block < l.offsets) {
    bool low = block >= l.value_lo;
    int feature = 8 * (block - (low ? l.value_lo : l.value_hi));
    if (feature < a.values.width) from = (low ? a.values.lo : a.values.hi) + col * a.values.width + feature;
  }
  return from && present ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
}

__global__ void pack_kernel(const __grid_constant__ struct pack_args a) {
  const struct layout &l = a.layout;
  char *stage = a.packed + (int64_t)blockIdx.x * l.bytes;
  int64_t first = (int64_t)blockIdx.x * l.cols;
  for (int i = threadIdx.x; i < l.n_blocks * l.cols; i += blockDim.x)
    ((uint4 *)stage)[i] = block_of_column(a, i / l.cols, first + i % l.cols);
  float *floats = (float *)(stage + l.floats_at);
  for (int i = threadIdx.x; i < (l.bytes - l.floats_at) / (int)sizeof(float); i += blockDim.x) {
    const float *from = i < l.cols ? a.weight : a.factor;
    float absent = i < l.cols ? 1.0f : 0.0f;
    int64_t col = first + i % l.cols;
    floats[i] = from && col < a.cols.n_pad ? from[col] : absent;
  }
}

/* ---- How a kernel is cut; measured ---- */

struct shape {
  int tile_cols, warpgroups, stages;
  int on_fma; /* of 8 exponentials, those that the FMA pipe takes */
};

__host__ __device__ constexpr struct shape shape_of(int k, int width, int precision, int extra, struct layout l) {
  struct shape s = {};
  s.tile_cols = (k == 16 && width <= 0) || (k == 32 && width == 0) ? 128 : 64;
  if (s.tile_cols > l.cols) s.tile_cols = l.cols;
  s.warpgroups = k >= 48 && width != 0 ? 3 : 4;
  s.stages = (SHARED_BYTES - l.value_n / 2 * 128 * s.warpgroups * (int)sizeof(float)) / l.bytes;
  if (s.stages > 4) s.stages = 4;
  s.on_fma = width != 0 ? 3 * (precision == COARSE) : 1 + (precision == COARSE && !has_factor(extra));
  return s;
}

struct sums_args {
  struct fk_tensor_points rows;
  const float *row_factor;
  const char *packed;
  double *acc;
  int64_t first_row, n_rows_pad, self;
  int n_values, n_stages, slot_stages;
  float factor1;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- Tiles. A thread holds rows lane / 4 and 8 on, and of every 8 columns two: register 4 j + 2 h + i is row h,
 * column 8 j + 2 (lane % 4) + i. R: registers of a tile of exponents ---- */

template <int K>
struct row_tile {
  uint32_t hi[K / 16][4], lo[K / 16][4], both[K / 16][4], offset[4]; /* A operands; both: hi + lo in one half */
  float factor[2];
};

template <int K>
__device__ __forceinline__ void load_rows(struct row_tile<K> *tile, const struct sums_args &args, int64_t row,
                                          int quad) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    int64_t r = min(row + 8 * h, args.rows.n_pad - 1);
    const uint32_t *hi = (const uint32_t *)(args.rows.hi + r * K), *lo = (const uint32_t *)(args.rows.lo + r * K);
#pragma unroll
    for (int i = 0; i < K / 8; i++) {
      tile->hi[i / 2][i % 2 * 2 + h] = hi[4 * i + quad];
      tile->lo[i / 2][i % 2 * 2 + h] = lo[4 * i + quad];
      tile->both[i / 2][i % 2 * 2 + h] = add_halves(hi[4 * i + quad], lo[4 * i + quad]);
    }
    uint4 o = offset_features(pieces_of(args.rows.offset[r]), true);
    tile->offset[h] = quad == 0 ? o.x : quad == 1 ? o.y : quad == 2 ? o.z : o.w;
    tile->offset[2 + h] = 0;
    tile->factor[h] = args.row_factor ? args.row_factor[r] : 0.0f;
  }
}

/* s = exponents. Offsets first, then hi.hi, which cancels most of them, exactly; where lo.lo is not added, (hi +
 * lo).lo, rounded, holds most of it, which counts for points that meet themselves. tile16: address of the tile's
 * first block, in 16 bytes. */
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

/* Row h does not meet column diagonal + 8 h of the tile. */
template <int R>
__device__ __forceinline__ void leave_out(float (&s)[R], int diagonal, int quad) {
#pragma unroll
  for (int i = 0; i < R; i++) {
    if (i / 4 * 8 + 2 * quad + i % 2 == diagonal + i / 2 % 2 * 8) s[i] = -1e4f;
  }
}

/* s = 2^s [factor]. `weight`, `factor`: shared addresses of the tile's, from column 2 (lane % 4). */
template <int K, int EXTRA, int R>
__device__ __forceinline__ void exponentials(float (&s)[R], const struct row_tile<K> &rows, float factor1,
                                             uint32_t factor) {
#pragma unroll
  for (int j = 0; j < R / 4; j++) {
    float2 f = EXTRA == FACTOR ? load_pair(factor + 32 * j) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int i = 4 * j; i < 4 * j + 4; i++) {
      float t = s[i];
      s[i] = exp2_fast(t);
      if (has_factor(EXTRA)) s[i] *= fmaf(factor1, t, rows.factor[i / 2 % 2] + (i % 2 ? f.y : f.x));
    }
  }
}

/* mass += weight 2^s [factor] */
template <int K, int EXTRA, int ON_FMA, int DEGREE, int R>
__device__ __forceinline__ void add_mass(float (&mass)[2], const float (&s)[R], const struct row_tile<K> &rows,
                                         float factor1, uint32_t weight, uint32_t factor) {
#pragma unroll
  for (int j = 0; j < R / 4; j++) {
    float2 w = has_weight(EXTRA) ? load_pair(weight + 32 * j) : make_float2(1.0f, 1.0f);
    float2 f = EXTRA == FACTOR ? load_pair(factor + 32 * j) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float e[2], g[2] = {w.x, w.y};
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float t = s[4 * j + 2 * h + i];
        e[i] = (4 * j + 2 * h + i) % 8 < ON_FMA ? exp2_polynomial<DEGREE, has_factor(EXTRA)>(t) : exp2_fast(t);
        if (has_factor(EXTRA)) g[i] *= fmaf(factor1, t, rows.factor[h] + (i ? f.y : f.x));
      }
      mass[h] = has_weight(EXTRA) || has_factor(EXTRA) ? fmaf(g[0], e[0], fmaf(g[1], e[1], mass[h]))
                                                       : mass[h] + (e[0] + e[1]);
    }
  }
}

/* A thread's accumulators are, of 8 columns, what an A operand holds of 8 features. */
template <int R>
__device__ __forceinline__ void round_kernels(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++) p[i] = pack_halves(s[2 * i], s[2 * i + 1]);
}

/* p = 2^s, of few digits */
template <int ON_FMA, int R>
__device__ __forceinline__ void coarse_kernels(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++)
    p[i] = i % 8 < ON_FMA ? exp2_halves(s[2 * i], s[2 * i + 1])
                          : pack_halves(exp2_fast(s[2 * i]), exp2_fast(s[2 * i + 1]));
}

/* What that rounding took off. */
template <int R>
__device__ __forceinline__ void round_rest(uint32_t (&p)[R / 2], const float (&s)[R]) {
#pragma unroll
  for (int i = 0; i < R / 2; i++) p[i] = pack_rest(s[2 * i], s[2 * i + 1], p[i]);
}

/* ---- The kernel ---- */

template <int K, int V, int PRECISION, int EXTRA>
__global__ void __launch_bounds__(
    128 * shape_of(K, V, PRECISION, EXTRA, layout_of(K, V, PRECISION, EXTRA)).warpgroups, 1)
    sums_kernel(const __grid_constant__ struct sums_args args) {
  constexpr struct layout L = layout_of(K, V, PRECISION, EXTRA);
  constexpr struct shape SHAPE = shape_of(K, V, PRECISION, EXTRA, L);
  constexpr int THREADS = 128 * SHAPE.warpgroups, STAGES = SHAPE.stages, TILE_COLS = SHAPE.tile_cols;
  constexpr int R = TILE_COLS / 2, SUMS = V == 0 ? 2 : L.value_n / 2;
  constexpr int ARRIVALS = has_weight(EXTRA) ? 32 : 1; /* of a warp: floats are read by every lane */
  extern __shared__ __align__(128) char shared[];
  __shared__ uint64_t barriers[2 * STAGES]; /* full ones, empty ones */
  /* Sums of values leave the tensor cores, which truncate, for FP32 that rounds: [SUMS][THREADS]. */
  float *far_sums = (float *)(shared + STAGES * L.bytes) + threadIdx.x;
  uint32_t ring = shared_address(shared), full = shared_address(barriers), empty = full + 8 * STAGES;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane % 4;
  int first_stage = blockIdx.y * args.slot_stages;
  int n_stages = max(0, min(args.slot_stages, args.n_stages - first_stage));
  const char *columns = args.packed + (int64_t)first_stage * L.bytes;
  int64_t warp_row = (int64_t)blockIdx.x * (TILE_ROWS * SHAPE.warpgroups) + 16 * warp, row = warp_row + lane / 4;

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++)
      barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, THREADS / 32 * ARRIVALS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < min(STAGES, n_stages); i++)
      bulk_copy(ring + i * L.bytes, columns + (int64_t)i * L.bytes, L.bytes, full + 8 * i);
  }
  struct row_tile<K> rows;
  load_rows<K>(&rows, args, args.first_row + row, quad);
  int64_t to_diagonal = args.first_row + warp_row + args.self - (int64_t)first_stage * L.cols;
  bool meets = args.self != INT64_MIN && to_diagonal > -16 && to_diagonal < INT32_MAX;
  int diagonal = meets ? (int)to_diagonal : NEVER; /* from the warp's first row, in columns of the tile */
  __syncthreads();

  float s[R], sums[SUMS] = {0.0f};
  double mass[2] = {0.0, 0.0};
  if constexpr (V != 0) {
#pragma unroll
    for (int i = 0; i < SUMS; i++) far_sums[i * THREADS] = 0.0f;
  }
  int slot = 0, phase = 0;
  for (int stage = 0; stage < n_stages; stage++) {
    uint32_t tile16 = (ring + slot * L.bytes) / 16, floats = ring + slot * L.bytes + L.floats_at + 8 * quad;
    barrier_wait(full + 8 * slot, phase);
#pragma unroll 1
    for (int tile = 0; tile < L.cols / TILE_COLS; tile++) {
      start_exponents<K, products_of(V, PRECISION)>(s, rows, tile16, L);
      wgmma_wait(s);
      if constexpr (EXTRA >= SELF) {
        if (diagonal > -16 && diagonal < TILE_COLS) leave_out(s, diagonal + lane / 4, quad);
        diagonal -= TILE_COLS;
      }
      if constexpr (V == 0) {
        add_mass<K, EXTRA, SHAPE.on_fma, PRECISION == COARSE ? 3 : 5>(sums, s, rows, args.factor1, floats,
                                                                      floats + 4 * L.cols);
      } else {
        uint32_t p[R / 2];
        if constexpr (PRECISION == COARSE) {
          coarse_kernels<SHAPE.on_fma>(p, s);
        } else {
          exponentials<K, EXTRA>(s, rows, args.factor1, floats + 4 * L.cols);
          round_kernels(p, s);
        }
        start_values<L.value_n, L.value_parts>(sums, p, tile16, L);
        wgmma_wait(sums);
        if constexpr (V > 0 && PRECISION >= REST) {
          round_rest(p, s);
          start_values<L.value_n, L.value_parts>(sums, p, tile16, L);
          wgmma_wait(sums);
        }
      }
      tile16 += TILE_COLS / 8 * CORE_BYTES / 16, floats += 4 * TILE_COLS;
    }

    bool last = stage + 1 == n_stages;
    if (lane % (32 / ARRIVALS) == 0) barrier_arrive(empty + 8 * slot);
    if (warp == 0 && stage > 0 && stage - 1 + STAGES < n_stages) { /* most left the stage before this long ago */
      int old = slot == 0 ? STAGES - 1 : slot - 1;
      barrier_wait(empty + 8 * old, slot == 0 ? phase ^ 1 : phase);
      if (lane == 0)
        bulk_copy(ring + old * L.bytes, columns + (int64_t)(stage - 1 + STAGES) * L.bytes, L.bytes,
                  full + 8 * old);
    }
    if constexpr (V != 0) {
      if ((stage + 1) % ((PRECISION == COARSE ? MASS_FLUSH_COLS : FLUSH_COLS) / L.cols) == 0 || last) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) far_sums[i * THREADS] += sums[i], sums[i] = 0.0f;
      }
    } else if ((stage + 1) % (MASS_FLUSH_COLS / L.cols) == 0 || last) {
      for (int h = 0; h < 2; h++) mass[h] += sums[h], sums[h] = 0.0f;
    }
    if (++slot == STAGES) slot = 0, phase ^= 1;
  }

  double *acc = args.acc + (int64_t)blockIdx.y * (args.n_values + 1) * args.n_rows_pad;
  if constexpr (V == 0) {
    for (int h = 0; h < 2; h++) {
      mass[h] += __shfl_xor_sync(~0u, mass[h], 1);
      mass[h] += __shfl_xor_sync(~0u, mass[h], 2);
      if (quad == 0 && row + 8 * h < args.n_rows_pad) acc[row + 8 * h] = mass[h];
    }
  } else {
    constexpr int ONES = V == COORDINATES ? 8 : 0, FEATURES = V == COORDINATES ? K : V; /* ones come before them */
#pragma unroll
    for (int i = 0; i < (ONES + FEATURES) / 2; i++) {
      int feature = i / 4 * 8 + 2 * quad + i % 2 - ONES;
      int64_t r = row + i / 2 % 2 * 8;
      bool is_mass = V == COORDINATES ? feature == -ONES : feature == args.n_values;
      double sum = (double)far_sums[i * THREADS];
      if (L.side > 0 && i >= ONES / 2) sum += (double)far_sums[(i + 4 * L.side) * THREADS];
      if (r < args.n_rows_pad && (is_mass || (feature >= 0 && feature < args.n_values)))
        acc[(is_mass ? 0 : feature + 1) * args.n_rows_pad + r] = sum;
    }
  }
}

#else
template <int K, int V, int PRECISION, int EXTRA>
__global__ void sums_kernel(const __grid_constant__ struct sums_args args) {}
#endif

/* ---- Host ---- */

int width_of(const struct fk_tensor_task *task) {
  int k = task->cols.k, width = task->values.width;
  if (!task->has_values) return 0;
  if (!task->values.hi) return COORDINATES;
  return width <= 8 ? 8 : width <= k + 8 ? k + 8 : UNSUPPORTED;
}

int extra_of(const struct fk_tensor_task *task) {
  if (task->factor0) return task->has_values || task->weight ? FACTOR : POLYNOMIAL;
  if (task->weight && !task->has_values) return WEIGHT;
  /* Only where it counts is there a kernel that does without the look at the diagonal. */
  bool own_plain = task->cols.k == 16 && (!task->has_values || !task->values.hi);
  return task->self == INT64_MIN && own_plain ? PLAIN : SELF;
}

struct layout layout_for(const struct fk_tensor_task *task) {
  return layout_of(task->cols.k, width_of(task), extra_of(task));
}

template <int K, int V, int PRECISION, int EXTRA>
cudaError_t launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  constexpr struct layout L = layout_of(K, V, PRECISION, EXTRA);
  constexpr struct shape SHAPE = shape_of(K, V, PRECISION, EXTRA, L);
  constexpr int threads = 128 * SHAPE.warpgroups, block_rows = TILE_ROWS * SHAPE.warpgroups;
  constexpr int bytes = SHAPE.stages * L.bytes + L.value_n / 2 * threads * (int)sizeof(float);
  static_assert(SHAPE.stages >= 2, "copies need a stage to go to while another is read");
  struct sums_args a;
  a.rows = task->rows, a.row_factor = task->factor0, a.factor1 = task->factor1;
  a.packed = (const char *)packed, a.acc = task->acc;
  a.first_row = task->first_row, a.self = task->self;
  a.n_rows_pad = (task->n_rows + FK_TENSOR_ROWS - 1) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
  a.n_values = task->has_values ? task->values.n_values : 0;
  a.n_stages = (int)((task->cols.n_pad + L.cols - 1) / L.cols),
  a.slot_stages = (int)(task->cols_per_slot / L.cols);
  void (*kernel)(struct sums_args) = sums_kernel<K, V, PRECISION, EXTRA>;
  cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (err != cudaSuccess) return err;
  dim3 grid((unsigned)((task->n_rows + block_rows - 1) / block_rows), (unsigned)task->slots);
  kernel<<<grid, threads, bytes, stream>>>(a);
  return cudaGetLastError();
}

template <int K, int V, int EXTRA>
cudaError_t launch_precision(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  if (task->low_low) return launch<K, V, LOW, EXTRA>(task, packed, stream);
  if constexpr (K == 16 && V <= 0)
    if (task->coarse) return launch<K, V, COARSE, EXTRA>(task, packed, stream);
  constexpr int single = V == 0 || V == COORDINATES ? ROUNDED : REST;
  return task->single ? launch<K, V, single, EXTRA>(task, packed, stream)
                      : launch<K, V, ROUNDED, EXTRA>(task, packed, stream);
}

template <int K>
cudaError_t launch_mass(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  switch (extra_of(task)) {
    case FACTOR: return launch_precision<K, 0, FACTOR>(task, packed, stream);
    case POLYNOMIAL: return launch_precision<K, 0, POLYNOMIAL>(task, packed, stream);
    case WEIGHT: return launch_precision<K, 0, WEIGHT>(task, packed, stream);
    case SELF: return launch_precision<K, 0, SELF>(task, packed, stream);
    default: return launch_precision < K, 0, K == 16 ? PLAIN : SELF > (task, packed, stream);
  }
}

template <int K>
cudaError_t launch_coordinates(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  return extra_of(task) == PLAIN ? launch_precision < K, COORDINATES,
         K == 16 ? PLAIN : SELF > (task, packed, stream)
                                 : launch_precision<K, COORDINATES, SELF>(task, packed, stream);
}

template <int K, int V>
cudaError_t launch_values(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  return task->factor0 ? launch_precision<K, V, FACTOR>(task, packed, stream)
                       : launch_precision<K, V, SELF>(task, packed, stream);
}

template <int K>
cudaError_t launch_k(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  switch (width_of(task)) {
    case 0: return launch_mass<K>(task, packed, stream);
    case COORDINATES: return launch_coordinates<K>(task, packed, stream);
    case 8: return launch_values<K, 8>(task, packed, stream);
    default: return launch_values<K, K + 8>(task, packed, stream);
  }
}

bool device_is_hopper(void) {
  int device, major, minor;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
         minor == 0;
}

} // namespace

/* Whether these kernels can do the task on the current device. */
bool fk_wgmma_supports(const struct fk_tensor_task *task) {
  int k = task->cols.k;
  if (k % 16 != 0 || k < 16 || k > 64 || task->rows.k != k) return false;
  if (width_of(task) == UNSUPPORTED || (width_of(task) == COORDINATES && task->factor0)) return false;
  return device_is_hopper();
}

bool fk_wgmma_has_high_rows(const struct fk_tensor_task *task) {
  return task->coarse && task->cols.k == 16 && width_of(task) == COORDINATES;
}

size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *task) {
  struct layout l = layout_for(task);
  return (size_t)((task->cols.n_pad + l.cols - 1) / l.cols) * l.bytes;
}

/* Packs the columns, once for all launches over any rows, with any slots. */
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *task, void *packed, cudaStream_t stream) {
  struct pack_args a;
  a.layout = layout_for(task);
  a.cols = task->cols, a.values = task->values;
  a.weight = task->has_values ? NULL : task->weight, a.factor = task->col_factor;
  a.packed = (char *)packed;
  pack_kernel<<<(unsigned)((task->cols.n_pad + a.layout.cols - 1) / a.layout.cols), 256, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t fk_wgmma_launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  switch (task->cols.k) {
    case 16: return launch_k<16>(task, packed, stream);
    case 32: return launch_k<32>(task, packed, stream);
    case 48: return launch_k<48>(task, packed, stream);
    case 64: return launch_k<64>(task, packed, stream);
    default: return cudaErrorNotSupported;
  }
}

#else

bool fk_wgmma_supports(const struct fk_tensor_task *) { return false; }
bool fk_wgmma_has_high_rows(const struct fk_tensor_task *) { return false; }
size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *) { return 0; }
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *, void *, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t fk_wgmma_launch(const struct fk_tensor_task *, const void *, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif

/* How the wgmma kernels lay out their columns in shared memory, and how columns are cut. */
#ifndef FK_CUDA_WGMMA_LAYOUT_CUH
#define FK_CUDA_WGMMA_LAYOUT_CUH

#include "sums_wgmma.cuh"

namespace {

enum {
  TILE_ROWS = 64,   /* of a warpgroup */
  CORE_BYTES = 128, /* a core matrix: 8 columns of 8 halves */
  SHARED_BYTES = 226 * 1024,
  FLUSH_COLS = FK_TENSOR_VALUE_FLUSH,
  MASS_FLUSH_COLS = 4096, /* a thread's own sums round; they run over a quarter of these columns */
  COORDINATES = -1,       /* the width of the values if they are the coordinates */
  UNSUPPORTED = -2,
  NONE = -1000,
  NEVER = -(1 << 20) /* as a distance to the diagonal */
};

/* What a kernel does besides the plain sum. All but PLAIN and SHORT can omit the pair of a point with itself.
 * POLYNOMIAL: a factor of the rows alone; WEIGHT: weights of the columns; SHORT: weights, in short sums; FACTOR:
 * weights, and a factor of rows and columns; EXPONENTS: exponents are stored in place of a sum. */
enum extra { PLAIN, SHORT, SELF, POLYNOMIAL, WEIGHT, FACTOR, EXPONENTS };
__host__ __device__ constexpr bool has_weight(int extra) {
  return extra == SHORT || extra == WEIGHT || extra == FACTOR;
}
__host__ __device__ constexpr bool has_factor(int extra) { return extra == POLYNOMIAL || extra == FACTOR; }

/* FP16 products. COARSE: without the low parts of columns and, if coordinates are summed, of rows and of those
 * coordinates. REST: the rounding errors of kernels are summed with values, too. LOW: with lo.lo as well. */
enum precision { COARSE, ROUNDED, REST, LOW };
__host__ __device__ constexpr int products_of(int width, int precision) {
  return precision == LOW ? 4 : precision != COARSE ? 3 : width == 0 ? 2 : 1;
}

/* ---- Columns, packed as they lie in shared memory ---- */

/* A stage is a row of blocks of 8 features, [block][column][8 FP16 terms], followed by floats of the columns. With
 * many dimensions it is copied to shared memory in slices. */
struct layout {
  int cols;                                      /* of a stage */
  int ones, hi, lo, value_hi, value_lo, offsets; /* first blocks, or NONE; a block without an owner is zero */
  int n_blocks, block_bytes, floats_at, bytes;
  /* The product with the values: value_parts runs of value_n features from blocks value_at and value_at +
   * value_step, added into the same accumulators. If low parts have accumulators of their own, they are `side`
   * blocks further, otherwise 0. */
  int value_n, value_parts, value_at, value_step, side;
};

__host__ __device__ constexpr struct layout layout_of(int k, int width, int extra) {
  struct layout l = {};
  int kb = k / 8, wb = width / 8;
  l.ones = l.lo = l.value_hi = l.value_lo = NONE, l.hi = 0;
  /* Products of fewer than 26 features take the time of 26: low parts go beside the high ones while there are few
   * features, otherwise into the same accumulators, to save registers. */
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
  l.cols = l.n_blocks <= 8 ? 256 : l.n_blocks <= 16 || k > FK_TENSOR_WIDE ? 128 : 64;
  l.block_bytes = 16 * l.cols;
  l.floats_at = l.n_blocks * l.block_bytes;
  l.bytes = l.floats_at + (has_weight(extra) + (extra == FACTOR)) * l.cols * (int)sizeof(float);
  return l;
}

/* The packing is the same, but coarse sums ignore the low parts. */
__host__ __device__ constexpr struct layout layout_of(int k, int width, int precision, int extra) {
  struct layout l = layout_of(k, width, extra);
  if (precision == COARSE && width == COORDINATES) l.value_n = 8 + k, l.value_parts = 1, l.side = 0;
  return l;
}

enum { HALF_1 = 0x3c00, HALF_256 = 0x5c00 };

/* An offset as 256 first + second + third. Absent columns are far away but finite: no infinity meets a 0. */
struct offset_pieces {
  uint32_t first, second, third;
};

__device__ __forceinline__ struct offset_pieces pieces_of(float offset) {
  offset = fmaxf(offset, -1.5e7f);
  __half first = __float2half_rn(offset / 256.0f);
  float rest = offset - 256.0f * __half2float(first);
  __half second = __float2half_rn(rest), third = __float2half_rn(rest - __half2float(second));
  struct offset_pieces p = {__half_as_ushort(first), __half_as_ushort(second), __half_as_ushort(third)};
  return p;
}

/* Row and column of the product that makes offsets: (256, 1, 1, r1, r2, r3) (c1, c2, c3, 256, 1, 1)' */
__device__ __forceinline__ uint4 offset_features(struct offset_pieces p, bool row) {
  uint32_t a[3] = {HALF_256 | HALF_1 << 16, HALF_1 | p.first << 16, p.second | p.third << 16};
  uint32_t b[3] = {p.first | p.second << 16, p.third | HALF_256 << 16, HALF_1 | HALF_1 << 16};
  return row ? make_uint4(a[0], a[1], a[2], 0) : make_uint4(b[0], b[1], b[2], 0);
}

/* ---- Which kernel a task takes ---- */

inline int width_of(const struct fk_tensor_task *task) {
  int k = task->cols.k, width = task->values.width, most = (k < FK_TENSOR_WIDE ? k : FK_TENSOR_WIDE) + 8;
  if (!task->has_values) return 0;
  if (!task->values.hi) return COORDINATES;
  return width <= 8 ? 8 : width <= most ? most : UNSUPPORTED;
}

inline int extra_of(const struct fk_tensor_task *task) {
  if (task->exponents) return EXPONENTS;
  if (task->short_sums) return SHORT;
  if (task->factor0) return task->has_values || task->weight ? FACTOR : POLYNOMIAL;
  if (task->weight && !task->has_values) return WEIGHT;
  /* A kernel without the check of the diagonal exists only where that saves time. */
  bool own_plain = task->cols.k == 16 && (!task->has_values || !task->values.hi);
  return task->self == INT64_MIN && own_plain ? PLAIN : SELF;
}

/* ---- How a kernel is cut; measured ---- */

struct shape {
  int tile_cols, warpgroups, stages;
  int on_fma; /* of 8 exponentials, the number that the FMA pipe takes */
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
  const char *packed, *row_stages;
  double *acc;
  float *exponents;
  int64_t ld_exponents;
  const uint32_t *list;
  const int *listed;
  const float *ground;
  const struct fk_tensor_part *parts;
  int64_t first_row, n_rows_pad, self;
  int n_values, n_stages, slot_stages;
  float factor1;
};

/* The arguments for stages of this many columns. */
inline struct sums_args args_of(const struct fk_tensor_task *task, const void *packed, int stage_cols) {
  struct sums_args a = {};
  a.rows = task->rows, a.row_factor = task->factor0, a.factor1 = task->factor1;
  a.packed = (const char *)packed, a.row_stages = (const char *)task->row_stages, a.acc = task->acc;
  a.exponents = task->exponents, a.ld_exponents = task->ld_exponents;
  a.list = task->list, a.listed = task->listed, a.ground = task->ground;
  a.parts = task->parts, a.first_row = task->first_row, a.self = task->self;
  a.n_rows_pad = (task->n_rows + FK_TENSOR_ROWS - 1) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
  a.n_values = task->has_values ? task->values.n_values : 0;
  a.n_stages = (int)((task->cols.n_pad + stage_cols - 1) / stage_cols);
  a.slot_stages = (int)(task->cols_per_slot / stage_cols);
  return a;
}

} // namespace

/* For points of many dimensions. */
cudaError_t fk_wgmma_launch_wide(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream);

#endif

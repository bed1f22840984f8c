/* How sums_symmetric.cu lays out points in shared memory, and how it cuts them into jobs. */
#ifndef FK_CUDA_SYMMETRIC_LAYOUT_CUH
#define FK_CUDA_SYMMETRIC_LAYOUT_CUH

#include "wgmma_layout.cuh"

namespace {

enum {
  PRODUCERS = 3,
  BUFFERS = 3,
  ROW_BLOCK = 64 * PRODUCERS,
  LONGEST_RUN = 8,
  IN_TURN = 6 /* tiles */,
  NUMBERS = 9 /* of a thread */
};

/* Points are stored as in wgmma_layout.cuh, in blocks of 8 features: first the offsets, among which are the ones,
 * so that they also serve as values; then high and low parts. A stage has 128 points of columns or 64 points of
 * rows. */
template <int PRECISION_>
struct cut {
  enum {
    PRECISION = PRECISION_,
    COARSE = PRECISION == +::precision::COARSE,
    STRIP = COARSE ? 1152 : 768,
    TILES = STRIP / 64,
    ROW_BLOCKS = STRIP / ROW_BLOCK, /* of a strip */
    BLOCKS = COARSE ? 3 : 5,
    VALUES = 8 * BLOCKS,
    SUMS = VALUES / 2, /* registers */
    ROWS_BYTES = BLOCKS * 64 * 16,
    COLUMNS_BYTES = BLOCKS * 128 * 16,
    STRIP_BYTES = STRIP / 128 * COLUMNS_BYTES,
    TILE_BYTES = 64 * 64 * 2,        /* a warpgroup's kernels */
    SUMS_BYTES = (8 * 128 + 64) * 4, /* columns' sums of a tile: coordinates, then kernel sums */
    /* Offsets in shared memory, which has two blocks of rows. */
    COLUMNS = 0,
    ROWS = COLUMNS + STRIP_BYTES,
    KERNELS = ROWS + 2 * PRODUCERS * ROWS_BYTES,
    COLUMN_SUMS = KERNELS + BUFFERS * PRODUCERS * TILE_BYTES,
    BARRIERS = COLUMN_SUMS + TILES * SUMS_BYTES,
    BYTES = BARRIERS + 8 * (4 + 2 * BUFFERS)
  };
  static_assert(STRIP % 128 == 0 && STRIP % ROW_BLOCK == 0 && PRODUCERS == 3 && BYTES <= +SHARED_BYTES, "");
};

/* Layout of a strip's columns; that of rows is half as long. */
template <typename C>
__host__ __device__ constexpr struct layout columns_layout(void) {
  struct layout l = {};
  l.cols = 128;
  l.ones = l.value_hi = l.value_lo = NONE;
  l.offsets = 0, l.hi = 1, l.lo = C::COARSE ? NONE : 3;
  l.n_blocks = C::BLOCKS, l.block_bytes = 16 * 128, l.bytes = l.floats_at = C::COLUMNS_BYTES;
  l.value_n = C::VALUES, l.value_parts = 1, l.side = C::COARSE ? 0 : 2;
  return l;
}

/* ---- Jobs ---- */

struct symmetric_job {
  int64_t strip, first, end; /* of columns; blocks of rows */
  bool both;                 /* also add the columns' sums; false if a strip meets itself */
};

/* A strip meets the strips before it, in runs, and then itself. */
__host__ __device__ inline int64_t jobs_before(int64_t strip, int run) {
  int64_t others = strip > 0 ? strip - 1 : 0, full = others / run;
  return strip + others + run * (full * (full - 1) / 2) + full * (others % run);
}

template <typename C>
__device__ struct symmetric_job job_at(int64_t index, int64_t strips, int run) {
  int64_t strip = 0;
  for (int64_t above = strips; above - strip > 1;) {
    int64_t middle = (strip + above) / 2;
    if (jobs_before(middle, run) <= index)
      strip = middle;
    else
      above = middle;
  }
  int64_t first = (index - jobs_before(strip, run)) * run;
  if (first >= strip) return {strip, strip * C::ROW_BLOCKS, (strip + 1) * C::ROW_BLOCKS, false};
  return {strip, first * C::ROW_BLOCKS, min(first + run, strip) * C::ROW_BLOCKS, true};
}

} // namespace

#endif

/* Sums of Gaussian kernels of points of many dimensions (tensor.cuh) on Hopper's warpgroup tensor cores;
 * sums_wgmma.cu serves fewer dimensions.
 * || Products are the bound, 4 of depth k for each exponent. Both operands come from shared memory, which leaves
 * registers for tiles of 64 rows x 128 columns. Tiles grow slice by slice: all high parts first, which leave a
 * small number, and then the low parts, as in mma_deep_kernel. A ring of slots brings the slices, four steps of
 * depth 16 each. The last warp to leave a slot refills it, so no warpgroup waits for another, and exponentials of
 * one run during products of others. Rows are packed like columns. They stay in shared memory if there is room
 * beside the columns; otherwise they come slice by slice, too, so that any depth is served. */
#include "sums_wgmma.cuh"

#ifdef FK_CUDA_SM90A

#include "wgmma_layout.cuh"
#include "wgmma_tile.cuh"

namespace {

enum {
  TILE_COLS = 128,
  BLOCK_BYTES = 16 * TILE_COLS, /* 8 features of a stage's points */
  STEP_BYTES = 2 * BLOCK_BYTES, /* 16 features */
  HIGH_STEPS = 4,               /* of a slice of high parts */
  BOTH_STEPS = 2,               /* of a slice of both */
  SLICE_BYTES = HIGH_STEPS * STEP_BYTES,
  BESIDE_BYTES = STEP_BYTES, /* offsets or floats that come with it */
  COLUMN_BYTES = SLICE_BYTES + BESIDE_BYTES,
  ROW_STAGES = 2, /* stages that hold a block's rows */
  MOST_SLOTS = 6,
  LEAST_SLOTS = 3 /* rows stay if so many slots are left */
};

struct wide_args {
  struct sums_args sums;
  struct layout columns, rows;
  int steps; /* of depth 16 */
  int slots, slot_bytes;
  bool rows_stay;
  bool rest; /* the rounding errors of the kernels are multiplied with values, too */
};

__host__ __device__ constexpr int warpgroups_of(int width) { return width > 0 ? 3 : 4; }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- Slices ---- */

/* Slices of the exponents: of high parts, and then of both parts. */
__device__ __forceinline__ int high_slices(int steps) { return (steps + HIGH_STEPS - 1) / HIGH_STEPS; }
__device__ __forceinline__ int exponent_slices(int steps) {
  return high_slices(steps) + (steps + BOTH_STEPS - 1) / BOTH_STEPS;
}

/* A slice of a stage. */
struct wide_slice {
  int first, count; /* steps */
  bool both;
};
__device__ __forceinline__ struct wide_slice slice_of(int i, int steps) {
  int highs = high_slices(steps);
  bool both = i >= highs;
  int most = both ? BOTH_STEPS : HIGH_STEPS, first = (both ? i - highs : i) * most;
  return {first, min(most, steps - first), both};
}

/* The ring of slices of the stages in shared memory. With values, the last two slices of a stage have low and high
 * parts. */
struct wide_ring {
  const char *columns, *rows[ROW_STAGES];
  int n_stages, slices;                 /* of a stage */
  uint32_t left[MOST_SLOTS];            /* warps that have left each slot */
  uint64_t full[MOST_SLOTS], rows_full; /* barriers; rows_full: for rows that stay */
};

/* Copies a slice to a slot: [steps of high parts][of low parts]. */
__device__ __forceinline__ void bring_slice(uint32_t to, const char *stage, const struct layout &l,
                                            const struct wide_slice &slice, uint32_t full) {
  int bytes = slice.count * STEP_BYTES;
  const char *high = stage + slice.first * STEP_BYTES;
  bulk_bring(to, high, bytes, full);
  if (slice.both) bulk_bring(to + BOTH_STEPS * STEP_BYTES, high + l.lo * BLOCK_BYTES, bytes, full);
}

/* Copies slice i of a stage to a slot, with its other numbers and, if rows pass by, those of the rows. By one
 * thread. */
template <int V>
__device__ __forceinline__ void fill(const struct wide_args &args, const struct wide_ring &ring, uint32_t slots_at,
                                     int stage, int i, int slot) {
  const struct layout &l = args.columns;
  const int exponents = exponent_slices(args.steps), float_bytes = l.bytes - l.floats_at;
  const char *from = ring.columns + stage * (int64_t)l.bytes;
  const uint32_t to = slots_at + slot * args.slot_bytes, full = shared_address(&ring.full[slot]);
  if (V > 0 && i >= exponents) {
    const int block = i == exponents ? l.value_lo : l.value_hi, bytes = V / 8 * BLOCK_BYTES;
    barrier_expect(full, bytes);
    bulk_bring(to, from + block * BLOCK_BYTES, bytes, full);
    return;
  }
  const struct wide_slice slice = slice_of(i, args.steps);
  const int points = args.rows_stay ? 1 : 1 + ROW_STAGES,
            beside_at = i == 0 ? l.offsets * BLOCK_BYTES : l.floats_at,
            beside = i == 0               ? BESIDE_BYTES
                     : i == exponents - 1 ? float_bytes
                                          : 0;
  barrier_expect(full, slice.count * STEP_BYTES * (slice.both ? 2 : 1) * points + beside);
  bring_slice(to, from, l, slice, full);
  if (beside > 0) bulk_bring(to + SLICE_BYTES, from + beside_at, beside, full);
  for (int r = 0; r < points - 1; r++)
    bring_slice(to + COLUMN_BYTES + r * SLICE_BYTES, ring.rows[r], args.rows, slice, full);
}

/* Starts the ring for n_stages of columns from first_stage on, for the block's rows. By one thread. */
template <int V>
__device__ __forceinline__ void start_ring(const struct wide_args &args, struct wide_ring &ring, uint32_t slots_at,
                                           int first_stage, int n_stages, int64_t block_row) {
  const int64_t last = (args.sums.rows.n_pad - 1) / TILE_COLS;
  ring.columns = args.sums.packed + (int64_t)first_stage * args.columns.bytes;
  for (int i = 0; i < ROW_STAGES; i++)
    ring.rows[i] = args.sums.row_stages + min(block_row / TILE_COLS + i, last) * args.rows.bytes;
  ring.n_stages = n_stages;
  ring.slices = exponent_slices(args.steps) + (V > 0 ? 2 : 0);
  for (int i = 0; i < MOST_SLOTS; i++) ring.left[i] = 0, barrier_init(shared_address(&ring.full[i]), 1);
  const uint32_t rows_full = shared_address(&ring.rows_full);
  barrier_init(rows_full, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  if (args.rows_stay) {
    const int bytes = 2 * args.steps * STEP_BYTES;
    barrier_expect(rows_full, ROW_STAGES * bytes);
    for (int i = 0; i < ROW_STAGES; i++)
      bulk_bring(slots_at - (ROW_STAGES - i) * bytes, ring.rows[i], bytes, rows_full);
  }
  for (int i = 0; i < min(args.slots, ring.n_stages * ring.slices); i++)
    fill<V>(args, ring, slots_at, i / ring.slices, i % ring.slices, i);
}

/* The position of a warp in the ring. */
struct wide_place {
  int stage, slice, slot, phase;
};

__device__ __forceinline__ void wait_at(const struct wide_ring &ring, const struct wide_place &place) {
  barrier_wait(shared_address(&ring.full[place.slot]), place.phase);
}

/* Advances to the next slice; the last warp to leave a slot starts to refill it. */
template <int V>
__device__ __forceinline__ void leave(const struct wide_args &args, struct wide_ring &ring, uint32_t slots_at,
                                      struct wide_place &place, int lane) {
  __syncwarp();
  if (lane == 0 && is_last_to_leave(shared_address(&ring.left[place.slot]), 4 * warpgroups_of(V))) {
    int stage = place.stage, slice = place.slice + args.slots;
    for (; slice >= ring.slices; slice -= ring.slices) stage++;
    if (stage < ring.n_stages) fill<V>(args, ring, slots_at, stage, slice, place.slot);
  }
  __syncwarp();
  place.slice++;
  if (++place.slot == args.slots) place.slot = 0, place.phase ^= 1;
}

/* ---- Products ---- */

__device__ __forceinline__ uint64_t steps_at(uint32_t address16) {
  return descriptor(address16, BLOCK_BYTES, CORE_BYTES);
}

/* s += the products of a slice. row_high, row_low, column: addresses of its first steps, in units of 16 bytes. */
__device__ __forceinline__ void multiply(float (&s)[TILE_COLS / 2], const struct wide_slice &slice,
                                         uint32_t row_high, uint32_t row_low, uint32_t column) {
  const uint32_t step = STEP_BYTES / 16;
  const uint32_t column_low = column + BOTH_STEPS * step;
  if (slice.both) {
#pragma unroll 1
    for (uint32_t i = 0; i < slice.count * step; i += step) {
      wgmma_fence();
      wgmma_shared(s, steps_at(row_low + i), steps_at(column + i));
      wgmma_shared(s, steps_at(row_high + i), steps_at(column_low + i));
      wgmma_shared(s, steps_at(row_low + i), steps_at(column_low + i));
    }
  } else {
#pragma unroll 1
    for (uint32_t i = 0; i < slice.count * step; i += step) {
      wgmma_fence();
      wgmma_shared(s, steps_at(row_high + i), steps_at(column + i));
    }
  }
}

/* Adds the slice at the warp's position. row: of the warpgroup, in the stages that hold the block's rows. */
__device__ __forceinline__ void add_slice(float (&s)[TILE_COLS / 2], const struct wide_args &args,
                                          const struct wide_ring &ring, uint32_t slots_at,
                                          const struct wide_place &place, const uint32_t (&offset)[4], int row) {
  const int steps = args.steps;
  const struct wide_slice slice = slice_of(place.slice, steps);
  const uint32_t at = slots_at + place.slot * args.slot_bytes;
  wait_at(ring, place);
  pin(s);
  wgmma_fence();
  if (place.slice == 0) wgmma<TILE_COLS, false, false>(s, offset, steps_at((at + SLICE_BYTES) / 16));
  const int stage = row / TILE_COLS, stage_bytes = 2 * steps * STEP_BYTES;
  const uint32_t rows = args.rows_stay ? slots_at - (ROW_STAGES - stage) * stage_bytes + slice.first * STEP_BYTES
                                       : at + COLUMN_BYTES + stage * SLICE_BYTES;
  const uint32_t high = rows / 16 + row % TILE_COLS,
                 low = high + (args.rows_stay ? steps : BOTH_STEPS) * (STEP_BYTES / 16);
  multiply(s, slice, high, low, at / 16);
  wgmma_commit();
  wgmma_wait(s);
}

/* ---- Sums of values ---- */

/* Adds sums to those of the slot in FP64, which belong to this block alone; after few columns each, because tensor
 * cores truncate. */
template <int V>
__device__ __forceinline__ void add_values(const struct sums_args &args, float (&sums)[V / 2], int64_t row,
                                           int quad, bool first) {
  double *acc = acc_of_slot(args);
#pragma unroll
  for (int i = 0; i < V / 2; i++) {
    int feature = i / 4 * 8 + 2 * quad + i % 2;
    int64_t r = row + i / 2 % 2 * 8;
    if (r < args.n_rows_pad && feature <= args.n_values) {
      double *to = acc + (feature == args.n_values ? 0 : feature + 1) * args.n_rows_pad + r;
      *to = first ? (double)sums[i] : *to + (double)sums[i];
    }
    sums[i] = 0.0f;
  }
}

/* ---- The kernel ---- */

/* Loads the rows' offsets, as stored beside the rows, and their factors. */
__device__ __forceinline__ void load_offsets(uint32_t (&offset)[4], float (&factor)[2],
                                             const struct wide_args &args, int64_t row, int quad) {
  for (int h = 0; h < 2; h++) {
    int64_t r = min(args.sums.first_row + row + 8 * h, args.sums.rows.n_pad - 1);
    const char *features = args.sums.row_stages + r / TILE_COLS * args.rows.bytes +
                           args.rows.offsets * BLOCK_BYTES + r % TILE_COLS * 16;
    set_offset(offset, h, packed_pieces((const uint32_t *)features), quad);
    factor[h] = args.sums.row_factor ? args.sums.row_factor[r] : 0.0f;
  }
}

/* Stores a tile's exponents; a thread has pairs of columns. row, column: the first of the tile. */
__device__ __forceinline__ void store_exponents(const struct sums_args &args, const float (&s)[TILE_COLS / 2],
                                                int64_t row, int64_t column) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    if (row + 8 * h >= args.n_rows_pad) continue;
    float *to = args.exponents + (row + 8 * h) * args.ld_exponents + column;
#pragma unroll
    for (int j = 0; j < TILE_COLS / 8; j++)
      *(float2 *)(to + 8 * j) = make_float2(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]);
  }
}

/* sums += kernels s with values; the slices bring the low values first, then the high ones. */
template <int V>
__device__ __forceinline__ void multiply_values(float (&sums)[V / 2], const float (&s)[TILE_COLS / 2],
                                                const struct wide_args &args, struct wide_ring &ring,
                                                uint32_t slots_at, struct wide_place &place, int lane) {
  constexpr struct layout VALUES = {TILE_COLS, 0, 0, 0, 0, 0, 0, 0, BLOCK_BYTES};
  uint32_t p[TILE_COLS / 4];
  round_kernels(p, s);
#pragma unroll
  for (int high = 0; high < 2; high++) {
    const uint32_t at = slots_at + place.slot * args.slot_bytes;
    wait_at(ring, place);
    start_values<V, 1>(sums, p, at / 16, VALUES);
    wgmma_wait(sums);
    if (high && args.rest) {
      round_rest(p, s);
      start_values<V, 1>(sums, p, at / 16, VALUES);
      wgmma_wait(sums);
    }
    leave<V>(args, ring, slots_at, place, lane);
  }
}

template <int V, int EXTRA>
__global__ void __launch_bounds__(128 * warpgroups_of(V), 1)
    wide_kernel(const __grid_constant__ struct wide_args args) {
  constexpr int BLOCK_ROWS = TILE_ROWS * warpgroups_of(V);
  constexpr int FLUSH = (V == 0 ? MASS_FLUSH_COLS : FLUSH_COLS) / TILE_COLS;
  extern __shared__ __align__(128) char shared[];
  __shared__ struct wide_ring ring;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane % 4;
  const int first_stage = blockIdx.y * args.sums.slot_stages, exponents = exponent_slices(args.steps);
  /* Computed from the arguments, so that the compiler knows that warps do not diverge; otherwise products would
   * wait for each other. */
  const int n_stages = max(0, min(args.sums.slot_stages, args.sums.n_stages - first_stage));
  const int64_t block_row = args.sums.first_row + (int64_t)blockIdx.x * BLOCK_ROWS,
                warp_row = (int64_t)blockIdx.x * BLOCK_ROWS + 16 * warp, row = warp_row + lane / 4;
  const int row_here = (int)(block_row % TILE_COLS) + TILE_ROWS * (warp / 4);
  /* rows that stay come before the slots */
  const uint32_t slots_at =
      shared_address(shared) + (args.rows_stay ? ROW_STAGES * 2 * args.steps * STEP_BYTES : 0);

  if (threadIdx.x == 0) start_ring<V>(args, ring, slots_at, first_stage, n_stages, block_row);
  uint32_t offset[4];
  float row_factor[2];
  load_offsets(offset, row_factor, args, row, quad);
  int diagonal = first_diagonal(args.sums.first_row + warp_row, args.sums.self, (int64_t)first_stage * TILE_COLS);
  __syncthreads();
  if (args.rows_stay) barrier_wait(shared_address(&ring.rows_full), 0);

  float s[TILE_COLS / 2];
  typename sum_of<EXTRA>::type sums[V == 0 ? 2 : V / 2] = {0};
  double mass[2] = {0.0, 0.0};
  struct wide_place place = {0, 0, 0, 0};
  for (; place.stage < n_stages; place.stage++, place.slice = 0) {
    while (true) {
      add_slice(s, args, ring, slots_at, place, offset, row_here);
      if (place.slice + 1 == exponents) break;
      leave<V>(args, ring, slots_at, place, lane);
    }
    const uint32_t weights = slots_at + place.slot * args.slot_bytes + SLICE_BYTES + 8 * quad,
                   factors = weights + 4 * TILE_COLS;
    if constexpr (EXTRA >= SELF) {
      if (diagonal > -16 && diagonal < TILE_COLS) leave_out(s, diagonal + lane / 4, quad);
      diagonal -= TILE_COLS;
    }
    if constexpr (V > 0)
      exponentials<EXTRA>(s, row_factor, args.sums.factor1, factors);
    else if constexpr (EXTRA != EXPONENTS)
      add_masses<EXTRA, 0, 5>(sums, s, row_factor, args.sums.factor1, weights, factors);
    leave<V>(args, ring, slots_at, place, lane);
    if constexpr (EXTRA == EXPONENTS)
      store_exponents(args.sums, s, row, (int64_t)(first_stage + place.stage) * TILE_COLS + 2 * quad);
    if constexpr (V > 0) multiply_values<V>(sums, s, args, ring, slots_at, place, lane);
    if (EXTRA == EXPONENTS || ((place.stage + 1) % FLUSH != 0 && place.stage + 1 < n_stages)) continue;
    if constexpr (V == 0) {
      for (int h = 0; h < 2; h++) mass[h] += sums[h], sums[h] = 0;
    } else {
      add_values<V>(args.sums, sums, row, quad, place.stage < FLUSH);
    }
  }
  if constexpr (V == 0 && EXTRA != EXPONENTS) store_mass(args.sums, mass, row, quad);
}

#else
template <int V, int EXTRA>
__global__ void wide_kernel(const __grid_constant__ struct wide_args args) {}
#endif

/* ---- Host ---- */

template <int V, int EXTRA>
cudaError_t launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  const struct layout l = layout_of(task->cols.k, V, EXTRA);
  static_assert(V / 8 * BLOCK_BYTES <= COLUMN_BYTES, "values come in one slice");
  const int steps = task->cols.k / 16, block_rows = TILE_ROWS * warpgroups_of(V);
  const int64_t row_bytes = (int64_t)ROW_STAGES * 2 * steps * STEP_BYTES, left = SHARED_BYTES - row_bytes;
  struct wide_args a = {};
  a.sums = args_of(task, packed, l.cols);
  a.columns = l, a.rows = layout_of(task->rows.k, 0, SHORT);
  a.steps = steps;
  a.rest = task->single;
  a.rows_stay = left >= LEAST_SLOTS * COLUMN_BYTES;
  a.slot_bytes = a.rows_stay ? COLUMN_BYTES : COLUMN_BYTES + ROW_STAGES * SLICE_BYTES;
  int64_t room = (a.rows_stay ? left : SHARED_BYTES) / a.slot_bytes;
  a.slots = room < MOST_SLOTS ? (int)room : MOST_SLOTS;
  int bytes = (a.rows_stay ? (int)row_bytes : 0) + a.slots * a.slot_bytes;
  void (*kernel)(struct wide_args) = wide_kernel<V, EXTRA>;
  cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (err != cudaSuccess) return err;
  dim3 grid((unsigned)((task->n_rows + block_rows - 1) / block_rows), (unsigned)task->slots);
  kernel<<<grid, 128 * warpgroups_of(V), bytes, stream>>>(a);
  return cudaGetLastError();
}

template <int V>
cudaError_t launch_values(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  return task->factor0 ? launch<V, FACTOR>(task, packed, stream) : launch<V, SELF>(task, packed, stream);
}

} // namespace

cudaError_t fk_wgmma_launch_wide(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  int width = width_of(task);
  if (width > 0)
    return width == 8 ? launch_values<8>(task, packed, stream) : launch_values<72>(task, packed, stream);
  switch (extra_of(task)) {
    case FACTOR: return launch<0, FACTOR>(task, packed, stream);
    case POLYNOMIAL: return launch<0, POLYNOMIAL>(task, packed, stream);
    case SHORT: return launch<0, SHORT>(task, packed, stream);
    case WEIGHT: return launch<0, WEIGHT>(task, packed, stream);
    case EXPONENTS: return launch<0, EXPONENTS>(task, packed, stream);
    default: return launch<0, SELF>(task, packed, stream);
  }
}

#endif

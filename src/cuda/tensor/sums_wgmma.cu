/* Sums of Gaussian kernels on Hopper's warpgroup tensor cores (wgmma, sm_90a); tensor.cuh says what is summed.
 * || A block has 64 rows per warpgroup and walks over the columns of its slot, which bulk copies bring into a ring
 * of buffers in shared memory. A warpgroup takes one tile of columns at a time. FP16 products make the exponents t
 * in its accumulators, where 2^t is taken. The kernels, rounded to FP16, are then in the registers that the A
 * operand of the product with the values needs.
 * || Nothing is overlapped by hand: four warpgroups share a multiprocessor, and the products of one run during the
 * exponentials of another. Exponentials are the bound: 16 a clock, 256 clocks for 64 x 64. While products run,
 * every other instruction costs most of a clock, so there are few. Offsets are one more product, since adding them
 * to all accumulators took 7 % of the time.
 * || Coordinates are in shared memory once, in core matrices of 8 columns x 8 features without swizzle: read
 * K-major they are the B operand of the exponents, read transposed that of the values. */
#include "sums_wgmma.cuh"

/* Cuts the columns into slots. Blocks run in waves of one per multiprocessor, and starting and ending a block
 * takes the time of a few hundred columns. Of all cuts within 1 % of the best, takes the one with the fewest
 * slots, since each slot has a copy of the sums. Always assumes 132 multiprocessors, so that the bits do not
 * depend on the device. */
void fk_wgmma_plan(int64_t n_cols, int64_t n_rows_total, bool has_values, int unit, int *slots,
                   int64_t *cols_per_slot) {
  const int64_t multiprocessors = 132, block_rows = 256, max_slots = 256;
  const int64_t ends = has_values ? 300 : 200, most_cols = has_values ? FK_TENSOR_LONGEST : INT64_MAX;
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

#include "wgmma_layout.cuh"
#include "wgmma_tile.cuh"

namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- The kernel ---- */

/* A ring of stages of columns in shared memory: a copy fills a stage when its barrier `empty` allows. */
struct wgmma_ring {
  uint32_t at, full, empty; /* shared addresses; a barrier has 8 bytes */
  const char *columns;
  const uint32_t *list; /* the near stages of the slot (lists.cuh) */
  int n_stages;
};

/* The stage of the slot at turn i of the ring. */
template <bool LISTS>
__device__ __forceinline__ int stage_of_turn(const struct wgmma_ring &ring, int i) {
  return LISTS ? (int)(ring.list[i] & FK_LIST_STAGE) : i;
}

template <bool LISTS, int BYTES>
__device__ __forceinline__ void fill(const struct wgmma_ring &ring, int slot, int turn) {
  bulk_copy(ring.at + slot * BYTES, ring.columns + (int64_t)stage_of_turn<LISTS>(ring, turn) * BYTES, BYTES,
            ring.full + 8 * slot);
}

/* The stages of a block's slot, and where rows meet themselves. */
struct wgmma_run {
  int first, n_stages;
  int64_t self;
};

template <int BLOCK_ROWS, int COLS>
__device__ __forceinline__ struct wgmma_run run_of(const struct sums_args &args) {
  struct wgmma_run run = {0, args.n_stages, args.self};
  if (args.parts) {
    const struct fk_tensor_part part = args.parts[(args.first_row + blockIdx.x * BLOCK_ROWS) / FK_TENSOR_UNIT];
    run = {part.first / COLS, part.end / COLS, part.self};
  }
  const int end = run.n_stages;
  run.first += blockIdx.y * args.slot_stages;
  run.n_stages = max(0, min(args.slot_stages, end - run.first));
  return run;
}

/* Restricts them to the block's list. */
template <bool LISTS, int STAGES, int BYTES>
__device__ __forceinline__ struct wgmma_ring ring_of(const struct sums_args &args, const struct wgmma_run &run,
                                                     const void *stages, const uint64_t *barriers) {
  struct wgmma_ring ring = {shared_address(stages), shared_address(barriers), shared_address(barriers + STAGES)};
  ring.columns = args.packed + (int64_t)run.first * BYTES;
  ring.n_stages = run.n_stages;
  if constexpr (LISTS) {
    ring.list = args.list + (int64_t)blockIdx.x * args.n_stages + run.first;
    /* Reduced over all lanes, so that the compiler knows that warps do not diverge; otherwise products would wait
     * for each other. */
    ring.n_stages = __reduce_max_sync(~0u, args.listed[blockIdx.y * gridDim.x + blockIdx.x]);
  }
  return ring;
}

template <bool LISTS, int STAGES, int BYTES>
__device__ __forceinline__ void start_ring(const struct wgmma_ring &ring, int arrivals) {
  for (int i = 0; i < STAGES; i++) barrier_init(ring.full + 8 * i, 1), barrier_init(ring.empty + 8 * i, arrivals);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  for (int i = 0; i < min(STAGES, ring.n_stages); i++) fill<LISTS, BYTES>(ring, i, i);
}

/* Refills the stage of the turn before, which most warps have left long ago. By one warp, after a turn. */
template <bool LISTS, int STAGES, int BYTES>
__device__ __forceinline__ void refill(const struct wgmma_ring &ring, int turn, int slot, int phase, int lane) {
  if (turn == 0 || turn - 1 + STAGES >= ring.n_stages) return;
  int old = slot == 0 ? STAGES - 1 : slot - 1;
  barrier_wait(ring.empty + 8 * old, slot == 0 ? phase ^ 1 : phase);
  if (lane == 0) fill<LISTS, BYTES>(ring, old, turn - 1 + STAGES);
}

/* Does the next turn's stage start new sums? */
template <bool LISTS, int FLUSH>
__device__ __forceinline__ bool is_end(const struct wgmma_ring &ring, int turn, int stage) {
  return LISTS ? stage_of_turn<LISTS>(ring, turn + 1) / FLUSH != stage / FLUSH : (turn + 1) % FLUSH == 0;
}

/* A tile of columns. floats: shared address of its weights. */
template <int K, int V, int PRECISION, int EXTRA, int R, int SUMS>
__device__ __forceinline__ void sum_tile(float (&s)[R], typename sum_of<EXTRA>::type (&sums)[SUMS],
                                         const struct row_tile<K> &rows, uint32_t tile16, uint32_t floats,
                                         int diagonal, int lane, float factor1) {
  constexpr struct layout L = layout_of(K, V, PRECISION, EXTRA);
  constexpr struct shape SHAPE = shape_of(K, V, PRECISION, EXTRA, L);
  start_exponents<K, products_of(V, PRECISION)>(s, rows, tile16, L);
  wgmma_wait(s);
  if constexpr (EXTRA >= SELF)
    if (diagonal > -16 && diagonal < SHAPE.tile_cols) leave_out(s, diagonal + lane / 4, lane % 4);
  if constexpr (V == 0) {
    add_masses<EXTRA, SHAPE.on_fma, PRECISION == COARSE ? 3 : 5>(sums, s, rows.factor, factor1, floats,
                                                                 floats + 4 * L.cols);
  } else {
    uint32_t p[R / 2];
    if constexpr (PRECISION == COARSE) {
      coarse_kernels<SHAPE.on_fma>(p, s);
    } else {
      exponentials<EXTRA>(s, rows.factor, factor1, floats + 4 * L.cols);
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
}

/* Final sums. Those of values are in far_sums, [..][THREADS]; kernel sums are here, above the ground at which sums
 * by lists begin. */
template <int V, int THREADS, bool LISTS>
struct total {
  double mass[2];
  float ground[LISTS ? 2 : 1];
};

template <int V, int THREADS, bool LISTS, typename T, int SUMS>
__device__ __forceinline__ void begin(struct total<V, THREADS, LISTS> &total, T (&sums)[SUMS],
                                      const struct sums_args &args, float *far_sums, int64_t row) {
  for (int h = 0; h < 2 && V == 0; h++) {
    total.mass[h] = 0.0;
    if constexpr (LISTS) sums[h] = total.ground[h] = args.ground[args.first_row + row + 8 * h];
  }
#pragma unroll
  for (int i = 0; i < SUMS && V != 0; i++) far_sums[i * THREADS] = 0.0f;
}

/* Moves sums that have run long enough to the final sums. */
template <int V, int THREADS, bool LISTS, typename T, int SUMS>
__device__ __forceinline__ void flush(struct total<V, THREADS, LISTS> &total, T (&sums)[SUMS], float *far_sums) {
  for (int h = 0; h < 2 && V == 0; h++) {
    double part = sums[h];
    if constexpr (LISTS) part -= total.ground[h]; /* exact: subtract the ground before adding */
    total.mass[h] += part, sums[h] = LISTS ? total.ground[LISTS ? h : 0] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < SUMS && V != 0; i++) far_sums[i * THREADS] += sums[i], sums[i] = 0.0f;
}

/* SIDE: see layout.side. */
template <int K, int V, int SIDE, int THREADS>
__device__ __forceinline__ void store_values(const struct sums_args &args, const float *far_sums, int64_t row,
                                             int quad) {
  /* the ones come before them */
  constexpr int ONES = V == COORDINATES ? 8 : 0, FEATURES = V == COORDINATES ? K : V;
  double *acc = acc_of_slot(args);
#pragma unroll
  for (int i = 0; i < (ONES + FEATURES) / 2; i++) {
    int feature = i / 4 * 8 + 2 * quad + i % 2 - ONES;
    int64_t r = row + i / 2 % 2 * 8;
    bool is_mass = V == COORDINATES ? feature == -ONES : feature == args.n_values;
    double sum = (double)far_sums[i * THREADS];
    if (SIDE > 0 && i >= ONES / 2) sum += (double)far_sums[(i + 4 * SIDE) * THREADS];
    if (r < args.n_rows_pad && (is_mass || (feature >= 0 && feature < args.n_values)))
      acc[(is_mass ? 0 : feature + 1) * args.n_rows_pad + r] = sum;
  }
}

/* LISTS: only stages that are near to the block. */
template <int K, int V, int PRECISION, int EXTRA, bool LISTS>
__global__ void __launch_bounds__(
    128 * shape_of(K, V, PRECISION, EXTRA, layout_of(K, V, PRECISION, EXTRA)).warpgroups, 1)
    sums_kernel(const __grid_constant__ struct sums_args args) {
  constexpr struct layout L = layout_of(K, V, PRECISION, EXTRA);
  constexpr struct shape SHAPE = shape_of(K, V, PRECISION, EXTRA, L);
  constexpr int THREADS = 128 * SHAPE.warpgroups, STAGES = SHAPE.stages, TILE_COLS = SHAPE.tile_cols;
  constexpr int SUMS = V == 0 ? 2 : L.value_n / 2;
  constexpr int ARRIVALS = has_weight(EXTRA) ? 32 : 1; /* of a warp: every lane reads the floats */
  constexpr int FLUSH = (V == 0 || PRECISION == COARSE ? MASS_FLUSH_COLS : FLUSH_COLS) / L.cols;
  extern __shared__ __align__(128) char shared[];
  __shared__ uint64_t barriers[2 * STAGES]; /* barriers of full and of empty stages */
  /* Tensor cores truncate, so sums of values leave them for FP32 sums, which round: [SUMS][THREADS]. */
  float *far_sums = (float *)(shared + STAGES * L.bytes) + threadIdx.x;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane % 4;
  const struct wgmma_run run = run_of<TILE_ROWS * SHAPE.warpgroups, L.cols>(args);
  if (args.parts && run.n_stages == 0) return;
  const struct wgmma_ring ring = ring_of<LISTS, STAGES, L.bytes>(args, run, shared, barriers);
  int64_t warp_row = (int64_t)blockIdx.x * (TILE_ROWS * SHAPE.warpgroups) + 16 * warp, row = warp_row + lane / 4;

  if (threadIdx.x == 0) start_ring<LISTS, STAGES, L.bytes>(ring, THREADS / 32 * ARRIVALS);
  struct row_tile<K> rows;
  if (!LISTS || ring.n_stages > 0) load_rows<K, EXTRA == SHORT>(&rows, args, args.first_row + row, quad);
  const int from_diagonal = first_diagonal(args.first_row + warp_row, run.self, (int64_t)run.first * L.cols);
  __syncthreads();

  float s[TILE_COLS / 2];
  typename sum_of<EXTRA>::type sums[SUMS] = {0};
  struct total<V, THREADS, LISTS> total;
  begin(total, sums, args, far_sums, row);
  for (int turn = 0, slot = 0, phase = 0, diagonal = from_diagonal; turn < ring.n_stages; turn++) {
    uint32_t tile16 = (ring.at + slot * L.bytes) / 16, floats = ring.at + slot * L.bytes + L.floats_at + 8 * quad;
    const int stage = stage_of_turn<LISTS>(ring, turn);
    const bool near = !LISTS || is_near(ring.list[turn], warp / 4);
    if constexpr (LISTS) diagonal = from_diagonal - stage * L.cols;
    barrier_wait(ring.full + 8 * slot, phase);
#pragma unroll 1
    for (int tile = 0; near && tile < L.cols / TILE_COLS; tile++) {
      sum_tile<K, V, PRECISION, EXTRA>(s, sums, rows, tile16, floats, diagonal, lane, args.factor1);
      if constexpr (EXTRA >= SELF) diagonal -= TILE_COLS;
      tile16 += TILE_COLS / 8 * CORE_BYTES / 16, floats += 4 * TILE_COLS;
    }
    if (lane % (32 / ARRIVALS) == 0) barrier_arrive(ring.empty + 8 * slot);
    if (warp == 0) refill<LISTS, STAGES, L.bytes>(ring, turn, slot, phase, lane);
    if (turn + 1 == ring.n_stages || is_end<LISTS, FLUSH>(ring, turn, stage)) flush(total, sums, far_sums);
    if (++slot == STAGES) slot = 0, phase ^= 1;
  }
  if constexpr (V == 0)
    store_mass(args, total.mass, row, quad);
  else
    store_values<K, V, L.side, THREADS>(args, far_sums, row, quad);
}

#else
template <int K, int V, int PRECISION, int EXTRA, bool LISTS>
__global__ void sums_kernel(const __grid_constant__ struct sums_args args) {}
#endif

/* ---- Host ---- */

template <int K, int V, int PRECISION, int EXTRA, bool LISTS>
cudaError_t launch_kernel(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  constexpr struct layout L = layout_of(K, V, PRECISION, EXTRA);
  constexpr struct shape SHAPE = shape_of(K, V, PRECISION, EXTRA, L);
  constexpr int threads = 128 * SHAPE.warpgroups, block_rows = TILE_ROWS * SHAPE.warpgroups;
  constexpr int bytes = SHAPE.stages * L.bytes + L.value_n / 2 * threads * (int)sizeof(float);
  static_assert(SHAPE.stages >= 2, "copies need a stage to go to while another is read");
  const struct sums_args a = args_of(task, packed, L.cols);
  void (*kernel)(struct sums_args) = sums_kernel<K, V, PRECISION, EXTRA, LISTS>;
  cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (err != cudaSuccess) return err;
  dim3 grid((unsigned)((task->n_rows + block_rows - 1) / block_rows), (unsigned)task->slots);
  kernel<<<grid, threads, bytes, stream>>>(a);
  return cudaGetLastError();
}

/* Lists exist for the fewest dimensions; sums by lists always check for the diagonal. */
template <int K, int V, int PRECISION, int EXTRA>
cudaError_t launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  if constexpr (K == FK_LIST_WIDTH && EXTRA != SHORT)
    if (task->list)
      return launch_kernel < K, V, PRECISION, EXTRA == PLAIN ? SELF : EXTRA, true > (task, packed, stream);
  return launch_kernel<K, V, PRECISION, EXTRA, false>(task, packed, stream);
}

template <int K, int V, int EXTRA>
cudaError_t launch_precision(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  if (task->low_low) return launch<K, V, LOW, EXTRA>(task, packed, stream);
  if constexpr (K == 16 && V <= 0 && EXTRA != SHORT)
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
    case SHORT: return launch_precision<K, 0, SHORT>(task, packed, stream);
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

} // namespace

bool fk_wgmma_supports(const struct fk_tensor_task *task) {
  int k = task->cols.k;
  if (k % 16 != 0 || k < 16 || task->rows.k != k) return false;
  return width_of(task) != UNSUPPORTED &&
         (width_of(task) != COORDINATES || (!task->factor0 && k <= FK_TENSOR_WIDE));
}

void fk_wgmma_tiles(const struct fk_tensor_task *task, int *stage_cols, int *block_rows) {
  const int k = task->cols.k, width = width_of(task), extra = extra_of(task);
  const struct layout l = layout_of(k, width, extra);
  *stage_cols = l.cols;
  *block_rows = TILE_ROWS * shape_of(k, width, ROUNDED, extra, l).warpgroups;
}

bool fk_wgmma_has_high_rows(const struct fk_tensor_task *task) {
  return task->coarse && task->cols.k == 16 && width_of(task) == COORDINATES;
}

cudaError_t fk_wgmma_launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream) {
  switch (task->cols.k) {
    case 16: return launch_k<16>(task, packed, stream);
    case 32: return launch_k<32>(task, packed, stream);
    case 48: return launch_k<48>(task, packed, stream);
    case 64: return launch_k<64>(task, packed, stream);
    default: return fk_wgmma_launch_wide(task, packed, stream);
  }
}

#else

bool fk_wgmma_supports(const struct fk_tensor_task *) { return false; }
bool fk_wgmma_has_high_rows(const struct fk_tensor_task *) { return false; }
void fk_wgmma_tiles(const struct fk_tensor_task *, int *, int *) {}
cudaError_t fk_wgmma_launch(const struct fk_tensor_task *, const void *, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif

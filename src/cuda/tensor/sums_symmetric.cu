/* Symmetric sums, each pair of tiles once; see sums_symmetric.cuh.
 * || A block holds a strip of columns in shared memory, and rows pass by. Three warpgroups of 64 rows each take
 * tile after tile of 64 columns. They compute exponents and kernels as in sums_wgmma.cu, with lo.lo if points
 * reach far, and the rows' sums, which stay in registers. They store the kernels, transposed by the store, for a
 * fourth warpgroup. It multiplies the kernels with the rows' values, which gives the columns' sums, in shared
 * memory. Of 473 clocks for 64 x 64 pairs, kernels and the rows' sums take 373, storing kernels 47, the columns'
 * products 29 and adding to their sums 24 (bench/NOTES.md).
 * || Kernels go through FP16 as 2^(t + FK_TENSOR_RAISE): a point's own kernel is 1, so no row has to be raised by
 * more. Sums become integers after a strip (rows) or a job (columns), so blocks may add them in any order. */
#include "sums_symmetric.cuh"

#include <math.h>

#include "sums_wgmma.cuh"

#ifdef FK_CUDA_SM90A

#include "symmetric_layout.cuh"
#include "wgmma_tile.cuh"

namespace {

struct args {
  const char *columns, *rows;
  int64_t first_job, end_job, strips;
  int run;
  float unit;
  unsigned long long *sums;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- Barriers: one phase of each is one use of what it guards ---- */

struct barriers {
  uint32_t columns_full, columns_empty, rows_full, kernels_full, kernels_empty; /* shared addresses */
};

template <typename C>
__device__ __forceinline__ struct barriers barriers_at(uint32_t shared) {
  uint32_t at = shared + C::BARRIERS;
  return {at, at + 8, at + 16, at + 32, at + 32 + 8 * BUFFERS};
}

__device__ __forceinline__ void init_barriers(const struct barriers &b) {
  barrier_init(b.columns_full, 1), barrier_init(b.columns_empty, 4 * PRODUCERS);
  for (int i = 0; i < 2; i++) barrier_init(b.rows_full + 8 * i, 1);
  for (int i = 0; i < BUFFERS; i++)
    barrier_init(b.kernels_full + 8 * i, 4 * PRODUCERS), barrier_init(b.kernels_empty + 8 * i, 4);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* A ring of `size` buffers: the next one, and the phase of its barriers. */
template <int SIZE>
struct turn {
  int place = 0, phase = 0;
  __device__ __forceinline__ void next(void) {
    if (++place == SIZE) place = 0, phase ^= 1;
  }
};

/* One lane arrives at the barrier for the warp. */
__device__ __forceinline__ void warp_arrive(uint32_t barrier, int lane) {
  __syncwarp();
  if (lane == 0) barrier_arrive(barrier);
}
__device__ __forceinline__ void warp_wait(uint32_t barrier, int phase) {
  barrier_wait(barrier, phase);
  __syncwarp();
}

/* ---- Sums ---- */

/* Sums of two rows of a warp: 8 sums of coordinates, features 8 (i / 4) + 2 (lane % 4) + i % 2 of row i / 2 % 2;
 * and, in lanes 2 and 3 of four, the kernel sum of row lane % 2, from the ones among the features of the offsets.
 */
template <typename C>
__device__ __forceinline__ void join_parts(const float (&t)[C::SUMS], int lane, float (&sum)[NUMBERS]) {
#pragma unroll
  for (int i = 0; i < 8; i++) sum[i] = C::COARSE ? t[4 + i] : t[4 + i] + t[(12 + i) % C::SUMS];
  float second = __shfl_xor_sync(~0u, t[2], 1);
  sum[8] = lane % 4 == 2 ? t[0] : second;
}

/* rows16: number of the group of 16 points. */
__device__ __forceinline__ void add_sums(const struct args &a, int64_t rows16, int lane,
                                         const float (&sum)[NUMBERS]) {
  unsigned long long *to = a.sums + rows16 * FK_SYMMETRIC_SUMS + lane;
#pragma unroll
  for (int i = 0; i < NUMBERS; i++)
    if (i < 8 || lane % 4 >= 2) atomicAdd(to + 32 * i, (unsigned long long)__float2ll_rn(sum[i] * a.unit));
}

/* ---- Producers: kernels, and the rows' sums ---- */

/* Loads the rows of a warp, which are stored like columns; the pointer is to the first of the 64 rows. */
template <typename C>
__device__ __forceinline__ void read_rows(struct row_tile<16> *tile, const char *stage, int row, int quad) {
  constexpr int STEP = 64 * 16 / 4; /* from a block to the next, in words */
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const uint32_t *words = (const uint32_t *)(stage + (row + 8 * h) * 16);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      uint32_t high = words[(1 + i) * STEP + quad], low = C::COARSE ? 0 : words[(3 + i) * STEP + quad];
      tile->hi[0][2 * i + h] = high;
      tile->lo[0][2 * i + h] = low;
      tile->both[0][2 * i + h] = add_halves(high, low);
    }
    set_offset(tile->offset, h, packed_pieces(words), quad);
  }
}

/* p = 2^s for half of a tile. No exponential runs on the FMA pipe, which paid in sums_wgmma.cu but costs time here
 * (bench/NOTES.md). */
__device__ __forceinline__ void take_kernels(uint32_t (&p)[16], const float (&s)[32]) {
#pragma unroll
  for (int i = 0; i < 16; i++) p[i] = pack_halves(exp2_fast(s[2 * i]), exp2_fast(s[2 * i + 1]));
}

/* 128 columns. kernels: where the warp stores its part of a buffer. */
template <typename C>
__device__ __forceinline__ void sum_columns(float (&sums)[C::SUMS], const struct row_tile<16> &rows,
                                            uint32_t tile16, uint32_t kernels, bool both, const struct barriers &b,
                                            struct turn<BUFFERS> &buffer, int lane) {
  constexpr struct layout L = columns_layout<C>();
  float s[64];
  uint32_t p[2][16];
  start_exponents<16, products_of(COORDINATES, C::PRECISION)>(s, rows, tile16, L);
  wgmma_wait(s);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    take_kernels(p[half], *(const float(*)[32])(s + 32 * half));
    start_values<C::VALUES, 1>(sums, p[half], tile16 + 64 * half, L);
    warp_wait(b.kernels_empty + 8 * buffer.place, buffer.phase ^ 1);
    if (both) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        store_transposed(kernels + buffer.place * (PRODUCERS * C::TILE_BYTES) + 256 * i, p[half] + 4 * i);
    }
    warp_arrive(b.kernels_full + 8 * buffer.place, lane);
    buffer.next();
  }
  wgmma_wait(sums);
#pragma unroll
  for (int half = 0; half < 2; half++) pin(p[half]);
}

template <typename C>
__device__ void produce(const struct args &a, const char *shared, const struct barriers &b, int warp, int lane) {
  uint32_t base = shared_address(shared), columns16 = (base + C::COLUMNS) / 16;
  /* 8 x 8 matrices: those adjacent along the columns are 128 bytes apart, the next 8 rows 1024. */
  uint32_t kernels = base + C::KERNELS + warp * 2048 + lane / 8 % 2 * 1024 + lane / 16 * 128 + lane % 8 * 16;
  struct turn<1> strip;
  struct turn<2> place;
  struct turn<BUFFERS> buffer;
  for (int64_t index = a.first_job + blockIdx.x; index < a.end_job; index += gridDim.x) {
    struct symmetric_job job = job_at<C>(index, a.strips, a.run);
    barrier_wait(b.columns_full, strip.phase);
    for (int64_t block = job.first; block < job.end; block++) {
      struct row_tile<16> rows;
      float sums[C::SUMS] = {0}, joined[NUMBERS];
      barrier_wait(b.rows_full + 8 * place.place, place.phase);
      read_rows<C>(&rows, shared + C::ROWS + (place.place * PRODUCERS + warp / 4) * C::ROWS_BYTES,
                   16 * (warp % 4) + lane / 4, lane % 4);
#pragma unroll 1
      for (int stage = 0; stage < C::STRIP / 128; stage++)
        sum_columns<C>(sums, rows, columns16 + stage * (C::COLUMNS_BYTES / 16), kernels, job.both, b, buffer,
                       lane);
      join_parts<C>(sums, lane, joined);
      add_sums(a, block * (ROW_BLOCK / 16) + warp, lane, joined);
      place.next();
    }
    warp_arrive(b.columns_empty, lane);
    strip.next();
  }
}

/* ---- The consumer: copies, and the columns' sums ---- */

template <typename C>
__device__ __forceinline__ void copy_rows(const struct args &a, int64_t block, int place, uint32_t base,
                                          const struct barriers &b) {
  constexpr int BYTES = PRODUCERS * C::ROWS_BYTES;
  bulk_copy(base + C::ROWS + place * BYTES, a.rows + block * BYTES, BYTES, b.rows_full + 8 * place);
}

/* Addresses for the products of a warpgroup's rows. */
struct operands {
  uint32_t kernels, values16; /* shared addresses of the warp's columns and of the rows' values */
};

/* t [+]= kernels' values, for the rows of producer `g`, waiting until at most the previous product is running: p
 * and t of all earlier products are free. */
template <typename C, bool KEEP>
__device__ __forceinline__ void start_rows(float (&t)[C::SUMS], uint32_t (&p)[16], const struct operands &from,
                                           int g) {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  pin(p);
#pragma unroll
  for (int k = 0; k < 4; k++) load_matrices(p + 4 * k, from.kernels + g * C::TILE_BYTES + k * 2048);
  pin(t);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; k++) {
    uint64_t values =
        descriptor(from.values16 + g * (C::ROWS_BYTES / 16) + k * (2 * CORE_BYTES / 16), CORE_BYTES, 64 * 16);
    if (k == 0)
      wgmma<C::VALUES, true, KEEP>(t, p + 4 * k, values);
    else
      wgmma<C::VALUES, true>(t, p + 4 * k, values);
  }
  wgmma_commit();
}

/* Adds a tile's sums to those in shared memory, or starts them; each number belongs to one thread. */
__device__ __forceinline__ void keep_sums(char *tile, int thread, bool first, const float (&sum)[NUMBERS]) {
  float4 *values = (float4 *)tile + thread;
  float *mass = (float *)tile + 8 * 128 + thread / 4 * 2 + thread % 2;
  float4 x = first ? make_float4(0, 0, 0, 0) : values[0], y = first ? make_float4(0, 0, 0, 0) : values[128];
  values[0] = make_float4(x.x + sum[0], x.y + sum[1], x.z + sum[2], x.w + sum[3]);
  values[128] = make_float4(y.x + sum[4], y.y + sum[5], y.z + sum[6], y.w + sum[7]);
  if (thread % 4 >= 2) *mass = first ? sum[8] : *mass + sum[8];
}

__device__ __forceinline__ void kept_sums(const char *tile, int thread, float (&sum)[NUMBERS]) {
  const float4 *values = (const float4 *)tile + thread;
  float4 x = values[0], y = values[128];
  sum[0] = x.x, sum[1] = x.y, sum[2] = x.z, sum[3] = x.w, sum[4] = y.x, sum[5] = y.y, sum[6] = y.z, sum[7] = y.w;
  sum[8] = thread % 4 >= 2 ? ((const float *)tile)[8 * 128 + thread / 4 * 2 + thread % 2] : 0;
}

template <typename C>
struct consumer {
  char *shared;
  struct barriers barriers;
  struct turn<BUFFERS> buffer;
  int thread;

  /* Starts a tile's products with `t`. Meanwhile, the products of the tile before, in `before`, end and are
   * stored. */
  __device__ __forceinline__ void start_tile(float (&t)[C::SUMS], float (&before)[C::SUMS], uint32_t (&p)[16],
                                             uint32_t (&q)[16], struct operands from, int tile, int turn,
                                             bool first) {
    uint32_t place = buffer.place;
    from.kernels += place * (PRODUCERS * C::TILE_BYTES);
    warp_wait(barriers.kernels_full + 8 * place, buffer.phase);
    start_rows<C, false>(t, p, from, 0);
    start_rows<C, true>(t, q, from, 1);
    asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory"); /* known, but not to the compiler */
    if (turn > 0) keep(before, tile - 1, first);
    start_rows<C, true>(t, p, from, 2);
    warp_arrive(barriers.kernels_empty + 8 * place, thread % 32); /* the kernels are in registers */
    buffer.next();
  }

  __device__ __forceinline__ void keep(float (&t)[C::SUMS], int tile, bool first) {
    float joined[NUMBERS];
    pin(t);
    join_parts<C>(t, thread % 32, joined);
    keep_sums(shared + C::COLUMN_SUMS + tile * C::SUMS_BYTES, thread, first, joined);
  }

  /* Sums the tiles of a block of rows. */
  __device__ __forceinline__ void sum_block(int place, bool first) {
    uint32_t base = shared_address(shared);
    int warp = thread / 32, lane = thread % 32;
    struct operands from = {base + C::KERNELS + warp * 256 + lane / 8 % 2 * 128 + lane / 16 * 1024 + lane % 8 * 16,
                            (base + C::ROWS + place * (PRODUCERS * C::ROWS_BYTES)) / 16};
#pragma unroll 1
    for (int tile = 0; tile < C::TILES; tile += IN_TURN) {
      float t[2][C::SUMS];
      uint32_t p[2][16];
#pragma unroll
      for (int i = 0; i < IN_TURN; i++)
        start_tile(t[i % 2], t[(i + 1) % 2], p[i % 2], p[(i + 1) % 2], from, tile + i, i, first);
      wgmma_wait(t[(IN_TURN - 1) % 2]);
      pin(p[0]), pin(p[1]);
      keep(t[(IN_TURN - 1) % 2], tile + IN_TURN - 1, first);
    }
  }

  /* A strip that meets itself: both sums are the rows'. */
  __device__ __forceinline__ void pass_block(void) {
    for (int tile = 0; tile < C::TILES; tile++) {
      warp_wait(barriers.kernels_full + 8 * buffer.place, buffer.phase);
      warp_arrive(barriers.kernels_empty + 8 * buffer.place, thread % 32);
      buffer.next();
    }
  }
};

template <typename C>
__device__ void consume(const struct args &a, char *shared, const struct barriers &b, int thread) {
  uint32_t base = shared_address(shared);
  struct consumer<C> consumer = {
    shared, b, {}, thread
  };
  struct turn<1> strip;
  struct turn<2> place;
  for (int64_t index = a.first_job + blockIdx.x; index < a.end_job; index += gridDim.x) {
    struct symmetric_job job = job_at<C>(index, a.strips, a.run);
    if (thread == 0) {
      barrier_wait(b.columns_empty, strip.phase ^ 1);
      bulk_copy(base + C::COLUMNS, a.columns + job.strip * C::STRIP_BYTES, C::STRIP_BYTES, b.columns_full);
      for (int i = 0; i < 2; i++) copy_rows<C>(a, job.first + i, (place.place + i) % 2, base, b);
    }
    for (int64_t block = job.first; block < job.end; block++) {
      warp_wait(b.rows_full + 8 * place.place, place.phase);
      if (job.both)
        consumer.sum_block(place.place, block == job.first);
      else
        consumer.pass_block();
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (thread == 0 && block + 2 < job.end) copy_rows<C>(a, block + 2, place.place, base, b);
      place.next();
    }
    for (int tile = 0; job.both && tile < C::TILES; tile++) {
      float sum[NUMBERS];
      kept_sums(shared + C::COLUMN_SUMS + tile * C::SUMS_BYTES, thread, sum);
      add_sums(a, job.strip * (C::STRIP / 16) + 4 * tile + thread / 32, thread % 32, sum);
    }
    strip.next();
  }
}

template <typename C>
__global__ void __launch_bounds__(128 * (PRODUCERS + 1), 1)
    symmetric_kernel(const __grid_constant__ struct args a) {
  extern __shared__ __align__(128) char shared[];
  struct barriers b = barriers_at<C>(shared_address(shared));
  if (threadIdx.x == 0) init_barriers(b);
  __syncthreads();
  if (threadIdx.x < 128 * PRODUCERS) { /* from 128 registers */
    asm volatile("setmaxnreg.inc.sync.aligned.u32 136;");
    produce<C>(a, shared, b, threadIdx.x / 32, threadIdx.x % 32);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 104;");
    consume<C>(a, shared, b, threadIdx.x - 128 * PRODUCERS);
  }
}

#else
template <typename C>
__global__ void symmetric_kernel(const __grid_constant__ struct args a) {}
#endif

/* ---- Host ---- */

/* Stages of `cols` points. */
template <typename C>
__global__ void pack_kernel(const struct fk_tensor_points points, int64_t n_pad, int cols, float raise,
                            char *stages) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, point = i / C::BLOCKS;
  int block = (int)(i % C::BLOCKS);
  if (point >= n_pad) return;
  bool present = point < points.n_pad;
  const __half *from = (block <= 2 ? points.hi : points.lo) + point * points.k + 8 * ((block + 1) % 2);
  uint4 features = block == 0
                       ? offset_features(pieces_of(present ? points.offset[point] + raise : -INFINITY), false)
                   : present ? *(const uint4 *)from
                             : make_uint4(0, 0, 0, 0);
  *(uint4 *)(stages + (point / cols * C::BLOCKS + block) * cols * 16 + point % cols * 16) = features;
}

template <typename C>
cudaError_t pack(const struct fk_tensor_points *points, const struct fk_symmetric_plan *plan, void *packed,
                 cudaStream_t stream) {
  unsigned blocks = (unsigned)((plan->n_pad * C::BLOCKS + 255) / 256);
  char *columns = (char *)packed, *rows = columns + plan->n_pad * (C::BLOCKS * 16);
  pack_kernel<C><<<blocks, 256, 0, stream>>>(*points, plan->n_pad, 128, 0.0f, columns);
  pack_kernel<C><<<blocks, 256, 0, stream>>>(*points, plan->n_pad, 64, (float)FK_TENSOR_RAISE, rows);
  return cudaGetLastError();
}

template <typename C>
cudaError_t launch(const struct fk_symmetric_plan *plan, const void *packed, int64_t first_job, int64_t count,
                   unsigned long long *sums, cudaStream_t stream) {
  struct args a = {};
  int device, multiprocessors;
  a.columns = (const char *)packed, a.rows = a.columns + plan->n_pad * (C::BLOCKS * 16);
  a.first_job = first_job, a.end_job = first_job + count, a.strips = plan->strips, a.run = plan->run;
  a.unit = (float)plan->unit, a.sums = sums;
  cudaError_t err = cudaGetDevice(&device);
  if (err == cudaSuccess) err = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (err == cudaSuccess)
    err = cudaFuncSetAttribute(symmetric_kernel<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::BYTES);
  if (err != cudaSuccess) return err;
  unsigned blocks = (unsigned)(count < multiprocessors ? count : multiprocessors);
  symmetric_kernel<C><<<blocks, 128 * (PRODUCERS + 1), C::BYTES, stream>>>(a);
  return cudaGetLastError();
}

} // namespace

bool fk_symmetric_supports(const struct fk_tensor_task *task) {
  return task->cols.k == 16 && width_of(task) == COORDINATES && extra_of(task) == PLAIN &&
         task->single == !task->coarse && fk_wgmma_supports(task);
}

struct fk_symmetric_plan fk_symmetric_plan_of(int64_t n, bool coarse) {
  struct fk_symmetric_plan p = {};
  p.n = n;
  p.strip = coarse ? +cut<COARSE>::STRIP : +cut<ROUNDED>::STRIP;
  p.strips = (p.n + p.strip - 1) / p.strip;
  p.n_pad = p.strips * p.strip;
  /* Starting and ending a job takes an eighth of the time of a strip. There are at least about 11 jobs for each of
   * 132 multiprocessors. */
  int64_t run = p.strips * p.strips / 3000;
  p.run = (int)(run < 1 ? 1 : run > LONGEST_RUN ? LONGEST_RUN : run);
  p.jobs = jobs_before(p.strips, p.run);
  /* |sum| <= n 2^RAISE 2^6, since coordinates are below 2^6; the sum must fit into 62 bits. */
  int bits = 62 - 6 - FK_TENSOR_RAISE - (int)ceil(log2((double)p.n));
  p.unit = ldexp(1, bits < 20 ? bits : 20);
  return p;
}

size_t fk_symmetric_pack_bytes(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan) {
  int blocks = task->coarse ? +cut<COARSE>::BLOCKS : +cut<ROUNDED>::BLOCKS;
  return (size_t)plan->n_pad * (size_t)(2 * blocks * 16);
}

cudaError_t fk_symmetric_pack(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan,
                              void *packed, cudaStream_t stream) {
  return task->coarse ? pack<cut<COARSE>>(&task->cols, plan, packed, stream)
                      : pack<cut<ROUNDED>>(&task->cols, plan, packed, stream);
}

cudaError_t fk_symmetric_launch(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan,
                                const void *packed, int64_t first_job, int64_t count, unsigned long long *sums,
                                cudaStream_t stream) {
  if (task->coarse) return launch<cut<COARSE>>(plan, packed, first_job, count, sums, stream);
  return task->low_low ? launch<cut<LOW>>(plan, packed, first_job, count, sums, stream)
                       : launch<cut<ROUNDED>>(plan, packed, first_job, count, sums, stream);
}

#else

bool fk_symmetric_supports(const struct fk_tensor_task *) { return false; }
struct fk_symmetric_plan fk_symmetric_plan_of(int64_t, bool) {
  return {};
}
size_t fk_symmetric_pack_bytes(const struct fk_tensor_task *, const struct fk_symmetric_plan *) { return 0; }
cudaError_t fk_symmetric_pack(const struct fk_tensor_task *, const struct fk_symmetric_plan *, void *,
                              cudaStream_t) {
  return cudaErrorNotSupported;
}
cudaError_t fk_symmetric_launch(const struct fk_tensor_task *, const struct fk_symmetric_plan *, const void *,
                                int64_t, int64_t, unsigned long long *, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif

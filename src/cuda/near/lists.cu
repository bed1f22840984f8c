/* See lists.cuh. */
#include <math.h>

#include "../../core/wish.h"
#include "lists.cuh"

enum { WARPS = FK_THREADS / 32, TILE = 64, GROUPS = 4 /* most warpgroups of a block */ };
enum { KEPT_TILES = 64, KEPT_COLS = 256 };

/* Kernels of at most 2^-126 are 0, or make no difference to the smallest ground. */
enum { NOTHING = -127, LEAST_GROUND = -100 };

bool fk_cuda_lists_wish(const char *wish) { return fk_is_wish("FLASHKERNEL_CUDA_LISTS", wish); }

/* ---- how far ---------------------------------------------------------------------------------- */

/* The squared distance where a kernel is 2^exponent. */
static __host__ __device__ double distance2_of(int exponent) { return -2 * FK_LN2 * exponent; }

/* Terms are added in pairs: each must be less than a quarter of a unit in the last place of the ground. */
enum { BELOW_GROUND = -26 };

/* The ground of a row: the floor of log2(2 s / n). */
static __host__ __device__ int ground_of(double s, double n) {
  int of_sum, of_count;
  if (!(s > 0)) return LEAST_GROUND;
  frexp(s, &of_sum);
  frexp(n, &of_count);
  return of_sum - of_count > LEAST_GROUND ? of_sum - of_count : LEAST_GROUND;
}

double fk_reach_of_one(int64_t n) { return distance2_of(ground_of(1, (double)n) + BELOW_GROUND); }

static __device__ double reach_of(const struct fk_list_reach &near, int64_t i, float *ground) {
  *ground = 0;
  if (near.values) { /* weights are at most 2, as in the offsets of the sources */
    const int exponent = near.mass ? fk_raise_of_mass(near.mass[i]) : 0;
    return distance2_of(exponent - near.raise - near.factor_bits - 28);
  }
  int at = near.factor ? LEAST_GROUND : ground_of(near.least[i], near.sources);
  *ground = exp2f((float)at);
  return distance2_of(near.factor ? NOTHING : at + BELOW_GROUND);
}

/* A warp for each tile; the padding has a ground, too, since blocks read it. */
static __global__ void reach_kernel(const struct fk_list_reach near, int64_t n, int tiles, float *ground,
                                    float *reach) {
  const int tile = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (tile >= tiles) return;
  double farthest = 0;
  for (int64_t i = (int64_t)tile * TILE + lane; i < (int64_t)(tile + 1) * TILE; i += 32) {
    ground[i] = 0;
    if (i < n) farthest = fmax(farthest, reach_of(near, i, ground + i));
  }
  for (int step = 16; step > 0; step /= 2) farthest = fmax(farthest, __shfl_xor_sync(~0u, farthest, step));
  if (lane == 0) reach[tile] = __double2float_ru(farthest);
}

/* ---- boxes ------------------------------------------------------------------------------------ */

/* Bounding boxes of runs of `width` points; that of an empty run is beyond everything. */
static __global__ void box_kernel(const struct fk_cuda_points points, int width, float *low, float *high) {
  const int lane = threadIdx.x % 32;
  const int64_t first = (int64_t)blockIdx.x * width, end = min(first + width, points.n);
  for (int k = threadIdx.x / 32; k < points.d; k += WARPS) {
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = first + lane; i < end; i += 32) {
      double u = points.u[k * points.ld + i];
      least = fmin(least, u), most = fmax(most, u);
    }
    for (int step = 16; step > 0; step /= 2) {
      least = fmin(least, __shfl_xor_sync(~0u, least, step));
      most = fmax(most, __shfl_xor_sync(~0u, most, step));
    }
    if (lane > 0) continue;
    low[k * gridDim.x + blockIdx.x] = __double2float_rd(least);
    high[k * gridDim.x + blockIdx.x] = __double2float_ru(most);
  }
}

static __device__ float gap(float low, float high, float other_low, float other_high) {
  return fmaxf(fmaxf(low - other_high, other_low - high), 0.0f);
}

/* ---- lists ------------------------------------------------------------------------------------ */

struct list_args {
  struct fk_cuda_lists lists;
  const struct fk_tensor_part *parts; /* of all rows; NULL: no ground */
  int first_tile, slot_stages;
  bool all;
  uint32_t *entry;
  int *count;
};

/* A bit for each warpgroup of the block that the stage is near to. */
static __device__ uint32_t near_groups(const struct list_args &a, const float (*low)[FK_TENSOR_WIDE],
                                       const float (*high)[FK_TENSOR_WIDE], const float *reach, int groups,
                                       int stage) {
  float square[GROUPS] = {};
  for (int k = 0; k < a.lists.d; k++) {
    const float from = a.lists.stage_low[k * a.lists.stages + stage],
                to = a.lists.stage_high[k * a.lists.stages + stage];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      float z = gap(low[g][k], high[g][k], from, to);
      square[g] += z * z;
    }
  }
  uint32_t near = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; g++)
    if (g < groups && (a.all || !(square[g] > 1.0001f * reach[g]))) near |= 1u << (28 + g);
  return near;
}

/* A block makes the list of a block of rows and a slot, in the order of the stages. */
static __global__ void list_kernel(const struct list_args a) {
  __shared__ float low[GROUPS][FK_TENSOR_WIDE], high[GROUPS][FK_TENSOR_WIDE], reach[GROUPS];
  __shared__ int of_warp[WARPS];
  const int groups = a.lists.block_rows / TILE, first_tile = a.first_tile + blockIdx.x * groups,
            warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int first = 0, end = a.lists.stages;
  if (a.parts) {
    const struct fk_tensor_part part = a.parts[(int64_t)first_tile * TILE / FK_TENSOR_UNIT];
    first = part.first / a.lists.stage_cols, end = part.end / a.lists.stage_cols;
  }
  first += blockIdx.y * a.slot_stages, end = min(first + a.slot_stages, end);
  for (int i = threadIdx.x; i < groups * a.lists.d; i += FK_THREADS) {
    int g = i % groups, k = i / groups, tile = min(first_tile + g, a.lists.tiles - 1);
    low[g][k] = a.lists.tile_low[k * a.lists.tiles + tile];
    high[g][k] = a.lists.tile_high[k * a.lists.tiles + tile];
  }
  if (threadIdx.x < groups) {
    int tile = first_tile + threadIdx.x;
    reach[threadIdx.x] = tile < a.lists.tiles ? a.lists.tile_reach[tile] : -1.0f;
  }
  __syncthreads();
  uint32_t *entry = a.entry + (int64_t)blockIdx.x * a.lists.stages + first;
  int count = 0;
  for (int base = first; base < end; base += FK_THREADS) {
    const int stage = base + threadIdx.x;
    const uint32_t near = stage < end ? near_groups(a, low, high, reach, groups, stage) : 0;
    const unsigned listed = __ballot_sync(~0u, near != 0);
    if (lane == 0) of_warp[warp] = __popc(listed);
    __syncthreads();
    int at = count + __popc(listed & ((1u << lane) - 1));
    for (int w = 0; w < WARPS; w++) at += w < warp ? of_warp[w] : 0, count += of_warp[w];
    if (near) entry[at] = (uint32_t)(stage - first) | near;
    __syncthreads();
  }
  if (threadIdx.x == 0) a.count[blockIdx.y * gridDim.x + blockIdx.x] = count;
}

enum fk_status fk_cuda_lists_begin(struct fk_cuda_context *context, const struct fk_cuda_points *cols,
                                   const struct fk_cuda_points *rows, const struct fk_list_reach *near,
                                   struct fk_cuda_lists *lists, struct fk_error *err) {
  const int64_t d = cols->d;
  /* the last block of a launch may go beyond its rows */
  const int64_t tiles = fk_pieces(rows->ld, TILE) + GROUPS, stages = fk_pieces(cols->ld, lists->stage_cols);
  float *data;
  FK_TRY(fk_cuda_room(context, &lists->boxes, 2 * d * (stages + tiles) + tiles + tiles * TILE, &data, err));
  lists->d = (int)d;
  lists->stages = (int)stages;
  lists->tiles = (int)tiles;
  lists->stage_low = data;
  lists->stage_high = lists->stage_low + d * stages;
  lists->tile_low = lists->stage_high + d * stages;
  lists->tile_high = lists->tile_low + d * tiles;
  lists->tile_reach = lists->tile_high + d * tiles;
  lists->ground = lists->tile_reach + tiles;
  cudaStream_t stream = context->stream;
  box_kernel<<<(unsigned)stages, FK_THREADS, 0, stream>>>(*cols, lists->stage_cols, lists->stage_low,
                                                          lists->stage_high);
  box_kernel<<<(unsigned)tiles, FK_THREADS, 0, stream>>>(*rows, TILE, lists->tile_low, lists->tile_high);
  reach_kernel<<<fk_blocks(tiles, WARPS), FK_THREADS, 0, stream>>>(*near, rows->n, (int)tiles, lists->ground,
                                                                   lists->tile_reach);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_cuda_lists_make(struct fk_cuda_context *context, struct fk_cuda_lists *lists,
                                  struct fk_tensor_task *task, struct fk_error *err) {
  const int64_t blocks = fk_pieces(task->n_rows, lists->block_rows);
  struct list_args a = {*lists,
                        task->parts,
                        (int)(task->first_row / TILE),
                        (int)(task->cols_per_slot / lists->stage_cols),
                        fk_cuda_lists_wish("all"),
                        NULL,
                        NULL};
  FK_TRY(fk_cuda_room(context, &lists->lists, blocks * (lists->stages + task->slots), &a.entry, err));
  a.count = (int *)(a.entry + blocks * lists->stages);
  list_kernel<<<dim3((unsigned)blocks, (unsigned)task->slots), FK_THREADS, 0, context->stream>>>(a);
  FK_CUDA_TRY(cudaGetLastError());
  task->list = a.entry;
  task->listed = a.count;
  task->ground = task->has_values ? NULL : lists->ground;
  return FK_STATUS_OK;
}

void fk_cuda_lists_free(struct fk_cuda_context *context, struct fk_cuda_lists *lists) {
  fk_cuda_drop(context, &lists->boxes);
  fk_cuda_drop(context, &lists->lists);
}

/* ---- are they of use? ------------------------------------------------------------------------- */

/* A block for each tile of the sample; it writes its count to host memory. */
static __global__ void kept_kernel(const struct fk_cuda_lists lists, double reach, int *counts) {
  __shared__ int total;
  const int tile = (int)((int64_t)blockIdx.x * lists.tiles / KEPT_TILES);
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (int stage = threadIdx.x; stage < lists.stages; stage += FK_THREADS) {
    double square = 0;
    for (int k = 0; k < lists.d; k++) {
      double z = gap(lists.tile_low[k * lists.tiles + tile], lists.tile_high[k * lists.tiles + tile],
                     lists.stage_low[k * lists.stages + stage], lists.stage_high[k * lists.stages + stage]);
      square += z * z;
    }
    if (square <= reach) atomicAdd(&total, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

enum fk_status fk_cuda_lists_kept(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  double *kept, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct fk_cuda_lists lists = {};
  const int64_t d = points->d;
  int *counts = (int *)context->staging[0];
  float *data;
  lists.d = points->d;
  lists.tiles = (int)fk_pieces(points->n, TILE);
  lists.stages = (int)fk_pieces(points->n, KEPT_COLS);
  FK_TRY(fk_cuda_take(context, &arena, 2 * d * (lists.tiles + lists.stages), &data, err));
  lists.tile_low = data;
  lists.tile_high = lists.tile_low + d * lists.tiles;
  lists.stage_low = lists.tile_high + d * lists.tiles;
  lists.stage_high = lists.stage_low + d * lists.stages;
  cudaStream_t stream = context->stream;
  box_kernel<<<lists.tiles, FK_THREADS, 0, stream>>>(*points, TILE, lists.tile_low, lists.tile_high);
  box_kernel<<<lists.stages, FK_THREADS, 0, stream>>>(*points, KEPT_COLS, lists.stage_low, lists.stage_high);
  kept_kernel<<<KEPT_TILES, FK_THREADS, 0, stream>>>(lists, fk_reach_of_one(points->n), counts);
  FK_CUDA_TRY(cudaGetLastError());
  FK_CUDA_TRY(cudaStreamSynchronize(stream));
  double sum = 0;
  for (int t = 0; t < KEPT_TILES; t++) sum += counts[t];
  *kept = sum / ((double)KEPT_TILES * lists.stages);
  return FK_STATUS_OK;
}

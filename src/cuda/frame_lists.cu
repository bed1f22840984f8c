/* Points, frame by frame. A warp has a run of them: what it needs to find their places is how many there are of
 * each group before the run, so that a place goes by the points alone, and is found again where sums come back. */
#include "frames.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, GROUPS = FK_FRAME_GROUPS, SCAN = 1024 };

/* ---- a run ------------------------------------------------------------------------------------ */

/* Calls visit(point, frame, place) for all frames of a lane's point, in their order, and then done(point). at: of
 * the warp, the next place of each group. */
template <typename Visit, typename Done>
static __device__ void walk_run(const struct fk_frame_list &l, int run, int *at, Visit visit, Done done) {
  const int lane = threadIdx.x % 32;
  const int64_t first = (int64_t)run * FK_FRAME_RUN;
  const unsigned before = (1u << lane) - 1;
  for (int64_t i = first + lane; i < first + FK_FRAME_RUN; i += 32) {
    const uint64_t mine = i < l.n ? l.mask[i] : 0;
    const int own = l.own && i < l.n ? l.own[i] : -1;
    uint64_t any = mine;
    for (int step = 16; step > 0; step /= 2) any |= __shfl_xor_sync(~0u, any, step);
    for (; any; any &= any - 1) {
      const int f = __ffsll((long long)any) - 1;
      const bool in = mine >> f & 1;
      const unsigned owners = __ballot_sync(~0u, in && own == f), others = __ballot_sync(~0u, in && own != f);
      if (in)
        visit(i, f, own == f ? at[2 * f] + __popc(owners & before) : at[2 * f + 1] + __popc(others & before));
      __syncwarp();
      if (lane == 0) at[2 * f] += __popc(owners), at[2 * f + 1] += __popc(others);
      __syncwarp();
    }
    done(i);
  }
}

static __device__ int run_of_warp() { return (int)(blockIdx.x * WARPS + threadIdx.x / 32); }

/* ---- how many --------------------------------------------------------------------------------- */

static __global__ void count_kernel(const struct fk_frame_list l) {
  __shared__ int counts[WARPS][GROUPS];
  const int run = run_of_warp();
  int *at = counts[threadIdx.x / 32];
  if (run >= l.runs) return;
  for (int g = threadIdx.x % 32; g < GROUPS; g += 32) at[g] = 0;
  __syncwarp();
  walk_run(
      l, run, at, [](int64_t, int, int) {}, [](int64_t) {});
  for (int g = threadIdx.x % 32; g < GROUPS; g += 32) l.before[(int64_t)g * l.runs + run] = at[g];
}

/* A block for each group: from the counts of its runs to those of all runs before. The total goes straight to the
 * host's memory. */
static __global__ void before_kernel(int *before, int runs, int *total) {
  __shared__ int sums[SCAN];
  int *mine = before + (int64_t)blockIdx.x * runs, sum = 0;
  for (int base = 0; base < runs; base += SCAN) {
    const int r = base + threadIdx.x, count = r < runs ? mine[r] : 0;
    sums[threadIdx.x] = count;
    __syncthreads();
    for (int step = 1; step < SCAN; step *= 2) {
      int other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
      __syncthreads();
      sums[threadIdx.x] += other;
      __syncthreads();
    }
    if (r < runs) mine[r] = sum + sums[threadIdx.x] - count;
    sum += sums[SCAN - 1];
    __syncthreads();
  }
  if (threadIdx.x == 0) total[blockIdx.x] = sum;
}

enum fk_status fk_frame_list_begin(struct fk_cuda_context *context, int64_t n, struct fk_frame_list *list,
                                   struct fk_error *err) {
  list->n = n;
  list->runs = (int)fk_pieces(n, FK_FRAME_RUN);
  const int64_t counts = (int64_t)GROUPS * list->runs;
  FK_TRY(fk_cuda_room(context, &list->buffer, n + fk_pieces(counts, 2), &list->mask, err));
  list->before = (int *)(list->mask + n);
  return FK_STATUS_OK;
}

enum fk_status fk_frame_list_count(struct fk_cuda_context *context, struct fk_frame_list *list, int *staged,
                                   struct fk_error *err) {
  count_kernel<<<fk_blocks(list->runs, WARPS), THREADS, 0, context->stream>>>(*list);
  before_kernel<<<GROUPS, SCAN, 0, context->stream>>>(list->before, list->runs, staged);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

/* ---- lists ------------------------------------------------------------------------------------ */

/* The next places of a run's groups. */
static __device__ void begin_run(const struct fk_frame_list &l, int run, int *at) {
  for (int g = threadIdx.x % 32; g < GROUPS; g += 32) at[g] = l.first[g] + l.before[(int64_t)g * l.runs + run];
  __syncwarp();
}

static __device__ void put(const struct fk_frame_list &l, int place, int point, int f) {
  l.list[place] = point;
  if (place % FK_TENSOR_UNIT == 0) l.frame[place / FK_TENSOR_UNIT] = (unsigned char)f;
}

static __global__ void list_kernel(const __grid_constant__ struct fk_frame_list l) {
  __shared__ int places[WARPS][GROUPS];
  const int run = run_of_warp();
  int *at = places[threadIdx.x / 32];
  if (run >= l.runs) return;
  begin_run(l, run, at);
  walk_run(
      l, run, at,
      [&](int64_t i, int f, int place) {
        const int g = 2 * f + !(l.own && l.own[i] == f);
        put(l, place, (int)i, f);
        if (place + 1 < l.first[g] + l.count[g]) return;
        for (int p = place + 1; p < l.first[g + 1]; p++) put(l, p, ~(int)i, f);
      },
      [](int64_t) {});
}

enum fk_status fk_frame_list_make(struct fk_cuda_context *context, struct fk_frame_list *list, const int *staged,
                                  int unit, struct fk_error *err) {
  int64_t places = 0;
  for (int g = 0; g < GROUPS; g++) {
    list->count[g] = staged[g];
    list->first[g] = (int)places;
    places += fk_padded(staged[g], unit);
    if (places > INT32_MAX - FK_TENSOR_ROWS) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: rows of frames");
  }
  list->first[GROUPS] = (int)places;
  const int64_t units = places / FK_TENSOR_UNIT;
  if (places == 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &list->places, places + fk_pieces(units, 4), &list->list, err));
  list->frame = (unsigned char *)(list->list + places);
  list_kernel<<<fk_blocks(list->runs, WARPS), THREADS, 0, context->stream>>>(*list);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

void fk_frame_list_free(struct fk_cuda_context *context, struct fk_frame_list *list) {
  fk_cuda_drop(context, &list->buffer);
  fk_cuda_drop(context, &list->places);
}

/* ---- parts ------------------------------------------------------------------------------------ */

static __device__ int group_of(const struct fk_frame_list &l, int place) {
  int g = 0;
  while (l.first[g + 1] <= place) g++;
  return g;
}

/* Of sources: which of their frame source i is. */
static __device__ int place_in_frame(const struct fk_frame_list &sources, const unsigned char *part_of, int f,
                                     int64_t i) {
  const int run = (int)(i / FK_FRAME_RUN);
  int place = sources.before[(int64_t)(2 * f + 1) * sources.runs + run];
  for (int64_t j = (int64_t)run * FK_FRAME_RUN; j < i; j++) place += part_of[j] == f;
  return place;
}

static __global__ void parts_kernel(const __grid_constant__ struct fk_frame_list rows,
                                    const __grid_constant__ struct fk_frame_list sources,
                                    const unsigned char *part_of, int64_t own, struct fk_tensor_part *parts) {
  const int unit = blockIdx.x * blockDim.x + threadIdx.x, place = unit * FK_TENSOR_UNIT;
  if (place >= rows.first[GROUPS]) return;
  const int g = group_of(rows, place), f = g / 2, first = sources.first[2 * f + 1];
  int64_t self = INT64_MIN;
  if (g == 2 * f) self = first + place_in_frame(sources, part_of, f, own) - rows.first[g];
  parts[unit] = {first, sources.first[2 * f + 2], self};
}

enum fk_status fk_frame_parts(struct fk_cuda_context *context, const struct fk_frame_list *rows,
                              const struct fk_frame_list *sources, const unsigned char *part_of, int64_t own,
                              struct fk_tensor_part *parts, struct fk_error *err) {
  const int64_t units = rows->first[GROUPS] / FK_TENSOR_UNIT;
  parts_kernel<<<fk_blocks(units, THREADS), THREADS, 0, context->stream>>>(*rows, *sources, part_of, own, parts);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}

/* ---- sums back -------------------------------------------------------------------------------- */

static __global__ void join_kernel(const __grid_constant__ struct fk_frame_list l, const struct fk_frame_join j,
                                   int widths) {
  __shared__ int places[WARPS][GROUPS];
  const int run = run_of_warp();
  int *at = places[threadIdx.x / 32];
  if (run >= l.runs) return;
  for (int w = blockIdx.y; w < widths; w += gridDim.y) {
    const double *in = j.in + w * j.ld_in;
    double *out = j.out + w * j.ld_out, sum = 0;
    begin_run(l, run, at);
    walk_run(
        l, run, at,
        [&](int64_t, int f, int place) {
          sum += in[place];
          if (j.centre && w > 0) sum += j.centre[(int64_t)f * j.d + w - 1] * j.in[place];
        },
        [&](int64_t i) {
          if (i < l.n) out[i] = j.first ? sum : out[i] + sum;
          sum = 0;
        });
    __syncwarp();
  }
}

cudaError_t fk_frames_join(const struct fk_frame_list *rows, const struct fk_frame_join *join, int widths,
                           cudaStream_t stream) {
  dim3 grid(fk_blocks(rows->runs, WARPS), (unsigned)fk_smaller(widths, 64));
  join_kernel<<<grid, THREADS, 0, stream>>>(*rows, *join, widths);
  return cudaGetLastError();
}

/* Lists points frame by frame. A warp has a run of points. To find their places it needs the number of points of
 * each group before the run. The places thus depend on the points alone, and are found again when sums come back.
 */
#include "frames.cuh"

enum { RUN = FK_FRAME_RUN, RUNS = FK_THREADS / RUN, GROUPS = FK_FRAME_GROUPS, SCAN = 1024 };
static_assert(RUN == 32, "a lane for each point of a run");

/* ---- a run ------------------------------------------------------------------------------------ */

/* A lane's point; NONE beyond the last run. */
enum { NONE = -1 };
static __device__ int run_of_warp(const struct fk_frame_list &l) {
  const int run = (int)(blockIdx.x * RUNS + threadIdx.x / RUN);
  return run < l.runs ? run : NONE;
}

/* Lanes whose point is in a frame, as its own source and as another point. */
struct members {
  unsigned own, others;
};

/* Calls visit(frame, members, in) for each frame that any lane is in, in order; in: this lane is. */
template <typename Visit>
static __device__ void walk_run(const struct fk_frame_list &l, int64_t i, Visit visit) {
  const uint64_t mine = i < l.n ? l.mask[i] : 0;
  const int own = l.own && i < l.n ? l.own[i] : NONE;
  uint64_t any = mine;
  for (int step = 16; step > 0; step /= 2) any |= __shfl_xor_sync(~0u, any, step);
  for (; any; any &= any - 1) {
    const int f = __ffsll((long long)any) - 1;
    const bool in = mine >> f & 1;
    visit(f, {__ballot_sync(~0u, in && own == f), __ballot_sync(~0u, in && own != f)}, in);
  }
}

/* Calls visit(frame, group, place) for all frames of a lane's point, in order. */
template <typename Visit>
static __device__ void visit_places(const struct fk_frame_list &l, int run, Visit visit) {
  const unsigned lane = 1u << threadIdx.x % RUN;
  walk_run(l, (int64_t)run * RUN + threadIdx.x % RUN, [&](int f, struct members m, bool in) {
    if (!in) return;
    const bool own = m.own & lane;
    const int g = 2 * f + !own;
    visit(f, g, l.first[g] + l.before[(int64_t)g * l.runs + run] + __popc((own ? m.own : m.others) & (lane - 1)));
  });
}

/* ---- how many --------------------------------------------------------------------------------- */

static __global__ void count_kernel(const struct fk_frame_list l) {
  __shared__ int counts[RUNS][GROUPS];
  const int run = run_of_warp(l), lane = threadIdx.x % RUN;
  int *count = counts[threadIdx.x / RUN];
  if (run == NONE) return;
  for (int g = lane; g < GROUPS; g += RUN) count[g] = 0;
  __syncwarp();
  walk_run(l, (int64_t)run * RUN + lane, [&](int f, struct members m, bool) {
    if (lane == 0) count[2 * f] = __popc(m.own), count[2 * f + 1] = __popc(m.others);
  });
  __syncwarp();
  for (int g = lane; g < GROUPS; g += RUN) l.before[(int64_t)g * l.runs + run] = count[g];
}

/* A block for each group: turns the counts of its runs into counts of all runs before. Writes the total to host
 * memory. */
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
  count_kernel<<<fk_blocks(list->runs, RUNS), FK_THREADS, 0, context->stream>>>(*list);
  before_kernel<<<GROUPS, SCAN, 0, context->stream>>>(list->before, list->runs, staged);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- lists ------------------------------------------------------------------------------------ */

static __device__ void put(const struct fk_frame_list &l, int place, int point, int f) {
  l.list[place] = point;
  if (place % FK_TENSOR_UNIT == 0) l.frame[place / FK_TENSOR_UNIT] = (unsigned char)f;
}

static __global__ void list_kernel(const __grid_constant__ struct fk_frame_list l) {
  const int run = run_of_warp(l), point = run * RUN + threadIdx.x % RUN;
  if (run == NONE) return;
  visit_places(l, run, [&](int f, int g, int place) {
    put(l, place, point, f);
    if (place + 1 < l.first[g] + l.count[g]) return;
    for (int p = place + 1; p < l.first[g + 1]; p++) put(l, p, ~point, f);
  });
}

enum fk_status fk_frame_list_make(struct fk_cuda_context *context, struct fk_frame_list *list, const int *staged,
                                  int unit, struct fk_error *err) {
  int64_t places = 0;
  for (int g = 0; g < GROUPS; g++) {
    list->count[g] = staged[g];
    list->first[g] = (int)places;
    places += fk_padded(staged[g], unit);
    if (places > INT32_MAX - FK_TENSOR_ROWS)
      return fk_fail(err, FK_STATUS_ALLOC, "out of memory for rows of frames");
  }
  list->first[GROUPS] = (int)places;
  const int64_t units = places / FK_TENSOR_UNIT;
  if (places == 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &list->places, places + fk_pieces(units, 4), &list->list, err));
  list->frame = (unsigned char *)(list->list + places);
  list_kernel<<<fk_blocks(list->runs, RUNS), FK_THREADS, 0, context->stream>>>(*list);
  return FK_CUDA_STATUS(cudaGetLastError());
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

/* For sources: the place of source i in its frame. */
static __device__ int place_in_frame(const struct fk_frame_list &sources, const unsigned char *part_of, int f,
                                     int64_t i) {
  const int run = (int)(i / RUN);
  int place = sources.before[(int64_t)(2 * f + 1) * sources.runs + run];
  for (int64_t j = (int64_t)run * RUN; j < i; j++) place += part_of[j] == f;
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
  parts_kernel<<<fk_blocks(units, FK_THREADS), FK_THREADS, 0, context->stream>>>(*rows, *sources, part_of, own,
                                                                                 parts);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- sums back -------------------------------------------------------------------------------- */

static __global__ void join_kernel(const __grid_constant__ struct fk_frame_list l, const struct fk_frame_join j,
                                   int widths) {
  const int run = run_of_warp(l);
  if (run == NONE) return;
  const int64_t i = (int64_t)run * RUN + threadIdx.x % RUN;
  for (int w = blockIdx.y; w < widths; w += gridDim.y) {
    const double *in = j.in + w * j.ld_in;
    double *out = j.out + w * j.ld_out, sum = 0;
    visit_places(l, run, [&](int f, int, int place) {
      sum += in[place];
      if (j.centre && w > 0) sum += j.centre[(int64_t)f * j.d + w - 1] * j.in[place];
    });
    if (i < l.n) out[i] = j.first ? sum : out[i] + sum;
  }
}

cudaError_t fk_frames_join(const struct fk_frame_list *rows, const struct fk_frame_join *join, int widths,
                           cudaStream_t stream) {
  dim3 grid(fk_blocks(rows->runs, RUNS), (unsigned)fk_smaller(widths, 64));
  join_kernel<<<grid, FK_THREADS, 0, stream>>>(*rows, *join, widths);
  return cudaGetLastError();
}

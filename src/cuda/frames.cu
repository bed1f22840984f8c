/* Which balls: greedily, on a sample, the one of a few hundred that takes most of what is left. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frames.cuh"
#include "sort.cuh"
#include "sources.cuh"

enum { THREADS = 256, SAMPLE = 4096, ROOM = SAMPLE + 1, CANDIDATES = 256 };

/* ---- centres ---------------------------------------------------------------------------------- */

/* Points of a sample, [k][ROOM], then the points' common centre, and what frames have taken of them. */
struct sample {
  double *u;
  int count, d;
  double radius2;
  int *taken;   /* [ROOM] */
  int *left;    /* [ROOM]: how many are not taken, and which */
  int *found;   /* [CANDIDATES]: how many each would take */
  int *largest; /* how many the best took; on the host */
};

static __global__ void sample_kernel(const struct fk_cuda_points points, struct sample sample) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > sample.count) return;
  int64_t from = (int64_t)i * points.n / sample.count;
  for (int k = 0; k < points.d; k++)
    sample.u[k * ROOM + i] = i < sample.count ? points.u[k * points.ld + from] : 0;
  sample.taken[i] = 0;
  sample.left[0] = sample.count;
  if (i < sample.count) sample.left[1 + i] = i;
}

static __device__ double sample_distance2(const struct sample &s, int i, int j) {
  double sum = 0;
  for (int k = 0; k < s.d; k++) {
    double z = s.u[k * ROOM + i] - s.u[k * ROOM + j];
    sum += z * z;
  }
  return sum;
}

/* Of what is left, other points in each round, and the common centre: where points reach just too far, it is the
 * best. */
static __device__ int candidate(const struct sample &s, int c, int round) {
  const int64_t left = s.left[0];
  if (c == 0 || left == 0) return s.count;
  return s.left[1 + (c * left / CANDIDATES + 97 * round) % left];
}

/* By one block: a thread has a run of the sample. */
static __device__ void list_left(const struct sample &s) {
  __shared__ int before[THREADS];
  const int run = (s.count + THREADS - 1) / THREADS, first = min(s.count, (int)threadIdx.x * run),
            end = min(s.count, first + run);
  int mine = 0;
  for (int i = first; i < end; i++) mine += !s.taken[i];
  before[threadIdx.x] = mine;
  __syncthreads();
  for (int step = 1; step < THREADS; step *= 2) {
    int other = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
    __syncthreads();
    before[threadIdx.x] += other;
    __syncthreads();
  }
  if (threadIdx.x == THREADS - 1) s.left[0] = before[threadIdx.x];
  int at = 1 + before[threadIdx.x] - mine;
  for (int i = first; i < end; i++)
    if (!s.taken[i]) s.left[at++] = i;
}

static __global__ void count_kernel(struct sample s, int round) {
  int centre = candidate(s, blockIdx.x, round), mine = 0;
  for (int i = threadIdx.x; i < s.count && !s.taken[centre]; i += THREADS)
    mine += !s.taken[i] && sample_distance2(s, i, centre) <= s.radius2;
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
  __shared__ int of_warp[THREADS / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < THREADS / 32; w++) mine += of_warp[w];
  s.found[blockIdx.x] = mine;
}

/* The best, the first of them, becomes the centre; one block. */
static __global__ void take_kernel(struct sample s, int round, double *centre) {
  static_assert(CANDIDATES == THREADS, "a thread for each");
  __shared__ int found[CANDIDATES], best;
  found[threadIdx.x] = s.found[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    best = 0;
    for (int c = 1; c < CANDIDATES; c++)
      if (found[c] > found[best]) best = c;
    *s.largest = found[best];
  }
  __syncthreads();
  int at = candidate(s, best, round);
  for (int k = threadIdx.x; k < s.d; k += THREADS) centre[k] = s.u[k * ROOM + at];
  for (int i = threadIdx.x; i < s.count; i += THREADS)
    if (sample_distance2(s, i, at) <= s.radius2) s.taken[i] = 1;
  __syncthreads();
  list_left(s);
}

static enum fk_status find_centres(struct fk_cuda_context *context, struct sample *s, double share,
                                   struct fk_cuda_frames *frames, struct fk_error *err) {
  int *largest = (int *)context->staging[0];
  s->largest = largest;
  for (int f = 0; f < FK_FRAMES; f++) {
    count_kernel<<<CANDIDATES, THREADS, 0, context->stream>>>(*s, f);
    take_kernel<<<1, THREADS, 0, context->stream>>>(*s, f, frames->centre + (int64_t)f * s->d);
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    if (*largest <= share * s->count) break;
    frames->count++;
  }
  return FK_STATUS_OK;
}

/* ---- parts ------------------------------------------------------------------------------------ */

static __device__ double distance2(const struct fk_cuda_points &points, int64_t i, const double *centre) {
  double sum = 0;
  for (int k = 0; k < points.d; k++) {
    double z = points.u[k * points.ld + i] - centre[k];
    sum += z * z;
  }
  return sum;
}

struct extent {
  unsigned long long count, radius2; /* radius2: the bits of a double, which sort as it does */
};

/* The first frame that has a point, and the parts' extents. */
static __global__ void part_kernel(const struct fk_cuda_points points, const double *centre, int frames,
                                   double radius2, unsigned char *part_of, uint64_t *key, int *index,
                                   struct extent *extents) {
  __shared__ struct extent of_block[FK_PARTS];
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < FK_PARTS) of_block[threadIdx.x] = {0, 0};
  __syncthreads();
  if (i < points.n) {
    int part = 0;
    double square = 0;
    for (; part < frames; part++)
      if ((square = distance2(points, i, centre + (int64_t)part * points.d)) <= radius2) break;
    part_of[i] = (unsigned char)part;
    key[i] = (uint64_t)part;
    index[i] = (int)i;
    atomicAdd(&of_block[part].count, 1ull);
    if (part < frames) atomicMax(&of_block[part].radius2, (unsigned long long)__double_as_longlong(square));
  }
  __syncthreads();
  if (threadIdx.x >= FK_PARTS || of_block[threadIdx.x].count == 0) return;
  atomicAdd(&extents[threadIdx.x].count, of_block[threadIdx.x].count);
  atomicMax(&extents[threadIdx.x].radius2, of_block[threadIdx.x].radius2);
}

static __global__ void reach_kernel(const struct extent *extents, double *reach2) {
  double reach = sqrt(__longlong_as_double((long long)extents[threadIdx.x].radius2)) + FK_FRAME_REACH;
  reach2[threadIdx.x] = reach * reach;
}

struct layout {
  int64_t centre, reach2, order, part_of, end;
};

static struct layout layout_of(int64_t n, int64_t d) {
  struct layout at;
  at.centre = 0;
  at.reach2 = fk_padded(8 * d * FK_FRAMES, 256);
  at.order = at.reach2 + fk_padded(8 * FK_PARTS, 256);
  at.part_of = at.order + fk_padded(4 * n, 256);
  at.end = at.part_of + fk_padded(n, 256);
  return at;
}

static enum fk_status sort_parts(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                 struct fk_cuda_frames *frames, struct extent *extents,
                                 struct fk_cuda_arena *arena, struct fk_error *err) {
  const int64_t n = points->n;
  const size_t bytes = FK_PARTS * sizeof *extents;
  struct extent *there;
  int *index;
  uint64_t *key, *sorted;
  FK_TRY(fk_cuda_take(context, arena, FK_PARTS, &there, err));
  FK_TRY(fk_cuda_take(context, arena, n, &index, err));
  FK_TRY(fk_cuda_take(context, arena, n, &key, err));
  FK_TRY(fk_cuda_take(context, arena, n, &sorted, err));
  FK_CUDA_TRY(cudaMemsetAsync(there, 0, bytes, context->stream));
  part_kernel<<<fk_blocks(n, THREADS), THREADS, 0, context->stream>>>(
      *points, frames->centre, frames->count, frames->radius * frames->radius, frames->part_of, key, index, there);
  reach_kernel<<<1, FK_PARTS, 0, context->stream>>>(there, frames->reach2);
  FK_CUDA_TRY(cudaGetLastError());
  struct fk_cuda_sort by_part = {key, sorted, index, frames->order, n, 6};
  FK_TRY(fk_cuda_sort(context, &by_part, err));
  FK_CUDA_TRY(cudaMemcpyAsync(context->staging[0], there, bytes, cudaMemcpyDeviceToHost, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  memcpy(extents, context->staging[0], bytes);
  return FK_STATUS_OK;
}

static enum fk_status make_parts(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                 struct fk_cuda_frames *frames, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct extent extents[FK_PARTS];
  enum fk_status status = sort_parts(context, points, frames, extents, &arena, err);
  fk_cuda_arena_free(context, &arena);
  FK_TRY(status);
  for (int p = 0; p <= frames->count; p++) {
    frames->first[p + 1] = frames->first[p] + (int)extents[p].count;
    memcpy(frames->radius2 + p, &extents[p].radius2, sizeof(double));
  }
  return FK_STATUS_OK;
}

enum fk_status fk_cuda_frames_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   double least, struct fk_cuda_frames *frames, struct fk_error *err) {
  const int64_t n = points->n, d = points->d;
  const double radius = frames->radius;
  const struct layout at = layout_of(n, d);
  struct fk_cuda_buffer room = {};
  struct sample s = {NULL, (int)fk_smaller(n, SAMPLE), points->d, radius * radius};
  char *block;
  memset(frames, 0, sizeof *frames);
  frames->radius = radius;
  if (n > INT32_MAX) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &frames->buffer, at.end, &block, err));
  frames->centre = (double *)(block + at.centre);
  frames->reach2 = (double *)(block + at.reach2);
  frames->order = (int *)(block + at.order);
  frames->part_of = (unsigned char *)(block + at.part_of);
  FK_TRY(fk_cuda_room(context, &room, 8 * ROOM * d + 4 * (2 * ROOM + CANDIDATES), &block, err));
  s.u = (double *)block;
  s.taken = (int *)(s.u + ROOM * d);
  s.left = s.taken + ROOM;
  s.found = s.left + ROOM;
  sample_kernel<<<fk_blocks(s.count + 1, THREADS), THREADS, 0, context->stream>>>(*points, s);
  enum fk_status status = find_centres(context, &s, fmax(least / (double)n, 0.5 / s.count), frames, err);
  fk_cuda_drop(context, &room);
  FK_TRY(status);
  FK_TRY(make_parts(context, points, frames, err));
  if (frames->first[frames->count] < n / 2) frames->count = 0;
  return FK_STATUS_OK;
}

void fk_cuda_frames_free(struct fk_cuda_context *context, struct fk_cuda_frames *frames) {
  for (int p = 0; p < FK_PARTS; p++) {
    if (frames->part[p]) fk_cuda_sources_empty(frames->part[p]);
    free(frames->part[p]);
  }
  fk_cuda_drop(context, &frames->buffer);
  memset(frames, 0, sizeof *frames);
}

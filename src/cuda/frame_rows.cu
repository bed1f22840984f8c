/* Rows to frames and back: which of a chunk each frame is for, and their points and sums. */
#include <string.h>

#include "frames.cuh"
#include "sort.cuh"

enum { THREADS = 256, GROUPS = 2 * FK_PARTS };

/* ---- which ------------------------------------------------------------------------------------ */

struct rows_task {
  struct fk_cuda_points rows;
  const double *centre;
  int frames;
  bool rest; /* there is one, and all rows meet it */
  const double *reach2;
  const unsigned char *part_of; /* of the sources, from `own` on; NULL: rows are of no part */
  unsigned *mask;               /* [row]: parts that it meets, */
  int *met;                     /* and how many */
  unsigned long long *counts;   /* of groups */
};

static __global__ void mask_kernel(const struct rows_task t) {
  __shared__ unsigned of_block[GROUPS];
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (int g = threadIdx.x; g < GROUPS; g += THREADS) of_block[g] = 0;
  __syncthreads();
  if (i < t.rows.n) {
    unsigned mask = t.rest ? 1u << t.frames : 0;
    int own = t.part_of ? t.part_of[i] : -1;
    for (int f = 0; f < t.frames; f++) {
      double sum = 0;
      for (int k = 0; k < t.rows.d; k++) {
        double z = t.rows.u[k * t.rows.ld + i] - t.centre[(int64_t)f * t.rows.d + k];
        sum += z * z;
      }
      if (sum <= t.reach2[f]) mask |= 1u << f;
    }
    t.mask[i] = mask;
    t.met[i] = __popc(mask);
    for (int p = 0; p <= t.frames; p++)
      if (mask >> p & 1) atomicAdd(of_block + 2 * p + (p != own), 1u);
  }
  __syncthreads();
  for (int g = threadIdx.x; g < GROUPS; g += THREADS)
    if (of_block[g]) atomicAdd(t.counts + g, (unsigned long long)of_block[g]);
}

/* All groups that a row is in, at its place among them. */
static __global__ void emit_kernel(const struct rows_task t, const int *at, uint64_t *group, int *row) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= t.rows.n) return;
  int to = at[i], own = t.part_of ? t.part_of[i] : -1;
  for (int p = 0; p <= t.frames; p++) {
    if (!(t.mask[i] >> p & 1)) continue;
    group[to] = (uint64_t)(2 * p + (p != own));
    row[to++] = (int)i;
  }
}

/* Of each part the sources before `own`, where the chunk begins. */
static __global__ void before_kernel(const unsigned char *part_of, int64_t own, unsigned long long *counts) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < own) atomicAdd(counts + part_of[i], 1ull);
}

/* Sorted by group; within a group rows stay in their order. */
static enum fk_status sort_rows(struct fk_cuda_context *context, const struct rows_task *t, int64_t total,
                                struct fk_frame_rows *found, struct fk_cuda_arena *arena, struct fk_error *err) {
  int *at, *row;
  uint64_t *group, *sorted;
  FK_TRY(fk_cuda_take(context, arena, t->rows.n, &at, err));
  FK_TRY(fk_cuda_take(context, arena, total, &row, err));
  FK_TRY(fk_cuda_take(context, arena, total, &group, err));
  FK_TRY(fk_cuda_take(context, arena, total, &sorted, err));
  FK_TRY(fk_cuda_room(context, &found->buffer, total, &found->list, err));
  FK_TRY(fk_cuda_sum_before(context, t->met, at, t->rows.n, err));
  emit_kernel<<<fk_blocks(t->rows.n, THREADS), THREADS, 0, context->stream>>>(*t, at, group, row);
  FK_CUDA_TRY(cudaGetLastError());
  struct fk_cuda_sort by_group = {group, sorted, row, found->list, total, 7};
  return fk_cuda_sort(context, &by_group, err);
}

static enum fk_status find_rows(struct fk_cuda_context *context, struct rows_task *t, int64_t own,
                                struct fk_frame_rows *found, struct fk_cuda_arena *arena, struct fk_error *err) {
  const size_t bytes = sizeof(unsigned long long) * (GROUPS + FK_PARTS);
  unsigned long long counts[GROUPS + FK_PARTS];
  FK_TRY(fk_cuda_take(context, arena, t->rows.n, &t->mask, err));
  FK_TRY(fk_cuda_take(context, arena, t->rows.n, &t->met, err));
  FK_TRY(fk_cuda_take(context, arena, GROUPS + FK_PARTS, &t->counts, err));
  FK_CUDA_TRY(cudaMemsetAsync(t->counts, 0, bytes, context->stream));
  mask_kernel<<<fk_blocks(t->rows.n, THREADS), THREADS, 0, context->stream>>>(*t);
  FK_CUDA_TRY(cudaGetLastError());
  if (own > 0)
    before_kernel<<<fk_blocks(own, THREADS), THREADS, 0, context->stream>>>(t->part_of - own, own,
                                                                            t->counts + GROUPS);
  FK_CUDA_TRY(cudaGetLastError());
  FK_CUDA_TRY(cudaMemcpyAsync(context->staging[0], t->counts, bytes, cudaMemcpyDeviceToHost, context->stream));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  memcpy(counts, context->staging[0], bytes);
  for (int g = 0; g < GROUPS; g++) found->first[g + 1] = found->first[g] + (int64_t)counts[g];
  for (int p = 0; p < FK_PARTS; p++) found->before[p] = (int64_t)counts[GROUPS + p];
  const int64_t total = found->first[GROUPS];
  if (total > INT32_MAX) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: rows of frames");
  return total > 0 ? sort_rows(context, t, total, found, arena, err) : FK_STATUS_OK;
}

enum fk_status fk_cuda_frame_rows(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                  const struct fk_cuda_points *rows, int64_t own, struct fk_frame_rows *found,
                                  struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct rows_task t = {*rows, frames->centre, frames->count};
  t.rest = frames->first[frames->count + 1] > frames->first[frames->count];
  t.reach2 = frames->reach2;
  t.part_of = own < 0 ? NULL : frames->part_of + own;
  found->first[0] = 0;
  enum fk_status status = find_rows(context, &t, own, found, &arena, err);
  fk_cuda_arena_free(context, &arena);
  return status;
}

/* ---- there and back --------------------------------------------------------------------------- */

static __global__ void gather_kernel(const struct fk_gather g, int widths) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= g.ld_out) return;
  for (int w = blockIdx.y; w < widths; w += gridDim.y)
    g.out[w * g.ld_out + i] =
        i < g.count ? g.in[w * g.ld_in + (g.list ? g.list[i] : i)] - (g.minus ? g.minus[w] : 0) : 0;
}

cudaError_t fk_frames_gather(const struct fk_gather *gather, int widths, cudaStream_t stream) {
  dim3 grid(fk_blocks(gather->ld_out, THREADS), (unsigned)fk_smaller(widths, 64));
  gather_kernel<<<grid, THREADS, 0, stream>>>(*gather, widths);
  return cudaGetLastError();
}

static __global__ void scatter_kernel(const struct fk_scatter s, int widths) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.count) return;
  for (int w = blockIdx.y; w < widths; w += gridDim.y) {
    double sum = s.in[w * s.ld_in + i];
    if (s.centre && w > 0) sum += s.centre[w - 1] * s.in[i];
    s.out[w * s.ld_out + (s.list ? s.list[i] : i)] += sum;
  }
}

cudaError_t fk_frames_scatter(const struct fk_scatter *scatter, int widths, cudaStream_t stream) {
  dim3 grid(fk_blocks(scatter->count, THREADS), (unsigned)fk_smaller(widths, 64));
  scatter_kernel<<<grid, THREADS, 0, stream>>>(*scatter, widths);
  return cudaGetLastError();
}

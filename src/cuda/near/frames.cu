/* Assigns sources to frames: the ball of each source, and the extent of the frames that results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frames.cuh"

/* What is known once the device is done. `best` is used while centres are found. */
struct frames_found {
  unsigned long long best[FK_FRAMES];
  int frames;
  unsigned long long radius2[FK_PARTS]; /* the bits of doubles, which sort like the doubles */
};

static __device__ double distance2(const struct fk_cuda_points &points, int64_t i, const double *centre) {
  double sum = 0;
  for (int k = 0; k < points.d; k++) {
    double z = points.u[k * points.ld + i] - centre[k];
    sum += z * z;
  }
  return sum;
}

/* Assigns each point to the first frame that contains it; the part after all frames has the remaining points. */
static __global__ void part_kernel(const struct fk_cuda_points points, const double *centre, double radius2,
                                   unsigned char *part_of, uint64_t *mask, struct frames_found *found) {
  __shared__ unsigned long long of_block[FK_PARTS];
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int frames = found->frames;
  if (threadIdx.x < FK_PARTS) of_block[threadIdx.x] = 0;
  __syncthreads();
  if (i < points.n) {
    int part = 0;
    double square = 0;
    for (; part < frames; part++)
      if ((square = distance2(points, i, centre + (int64_t)part * points.d)) <= radius2) break;
    part_of[i] = (unsigned char)part;
    mask[i] = (uint64_t)1 << part;
    if (part < frames) atomicMax(&of_block[part], (unsigned long long)__double_as_longlong(square));
  }
  __syncthreads();
  if (threadIdx.x < FK_PARTS && of_block[threadIdx.x])
    atomicMax(&found->radius2[threadIdx.x], of_block[threadIdx.x]);
}

/* Writes its results to host memory. */
static __global__ void reach_kernel(const struct frames_found *found, double *reach2,
                                    struct frames_found *staged) {
  double reach = sqrt(__longlong_as_double((long long)found->radius2[threadIdx.x])) + FK_FRAME_REACH;
  reach2[threadIdx.x] = reach * reach;
  staged->radius2[threadIdx.x] = found->radius2[threadIdx.x];
  if (threadIdx.x == 0) staged->frames = found->frames;
}

static enum fk_status make_room(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                struct fk_cuda_frames *frames, struct fk_error *err) {
  const int64_t numbers = FK_PARTS * (int64_t)(points->d + 1);
  FK_TRY(fk_cuda_room(context, &frames->buffer, numbers + fk_pieces(points->n, 8), &frames->centre, err));
  frames->reach2 = frames->centre + FK_PARTS * (int64_t)points->d;
  frames->part_of = (unsigned char *)(frames->centre + numbers);
  return fk_frame_list_begin(context, points->n, &frames->list, err);
}

/* The host waits for the device: the number of frames decides what follows. */
static enum fk_status find_parts(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                 struct fk_cuda_frames *frames, struct fk_cuda_arena *arena,
                                 struct fk_error *err) {
  int *counts = (int *)context->staging[0];
  struct frames_found *there = NULL, *found = (struct frames_found *)context->staging[1];
  FK_TRY(make_room(context, points, frames, err));
  FK_TRY(fk_cuda_take(context, arena, 1, &there, err));
  FK_CUDA_TRY(cudaMemsetAsync(there, 0, sizeof *there, context->stream));
  FK_TRY(fk_cuda_frame_centres(context, points, frames->radius, frames->centre, there->best, &there->frames, arena,
                               err));
  part_kernel<<<fk_blocks(points->n, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      *points, frames->centre, frames->radius * frames->radius, frames->part_of, frames->list.mask, there);
  reach_kernel<<<1, FK_PARTS, 0, context->stream>>>(there, frames->reach2, found);
  FK_CUDA_TRY(cudaGetLastError());
  FK_TRY(fk_frame_list_count(context, &frames->list, counts, err));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  for (int f = 0; f < found->frames; f++) {
    double radius2;
    memcpy(&radius2, found->radius2 + f, sizeof radius2);
    frames->radius2 = fmax(frames->radius2, radius2);
  }
  frames->count = found->frames;
  return fk_frame_list_make(context, &frames->list, counts, FK_TENSOR_UNIT, err);
}

enum fk_status fk_cuda_frames_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   struct fk_cuda_frames *frames, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  const double radius = frames->radius;
  fk_cuda_frames_free(context, frames);
  frames->radius = radius;
  if (points->n > INT32_MAX / 2) return FK_STATUS_OK;
  FK_TRY(find_parts(context, points, frames, &arena, err));
  if (fk_frames_rest(frames) > points->n / 2) frames->count = 0;
  return FK_STATUS_OK;
}

void fk_cuda_frames_free(struct fk_cuda_context *context, struct fk_cuda_frames *frames) {
  fk_frame_list_free(context, &frames->list);
  fk_cuda_drop(context, &frames->buffer);
  memset(frames, 0, sizeof *frames);
}

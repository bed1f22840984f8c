/* Rows of frames: which rows of a chunk each frame matters to; gathers rows and points into lists, and scatters
 * sums back. */
#include "frames.cuh"

/* ---- which ------------------------------------------------------------------------------------ */

static __global__ void mask_kernel(const struct fk_cuda_points rows, const double *centre, const double *reach2,
                                   int frames, uint64_t *mask) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows.n) return;
  uint64_t met = 0;
  for (int f = 0; f < frames; f++) {
    double sum = 0;
    for (int k = 0; k < rows.d; k++) {
      double z = rows.u[k * rows.ld + i] - centre[(int64_t)f * rows.d + k];
      sum += z * z;
    }
    if (sum <= reach2[f]) met |= (uint64_t)1 << f;
  }
  mask[i] = met;
}

/* Source j outside all frames is source list[j] of all. */
static __global__ void rest_kernel(const int *list, int count, int64_t own, int64_t n, int64_t *in_rest) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= count) return;
  const int64_t row = list[j] - own;
  if (row >= 0 && row < n) in_rest[row] = j;
}

static enum fk_status find_in_rest(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                   int64_t own, int64_t n, struct fk_frame_rows *found, struct fk_error *err) {
  const int count = fk_frames_rest(frames);
  FK_TRY(fk_cuda_room(context, &found->rest_buffer, n, &found->in_rest, err));
  FK_CUDA_TRY(cudaMemsetAsync(found->in_rest, 0xff, sizeof *found->in_rest * (size_t)n, context->stream));
  if (count == 0) return FK_STATUS_OK;
  rest_kernel<<<fk_blocks(count, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      frames->list.list + fk_frames_places(frames), count, own, n, found->in_rest);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_cuda_frame_rows(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                  const struct fk_cuda_points *rows, int64_t own, struct fk_frame_rows *found,
                                  struct fk_error *err) {
  struct fk_frame_list *list = &found->list;
  int *counts = (int *)context->staging[0];
  FK_TRY(fk_frame_list_begin(context, rows->n, list, err));
  list->own = own < 0 ? NULL : frames->part_of + own;
  mask_kernel<<<fk_blocks(rows->n, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      *rows, frames->centre, frames->reach2, frames->count, list->mask);
  FK_CUDA_TRY(cudaGetLastError());
  FK_TRY(fk_frame_list_count(context, list, counts, err));
  if (own >= 0) FK_TRY(find_in_rest(context, frames, own, rows->n, found, err));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  FK_TRY(fk_frame_list_make(context, list, counts, fk_frame_unit(rows->d), err));
  const int64_t places = list->first[FK_FRAME_GROUPS];
  if (places == 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &found->parts_buffer, places / FK_TENSOR_UNIT, &found->parts, err));
  return fk_frame_parts(context, list, &frames->list, frames->part_of, own, found->parts, err);
}

void fk_cuda_frame_rows_free(struct fk_cuda_context *context, struct fk_frame_rows *rows) {
  fk_frame_list_free(context, &rows->list);
  fk_cuda_drop(context, &rows->parts_buffer);
  fk_cuda_drop(context, &rows->rest_buffer);
}

/* ---- there and back --------------------------------------------------------------------------- */

static __global__ void gather_kernel(const struct fk_gather g, int widths) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= g.ld_out) return;
  int64_t from = i;
  if (g.list && i < g.count) from = g.list[i] < 0 ? ~g.list[i] : g.list[i];
  const double *minus = g.minus;
  if (g.frame && i < g.count) minus += g.frame[i / FK_TENSOR_UNIT] * (int64_t)widths;
  for (int w = blockIdx.y; w < widths; w += gridDim.y)
    g.out[w * g.ld_out + i] = i < g.count ? g.in[w * g.ld_in + from] - (minus ? minus[w] : 0) : 0;
}

cudaError_t fk_frames_gather(const struct fk_gather *gather, int widths, cudaStream_t stream) {
  dim3 grid(fk_blocks(gather->ld_out, FK_THREADS), (unsigned)fk_smaller(widths, 64));
  gather_kernel<<<grid, FK_THREADS, 0, stream>>>(*gather, widths);
  return cudaGetLastError();
}

static __global__ void scatter_kernel(const struct fk_scatter s, int widths) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.count) return;
  for (int w = blockIdx.y; w < widths; w += gridDim.y)
    s.out[w * s.ld_out + (s.list ? s.list[i] : i)] += s.in[w * s.ld_in + i];
}

cudaError_t fk_frames_scatter(const struct fk_scatter *scatter, int widths, cudaStream_t stream) {
  dim3 grid(fk_blocks(scatter->count, FK_THREADS), (unsigned)fk_smaller(widths, 64));
  scatter_kernel<<<grid, FK_THREADS, 0, stream>>>(*scatter, widths);
  return cudaGetLastError();
}

/* Device memory: buffers from the driver's pool, and the cache that is kept between calls. */
#include <math.h>
#include <stdlib.h>

#include "../../core/costs.h"
#include "../../core/resident.h"
#include "resident.cuh"

/* Reserves memory at the start: requesting more from the system takes 0.2 ms (gpu-real.R), as long as a small sum.
 */
static void fill_pool(struct fk_cuda_context *context) {
  const size_t most = (size_t)1 << 28, share = context->memory_total / 64;
  void *data;
  if (cudaMallocFromPoolAsync(&data, share < most ? share : most, context->pool, context->stream) == cudaSuccess)
    cudaFreeAsync(data, context->stream);
  cudaGetLastError();
}

/* Freed memory stays in the pool; otherwise each call would wait for the system. */
enum fk_status fk_cuda_make_pool(struct fk_cuda_context *context, struct fk_error *err) {
  int supported = 0;
  FK_CUDA_TRY(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, context->device));
  if (!supported) return FK_STATUS_OK;
  cudaMemPoolProps props = {};
  uint64_t all = UINT64_MAX;
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = context->device;
  FK_CUDA_TRY(cudaMemPoolCreate(&context->pool, &props));
  FK_CUDA_TRY(cudaMemPoolSetAttribute(context->pool, cudaMemPoolAttrReleaseThreshold, &all));
  fill_pool(context);
  return FK_STATUS_OK;
}

/* The user's limit, or the smaller device that tests simulate. */
static double memory_limit(const struct fk_cuda_context *context) {
  const char *value = getenv("FLASHKERNEL_CUDA_MEMORY");
  return fmin(value && *value ? atof(value) : 1e300, context->limit > 0 ? context->limit : 1e300);
}

/* ---- buffers ---------------------------------------------------------------------------------- */

/* Rounds up to one of 32 sizes per octave, so that a freed block fits a later request of about the same size.
 * Large blocks keep their exact size. */
static size_t size_of_block(size_t bytes) {
  size_t step = 256;
  if (bytes > FK_CUDA_SPARE_MOST) return bytes;
  while (64 * step <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

static void free_block(struct fk_cuda_context *context, void *data) {
  if (context->pool)
    cudaFreeAsync(data, context->stream);
  else
    cudaFree(data);
}

/* Keeps a recently freed block for the next request of its size. Both are on the same stream, so nothing has to
 * wait. The pool takes 3 us for an allocation, and 25 us if it has to map memory: as long as some kernels of a
 * small job. */
static void spare_block(struct fk_cuda_context *context, void *data, size_t bytes) {
  struct fk_cuda_buffer *place = NULL;
  if (bytes > FK_CUDA_SPARE_MOST || bytes > context->memory_total / 256) {
    free_block(context, data);
    return;
  }
  for (struct fk_cuda_buffer &spare : context->spare)
    if (!spare.data) place = &spare;
  if (!place) { /* all are taken: replace them in turn */
    place = &context->spare[context->spare_turn];
    context->spare_turn = (context->spare_turn + 1) % FK_CUDA_SPARES;
    free_block(context, place->data);
  }
  *place = {data, bytes};
}

static void *take_spare(struct fk_cuda_context *context, size_t bytes) {
  for (struct fk_cuda_buffer &spare : context->spare)
    if (spare.data && spare.bytes == bytes) {
      void *data = spare.data;
      spare = {};
      return data;
    }
  return NULL;
}

void fk_cuda_trim(struct fk_cuda_context *context) {
  for (struct fk_cuda_buffer &spare : context->spare) {
    if (spare.data) free_block(context, spare.data);
    spare = {};
  }
  cudaStreamSynchronize(context->stream);
  if (context->pool) cudaMemPoolTrimTo(context->pool, 0);
}

void fk_cuda_drop(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer) {
  const size_t bytes = size_of_block(buffer->bytes);
  if (buffer->data) {
    spare_block(context, buffer->data, bytes);
    context->used -= (double)bytes;
  }
  *buffer = {};
}

static cudaError_t allocate(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, size_t bytes) {
  if (context->used + (double)bytes > memory_limit(context)) return cudaErrorMemoryAllocation;
  buffer->data = take_spare(context, bytes);
  cudaError_t code = buffer->data ? cudaSuccess
                     : context->pool
                         ? cudaMallocFromPoolAsync(&buffer->data, bytes, context->pool, context->stream)
                         : cudaMalloc(&buffer->data, bytes);
  if (code != cudaSuccess) {
    cudaGetLastError();
    buffer->data = NULL;
    context->available = 0;
    return code;
  }
  buffer->bytes = bytes;
  context->used += (double)bytes;
  context->peak = fmax(context->peak, context->used);
  return cudaSuccess;
}

enum fk_status fk_cuda_reserve(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, size_t bytes,
                               struct fk_error *err) {
  if (bytes <= buffer->bytes) return FK_STATUS_OK;
  fk_cuda_drop(context, buffer);
  bytes = size_of_block(bytes);
  cudaError_t code = allocate(context, buffer, bytes);
  if (code == cudaErrorMemoryAllocation) { /* blocks of other sizes may fill the pool */
    fk_cuda_trim(context);
    code = allocate(context, buffer, bytes);
  }
  while (code == cudaErrorMemoryAllocation && fk_cuda_give_way(context)) {
    fk_cuda_trim(context);
    code = allocate(context, buffer, bytes);
  }
  return code == cudaSuccess ? FK_STATUS_OK : fk_cuda_fail(err, code, "cudaMallocFromPoolAsync", context->device);
}

enum fk_status fk_cuda_arena_buffer(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                    struct fk_cuda_buffer **buffer, struct fk_error *err) {
  if (arena->count == FK_ARENA_BUFFERS) return fk_fail(err, FK_STATUS_INTERNAL, "an arena of a device is full");
  arena->context = context;
  *buffer = &arena->buffers[arena->count++];
  return FK_STATUS_OK;
}

fk_cuda_arena::~fk_cuda_arena() { fk_cuda_arena_free(context, this); }

void fk_cuda_arena_free(struct fk_cuda_context *context, struct fk_cuda_arena *arena) {
  for (int i = 0; i < arena->count; i++) fk_cuda_drop(context, &arena->buffers[i]);
  arena->count = 0;
}

/* ---- what is kept ----------------------------------------------------------------------------- */

bool fk_cuda_give_way(struct fk_cuda_context *context) {
  struct fk_cuda_tenant *oldest = NULL;
  if (context->grid != &context->own && fk_grid_memory_bytes(&context->own) > 0) {
    fk_grid_memory_empty(context, &context->own);
    return true;
  }
  for (struct fk_cuda_tenant *s = context->kept; s; s = s->next)
    if (!s->busy && s->bytes(s) > 0 && (!oldest || s->used_at < oldest->used_at)) oldest = s;
  if (oldest) {
    oldest->empty(context, oldest);
    return true;
  }
  return fk_cuda_resident_leaves(context);
}

double fk_cuda_kept_bytes(const struct fk_cuda_context *context) {
  double bytes = fk_cuda_resident_bytes(context);
  for (const struct fk_cuda_tenant *s = context->kept; s; s = s->next) bytes += s->bytes(s);
  return bytes;
}

double fk_cuda_memory_to_keep(const struct fk_cuda_context *context, const struct fk_opts *opts) {
  return opts->device_memory >= 0
             ? opts->device_memory
             : fk_costs.cuda_memory.kept * fmin((double)context->memory_total, memory_limit(context));
}

void fk_cuda_release_kept(struct fk_cuda_context *context) {
  for (struct fk_cuda_tenant *s = context->kept; s; s = s->next) s->empty(context, s);
  while (fk_cuda_resident_leaves(context)) continue;
  fk_cuda_trim(context);
}

/* Memory available to our buffers, as the driver last reported. Asking takes as long as a small sum, so it is done
 * only if that memory is small, or unknown since an allocation failed. */
static enum fk_status find_available(struct fk_cuda_context *context, double needed, struct fk_error *err) {
  enum { LITTLE = 16 };
  size_t free_bytes, total;
  uint64_t reserved = 0;
  if (LITTLE * needed < context->available) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total));
  if (context->pool)
    FK_CUDA_TRY(cudaMemPoolGetAttribute(context->pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  context->available = (double)free_bytes + fmax((double)reserved, context->used);
  return FK_STATUS_OK;
}

/* Part of the free memory stays free: other programs may use the device, and allocations are rounded up. */
enum fk_status fk_cuda_budget(struct fk_cuda_context *context, double needed, double own, double *bytes,
                              struct fk_error *err) {
  double idle = 0;
  FK_TRY(find_available(context, needed, err));
  if (context->grid != &context->own) idle += fk_grid_memory_bytes(&context->own);
  for (struct fk_cuda_tenant *s = context->kept; s; s = s->next) idle += s->busy ? 0 : s->bytes(s);
  *bytes = fk_costs.cuda_memory.of_free * (context->available - context->used) + idle + own;
  *bytes = fmin(*bytes, memory_limit(context) - (context->used - idle - own));
  return FK_STATUS_OK;
}

/* ---- of grids --------------------------------------------------------------------------------- */

void fk_grid_memory_empty(struct fk_cuda_context *context, struct fk_grid_memory *memory) {
  fk_cuda_drop_all(context, memory->buffers);
  for (struct fk_cuda_held &held : memory->held) {
    fk_cuda_drop(context, &held.buffer);
    held.session = 0;
  }
}

double fk_grid_memory_bytes(const struct fk_grid_memory *memory) {
  double bytes = fk_cuda_bytes_of(memory->buffers);
  for (const struct fk_cuda_held &held : memory->held) bytes += (double)held.buffer.bytes;
  return bytes;
}

/* Copies of matrices concurrent with computations, on a stream of their own: from the host, to the host, and
 * between devices. */
#include <math.h>

#include "../../core/aligned.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "dense.cuh"

/* The context of a device that has matrices. */
static enum fk_status context_of(int device, struct fk_cuda_context **found, struct fk_error *err) {
  struct fk_cuda_context *context = fk_cuda_context_in_use(device);
  *found = context;
  if (!context)
    return fk_fail(err, FK_STATUS_LOST, "matrices on CUDA device %d are lost: the device was freed, or failed",
                   device);
  FK_CUDA_TRY(cudaSetDevice(device));
  if (context->copies) return FK_STATUS_OK;
  for (cudaEvent_t *event : {&context->told, &context->turned, &context->copied})
    if (!*event) FK_CUDA_TRY(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  return FK_CUDA_STATUS(cudaStreamCreateWithFlags(&context->copies, cudaStreamNonBlocking));
}

/* Lets this device read buffers of `source` directly if the hardware can; otherwise copies go through the host. */
static void let_read(struct fk_cuda_context *source, const struct fk_cuda_context *reader) {
  cudaMemAccessDesc access = {};
  int possible = 0;
  if (source->readers & (1u << reader->device)) return;
  source->readers |= 1u << reader->device;
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = reader->device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cudaDeviceCanAccessPeer(&possible, reader->device, source->device);
  if (possible && source->pool) cudaMemPoolSetAccess(source->pool, &access, 1);
  cudaGetLastError();
}

static enum fk_status wait_for_source(struct fk_cuda_context *context, int source, struct fk_error *err) {
  struct fk_cuda_context *other = context;
  if (source < 0) return FK_STATUS_OK;
  if (source != context->device) {
    FK_TRY(context_of(source, &other, err));
    let_read(other, context);
  }
  FK_CUDA_TRY(cudaEventRecord(other->told, other->stream));
  FK_CUDA_TRY(cudaSetDevice(context->device));
  return FK_CUDA_STATUS(cudaStreamWaitEvent(context->copies, other->told, 0));
}

static enum fk_status begin_copy(struct fk_cuda_context *context, int source, const struct fk_dense *from,
                                 const struct fk_dense *to, struct fk_error *err) {
  FK_TRY(wait_for_source(context, source, err));
  return FK_CUDA_STATUS(fk_cuda_dense_move(from, to, context->copies));
}

enum fk_status fk_cuda_dense_copy(int device, int source, const struct fk_dense *from, const struct fk_dense *to,
                                  struct fk_error *err) {
  struct fk_cuda_context *context;
  FK_TRY(fk_dense_check_copy(from, to, err));
  if (from->n == 0 || from->d == 0) return FK_STATUS_OK;
  FK_TRY(context_of(device, &context, err));
  return fk_cuda_dense_leave(context, begin_copy(context, source, from, to, err));
}

static enum fk_status take_turn(struct fk_cuda_context *context, struct fk_error *err) {
  FK_CUDA_TRY(cudaEventSynchronize(context->turned));
  FK_CUDA_TRY(cudaEventRecord(context->turned, context->stream));
  FK_CUDA_TRY(cudaEventRecord(context->copied, context->copies));
  FK_CUDA_TRY(cudaStreamWaitEvent(context->stream, context->copied, 0));
  return FK_CUDA_STATUS(cudaStreamWaitEvent(context->copies, context->turned, 0));
}

enum fk_status fk_cuda_dense_turn(int device, struct fk_error *err) {
  struct fk_cuda_context *context;
  FK_TRY(context_of(device, &context, err));
  return fk_cuda_dense_leave(context, take_turn(context, err));
}

static enum fk_status wait_for_all(struct fk_cuda_context *context, struct fk_error *err) {
  FK_CUDA_TRY(cudaStreamSynchronize(context->copies));
  return FK_CUDA_STATUS(cudaStreamSynchronize(context->stream));
}

enum fk_status fk_cuda_dense_wait(int device, struct fk_error *err) {
  struct fk_cuda_context *context;
  FK_TRY(context_of(device, &context, err));
  return fk_cuda_dense_leave(context, wait_for_all(context, err));
}

/* ---- memory ----------------------------------------------------------------------------------- */

enum { PAGE = 4096, PAGES = 1 << 10 };

/* Touches pages: pages that exist are locked faster, and several threads create them faster. */
static void touch(void *data, int64_t first, int64_t end, int slot) {
  (void)slot;
  for (int64_t i = first; i < end; i++) ((volatile char *)data)[i * PAGE] = 0;
}

enum fk_status fk_cuda_dense_alloc_here(struct fk_dense *A, struct fk_error *err) {
  size_t bytes;
  A->data = NULL;
  A->ld = fk_larger(A->n, 1);
  FK_TRY(fk_dense_bytes(A, &bytes, err));
  A->data = fk_aligned_alloc(bytes);
  if (!A->data)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a matrix of %.0f x %.0f", (double)A->n, (double)A->d);
  fk_parallel_for(fk_threads_for_bytes(0, (double)bytes), (int64_t)bytes / PAGE, PAGES, touch, A->data);
  /* without locked pages copies are slower, but correct */
  if (cudaHostRegister(A->data, bytes, cudaHostRegisterPortable) != cudaSuccess) cudaGetLastError();
  return FK_STATUS_OK;
}

void fk_cuda_dense_free_here(struct fk_dense *A) {
  struct fk_error err = {FK_STATUS_OK, ""};
  if (A->data && fk_cuda_check_forked(&err) == FK_STATUS_OK && cudaHostUnregister(A->data) != cudaSuccess)
    cudaGetLastError();
  fk_aligned_free(A->data);
  A->data = NULL;
}

enum fk_status fk_cuda_dense_room(int device, double *bytes, struct fk_error *err) {
  struct fk_cuda_context *context;
  FK_TRY(context_of(device, &context, err));
  return fk_cuda_dense_leave(context, fk_cuda_budget(context, INFINITY, 0, bytes, err));
}

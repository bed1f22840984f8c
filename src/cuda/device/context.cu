/* Contexts, one for each device in use. They are made at the first use, not at load, because a process that has
 * started CUDA cannot fork children that use it. They own all device memory of the package. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../core/gpu.h"
#include "../../core/wish.h"
#include "common.cuh"

static struct fk_cuda_context *contexts[FK_MAX_DEVICES];
static uint64_t made_so_far;
static pid_t owner; /* the process that started CUDA; 0: none */

enum fk_status fk_cuda_fail(struct fk_error *err, cudaError_t code, const char *call, int device) {
  cudaGetLastError(); /* clears the error: running out of memory must not fail the next call */
  if (code == cudaErrorMemoryAllocation)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory on CUDA device %d", device);
  return fk_fail(err, FK_STATUS_DEVICE, "CUDA device %d: %s (%s), in %.100s", device, cudaGetErrorString(code),
                 cudaGetErrorName(code), call);
}

/* Is this process a child of the one that started CUDA? If so, it can neither use nor release the devices. */
static bool is_forked(void) { return owner != 0 && owner != getpid(); }

bool fk_cuda_is_lowered_to(const char *method) { return fk_is_wish("FLASHKERNEL_CUDA_METHOD", method); }

/* ---- starting --------------------------------------------------------------------------------- */

/* Launching it fails if the build has no code for the device. */
static __global__ void nothing_kernel() {}

static enum fk_status start_context(struct fk_cuda_context *context, struct fk_error *err) {
  cudaDeviceProp facts;
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_CUDA_TRY(cudaGetDeviceProperties(&facts, context->device));
  snprintf(context->name, sizeof context->name, "%.95s", facts.name);
  context->multiprocessors = facts.multiProcessorCount;
  context->capability = 10 * facts.major + facts.minor;
  context->memory_total = facts.totalGlobalMem;
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, nothing_kernel) != cudaSuccess) {
    cudaGetLastError();
    return fk_fail(err, FK_STATUS_NO_DEVICE, "the GPU engine has no code for CUDA device %d (%s, sm_%d)",
                   context->device, context->name, context->capability);
  }
  FK_CUDA_TRY(cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking));
  FK_TRY(fk_cuda_make_pool(context, err));
  FK_CUDA_TRY(cudaEventCreate(&context->begin));
  FK_CUDA_TRY(cudaEventCreate(&context->end));
  for (int i = 0; i < 2; i++) FK_CUDA_TRY(cudaEventCreateWithFlags(&context->launched[i], cudaEventDisableTiming));
  FK_CUDA_TRY(cudaHostAlloc((void **)&context->answers, sizeof(double) * (1 + FK_ANSWERS), cudaHostAllocPortable));
  for (int i = 0; i < FK_STAGING_BUFFERS; i++) {
    FK_CUDA_TRY(cudaEventCreateWithFlags(&context->staged[i], cudaEventDisableTiming));
    FK_CUDA_TRY(cudaHostAlloc((void **)&context->staging[i], FK_STAGING_BYTES, cudaHostAllocPortable));
  }
  return FK_STATUS_OK;
}

static void stop_context(struct fk_cuda_context *context) {
  if (cudaSetDevice(context->device) == cudaSuccess) {
    fk_cuda_libraries_free(context);
    fk_grid_memory_empty(context, &context->own);
    fk_cuda_release_kept(context);
    for (cudaStream_t stream : {context->copies, context->stream})
      if (stream) cudaStreamSynchronize(stream);
    if (context->pool) cudaMemPoolDestroy(context->pool);
    cudaFreeHost(context->answers);
    for (char *staging : context->staging) cudaFreeHost(staging);
    for (cudaEvent_t event :
         {context->begin, context->end, context->launched[0], context->launched[1], context->staged[0],
          context->staged[1], context->told, context->turned, context->copied})
      if (event) cudaEventDestroy(event);
    for (cudaStream_t stream : {context->copies, context->stream})
      if (stream) cudaStreamDestroy(stream);
  }
  cudaGetLastError();
  free(context);
}

enum fk_status fk_cuda_check_forked(struct fk_error *err) {
  if (!is_forked()) return FK_STATUS_OK;
  return fk_fail(err, FK_STATUS_FORKED,
                 "CUDA was in use before this process was forked, and cannot be used here: use backend = \"cpu\", "
                 "or workers of parallel::makeCluster(), callr or mirai");
}

static enum fk_status count_devices(int *count, struct fk_error *err) {
  static int present; /* started once, CUDA does not change */
  FK_TRY(fk_cuda_check_forked(err));
  *count = present;
  if (owner != 0) return FK_STATUS_OK;
  cudaError_t code = cudaGetDeviceCount(count);
  if (code == cudaSuccess && *count > 0) {
    present = *count;
    owner = getpid();
    return FK_STATUS_OK;
  }
  cudaGetLastError();
  if (code == cudaErrorInsufficientDriver)
    return fk_fail(err, FK_STATUS_NO_DEVICE,
                   "no CUDA device: there is no NVIDIA driver, or it is older than the CUDA runtime of the GPU "
                   "engine (%d.%d)",
                   CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  return fk_fail(err, FK_STATUS_NO_DEVICE, "no CUDA device: %s",
                 code == cudaSuccess ? "the driver reports none" : cudaGetErrorString(code));
}

static enum fk_status context_of(int device, struct fk_cuda_context **context, struct fk_error *err) {
  if (!contexts[device]) {
    struct fk_cuda_context *made = (struct fk_cuda_context *)calloc(1, sizeof *made);
    if (!made) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
    made->device = device;
    made->id = ++made_so_far;
    enum fk_status status = start_context(made, err);
    if (status) {
      stop_context(made);
      return status;
    }
    contexts[device] = made;
  }
  *context = contexts[device];
  return FK_STATUS_OK;
}

struct fk_cuda_context *fk_cuda_context_in_use(int device) {
  return is_forked() ? NULL : contexts[device];
}

enum fk_status fk_cuda_contexts(const struct fk_opts *opts, struct fk_cuda_context **out, int *count,
                                struct fk_error *err) {
  int present = 0, wanted[FK_MAX_DEVICES] = {0}, n_wanted = 1;
  FK_TRY(count_devices(&present, err));
  bool all = opts->n_devices > 0 && opts->devices[0] < 0;
  if (all) {
    n_wanted = (int)fk_smaller(present, FK_MAX_DEVICES);
    for (int i = 0; i < n_wanted; i++) wanted[i] = i;
  } else if (opts->n_devices > 0) {
    n_wanted = opts->n_devices;
    for (int i = 0; i < n_wanted; i++) wanted[i] = opts->devices[i];
  }
  for (int i = 0; i < n_wanted; i++) {
    if (wanted[i] < 0 || wanted[i] >= fk_smaller(present, FK_MAX_DEVICES))
      return fk_fail(err, FK_STATUS_NO_DEVICE, "`devices` names CUDA device %d: there %s %d, counted from 0",
                     wanted[i], present == 1 ? "is" : "are", present);
    FK_TRY(context_of(wanted[i], &out[i], err));
    if (opts->gpu_memory != 0) out[i]->limit = fmax(0, opts->gpu_memory);
  }
  *count = n_wanted;
  return FK_STATUS_OK;
}

/* After an error in a kernel, all later calls fail until the device is reset, which loses its content. */
void fk_cuda_recover(struct fk_cuda_context *context) {
  cudaSetDevice(context->device);
  if (cudaStreamSynchronize(context->stream) == cudaSuccess) return;
  fk_cuda_libraries_free(context);
  fk_cuda_release_kept(context);
  contexts[context->device] = NULL;
  free(context);
  cudaDeviceReset();
  cudaGetLastError();
}

extern "C" void fk_gpu_release(void) {
  for (int i = 0; i < FK_MAX_DEVICES; i++) {
    if (contexts[i] && !is_forked()) stop_context(contexts[i]);
    contexts[i] = NULL;
  }
}

/* ---- information ------------------------------------------------------------------------------ */

static void describe_device(int device, struct fk_gpu *gpu) {
  cudaDeviceProp facts;
  cudaFuncAttributes attributes;
  size_t free_bytes = 0, total = 0;
  gpu->index = device;
  if (cudaSetDevice(device) != cudaSuccess || cudaGetDeviceProperties(&facts, device) != cudaSuccess) return;
  snprintf(gpu->name, sizeof gpu->name, "%.95s", facts.name);
  snprintf(gpu->capability, sizeof gpu->capability, "%d.%d", facts.major, facts.minor);
  gpu->multiprocessors = facts.multiProcessorCount;
  cudaMemGetInfo(&free_bytes, &total);
  gpu->memory_total = (double)total;
  gpu->memory_free = (double)free_bytes;
  gpu->architecture_built = cudaFuncGetAttributes(&attributes, nothing_kernel) == cudaSuccess;
  if (!contexts[device]) return;
  gpu->cached = fk_cuda_kept_bytes(contexts[device]);
  gpu->peak = contexts[device]->peak;
}

extern "C" void fk_gpu_info(struct fk_gpu_info *info) {
  struct fk_error err = {FK_STATUS_OK, ""};
  int version = 0;
  memset(info, 0, sizeof *info);
  if (count_devices(&info->n_devices, &err)) {
    info->n_devices = 0;
    snprintf(info->status, sizeof info->status, "%.*s", (int)sizeof info->status - 1, err.message);
  }
  if (err.status == FK_STATUS_FORKED) return;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    snprintf(info->driver, sizeof info->driver, "%d.%d", version / 1000, version % 1000 / 10);
  info->n_devices = (int)fk_smaller(info->n_devices, FK_MAX_DEVICES);
  bool usable = false;
  for (int i = 0; i < info->n_devices; i++) {
    describe_device(i, &info->devices[i]);
    usable |= info->devices[i].architecture_built;
  }
  if (usable)
    snprintf(info->status, sizeof info->status, "available");
  else if (info->n_devices > 0)
    snprintf(info->status, sizeof info->status, "the GPU engine has no code for the devices' architecture");
  cudaGetLastError();
}

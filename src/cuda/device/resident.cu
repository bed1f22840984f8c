/* Matrices that stay on a device until they are read. */
#include "resident.cuh"

#include <pthread.h>
#include <stdlib.h>

struct there {
  int device;
  uint64_t context_id; /* identifies the context, whose address may be reused */
  struct fk_cuda_buffer data;
};

/* NULL if the device was released or lost, or belongs to the parent of this process. */
static struct fk_cuda_context *context_of(const struct fk_resident *x) {
  const struct there *there = (const struct there *)x->device;
  struct fk_cuda_context *context = there ? fk_cuda_context_in_use(there->device) : NULL;
  return context && context->id == there->context_id ? context : NULL;
}

static enum fk_status download_resident(struct fk_resident *x, double *to, struct fk_error *err) {
  struct fk_cuda_context *context = context_of(x);
  FK_TRY(fk_cuda_check_forked(err));
  if (!context)
    return fk_fail(err, FK_STATUS_DEVICE,
                   "results on a CUDA device are lost, because the device failed: fit again");
  FK_CUDA_TRY(cudaSetDevice(context->device));
  context->copy_threads = 0;
  const struct there *there = (const struct there *)x->device;
  return fk_cuda_download(context, (const double *)there->data.data, x->n, fk_all_rows(x->n, x->d), to, err);
}

static void release_resident(struct fk_resident *x) {
  struct there *there = (struct there *)x->device;
  struct fk_cuda_context *context = context_of(x);
  if (context && cudaSetDevice(context->device) == cudaSuccess) fk_cuda_drop(context, &there->data);
  free(there);
}

static const struct fk_resident_ops ops = {download_resident, release_resident};

/* A child process cannot reach the device: before a fork, matrices are copied to the host. */
static void before_fork() {
  struct fk_error err = {FK_STATUS_OK, ""};
  for (struct fk_resident *x = fk_resident_first(); x; x = x->next)
    if (!x->host && context_of(x)) fk_resident_host(x, &err);
}

static void watch_forks() { pthread_atfork(before_fork, NULL, NULL); }

enum fk_status fk_cuda_resident_create(struct fk_cuda_context *context, struct fk_cuda_buffer *data, int64_t n,
                                       int64_t d, struct fk_resident **out, struct fk_error *err) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  struct there *there = (struct there *)malloc(sizeof *there);
  if (!there) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  *there = (struct there){context->device, context->id, *data};
  *out = fk_resident_create(n, d, there, &ops, err);
  if (!*out) {
    free(there);
    return err->status;
  }
  *data = (struct fk_cuda_buffer){};
  return FK_STATUS_OK;
}

const double *fk_cuda_resident_data(const struct fk_cuda_context *context, const struct fk_resident *x) {
  if (!x || context_of(x) != context) return NULL;
  return (const double *)((const struct there *)x->device)->data.data;
}

/* Threads of several devices that are short of memory may call at once. */
static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;

bool fk_cuda_resident_leaves(struct fk_cuda_context *context) {
  bool found = false;
  pthread_mutex_lock(&leaving);
  for (struct fk_resident *x = fk_resident_first(); x; x = x->next)
    if (!found && x->device && !x->busy && context_of(x) == context) {
      fk_resident_leave(x);
      found = true;
    }
  pthread_mutex_unlock(&leaving);
  return found;
}

double fk_cuda_resident_bytes(const struct fk_cuda_context *context) {
  double bytes = 0;
  pthread_mutex_lock(&leaving);
  for (struct fk_resident *x = fk_resident_first(); x; x = x->next)
    if (x->device && context_of(x) == context) bytes += (double)x->bytes;
  pthread_mutex_unlock(&leaving);
  return bytes;
}

/* Ranges of targets on several devices; see devices.cuh. */
#include "devices.cuh"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum fk_status fk_cuda_tick(struct fk_cuda_progress *progress, struct fk_cuda_context *context, double done,
                            struct fk_error *err) {
  cudaEvent_t before = context->launched[1];
  context->launched[1] = context->launched[0];
  context->launched[0] = before;
  FK_CUDA_TRY(cudaEventRecord(context->launched[0], context->stream));
  FK_CUDA_TRY(cudaEventSynchronize(context->launched[1]));
  progress->done += done;
  double fraction = progress->total > 0 ? progress->done / progress->total : 1;
  bool stop = progress->poll ? progress->poll->fn && progress->poll->fn(progress->poll->data, fraction)
                             : __atomic_load_n(progress->stop, __ATOMIC_RELAXED);
  return stop ? fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted") : FK_STATUS_OK;
}

enum fk_status fk_cuda_elapsed(struct fk_cuda_context *context, double *seconds, struct fk_error *err) {
  float milliseconds = 0;
  FK_CUDA_TRY(cudaEventSynchronize(context->end));
  FK_CUDA_TRY(cudaEventElapsedTime(&milliseconds, context->begin, context->end));
  *seconds += 1e-3 * (double)milliseconds;
  return FK_STATUS_OK;
}

/* ---- one range -------------------------------------------------------------------------------- */

struct device_range {
  struct fk_cuda_context *context;
  int64_t first, count;
  fk_cuda_range_fn fn;
  void *data;
  struct fk_cuda_progress progress;
  double seconds;
  enum fk_status status;
  struct fk_error err;
  int finished;
};

enum { ATTEMPTS = 3 };

static void run_once(struct device_range *r, int attempt) {
  r->progress.attempt = attempt;
  r->seconds = r->progress.done = 0;
  r->err.status = FK_STATUS_OK;
  r->status = r->fn(r->context, r->first, r->count, r->data, &r->progress, &r->seconds, &r->err);
  if (r->status && r->context->grid) fk_grid_memory_empty(r->context, r->context->grid);
  if (r->status == FK_STATUS_ALLOC) fk_cuda_release_kept(r->context);
}

static void *run_range(void *data) {
  struct device_range *r = (struct device_range *)data;
  r->status = FK_STATUS_OK;
  cudaError_t code = cudaSetDevice(r->context->device);
  if (code != cudaSuccess)
    r->status = fk_cuda_fail(&r->err, code, "cudaSetDevice", r->context->device);
  else
    run_once(r, 0);
  /* Memory may have been held by the cache of earlier calls, or by other programs. */
  for (int attempt = 1; r->status == FK_STATUS_ALLOC && attempt < ATTEMPTS; attempt++) run_once(r, attempt);
  __atomic_store_n(&r->finished, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* ---- all of them ------------------------------------------------------------------------------ */

/* Speeds that differ by less than a tenth count as equal: equal devices, measured at different times. */
static double speed(struct fk_cuda_context *const *contexts, int count, int i) {
  double fastest = 0;
  for (int k = 0; k < count; k++) {
    if (contexts[k]->pairs_per_second == 0) return contexts[i]->multiprocessors;
    if (contexts[k]->pairs_per_second > fastest) fastest = contexts[k]->pairs_per_second;
  }
  return contexts[i]->pairs_per_second > 0.9 * fastest ? fastest : contexts[i]->pairs_per_second;
}

/* Waits for the threads, and polls for interrupts. */
static void watch_ranges(struct device_range *ranges, int count, const struct fk_poll *poll, int *stop) {
  const struct timespec nap = {0, 200000};
  int left = count;
  for (int turn = 0; left > 0; turn++) {
    nanosleep(&nap, NULL);
    double done = 0, total = 0;
    left = 0;
    for (int i = 0; i < count; i++) {
      left += !__atomic_load_n(&ranges[i].finished, __ATOMIC_ACQUIRE);
      done += ranges[i].progress.done;
      total += ranges[i].progress.total;
    }
    if (turn % 250 == 249 && poll->fn && poll->fn(poll->data, total > 0 ? done / total : 1))
      __atomic_store_n(stop, 1, __ATOMIC_RELAXED);
  }
}

enum fk_status fk_cuda_on_devices(struct fk_cuda_context **contexts, int count, const struct fk_cuda_work *work,
                                  double *device_seconds, struct fk_error *err) {
  int64_t m = work->m;
  struct device_range ranges[FK_MAX_DEVICES] = {};
  pthread_t threads[FK_MAX_DEVICES];
  int stop = 0, used = 0, started = 0;
  double total = 0, before = 0;
  int64_t first = 0;
  for (int i = 0; i < count; i++) total += speed(contexts, count, i);
  for (int i = 0; i < count && first < m; i++) {
    before += speed(contexts, count, i);
    int64_t end = i + 1 == count ? m : fk_smaller(m, fk_padded((int64_t)((double)m * before / total), work->step));
    if (end <= first) continue;
    struct device_range *r = &ranges[used++];
    r->context = contexts[i], r->first = first, r->count = end - first, r->fn = work->fn, r->data = work->data;
    r->progress.total = (double)r->count;
    r->progress.stop = &stop;
    first = end;
  }
  for (int i = 0; i < used; i++) ranges[i].context->copy_threads = (int)fk_larger(fk_threads(0) / used, 1);
  if (used == 1) {
    ranges[0].progress.poll = work->poll;
    run_range(&ranges[0]);
  } else {
    for (int i = 0; i < used; i++) {
      if (pthread_create(&threads[i], NULL, run_range, &ranges[i]) != 0) {
        fk_fail(err, FK_STATUS_ALLOC, "cannot start a thread for one of the CUDA devices");
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        break;
      }
      started++;
    }
    watch_ranges(ranges, started, work->poll, &stop);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  }
  double longest = 0;
  for (int i = 0; i < used; i++) {
    if (ranges[i].status == FK_STATUS_DEVICE) fk_cuda_recover(ranges[i].context);
    if (ranges[i].status && ranges[i].status != FK_STATUS_INTERRUPTED)
      fk_fail(err, ranges[i].status, "%s", ranges[i].err.message);
    if (ranges[i].seconds > longest) longest = ranges[i].seconds;
  }
  for (int i = 0; i < used; i++)
    if (ranges[i].status == FK_STATUS_INTERRUPTED) fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  *device_seconds += longest;
  return err->status;
}

/* ---- in words --------------------------------------------------------------------------------- */

void fk_cuda_describe(struct fk_stats *stats, struct fk_cuda_context *const *contexts, int count,
                      const char *method, const char *precision) {
  static char isa[16];
  snprintf(isa, sizeof isa, "sm_%d", contexts[0]->capability);
  stats->backend = "cuda";
  stats->engine = "exact";
  stats->method = method;
  stats->precision = precision;
  stats->isa = isa;
  stats->threads = count;
  if (count == 1)
    snprintf(stats->device, sizeof stats->device, "%s", contexts[0]->name);
  else
    snprintf(stats->device, sizeof stats->device, "%d x %s", count, contexts[0]->name);
  stats->n_devices = count;
  for (int i = 0; i < count; i++) stats->devices[i] = contexts[i]->device;
}

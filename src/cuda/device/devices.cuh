/* Work shared among devices: contiguous ranges of targets, one host thread for each device. A target's sum does
 * not depend on the range that it is in, so the bits are the same for any number of devices. */
#ifndef FK_CUDA_DEVICES_CUH
#define FK_CUDA_DEVICES_CUH

#include "common.cuh"

/* Progress of one device, and whether it is to stop. */
struct fk_cuda_progress {
  const struct fk_poll *poll; /* NULL if not on the calling thread, which polls for all */
  double done, total;
  int *stop;   /* set by the polling thread */
  int attempt; /* 0; above 0: the last attempt ran out of memory */
};

/* Waits for the launch before the last, which keeps the device busy and the queue short; then checks for
 * interrupts. */
enum fk_status fk_cuda_tick(struct fk_cuda_progress *progress, struct fk_cuda_context *context, double done,
                            struct fk_error *err);
/* Waits for the second of the context's two events and adds the time between them. */
enum fk_status fk_cuda_elapsed(struct fk_cuda_context *context, double *seconds, struct fk_error *err);

typedef enum fk_status (*fk_cuda_range_fn)(struct fk_cuda_context *context, int64_t first, int64_t count,
                                           void *data, struct fk_cuda_progress *progress, double *seconds,
                                           struct fk_error *err);
struct fk_cuda_work {
  int64_t m, step;
  const struct fk_poll *poll;
  fk_cuda_range_fn fn;
  void *data;
};
/* Runs fn on ranges that cover 0 .. m - 1, with lengths proportional to the measured speeds of the devices and
 * multiples of `step`. Memory is freed after a failure; ranges that ran out of memory are tried again with less.
 * Adds the longest time of a device to *device_seconds. */
enum fk_status fk_cuda_on_devices(struct fk_cuda_context **contexts, int count, const struct fk_cuda_work *work,
                                  double *device_seconds, struct fk_error *err);

/* Writes the devices and their work into the statistics of a call. */
void fk_cuda_describe(struct fk_stats *stats, struct fk_cuda_context *const *contexts, int count,
                      const char *method, const char *precision);

#endif

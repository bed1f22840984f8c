/* Work shared among devices: targets in contiguous ranges, one host thread for each device. A target's sum never
 * depends on the range it lies in, so that the bits are the same for any number of devices. */
#ifndef FK_CUDA_DEVICES_CUH
#define FK_CUDA_DEVICES_CUH

#include "common.cuh"

/* For one device: how far it is, and whether to stop. */
struct fk_cuda_progress {
  const struct fk_poll *poll; /* NULL: not on the calling thread, which polls for all */
  double done, total;
  int *stop;   /* set by the thread that polls */
  int attempt; /* 0; above: memory did not suffice for the last one */
};

/* Waits for the launch before the last, so that the device never waits and the queue stays short; then looks up.
 */
enum fk_status fk_cuda_tick(struct fk_cuda_progress *progress, struct fk_cuda_context *context, double done,
                            struct fk_error *err);
/* Adds the time between the context's two events; waits for the second. */
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
/* fn on ranges that cover 0 .. m - 1, whose lengths go by the measured speeds of the devices, in multiples of
 * step. Memory is given back after a failure; what failed for want of memory is tried again, to use less.
 * device_seconds: the longest time of a device is added. */
enum fk_status fk_cuda_on_devices(struct fk_cuda_context **contexts, int count, const struct fk_cuda_work *work,
                                  double *device_seconds, struct fk_error *err);

/* What they are, and what they have done. */
void fk_cuda_describe(struct fk_stats *stats, struct fk_cuda_context *const *contexts, int count,
                      const char *method, const char *precision);

#endif

/* Data that operators cache on devices for their next sums, until memory is short. */
#ifndef FK_CUDA_KEPT_CUH
#define FK_CUDA_KEPT_CUH

#include "../device/common.cuh"

struct fk_cuda_sources;

/* The sources that an operator caches on a device, of all its points or of a shard; empty at first. Thread-safe if
 * each shard has its own thread. */
enum { FK_CUDA_ALL = -1, FK_CUDA_SHARDS = 16 };
enum fk_status fk_cuda_sources_of(struct fk_operator *op, struct fk_cuda_context *context, int shard,
                                  struct fk_cuda_sources **sources, struct fk_error *err);
/* Evicts cached data beyond a limit, least recently used first. */
void fk_cuda_keep_within(struct fk_cuda_context *context, double bytes);
/* Does so for the limit of the options. To be called on the thread that has waited for all devices, since what
 * moves to the host is known to all of them. */
void fk_cuda_keep_all_within(struct fk_cuda_context *const *contexts, int count, const struct fk_opts *opts);
/* For sums on a grid: enter with the operator's memory, or the context's own; leave when done. */
enum fk_status fk_cuda_enter(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                             struct fk_error *err);
void fk_cuda_leave(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                   const struct fk_opts *opts);

#endif

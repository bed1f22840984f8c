/* What operators keep on devices for their next sums, until memory is short. */
#ifndef FK_CUDA_KEPT_CUH
#define FK_CUDA_KEPT_CUH

#include "../device/common.cuh"

struct fk_cuda_sources;

/* Those that an operator keeps on a device of all its points, or of a shard of them; made empty at first. On any
 * thread, one for each shard, once others are made. */
enum { FK_CUDA_ALL = -1, FK_CUDA_SHARDS = 16 };
enum fk_status fk_cuda_sources_of(struct fk_operator *op, struct fk_cuda_context *context, int shard,
                                  struct fk_cuda_sources **sources, struct fk_error *err);
/* What is kept on a device beyond a limit goes, that used longest ago first. */
void fk_cuda_keep_within(struct fk_cuda_context *context, double bytes);
/* The same for the limit of the options. On the thread that has waited for all devices: what goes to the host is
 * known to all of them. */
void fk_cuda_keep_all_within(struct fk_cuda_context *const *contexts, int count, const struct fk_opts *opts);
/* For a grid's sums: an operator's memory, or the context's own; and when they are done. */
enum fk_status fk_cuda_enter(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                             struct fk_error *err);
void fk_cuda_leave(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                   const struct fk_opts *opts);

#endif

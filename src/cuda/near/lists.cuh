/* Lists of the stages of columns that are near to each block of rows. The sums on tensor cores (wgmma) skip the
 * other stages.
 * A pair is near unless its term cannot change a bit of the row's sum, whether it is listed or not:
 * ||   values  kernels go through FP16, where those below 2^-25 of the row's scale are 0;
 *   mass    kernel sums begin at a power of two, the row's `ground`, which terms below half a unit in its last
 *           place do not change. The ground is less than 2 / n of a lower bound of the sum, so all that is lost
 *           is less than 2^-24 of the sum;
 *   factor  sums with both signs may fall below any ground: a kernel must be 0 in float.
 * || So the bits depend on neither blocks nor devices. A list may have more stages than necessary, since boxes are
 * rounded outward. */
#ifndef FK_CUDA_LISTS_CUH
#define FK_CUDA_LISTS_CUH

#include "../points/points.cuh"
#include "../tensor/tensor.cuh"

/* How far pairs of a row are near. */
struct fk_list_reach {
  bool values, factor;
  int raise, factor_bits; /* with values: see FK_TENSOR_RAISE; the factor is below 2^factor_bits */
  const double *mass;     /* with values: the kernel sums by which rows are scaled; NULL: all alike */
  const double *least;    /* for kernel sums: a lower bound of each row's weighted kernel sum */
  double sources;         /* number of sources of the whole sum */
};
/* The squared distance within which a pair is near, for a row whose sum over n sources is 1. */
double fk_reach_of_one(int64_t n);

struct fk_cuda_lists {
  struct fk_cuda_buffer boxes, lists;
  int d, stage_cols, block_rows, stages, tiles;         /* tile: the rows of a warpgroup */
  float *stage_low, *stage_high, *tile_low, *tile_high; /* [d][stages], [d][tiles] */
  float *tile_reach, *ground;                           /* [tile], squared; [row] */
};
/* Prepares lists for a pass over `rows`, with stages of this many columns and blocks of this many rows. */
enum fk_status fk_cuda_lists_begin(struct fk_cuda_context *context, const struct fk_cuda_points *cols,
                                   const struct fk_cuda_points *rows, const struct fk_list_reach *near,
                                   struct fk_cuda_lists *lists, struct fk_error *err);
/* Makes the lists of a launch's rows and slots and adds them to the task. */
enum fk_status fk_cuda_lists_make(struct fk_cuda_context *context, struct fk_cuda_lists *lists,
                                  struct fk_tensor_task *task, struct fk_error *err);
void fk_cuda_lists_free(struct fk_cuda_context *context, struct fk_cuda_lists *lists);

/* The share of pairs of tiles and stages that would be near if the points were also the rows, each with a sum of
 * 1; estimated on a sample of tiles. The host waits for the device. */
enum fk_status fk_cuda_lists_kept(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  double *kept, struct fk_error *err);

/* Is FLASHKERNEL_CUDA_LISTS equal to `wish`: "never", "always", or "all" (always, with all stages on each list)?
 */
bool fk_cuda_lists_wish(const char *wish);

#endif

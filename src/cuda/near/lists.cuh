/* Which stages of columns are near to which rows: lists for the sums on tensor cores (wgmma), which pass over the
 * others.
 *
 * A pair is near unless its term is no part of the row's sum, to the last bit, whether it is listed or not:
 *   values  kernels go through halves, which those below 2^-25 of what the row is raised to leave as 0;
 *   mass    sums begin at a power of two, the row's `ground`, and terms below half a unit of its last place do not
 *           change it. The ground is less than 2 / n of a lower bound of the sum, so that all that is lost so is
 *           less than 2^-24 of it;
 *   factor  sums with both signs may pass below any ground: a kernel has to be 0 in float.
 * So the bits go neither by blocks nor by devices, and a list may have more than it must: boxes are rounded
 * outward.
 */
#ifndef FK_CUDA_LISTS_CUH
#define FK_CUDA_LISTS_CUH

#include "../points/points.cuh"
#include "../tensor/tensor.cuh"

/* What is near to a row. */
struct fk_list_reach {
  bool values, factor;
  int raise, factor_bits; /* of values: see FK_TENSOR_RAISE; the factor is below 2^factor_bits */
  const double *mass;     /* of values: what rows are raised by; NULL: all alike */
  const double *least;    /* of the mass: a lower bound of each row's sum of weighted kernels */
  double sources;         /* of the whole sum */
};
/* The squared distance that is near to a row whose sum is 1, of n sources. */
double fk_reach_of_one(int64_t n);

struct fk_cuda_lists {
  struct fk_cuda_buffer boxes, lists;
  int d, stage_cols, block_rows, stages, tiles;         /* tile: the rows of a warpgroup */
  float *stage_low, *stage_high, *tile_low, *tile_high; /* [d][stages], [d][tiles] */
  float *tile_reach, *ground;                           /* [tile], squared; [row] */
};
/* For a pass over `rows` with stages of so many columns and blocks of so many rows. */
enum fk_status fk_cuda_lists_begin(struct fk_cuda_context *context, const struct fk_cuda_points *cols,
                                   const struct fk_cuda_points *rows, const struct fk_list_reach *near,
                                   struct fk_cuda_lists *lists, struct fk_error *err);
/* Those of a launch's rows and slots, into the task. */
enum fk_status fk_cuda_lists_make(struct fk_cuda_context *context, struct fk_cuda_lists *lists,
                                  struct fk_tensor_task *task, struct fk_error *err);
void fk_cuda_lists_free(struct fk_cuda_context *context, struct fk_cuda_lists *lists);

/* The share of pairs of tiles and stages that would be near if the points were the rows, too, each with a sum of
 * 1; on a sample of tiles. The device waits for the host. */
enum fk_status fk_cuda_lists_kept(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  double *kept, struct fk_error *err);

/* FLASHKERNEL_CUDA_LISTS: "never", "always", or "all", always but with all stages on each list. */
bool fk_cuda_lists_wish(const char *wish);

#endif

/* Leave-one-out sums of an SD-KDE on tensor cores (loo_tensor.cu), for debiased_loo.cu. */
#ifndef FK_CUDA_LOO_CUH
#define FK_CUDA_LOO_CUH

#include "../points/points.cuh"

/* On the device: whitened points, the logarithms of the sources' kernel sums, weights w_j of sources and v_i of
 * held-out points (NULL: ones). */
struct fk_loo_points {
  struct fk_cuda_points sources, means, held_out;
  const double *log_mass, *weight, *score_weight;
  double log_scale;   /* see core/loo.h */
  int64_t first_self; /* held-out point i is source first_self + i */
};

/* A range of the held-out points. */
struct fk_loo_range {
  int64_t first, count;
  struct fk_cuda_progress *progress;
};

/* Computes the sums without local factors, where the score has bandwidth H / 2 and all weights but 0 are of
 * similar size, to `result` on the device; NaN for rows that are too far out. *done is false if this device or the
 * extent of the points does not allow it. */
enum fk_status fk_loo_by_tensor(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                const struct fk_loo_points *points, const struct fk_loo_range *range,
                                double *result, bool *done, struct fk_error *err);

#endif

/* Sums of kernels, and of kernels times coordinates, of points at themselves, with each pair of tiles once: half
 * the exponentials and products of sums_wgmma.cu. For Hopper (built if FK_CUDA_SM90A is defined), up to 16
 * dimensions.
 * || The points are cut into strips. A strip meets itself and the strips before it. A job is one strip of columns
 * and a run of strips of rows; its sums are added to both sides as integers, in any order. */
#ifndef FK_CUDA_SUMS_SYMMETRIC_CUH
#define FK_CUDA_SUMS_SYMMETRIC_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>
#include <stddef.h>

/* How n points are cut; depends on n and the precision alone. */
struct fk_symmetric_plan {
  int64_t n, n_pad, strips, jobs; /* n_pad: whole strips */
  int strip, run;                 /* points of a strip, strips of a job */
  double unit;                    /* sums are multiples of 1 / unit, and scaled by 2^FK_TENSOR_RAISE */
};

/* Sums have the layout of a warp's registers: for 16 points, FK_SYMMETRIC_SUMS numbers, the sums of coordinates
 * and the kernel sums. */
enum { FK_SYMMETRIC_ROWS = 16, FK_SYMMETRIC_SUMS = 9 * 32 };
static inline int64_t fk_symmetric_numbers(int64_t n_points) {
  return n_points / FK_SYMMETRIC_ROWS * FK_SYMMETRIC_SUMS;
}

/* Can columns packed for sums of coordinates be summed symmetrically? */
bool fk_symmetric_supports(const struct fk_tensor_task *task);
struct fk_symmetric_plan fk_symmetric_plan_of(int64_t n, bool coarse);
size_t fk_symmetric_pack_bytes(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan);
cudaError_t fk_symmetric_pack(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan,
                              void *packed, cudaStream_t stream);
/* Adds jobs first_job .. first_job + count - 1 to sums. */
cudaError_t fk_symmetric_launch(const struct fk_tensor_task *task, const struct fk_symmetric_plan *plan,
                                const void *packed, int64_t first_job, int64_t count, unsigned long long *sums,
                                cudaStream_t stream);

#endif

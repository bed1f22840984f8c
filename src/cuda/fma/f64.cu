/* sums.cuh in double precision. */
#include "sums.cuh"

cudaError_t fk_fma_launch(const struct fk_fma_task<double> *task, cudaStream_t stream) {
  return task->cols_low ? fk_fma_launch_doubled(task, stream) : launch<double>(task, stream);
}

cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, double *out, cudaStream_t stream) {
  return pack<double>(u, count, scale, out, stream);
}

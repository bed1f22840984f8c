/* sums.cuh in single precision. */
#include "sums.cuh"

cudaError_t fk_fma_launch(const struct fk_fma_task<float> *task, cudaStream_t stream) {
  return launch<float>(task, stream);
}

cudaError_t fk_fma_pack(const double *u, int64_t count, double scale, float *out, cudaStream_t stream) {
  return pack<float>(u, count, scale, out, stream);
}

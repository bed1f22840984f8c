/* The functions of copy.cu that the table of dense.cu uses: see core/dense.h. */
#ifndef FK_CUDA_DENSE_CUH
#define FK_CUDA_DENSE_CUH

#include "../../core/dense.h"
#include "../device/common.cuh"

/* Returns the caller's status. If the device was lost, what the caller had on it is gone. */
static inline enum fk_status fk_cuda_dense_leave(struct fk_cuda_context *context, enum fk_status status) {
  if (status == FK_STATUS_DEVICE) fk_cuda_recover(context);
  return status;
}
/* Copies between any two places. */
static inline cudaError_t fk_cuda_dense_move(const struct fk_dense *from, const struct fk_dense *to,
                                             cudaStream_t stream) {
  const size_t size = fk_type_size(from->type);
  return cudaMemcpy2DAsync(to->data, size * (size_t)to->ld, from->data, size * (size_t)from->ld,
                           size * (size_t)from->n, (size_t)from->d, cudaMemcpyDefault, stream);
}
enum fk_status fk_cuda_dense_copy(int device, int source, const struct fk_dense *from, const struct fk_dense *to,
                                  struct fk_error *err);
enum fk_status fk_cuda_dense_turn(int device, struct fk_error *err);
enum fk_status fk_cuda_dense_wait(int device, struct fk_error *err);
enum fk_status fk_cuda_dense_alloc_here(struct fk_dense *A, struct fk_error *err);
void fk_cuda_dense_free_here(struct fk_dense *A);
enum fk_status fk_cuda_dense_room(int device, double *bytes, struct fk_error *err);

#endif

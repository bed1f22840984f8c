/* What dense.cu has of copy.cu for its table: see core/dense.h. */
#ifndef FK_CUDA_DENSE_CUH
#define FK_CUDA_DENSE_CUH

#include "../../core/dense.h"

enum fk_status fk_cuda_dense_copy(int device, int source, const struct fk_dense *from, const struct fk_dense *to,
                                  struct fk_error *err);
enum fk_status fk_cuda_dense_turn(int device, struct fk_error *err);
enum fk_status fk_cuda_dense_wait(int device, struct fk_error *err);
enum fk_status fk_cuda_dense_alloc_here(struct fk_dense *A, struct fk_error *err);
void fk_cuda_dense_free_here(struct fk_dense *A);
enum fk_status fk_cuda_dense_room(int device, double *bytes, struct fk_error *err);

#endif

/* Matrices that stay on a device: the device's part of core/resident.h. */
#ifndef FK_CUDA_RESIDENT_CUH
#define FK_CUDA_RESIDENT_CUH

#include "../../core/resident.h"
#include "common.cuh"

/* Takes ownership of `data`, an n x d matrix on the device. */
enum fk_status fk_cuda_resident_create(struct fk_cuda_context *context, struct fk_cuda_buffer *data, int64_t n,
                                       int64_t d, struct fk_resident **out, struct fk_error *err);
/* The matrix on this device, column-major; NULL if it is not there. */
const double *fk_cuda_resident_data(const struct fk_cuda_context *context, const struct fk_resident *x);
/* Moves the oldest matrix of a device to the host; false: there is none. */
bool fk_cuda_resident_leaves(struct fk_cuda_context *context);
double fk_cuda_resident_bytes(const struct fk_cuda_context *context);

#endif

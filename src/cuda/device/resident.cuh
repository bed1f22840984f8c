/* Matrices that stay on a device: the device's part of core/resident.h. */
#ifndef FK_CUDA_RESIDENT_CUH
#define FK_CUDA_RESIDENT_CUH

#include "../../core/resident.h"
#include "common.cuh"

/* Takes `data`, n x d, over. */
enum fk_status fk_cuda_resident_create(struct fk_cuda_context *context, struct fk_cuda_buffer *data, int64_t n,
                                       int64_t d, struct fk_resident **out, struct fk_error *err);
/* Where its numbers are on this device, one column after the other; NULL: they are not. */
const double *fk_cuda_resident_data(const struct fk_cuda_context *context, const struct fk_resident *x);
/* The oldest on a device goes to the host; false: there is none. */
bool fk_cuda_resident_leaves(struct fk_cuda_context *context);
double fk_cuda_resident_bytes(const struct fk_cuda_context *context);

#endif

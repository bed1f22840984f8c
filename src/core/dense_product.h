/* Products of matrices of the host, which a device may compute. */
#pragma once

#include "dense.h"

/* C = A B with the flags of gemm; B NULL: the lower triangle of A A', or with FK_TRANSPOSED of A'A. */
enum fk_status fk_dense_product(const struct fk_opts *opts, unsigned flags, const struct fk_dense *A,
                                const struct fk_dense *B, const struct fk_dense *C, struct fk_error *err);

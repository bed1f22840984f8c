/* Operations on small triangles of doubles: see core/host.h. */
#pragma once

#include "../core/dense.h"

enum fk_status fk_triangle_solve(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                                 const struct fk_dense *B, struct fk_error *err);
enum fk_status fk_triangle_factor(unsigned flags, const struct fk_dense *A, int64_t *pivot, struct fk_error *err);
enum fk_status fk_triangle_invert(unsigned flags, const struct fk_dense *A, struct fk_error *err);

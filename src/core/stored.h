/* A matrix of kernels of rows and centres in the memory of a device, for the normal products of a fit: struct
 * fk_host_normal says what these are. On the host R keeps such matrices, and fk_host.normal multiplies them.
 *
 *   fk_stored_create -> fk_stored_send, for all columns -> fk_stored_normal, ... -> fk_stored_free
 */
#pragma once

#include "host.h"

FK_BEGIN_C

struct fk_stored;

/* Memory for m x n numbers on the first device of the options. The caller frees *out. */
enum fk_status fk_stored_create(const struct fk_opts *opts, int64_t m, int64_t n, struct fk_stored **out,
                                struct fk_error *err);
/* Copies the columns of `part`, of the host, to the columns from `first`. */
enum fk_status fk_stored_send(const struct fk_stored *S, int64_t first, const struct fk_dense *part,
                              struct fk_error *err);
void fk_stored_free(struct fk_stored *S); /* S may be NULL */
const struct fk_dense *fk_stored_matrix(const struct fk_stored *S);

/* The matrix of `of` is that of S. Fails with FK_STATUS_LOST if it was lost with its device. */
enum fk_status fk_stored_normal(struct fk_stored *S, int threads, const struct fk_host_normal *of,
                                struct fk_error *err);

/* u: K v of `count` rows from `first`, at most FK_WEIGHED of them, which goes to of->sums and becomes W (K v + w).
 * Its rows and columns are `row` and `column` numbers apart. */
enum { FK_WEIGHED = 32 };
void fk_normal_weigh(const struct fk_host_normal *of, int64_t first, int64_t count, double *u, int64_t row,
                     int64_t column);

FK_END_C

/* Direct sums of the fast engine, for all rows or some of them. Results go to the task of the job. */
#pragma once

#include "job.h"

/* Computes the sums of all rows. FK_STATUS_UNSUPPORTED: use another method. */
enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err);
/* Recomputes some rows (indices from 0), each with its own log scale, to the tolerance relative to its own sums or
 * to the absolute error `floor`, whichever is larger. */
enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, double floor,
                            struct fk_error *err);
/* Recomputes the row, if there is one, whose own kernel is more than half of what all rows leave out. */
enum fk_status fk_fast_redo_heavy(struct fk_fast_job *job, struct fk_error *err);

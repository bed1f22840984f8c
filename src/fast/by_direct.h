/* The fast engine by direct sums, all rows or some of them. */
#pragma once

#include "job.h"

enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err);
/* Some rows again, each to the tolerance of its own sums, or to `floor` where that is more, and with a shift of
 * its own. */
enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, double floor,
                            struct fk_error *err);
/* The row whose own kernel is more than half of all that there is to leave out. */
enum fk_status fk_fast_redo_heavy(struct fk_fast_job *job, struct fk_error *err);

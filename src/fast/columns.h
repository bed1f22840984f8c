/* What is summed: the columns b, each on a scale of its own. */
#pragma once

#include "job.h"

enum fk_status fk_fast_columns_init(struct fk_fast_job *job, struct fk_error *err);
void fk_fast_columns_free(struct fk_fast_job *job);
/* Of a job's sources first .. first + count - 1: the largest |b| of all columns, relative to the column's largest.
 */
void fk_fast_masses(const void *job, int64_t first, int64_t count, double *mass);
/* A row's own kernel goes out of its sums. */
void fk_fast_leave_out(struct fk_fast_job *job);
/* Sums of b in place of those of its scaled columns. */
void fk_fast_scale_back(struct fk_fast_job *job);

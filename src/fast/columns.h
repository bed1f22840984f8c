/* The columns b that a job sums, each with its own scale. */
#pragma once

#include "job.h"

/* Sets b, own_b, columns, exponent, size, negative and wide of the job. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_fast_columns_init(struct fk_fast_job *job, struct fk_error *err);
void fk_fast_columns_free(struct fk_fast_job *job);
/* mass[i]: for source first + i of the job, the largest |b| of all columns, relative to the largest |b| of its
 * column. */
void fk_fast_masses(const void *job, int64_t first, int64_t count, double *mass);
/* Subtracts each row's own kernel from its sums. */
void fk_fast_leave_out(struct fk_fast_job *job);
/* Replaces the sums of scaled columns by sums of the task's columns. */
void fk_fast_scale_back(struct fk_fast_job *job);

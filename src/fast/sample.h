/* A sample of a job's rows with their exact sums, which measures the achieved error and the size of sums. */
#pragma once

#include "../cpu/direct/check.h"
#include "job.h"

struct fk_fast_sample {
  struct fk_check check;
  int64_t row[FK_CHECK_ROWS];
  bool scaled[FK_CHECK_ROWS]; /* do the task's sums of this row have a log scale? */
};
/* Samples the rows `first`, up to half of the sample, and pseudo-random rows, and computes their exact sums. */
enum fk_status fk_fast_check_init(struct fk_fast_job *job, const int64_t *first, int64_t n_first,
                                  struct fk_fast_sample *sample, struct fk_error *err);
/* A lower bound of max_j A_j (job.h), relative to each column's size. */
double fk_fast_check_least(const struct fk_fast_job *job, const struct fk_fast_sample *sample);
/* The largest error of the task's sums on the sample, relative as tol_type says. */
double fk_fast_check_achieved(const struct fk_fast_job *job, const struct fk_fast_sample *sample);

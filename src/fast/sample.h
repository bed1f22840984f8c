/* A sample of a job's rows, with the sums of all pairs: what error has been achieved, and how large sums are. */
#pragma once

#include "../cpu/direct/check.h"
#include "job.h"

struct fk_fast_sample {
  struct fk_check check;
  int64_t row[FK_CHECK_ROWS];
  bool scaled[FK_CHECK_ROWS]; /* the task's sums are on a scale of the row's own */
};
/* The rows `first`, as far as half of them, and random ones. */
enum fk_status fk_fast_check_init(struct fk_fast_job *job, const int64_t *first, int64_t n_first,
                                  struct fk_fast_sample *sample, struct fk_error *err);
/* max_j A_j is no less, in every column's size. */
double fk_fast_check_least(const struct fk_fast_job *job, const struct fk_fast_sample *sample);
/* The error of the task's sums, relative as the options ask. */
double fk_fast_check_achieved(const struct fk_fast_job *job, const struct fk_fast_sample *sample);

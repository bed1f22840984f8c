/* The fast engine by a grid: which window, proven to do but for some rows, and what these take. */
#pragma once

#include "guess.h"

struct fk_fast_plan;
/* *seconds: by the samples on entry; infinite where no window does. Sets job->least and takes the job's sample of
 * rows. */
enum fk_status fk_fast_plan_grid(struct fk_fast_job *job, const struct fk_fast_samples *samples,
                                 const struct fk_grid_work *work, struct fk_fast_sample *sample,
                                 struct fk_fast_plan **plan, double *seconds, struct fk_error *err);
void fk_fast_plan_free(struct fk_fast_plan *plan);
enum fk_status fk_fast_by_plan(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err);

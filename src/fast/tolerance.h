/* Sums of the fast engine on a grid: a window whose error is proven to be within the tolerance for all but some
 * rows, which are recomputed by direct sums. */
#pragma once

#include "guess.h"

struct fk_fast_plan;
/* Chooses the window. *seconds: on entry, the estimate from samples; on return, the refined estimate, infinite if
 * no window will do. Sets job->least and fills in the sample of rows. The caller frees *plan. */
enum fk_status fk_fast_plan_grid(struct fk_fast_job *job, const struct fk_fast_samples *samples,
                                 const struct fk_grid_work *work, struct fk_fast_sample *sample,
                                 struct fk_fast_plan **plan, double *seconds, struct fk_error *err);
void fk_fast_plan_free(struct fk_fast_plan *plan);
/* Computes the job by its plan; results go to the task. */
enum fk_status fk_fast_by_plan(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err);

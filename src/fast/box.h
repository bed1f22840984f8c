/* The bounding box of whitened points, found in one pass. */
#pragma once

#include "job.h"

struct fk_fast_box {
  double low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
};

/* *box: the bounding box of the whitened points. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_fast_find_box(const struct fk_fast_job *job, const struct fk_matrix *points,
                                struct fk_fast_box *box, struct fk_error *err);
/* Sets job->reach to the largest coordinate of the targets (of_targets; < 0: not known yet) or, if that is too
 * large, of the sources if smaller: a pair keeps its digits if one of its points is much farther out than the
 * other. */
enum fk_status fk_fast_find_reach(struct fk_fast_job *job, double of_targets, struct fk_error *err);
/* The largest absolute coordinate in the box, in bandwidths. */
double fk_fast_box_reach(const struct fk_fast_box *box, int64_t d);

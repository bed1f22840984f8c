/* The box that whitened points lie in, by a pass over them. */
#pragma once

#include "job.h"

struct fk_fast_box {
  double low[FK_GRID_MAX_D], high[FK_GRID_MAX_D];
};

enum fk_status fk_fast_find_box(const struct fk_fast_job *job, const struct fk_matrix *points,
                                struct fk_fast_box *box, struct fk_error *err);
/* Sets job->reach, by that of the targets (below 0: not known) and, where that is too large, of the sources: a
 * pair of which one point is much farther out has its digits. */
enum fk_status fk_fast_find_reach(struct fk_fast_job *job, double of_targets, struct fk_error *err);
/* The largest coordinate in it, in absolute value. */
double fk_fast_box_reach(const struct fk_fast_box *box, int64_t d);

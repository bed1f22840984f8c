/* Which method sums a job of the fast engine, and what it found out on the way. */
#pragma once

#include "by_mixture.h"
#include "sample.h"
#include "tolerance.h"

enum fk_fast_method { FK_BY_GRID, FK_BY_DIRECT, FK_BY_MIXTURE, FK_BY_EXACT };

struct fk_fast_choice {
  enum fk_fast_method method;
  struct fk_fast_plan *plan;       /* of the grid */
  struct fk_fast_mixture *mixture; /* of another kernel */
  struct fk_fast_sample sample;
};

/* Of the job's engines: where no method is faster, the exact one does the work. */
enum fk_status fk_fast_choose(struct fk_fast_job *job, struct fk_fast_choice *choice, struct fk_error *err);
void fk_fast_choice_free(struct fk_fast_choice *choice);

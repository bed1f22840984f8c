/* The choice of a method for a job of the fast engine. */
#pragma once

#include "by_mixture.h"
#include "sample.h"
#include "tolerance.h"

enum fk_fast_method { FK_BY_GRID, FK_BY_DIRECT, FK_BY_MIXTURE, FK_BY_EXACT };

struct fk_fast_choice {
  enum fk_fast_method method;
  struct fk_fast_plan *plan;       /* for FK_BY_GRID, else NULL */
  struct fk_fast_mixture *mixture; /* for FK_BY_MIXTURE, else NULL */
  struct fk_fast_sample sample;
};

/* Chooses the fastest method by estimate, FK_BY_EXACT (the exact engine of the same device) if no other is faster.
 * The caller frees what *choice holds by fk_fast_choice_free(). */
enum fk_status fk_fast_choose(struct fk_fast_job *job, struct fk_fast_choice *choice, struct fk_error *err);
void fk_fast_choice_free(struct fk_fast_choice *choice);

/* The bound of a grid's error for the points and columns of a job (cpu/grid/envelope.h). */
#pragma once

#include "../cpu/grid/envelope.h"
#include "job.h"

struct fk_fast_envelope {
  struct fk_envelope *envelope;
  struct fk_operator *keeper; /* that gets it when it is closed, or NULL */
  const struct fk_opts *opts;
};
/* Whatever comes of it is to be closed. FK_STATUS_UNSUPPORTED: the points are too far apart, or too thin. */
enum fk_status fk_fast_envelope_open(const struct fk_fast_job *job, double grid_seconds,
                                     struct fk_fast_envelope *envelope, struct fk_error *err);
void fk_fast_envelope_close(const struct fk_fast_envelope *envelope);

/* The bound of a grid's error (an "envelope", cpu/grid/envelope.h) for the points and columns of a job. */
#pragma once

#include "../cpu/grid/envelope.h"
#include "job.h"

struct fk_fast_envelope {
  struct fk_envelope *envelope;
  struct fk_operator *keeper; /* the operator that caches the envelope when it is closed; NULL: none */
  const struct fk_opts *opts;
};
/* Computes the envelope. grid_seconds: estimated time of the grid, of which the bound may take a share. To be
 * closed also after a failure. FK_STATUS_UNSUPPORTED: the points are too far apart or too sparse. */
enum fk_status fk_fast_envelope_open(const struct fk_fast_job *job, double grid_seconds,
                                     struct fk_fast_envelope *envelope, struct fk_error *err);
void fk_fast_envelope_close(const struct fk_fast_envelope *envelope);

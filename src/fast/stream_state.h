/* What the files of a stream share. */
#ifndef FK_FAST_STREAM_STATE_H
#define FK_FAST_STREAM_STATE_H

#include "../cpu/direct/check.h"
#include "../cpu/grid/envelope.h"
#include "stream.h"

struct fk_stream {
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_grid_spec spec;
  struct fk_grid *grid;
  struct fk_envelope *envelope; /* of its error */
  struct fk_window window;
  int *exponent; /* columns come times 2^-exponent[column], by the first that are not all 0 */
  bool *scaled;
  double *b; /* those of a step, and their masses */
  int64_t b_numbers;
  struct fk_whitening whitening;
  double *chol;
  int64_t d, columns, m;
  double n, expected; /* sources so far, and about how many will come */
  bool filtered, failed, single;
  double *u; /* points whitened at a time, d x FK_GRID_CHUNK */
  int64_t u_rows;

  struct fk_check check;
  double *got;     /* [column][row]: the grid's sums at the check's targets, NAN of those to come */
  double *largest; /* of each column's sums so far, where they are relative to themselves */
  int64_t evaluated;

  const struct fk_poll *poll; /* of the call that is running */
  double done, share;         /* what of it is done, and what the grid's next step is */
  double furthest;            /* that it was told */
};

/* Grid and envelope of a stream whose other members are there, for about so many points. */
enum fk_status fk_stream_start(struct fk_stream *s, double points, struct fk_error *err);

#endif

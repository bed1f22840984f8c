/* What the files of a stream share. */
#pragma once

#include "../cpu/direct/check.h"
#include "../cpu/grid/envelope.h"
#include "stream.h"

/* Targets in whose neighbourhood sums are largest, by the samples: most of the others may be far from all sources,
 * and the tolerance is relative to the largest sum. */
enum { FK_ANCHORS = 4 };

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

  struct fk_check check; /* its last targets are the anchors */
  int anchors;
  int64_t anchor[FK_ANCHORS]; /* of the sample of targets; and whitened, d x FK_ANCHORS */
  double anchor_at[FK_GRID_MAX_D * FK_ANCHORS];
  double *got;     /* [column][row]: the grid's sums at the check's targets, NAN of those to come */
  double *largest; /* of each column's sums so far */
  double error;    /* of the sums so far at most, on their scales */
  int64_t evaluated;
  bool sought; /* targets come out of order */

  const struct fk_poll *poll; /* of the call that is running */
  double done, share;         /* what of it is done, and what the grid's next step is */
  double furthest;            /* that it was told */
};

/* Grid and envelope of a stream whose other members are there, for about so many points. */
enum fk_status fk_stream_start(struct fk_stream *s, double points, struct fk_error *err);
/* Its checks (stream_checks.c): a target in each of the envelope's cells with the largest sums, largest first; the
 * spec's targets, as many as there is room for, and the anchors after them; no sums of theirs so far, false: no
 * memory. */
void fk_stream_find_anchors(struct fk_stream *s, const struct fk_envelope *samples);
enum fk_status fk_stream_start_checks(struct fk_stream *s, const struct fk_stream_spec *spec,
                                      struct fk_error *err);
bool fk_stream_forget(struct fk_stream *s);
/* Remembers what the checks ask for of the next n sums, and tells the error so far. */
void fk_stream_look_at(struct fk_stream *s, const double *sums, int64_t n);
/* FK_STATUS_UNSUPPORTED where the error turns out too large: sources are gone, and the sums have to be had in
 * another way. Until all targets were there, larger sums may come. */
enum fk_status fk_stream_prove(struct fk_stream *s, struct fk_error *err);

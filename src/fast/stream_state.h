/* The state of a stream, and functions that its files share. */
#pragma once

#include "../cpu/direct/check.h"
#include "../cpu/grid/envelope.h"
#include "stream.h"

/* Anchors are targets near which the sums over the samples are largest. They bound the scale of the error, which
 * is relative to the largest sum; most other targets may be far from all sources. */
enum { FK_ANCHORS = 4 };

struct fk_stream {
  struct fk_opts opts;
  struct fk_stats stats;
  struct fk_grid_spec spec;
  struct fk_grid *grid;
  struct fk_envelope *envelope; /* the bound of the grid's error */
  struct fk_window window;
  int *exponent; /* columns are multiplied by 2^-exponent[column], from the first chunk that is not all 0 */
  bool *scaled;
  double *b; /* scaled columns of a step, and their masses */
  int64_t b_numbers;
  struct fk_whitening whitening;
  double *chol;
  int64_t d, columns, m;
  double n, expected; /* number of sources so far; approximate number in all */
  bool filtered, failed, single;
  double *u; /* whitened points of a step, d x FK_GRID_CHUNK */
  int64_t u_rows;

  struct fk_check check; /* its last targets are the anchors */
  int anchors;
  /* Indices of the anchors in the sample of targets; their whitened coordinates, d x FK_ANCHORS. */
  int64_t anchor[FK_ANCHORS];
  double anchor_at[FK_GRID_MAX_D * FK_ANCHORS];
  double *got;     /* [column][row]: the grid's sums at the checked targets; NAN if not evaluated yet */
  double *largest; /* the largest sum of each column so far */
  double error;    /* bound of the error of the sums so far, on the scale of the columns */
  int64_t evaluated;
  bool sought; /* targets come out of order */

  const struct fk_poll *poll; /* poll of the current call */
  double done, share;         /* fraction of the call that is done; fraction that the grid's next step is */
  double furthest;            /* the largest fraction that was reported */
};

/* Makes the grid and the envelope of a stream whose other members are set, for about so many points. */
enum fk_status fk_stream_start(struct fk_stream *s, double points, struct fk_error *err);
/* Checks (stream_checks.c). find_anchors: chooses a target in each of the envelope's cells with the largest sums,
 * largest first. start_checks: checks as many of the spec's targets as there is room for, then the anchors.
 * forget: discards the sums at checked targets; returns false if memory runs out. */
void fk_stream_find_anchors(struct fk_stream *s, const struct fk_envelope *samples);
enum fk_status fk_stream_start_checks(struct fk_stream *s, const struct fk_stream_spec *spec,
                                      struct fk_error *err);
bool fk_stream_forget(struct fk_stream *s);
/* Stores the checked sums among the next n sums, and updates the achieved error. */
void fk_stream_look_at(struct fk_stream *s, const double *sums, int64_t n);
/* Updates the bound of the error. FK_STATUS_UNSUPPORTED: it exceeds the tolerance after all targets; the sources
 * are no longer available, and the caller must compute the sums in another way. Before that, larger sums may still
 * come. */
enum fk_status fk_stream_prove(struct fk_stream *s, struct fk_error *err);

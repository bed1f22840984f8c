/* Sums of Gaussian kernels over sources that come a chunk at a time, at targets that do: one grid
 * (cpu/grid/grid.h) takes all sources, is filtered once, and gives the sums of any number of pieces of targets, to
 * the tolerance of the options. On the CPU. Memory is that of the grid's blocks and of a few million points; time
 * linear in the points.
 *
 *   fk_stream_open [-> fk_stream_expect ...] -> fk_stream_add ... -> fk_stream_evaluate ... -> fk_stream_free
 *
 * Results have the same bits for any number of threads. After a failure a stream can only be freed. Each call has
 * a poll of its own.
 */
#pragma once

#include "../fk.h"

struct fk_stream;

struct fk_stream_spec {
  struct fk_matrix sources, targets; /* samples, by which window and centre are chosen */
  struct fk_matrix checked;          /* the targets that fk_check_row() names, in its order (check_rows.h) */
  double n, m;                       /* of all; n may be a guess */
  double chunks, pieces;             /* in how many parts of sources and targets other engines would sum them */
  double part_tol;                   /* and the tolerance of a part */
  int64_t columns;
  const double *chol; /* copied */
  double most_bytes;  /* of the grid */
};

/* *stream is NULL where other engines will be faster, or have to do the work. */
enum fk_status fk_stream_open(const struct fk_stream_spec *spec, const struct fk_opts *opts,
                              struct fk_stream **stream, struct fk_error *err);
void fk_stream_free(struct fk_stream *stream);

/* Targets that will come. Without it all blocks that sources reach are filtered; with it, all targets have to be
 * announced. Worth it where that is cheap, or d > 3. */
enum fk_status fk_stream_expect(struct fk_stream *stream, const struct fk_matrix *targets,
                                const struct fk_poll *poll, struct fk_error *err);
/* b: points->n x columns; NULL: ones (one column). FK_STATUS_UNSUPPORTED where the grid is too large or the points
 * are too far apart for it. */
enum fk_status fk_stream_add(struct fk_stream *stream, const struct fk_matrix *points, const double *b,
                             const struct fk_poll *poll, struct fk_error *err);
/* The next targets; sums: targets->n x columns. stats: of all calls so far. */
enum fk_status fk_stream_evaluate(struct fk_stream *stream, const struct fk_matrix *targets,
                                  const struct fk_poll *poll, double *sums, struct fk_stats *stats,
                                  struct fk_error *err);

/* The targets that follow are those from `row` on, of all, and stats count from here: for pieces out of order. */
void fk_stream_seek(struct fk_stream *stream, int64_t row);

/* Sums of several streams as one (fast/stream_parts.c): another of the same window, centre and checks, without
 * sources; and what sources have left in a stream, written for one that takes it, in another process, too. A
 * stream has the same bits however the ones before it came. size: bytes. */
enum fk_status fk_stream_clone(const struct fk_stream *of, struct fk_stream **stream, struct fk_error *err);
enum fk_status fk_stream_pack(struct fk_stream *stream, void *to, size_t *size, struct fk_error *err);
enum fk_status fk_stream_take(struct fk_stream *stream, void *from, size_t size, struct fk_error *err);
enum fk_status fk_stream_merge(struct fk_stream *stream, struct fk_stream *other, struct fk_error *err);

int64_t fk_stream_d(const struct fk_stream *stream);
int64_t fk_stream_columns(const struct fk_stream *stream);

/* Streams: sums of Gaussian kernels over sources and targets that come in chunks, on the CPU. One grid
 * (cpu/grid/grid.h) takes all sources, is filtered once, and returns the sums at any number of chunks of targets,
 * to the tolerance of the options. Memory is that of the grid's blocks and of a few million points; time is linear
 * in the points.
 *
 *   fk_stream_open [-> fk_stream_expect ...] -> fk_stream_add ... -> fk_stream_evaluate ... -> fk_stream_free
 *
 * Results have the same bits for any number of threads. After a failure a stream can only be freed. Each call
 * takes its own poll.
 */
#pragma once

#include "../fk.h"

struct fk_stream;

struct fk_stream_spec {
  struct fk_matrix sources, targets; /* samples, from which window and centre are chosen */
  struct fk_matrix checked;          /* the targets fk_check_row(m, 0), fk_check_row(m, 1), ... (check_rows.h) */
  double n, m;                       /* numbers of all sources and targets; n may be approximate */
  double chunks, pieces;             /* numbers of parts of sources and targets in which other engines would sum */
  double part_tol;                   /* tolerance of such a part */
  int64_t columns;
  const double *chol; /* copied */
  double most_bytes;  /* limit of the grid's memory */
};

/* Opens a stream; the caller frees *stream. *stream is NULL, with FK_STATUS_OK, if other engines are faster or
 * have to do the work. */
enum fk_status fk_stream_open(const struct fk_stream_spec *spec, const struct fk_opts *opts,
                              struct fk_stream **stream, struct fk_error *err);
void fk_stream_free(struct fk_stream *stream);

/* Announces targets. If it is not called, all blocks within reach of sources are filtered; if it is, all targets
 * must be announced. Worthwhile if announcing is cheap or d > 3. */
enum fk_status fk_stream_expect(struct fk_stream *stream, const struct fk_matrix *targets,
                                const struct fk_poll *poll, struct fk_error *err);
/* Adds sources. b: points->n x columns; NULL: ones (one column). FK_STATUS_UNSUPPORTED: the grid is too large, or
 * the points are too far apart for it. */
enum fk_status fk_stream_add(struct fk_stream *stream, const struct fk_matrix *points, const double *b,
                             const struct fk_poll *poll, struct fk_error *err);
/* Computes the sums (targets->n x columns) at the next targets. stats: totals of all calls so far. */
enum fk_status fk_stream_evaluate(struct fk_stream *stream, const struct fk_matrix *targets,
                                  const struct fk_poll *poll, double *sums, struct fk_stats *stats,
                                  struct fk_error *err);

/* The next targets are those from number `row` (from 0) of all; stats count from here. For chunks out of order. */
void fk_stream_seek(struct fk_stream *stream, int64_t row);

/* Combining streams (fast/stream_parts.c). clone: a new stream with the same window, centre and checks, without
 * sources; the caller frees it. pack: writes the sums of the sources to `to` (NULL: only sets *size, in bytes).
 * take: adds what pack() wrote, in this process or another. merge: adds the sources of `other`. A stream has the
 * same bits whichever process computed its parts. */
enum fk_status fk_stream_clone(const struct fk_stream *of, struct fk_stream **stream, struct fk_error *err);
enum fk_status fk_stream_pack(struct fk_stream *stream, void *to, size_t *size, struct fk_error *err);
enum fk_status fk_stream_take(struct fk_stream *stream, void *from, size_t size, struct fk_error *err);
enum fk_status fk_stream_merge(struct fk_stream *stream, struct fk_stream *other, struct fk_error *err);

/* Number of dimensions, and number of columns of the sums. */
int64_t fk_stream_d(const struct fk_stream *stream);
int64_t fk_stream_columns(const struct fk_stream *stream);

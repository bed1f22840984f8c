/* Streams of parts of the sources, added up: what sources have left in one is written, and taken by another. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/bytes.h"
#include "stream_state.h"

static enum fk_status no_memory(struct fk_error *err) {
  return fk_no_memory(err, 0, "a part of a stream of points");
}

static void *copy_of(const void *from, size_t bytes) {
  void *to = malloc(bytes);
  return to ? memcpy(to, from, bytes) : NULL;
}

static enum fk_status copy_checks(struct fk_stream *s, const struct fk_stream *of, struct fk_error *err) {
  size_t d = (size_t)of->d, columns = (size_t)of->columns;
  s->chol = copy_of(of->chol, sizeof(double) * d * d);
  s->whitening = of->whitening;
  s->whitening.chol = s->chol;
  s->whitening.centre = copy_of(of->whitening.centre, sizeof(double) * d);
  s->exponent = calloc(columns, sizeof *s->exponent);
  s->scaled = calloc(columns, sizeof *s->scaled);
  if (!s->chol || !s->whitening.centre || !s->exponent || !s->scaled) return no_memory(err);
  s->anchors = of->anchors;
  memcpy(s->anchor_at, of->anchor_at, sizeof s->anchor_at);
  enum fk_status status = fk_check_clone(&of->check, &s->check, err);
  return !status && !fk_stream_forget(s) ? no_memory(err) : status;
}

enum fk_status fk_stream_clone(const struct fk_stream *of, struct fk_stream **stream, struct fk_error *err) {
  *stream = NULL;
  struct fk_stream *s = calloc(1, sizeof *s);
  if (!s) return no_memory(err);
  s->opts = of->opts;
  s->stats = of->stats;
  s->stats.seconds = s->stats.pairs = s->stats.tol_bound = s->stats.tol_achieved = 0;
  s->window = of->window;
  s->single = of->single;
  s->spec = of->spec;
  s->d = of->d;
  s->columns = of->columns;
  s->m = of->m;
  enum fk_status status = copy_checks(s, of, err);
  if (!status) status = fk_stream_start(s, of->expected, err);
  if (status)
    fk_stream_free(s);
  else
    *stream = s;
  return status;
}

/* ---- as bytes --------------------------------------------------------------------------------- */

/* Properties that streams must share for their sums to be added. */
struct common {
  int64_t d, columns, rows, single, width;
  double spacing;
};

static struct common common_of(const struct fk_stream *s) {
  struct common c;
  memset(&c, 0, sizeof c); /* it is compared byte by byte */
  c.d = s->d;
  c.columns = s->columns;
  c.rows = s->check.rows;
  c.single = s->single;
  c.width = s->window.width;
  c.spacing = s->window.spacing;
  return c;
}

enum fk_status fk_stream_pack(struct fk_stream *s, void *data, size_t *size, struct fk_error *err) {
  struct fk_bytes to = {data, *size, 0};
  struct common common = common_of(s);
  if (s->failed) return fk_fail(err, FK_STATUS_INVALID, "the stream cannot be used after a failure");
  fk_bytes_put(&to, &common, sizeof common);
  fk_bytes_put(&to, &s->n, sizeof s->n);
  fk_bytes_put(&to, &s->stats.seconds, sizeof s->stats.seconds);
  fk_bytes_put(&to, s->exponent, sizeof *s->exponent * (size_t)s->columns);
  fk_bytes_put(&to, s->scaled, sizeof *s->scaled * (size_t)s->columns);
  fk_check_put(&s->check, &to);
  fk_grid_put(s->grid, &to);
  enum fk_status status = fk_envelope_put(s->envelope, &to, err);
  *size = to.at;
  return status;
}

/* The other's columns come times 2^shift: scales are by the first that were not all 0. */
static bool join_scales(struct fk_stream *s, struct fk_bytes *from, int *shift) {
  int *exponent = shift + s->columns;
  bool *scaled = (bool *)(exponent + s->columns);
  if (!fk_bytes_get(from, exponent, sizeof *exponent * (size_t)s->columns) ||
      !fk_bytes_get(from, scaled, sizeof *scaled * (size_t)s->columns))
    return false;
  for (int64_t c = 0; c < s->columns; c++) {
    shift[c] = 0;
    if (!scaled[c]) continue;
    if (!s->scaled[c]) s->exponent[c] = exponent[c];
    s->scaled[c] = true;
    shift[c] = exponent[c] - s->exponent[c];
  }
  return true;
}

static enum fk_status take(struct fk_stream *s, struct fk_bytes *from, int *shift, struct fk_error *err) {
  struct common common, own = common_of(s);
  double n, seconds;
  int most = 0;
  if (!fk_bytes_get(from, &common, sizeof common) || memcmp(&common, &own, sizeof own) ||
      !fk_bytes_get(from, &n, sizeof n) || !fk_bytes_get(from, &seconds, sizeof seconds) ||
      !join_scales(s, from, shift))
    return fk_fail(err, FK_STATUS_INVALID, "the serialized part belongs to another kind of stream");
  for (int64_t c = 0; c < s->columns; c++) most = shift[c] > most ? shift[c] : most;
  enum fk_status status = fk_check_take(&s->check, from, err);
  if (!status) status = fk_grid_take(s->grid, from, shift, err);
  if (!status) status = fk_envelope_join(s->envelope, from, ldexp(1, most), err);
  s->n += n;
  s->stats.seconds += seconds;
  s->filtered = false;
  return status;
}

enum fk_status fk_stream_take(struct fk_stream *s, void *data, size_t size, struct fk_error *err) {
  struct fk_bytes from = {data, size, 0};
  if (s->failed) return fk_fail(err, FK_STATUS_INVALID, "the stream cannot be used after a failure");
  int *shift = calloc((size_t)s->columns, 2 * sizeof *shift + sizeof(bool));
  enum fk_status status = shift ? take(s, &from, shift, err) : no_memory(err);
  free(shift);
  s->failed = status != FK_STATUS_OK;
  return status;
}

enum fk_status fk_stream_merge(struct fk_stream *s, struct fk_stream *other, struct fk_error *err) {
  size_t size = 0;
  enum fk_status status = fk_stream_pack(other, NULL, &size, err);
  if (status) return status;
  void *part = malloc(size);
  if (!part) return no_memory(err);
  status = fk_stream_pack(other, part, &size, err);
  if (!status) status = fk_stream_take(s, part, size, err);
  free(part);
  return status;
}

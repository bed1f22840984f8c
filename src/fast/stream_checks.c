/* The error of a stream: exact sums at some targets, and a lower bound of the largest sum, to which errors are
 * relative. */
#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/scan.h"
#include "check_rows.h"
#include "stream_state.h"

/* ---- targets ---------------------------------------------------------------------------------- */

void fk_stream_find_anchors(struct fk_stream *s, const struct fk_envelope *e) {
  const struct fk_envelope_cell *cells;
  int64_t n = fk_envelope_cells(e, &cells);
  double sum[FK_ANCHORS + 1];
  for (int64_t i = 0; i < n; i++) {
    int at = s->anchors;
    for (; at > 0 && sum[at - 1] < cells[i].sum; at--) {
      sum[at] = sum[at - 1];
      if (at < FK_ANCHORS) s->anchor[at] = s->anchor[at - 1];
    }
    if (at == FK_ANCHORS) continue;
    sum[at] = cells[i].sum;
    s->anchor[at] = cells[i].row;
    s->anchors += s->anchors < FK_ANCHORS;
  }
}

static enum fk_status no_memory(struct fk_error *err) {
  return fk_no_memory(err, 0, "the checks of a stream of points");
}

bool fk_stream_forget(struct fk_stream *s) {
  int64_t checks = s->columns * s->check.rows;
  s->got = malloc(sizeof(double) * (size_t)(checks + s->columns));
  if (!s->got) return false;
  s->largest = s->got + checks;
  for (int64_t i = 0; i < checks + s->columns; i++) s->got[i] = i < checks ? (double)NAN : 0;
  return true;
}

enum fk_status fk_stream_start_checks(struct fk_stream *s, const struct fk_stream_spec *spec,
                                      struct fk_error *err) {
  int64_t all[FK_CHECK_ROWS], d = s->d, n = fk_smaller(spec->checked.n, FK_CHECK_ROWS - s->anchors);
  struct fk_matrix rows = fk_doubles(NULL, n + s->anchors, d);
  double *x = malloc(sizeof(double) * (size_t)(rows.n * d));
  if (!x) return no_memory(err);
  for (int64_t r = 0; r < n; r++) all[r] = r;
  fk_gather(&spec->checked, all, n, x, rows.n);
  fk_gather(&spec->targets, s->anchor, s->anchors, x + n, rows.n);
  rows.data = x;
  enum fk_status status = fk_check_init(&s->check, &s->whitening, &rows, s->columns, s->opts.threads, err);
  if (!status) status = fk_whiten_points(&s->whitening, 1, &rows, n, s->anchors, s->anchor_at, FK_ANCHORS, err);
  free(x);
  if (!status && !fk_stream_forget(s)) return no_memory(err);
  return status;
}

/* ---- errors ------------------------------------------------------------------------------------ */

/* The largest sum of |b| k that a column's sums show so far is no less. */
static double seen(const struct fk_stream *s, int64_t c) {
  return fmax(0, s->largest[c] - ldexp(s->error, s->exponent[c]));
}

void fk_stream_look_at(struct fk_stream *s, const double *sums, int64_t n) {
  int rows = s->check.rows;
  double error = 0;
  for (int64_t c = 0; c < s->columns; c++) {
    const double *value = sums + c * n;
    double *got = s->got + c * rows;
    for (int r = 0; r < rows - s->anchors; r++) {
      int64_t at = fk_check_row(s->m, r) - s->evaluated;
      if (at >= 0 && at < n) got[r] = value[at];
    }
    s->largest[c] = fmax(s->largest[c], fk_largest(value, n, s->opts.threads));
    error = fmax(error, fk_check_error(&s->check, c, got, false, seen(s, c), 1));
  }
  s->evaluated += n;
  s->stats.tol_achieved = error;
}

/* The largest sum of |b| k in any column is no less, on the column's scale. Where targets come out of order others
 * may have the rest: what is proven is not to go by whose they are. */
static double least_sum(const struct fk_stream *s) {
  double least = INFINITY;
  for (int64_t c = 0; c < s->columns; c++) {
    const double *absolute = fk_check_absolute(&s->check, c);
    double most = s->sought ? 0 : seen(s, c);
    for (int r = 0; r < s->check.rows; r++) most = fmax(most, absolute[r]);
    if (s->scaled[c] || !s->b) least = fmin(least, ldexp(most, -s->exponent[c]));
  }
  return isfinite(least) ? least : 0;
}

enum fk_status fk_stream_prove(struct fk_stream *s, struct fk_error *err) {
  s->stats.tol_bound = s->error / fmax(least_sum(s), 1e-300);
  s->failed = !(s->stats.tol_bound <= s->opts.tol) && (s->sought || s->evaluated >= s->m);
  return s->failed ? fk_fail(err, FK_STATUS_UNSUPPORTED,
                             "the error of the grid of a stream may exceed the tolerance at these targets")
                   : FK_STATUS_OK;
}

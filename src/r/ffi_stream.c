/* The .Call entry points of sums over points larger than memory (fast/stream.h), each in the three phases of
 * glue.h. R holds a stream by an external pointer, whose finalizer frees what R did not close. */
#include "../fast/check_rows.h"
#include "../fast/stream.h"
#include "ffi.h"
#include "operator.h"

/* The numbers, from 1, of the targets by which a stream checks itself. */
SEXP ffi_stream_rows(SEXP n, SEXP m) {
  int64_t targets = (int64_t)Rf_asReal(m), size = fk_check_size(Rf_asReal(n), targets);
  SEXP rows = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)size));
  for (int64_t r = 0; r < size; r++) REAL(rows)[r] = (double)fk_check_row(targets, r) + 1;
  UNPROTECT(1);
  return rows;
}

/* ---- the handle ------------------------------------------------------------------------------- */

static SEXP tag(void) { return Rf_install("flashkernel_stream"); }

static void close_handle(SEXP handle) {
  fk_stream_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
}

static void finalize(SEXP handle) {
  close_handle(handle);
  r_count_handle(-1);
}

static struct fk_stream *stream_of(SEXP handle) {
  if (TYPEOF(handle) != EXTPTRSXP || R_ExternalPtrTag(handle) != tag() || !R_ExternalPtrAddr(handle))
    Rf_error("`stream` must be an open stream");
  return R_ExternalPtrAddr(handle);
}

/* NULL where other engines are to sum. size: n, m, parts of the sources and of the targets, their tolerance, and
 * the most bytes that the grid may take. */
SEXP ffi_stream_open(SEXP x, SEXP y, SEXP checked, SEXP size, SEXP columns, SEXP chol, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_stream_spec spec = {.sources = r_points(x, "x")};
  const double *number = r_numbers(size, 6, "size");
  struct fk_stream *stream;
  spec.targets = r_targets(y, spec.sources.d);
  spec.checked = r_targets(checked, spec.sources.d);
  spec.n = number[0];
  spec.m = number[1];
  spec.chunks = number[2];
  spec.pieces = number[3];
  spec.part_tol = number[4];
  spec.most_bytes = number[5];
  spec.columns = Rf_asInteger(columns);
  spec.chol = r_factor(chol, spec.sources.d);
  if (!(spec.n >= 1 && spec.m >= 1 && spec.columns >= 1))
    Rf_error("`size` must name at least one source, target and column");
  if (!spec.targets.data || spec.checked.n != fk_check_size(spec.n, (int64_t)spec.m))
    Rf_error("`checked` must have the targets that the stream checks");
  SEXP handle = PROTECT(r_new_handle(NULL, tag(), finalize));

  fk_stream_open(&spec, &call.opts, &stream, &call.err);
  R_SetExternalPtrAddr(handle, stream);

  r_finish(&call.err);
  UNPROTECT(1);
  return stream ? handle : R_NilValue;
}

SEXP ffi_stream_close(SEXP stream) {
  stream_of(stream);
  close_handle(stream);
  return R_NilValue;
}

/* ---- parts ------------------------------------------------------------------------------------- */

SEXP ffi_stream_clone(SEXP stream) {
  struct fk_stream *clone;
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_stream *of = stream_of(stream);
  SEXP handle = PROTECT(r_new_handle(NULL, tag(), finalize));

  fk_stream_clone(of, &clone, &err);
  R_SetExternalPtrAddr(handle, clone);

  r_finish(&err);
  UNPROTECT(1);
  return handle;
}

/* A raw vector. */
SEXP ffi_stream_pack(SEXP stream) {
  struct fk_stream *s = stream_of(stream);
  struct fk_error err = {FK_STATUS_OK, ""};
  size_t size = 0;

  fk_stream_pack(s, NULL, &size, &err);

  r_finish(&err);
  SEXP part = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));

  fk_stream_pack(s, RAW(part), &size, &err);

  r_finish(&err);
  UNPROTECT(1);
  return part;
}

/* other: what was packed, or another stream. */
SEXP ffi_stream_take(SEXP stream, SEXP other) {
  struct fk_stream *s = stream_of(stream);
  struct fk_error err = {FK_STATUS_OK, ""};
  if (TYPEOF(other) == RAWSXP)
    fk_stream_take(s, RAW(other), (size_t)Rf_xlength(other), &err);
  else
    fk_stream_merge(s, stream_of(other), &err);

  r_finish(&err);
  return stream;
}

/* ---- points ----------------------------------------------------------------------------------- */

struct stream_call {
  struct fk_stream *stream;
  struct fk_matrix points;
  struct r_call call;
};

static void begin(struct stream_call *c, SEXP stream, SEXP points, const char *name, SEXP control) {
  c->stream = stream_of(stream);
  c->points = r_points(points, name);
  if (c->points.d != fk_stream_d(c->stream))
    Rf_error("`%s` must have as many columns as the points of the stream", name);
  c->call = r_begin(control);
}

SEXP ffi_stream_expect(SEXP stream, SEXP y, SEXP control) {
  struct stream_call c;
  begin(&c, stream, y, "y", control);

  fk_stream_expect(c.stream, &c.points, &c.call.opts.poll, &c.call.err);

  r_finish(&c.call.err);
  return R_NilValue;
}

SEXP ffi_stream_add(SEXP stream, SEXP x, SEXP b, SEXP control) {
  struct stream_call c;
  begin(&c, stream, x, "x", control);
  int64_t columns = fk_stream_columns(c.stream);
  const double *numbers = Rf_isNull(b) ? NULL : r_numbers(b, (R_xlen_t)(c.points.n * columns), "b");
  if (!numbers && columns > 1) Rf_error("`b` must be given");

  fk_stream_add(c.stream, &c.points, numbers, &c.call.opts.poll, &c.call.err);

  r_finish(&c.call.err);
  return R_NilValue;
}

/* like: coefficients, of no matter how many rows; sums are a matrix with their names where they are one. */
SEXP ffi_stream_evaluate(SEXP stream, SEXP y, SEXP like, SEXP first, SEXP control) {
  struct stream_call c;
  begin(&c, stream, y, "y", control);
  int64_t columns = fk_stream_columns(c.stream);
  bool plain = !Rf_isMatrix(like);
  if ((plain ? 1 : Rf_ncols(like)) != columns) Rf_error("`like` must have as many columns as the sums");
  SEXP sums = PROTECT(plain ? r_vector(c.points.n) : r_matrix(c.points.n, columns, r_column_names(like)));

  if (first != R_NilValue) fk_stream_seek(c.stream, (int64_t)Rf_asReal(first) - 1);
  fk_stream_evaluate(c.stream, &c.points, &c.call.opts.poll, REAL(sums), &c.call.stats, &c.call.err);

  SEXP result = r_result(&c.call, 1, (const char *const[]){"sums"}, (SEXP[]){sums});
  UNPROTECT(1);
  return result;
}

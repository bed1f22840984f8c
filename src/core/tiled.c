/* Tiled matrices: where their block columns lie. */
#include "tiled.h"

#include <math.h>
#include <stdlib.h>

#include "costs.h"
#include "tiled_parts.h"

/* ---- where ------------------------------------------------------------------------------------ */

static double column_bytes(const struct fk_tiled *t) {
  return (double)sizeof(double) * (double)fk_padded(t->m, 16) * (double)(t->block + 1);
}

/* Bytes of the block columns of the device that has most, if all stay. */
static double staying_bytes(const struct fk_tiled *t) {
  double rows = 0;
  for (int64_t j = t->count - 1; j >= 0; j -= t->n_devices) rows += (double)fk_padded(fk_tiled_height(t, j), 16);
  return (double)sizeof(double) * rows * (double)(t->block + 1);
}

/* Bytes that operations need on a device besides the block columns that stay: buffers, if panels are copied, and
 * workspace of libraries. */
static double bytes_beside(const struct fk_tiled *t, const struct fk_tiled_spec *spec, bool copies) {
  const double side = (double)fk_smaller(t->block, fk_costs.dense.tile);
  const double whole = 4 * (double)sizeof(double) * side * side + spec->beside;
  if (t->count == 1) return whole;
  return whole + (copies ? FK_TILED_BUFFERS * column_bytes(t) : 0) +
         (spec->halves ? fk_halves_bytes(t->m, t->block) : 0);
}

/* Do all stay on devices of so many bytes, and leave a little to others? */
static bool all_fit(const struct fk_tiled *t, const struct fk_tiled_spec *spec, double bytes) {
  const bool copies = !t->rough || t->n_devices > 1;
  return staying_bytes(t) + bytes_beside(t, spec, copies) <= fk_costs.dense.staying * bytes;
}

static void cut(struct fk_tiled *t, int64_t block) {
  t->block = block;
  t->count = fk_pieces(t->m, block);
}

/* *bytes: the memory available on the device that has least. */
static enum fk_status find_room(const struct fk_tiled *t, const struct fk_tiled_spec *spec, double *bytes,
                                struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  *bytes = spec->most > 0 ? spec->most : INFINITY;
  for (int g = 0; g < t->n_devices && !status; g++) {
    double room = 0;
    status = t->ops->ready(t->devices[g], NULL, t->m, err); /* a device may not have been started */
    if (!status) status = t->ops->room(t->devices[g], &room, err);
    *bytes = fmin(*bytes, room);
  }
  return status;
}

/* The host has one block, and so has a device up to some order, if it fits there. */
static enum fk_status choose(struct fk_tiled *t, const struct fk_tiled_spec *spec, struct fk_error *err) {
  const int64_t whole = spec->halves ? fk_costs.dense.whole_halves : fk_costs.dense.whole[FK_DENSE_DEVICE];
  const bool is_whole = t->ops == &fk_dense_host || t->m <= whole;
  const int64_t tile = fk_smaller(t->m, fk_costs.dense.tile);
  double bytes;
  enum fk_status status = find_room(t, spec, &bytes, err);
  if (status) return status;
  cut(t, spec->block ? spec->block : is_whole ? t->m : tile);
  if (!spec->block && !all_fit(t, spec, bytes)) cut(t, tile);
  t->halves = spec->halves && t->count > 1;
  t->streamed = !all_fit(t, spec, bytes);
  t->held = t->count;
  if (!t->streamed) return FK_STATUS_OK;
  const double all = staying_bytes(t) * t->n_devices;
  if (spec->host > 0 && all > spec->host)
    return fk_fail(
        err, FK_STATUS_ALLOC,
        "out of memory for a matrix of order %.0f: it takes %.3g bytes, which neither the devices nor the "
        "host have left",
        (double)t->m, all);
  const double held = floor((bytes - bytes_beside(t, spec, true)) / column_bytes(t));
  if (held < 1)
    return fk_fail(
        err, FK_STATUS_ALLOC,
        "out of memory for a matrix of order %.0f: it takes %.3g bytes of each device or more, and there "
        "are %.3g",
        (double)t->m, bytes_beside(t, spec, true) + column_bytes(t), fmax(0, bytes));
  t->held = (int64_t)fmin(held, (double)fk_pieces(t->count, t->n_devices)) * t->n_devices;
  return FK_STATUS_OK;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static enum fk_status alloc_columns(struct fk_tiled *t, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  t->columns = calloc((size_t)t->count, sizeof *t->columns);
  if (!t->columns) return fk_no_memory(err, 0, "a matrix in block columns");
  for (int64_t j = 0; j < t->count && !status; j++) {
    struct fk_dense *column = &t->columns[j];
    *column = (struct fk_dense){.type = FK_DOUBLE, .n = fk_tiled_height(t, j), .d = fk_tiled_width(t, j) + 1};
    status = t->streamed ? t->ops->alloc_here(column, err) : t->ops->alloc(fk_tiled_device(t, j), column, err);
  }
  return status;
}

enum fk_status fk_tiled_create(const struct fk_tiled_spec *spec, struct fk_tiled **out, struct fk_error *err) {
  struct fk_tiled *t = calloc(1, sizeof *t);
  if (!t) return fk_no_memory(err, 0, "a matrix in block columns");
  t->ops = spec->ops;
  t->m = spec->m;
  t->rough = spec->rough;
  t->n_devices = spec->n_devices;
  for (int g = 0; g < t->n_devices; g++) t->devices[g] = spec->devices[g];
  enum fk_status status = choose(t, spec, err);
  if (!status) status = alloc_columns(t, err);
  if (status)
    fk_tiled_free(t);
  else
    *out = t;
  return status;
}

static void free_columns(struct fk_tiled *t) {
  for (int64_t j = 0; j < t->count && t->columns; j++)
    if (t->streamed)
      t->ops->free_here(&t->columns[j]);
    else
      t->ops->free(fk_tiled_device(t, j), &t->columns[j]);
}

void fk_tiled_free(struct fk_tiled *t) {
  if (!t) return;
  free_columns(t);
  free(t->columns);
  free(t);
}

void fk_tiled_release(struct fk_tiled *t) {
  if (!t->streamed) free_columns(t);
}

enum fk_status fk_tiled_ready(const struct fk_tiled *t, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int64_t j = 0; j < fk_smaller(t->n_devices, t->count) && !status; j++)
    status = t->ops->ready(fk_tiled_device(t, j), t->streamed ? NULL : &t->columns[j], t->m, err);
  return status;
}

double fk_tiled_bytes(const struct fk_tiled *t) {
  double bytes = 0;
  for (int64_t j = 0; j < t->count; j++)
    bytes += (double)sizeof(double) * (double)t->columns[j].ld * (double)t->columns[j].d;
  return bytes;
}

bool fk_tiled_is_streamed(const struct fk_tiled *t) { return t->streamed; }

enum fk_status fk_tiled_take_buffers(const struct fk_tiled *t, int count, struct fk_tiled_buffers *buffers,
                                     struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  *buffers = (struct fk_tiled_buffers){.of = {{{0}}}};
  for (int g = 0; g < t->n_devices; g++)
    for (int i = 0; i < count && !status; i++) {
      buffers->of[g][i] = (struct fk_dense){.type = FK_DOUBLE, .n = t->m, .d = t->block};
      status = t->ops->alloc(t->devices[g], &buffers->of[g][i], err);
    }
  return status;
}

void fk_tiled_give_buffers(const struct fk_tiled *t, struct fk_tiled_buffers *buffers) {
  for (int g = 0; g < t->n_devices; g++)
    for (int i = 0; i < FK_TILED_BUFFERS; i++) t->ops->free(t->devices[g], &buffers->of[g][i]);
}

enum fk_status fk_tiled_alloc_all(const struct fk_tiled *t, int64_t n, int64_t d, struct fk_dense *there,
                                  struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int g = 0; g < t->n_devices && !status; g++) {
    there[g] = (struct fk_dense){.type = FK_DOUBLE, .n = n, .d = d};
    status = t->ops->alloc(t->devices[g], &there[g], err);
  }
  return status;
}

void fk_tiled_free_all(const struct fk_tiled *t, struct fk_dense *there) {
  for (int g = 0; g < t->n_devices; g++) t->ops->free(t->devices[g], &there[g]);
}

/* ---- order ------------------------------------------------------------------------------------ */

enum fk_status fk_tiled_turn(const struct fk_tiled *t, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int g = 0; g < t->n_devices && !status && fk_tiled_has_copies(t); g++)
    status = t->ops->turn(t->devices[g], err);
  return status;
}

/* Also after a failure: copies must not go on in memory that is given back. */
enum fk_status fk_tiled_wait(const struct fk_tiled *t, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int g = 0; g < t->n_devices; g++) {
    enum fk_status waited = t->ops->wait(t->devices[g], err);
    if (!status) status = waited;
  }
  return status;
}

/* ---- to the host ------------------------------------------------------------------------------ */

static enum fk_status fetch(const struct fk_tiled *t, int64_t j, const struct fk_dense *from,
                            const struct fk_dense *to, struct fk_error *err) {
  return t->streamed ? fk_dense_host.fetch(0, from, to, err) : t->ops->fetch(fk_tiled_device(t, j), from, to, err);
}

enum fk_status fk_tiled_triangle(const struct fk_tiled *t, bool upper, const struct fk_dense *to,
                                 struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int64_t j = 0; j < t->count && !status; j++) {
    struct fk_dense half = fk_tiled_half(&t->columns[j], upper), from = fk_tiled_used(t, &half, j, upper),
                    all = fk_dense_part(to, 0, fk_tiled_first(t, j), t->m, half.d),
                    part = fk_tiled_used(t, &all, j, upper);
    status = fetch(t, j, &from, &part, err);
  }
  return status;
}

enum fk_status fk_tiled_diagonal(const struct fk_tiled *t, bool upper, double *to, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int64_t j = 0; j < t->count && !status; j++) {
    struct fk_dense half = fk_tiled_half(&t->columns[j], upper), corner = fk_tiled_rows(t, &half, j, j + 1),
                    from = fk_dense_diagonal(&corner), part = fk_dense_of(to + fk_tiled_first(t, j), 1, corner.n);
    status = fetch(t, j, &from, &part, err);
  }
  return status;
}

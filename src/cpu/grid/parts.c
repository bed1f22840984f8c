/* Grids of parts of the sources, and what their errors can be: written as bytes, and added to others. */
#include <math.h>
#include <string.h>

#include "../../core/bytes.h"
#include "envelope_parts.h"
#include "state.h"

static enum fk_status too_short(struct fk_error *err) {
  return fk_fail(err, FK_STATUS_INVALID, "the serialized part of a grid is truncated");
}

void fk_grid_put(const struct fk_grid *g, struct fk_bytes *to) {
  const struct fk_blocks *b = &g->totals;
  fk_bytes_put(to, &b->n, sizeof b->n);
  fk_bytes_put(to, b->keys, sizeof *b->keys * (size_t)b->n);
  for (int64_t i = 0; i < b->n; i++) fk_bytes_put(to, fk_blocks_at(b, i), b->bytes);
}

enum fk_status fk_grid_take(struct fk_grid *g, struct fk_bytes *from, const int *shift, struct fk_error *err) {
  struct fk_blocks *b = &g->totals;
  int64_t n, cells = g->layout.cells;
  const unsigned char *keys;
  if (!fk_bytes_get(from, &n, sizeof n) || n < 0 || n > INT32_MAX ||
      !(keys = fk_bytes_skip(from, sizeof *b->keys * (size_t)n)))
    return too_short(err);
  g->convolved = false;
  for (int64_t i = 0; i < n; i++) {
    uint64_t key;
    int64_t before = b->n;
    memcpy(&key, keys + sizeof key * (size_t)i, sizeof key);
    const unsigned char *other = fk_bytes_skip(from, b->bytes);
    if (!other) return too_short(err);
    int64_t at = fk_blocks_insert(b, key);
    if (at < 0) return fk_grid_no_block(g, b, err);
    double *own = fk_blocks_at(b, at);
    if (at == before) memset(own, 0, b->bytes);
    for (int64_t c = 0; c < g->spec.columns; c++) {
      double scale = ldexp(1, shift[c]);
      for (int64_t k = c * cells; k < (c + 1) * cells; k++) {
        double number;
        memcpy(&number, other + sizeof number * (size_t)k, sizeof number);
        own[k] += scale * number;
      }
    }
  }
  return FK_STATUS_OK;
}

/* ---- envelopes --------------------------------------------------------------------------------- */

enum fk_status fk_envelope_put(struct fk_envelope *e, struct fk_bytes *to, struct fk_error *err) {
  size_t bytes = sizeof(double) << e->spec.d;
  if (!fk_envelope_gather(e)) return fk_no_memory(err, 0, "a part of a bound");
  fk_bytes_put(to, &e->mass, sizeof e->mass);
  fk_bytes_put(to, &e->cells.n, sizeof e->cells.n);
  fk_bytes_put(to, e->cells.keys, sizeof *e->cells.keys * (size_t)e->cells.n);
  for (int64_t i = 0; i < e->cells.n; i++) {
    const struct fk_envelope_filled *cell = fk_blocks_at(&e->cells, i);
    fk_bytes_put(to, cell->corner, bytes);
  }
  return FK_STATUS_OK;
}

enum fk_status fk_envelope_join(struct fk_envelope *e, struct fk_bytes *from, double scale, struct fk_error *err) {
  int64_t n, corners = (int64_t)1 << e->spec.d;
  double mass;
  const unsigned char *keys;
  if (!fk_bytes_get(from, &mass, sizeof mass) || !fk_bytes_get(from, &n, sizeof n) || n < 0 || n > INT32_MAX ||
      !(keys = fk_bytes_skip(from, sizeof(uint64_t) * (size_t)n)))
    return too_short(err);
  for (int64_t i = 0; i < n; i++) {
    uint64_t key;
    double corner[1 << FK_GRID_MAX_D];
    memcpy(&key, keys + sizeof key * (size_t)i, sizeof key);
    if (!fk_bytes_get(from, corner, sizeof *corner * (size_t)corners)) return too_short(err);
    int64_t at = fk_blocks_insert(&e->found[0], key);
    if (at < 0) return fk_no_memory(err, 0, "a part of a bound");
    struct fk_envelope_filled *cell = fk_blocks_at(&e->found[0], at);
    for (int64_t c = 0; c < corners; c++) cell->corner[c] += scale * corner[c];
  }
  e->mass += scale * mass;
  return FK_STATUS_OK;
}

/* The points of an envelope: sources and targets to their cells, and the bound at targets. */
#include "envelope_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "../simd/unroll.h"

enum {
  LOOK = 480, /* points looked at together: whole blocks */
  CORNERS = 1 << FK_GRID_MAX_D
};

/* ---- to their cells --------------------------------------------------------------------------- */

/* One call's points: cut into pieces, each with a table of its own, so that sums do not depend on the threads. */
struct envelope_call {
  struct fk_envelope *e;
  const struct fk_envelope_points *points;
  bool sources, targets, again; /* again: where the points are is known */
  int64_t first, n;
  int pieces;
  bool failed[FK_ENVELOPE_PIECES], outside[FK_ENVELOPE_PIECES];
  double total[FK_ENVELOPE_PIECES];
};

static inline __attribute__((always_inline)) void add_hats(double *corner, const double *fraction, int64_t ld,
                                                           const int d, double mass) {
  double weight[CORNERS];
  weight[0] = mass;
  FK_UNROLL
  for (int k = 0; k < d; k++) {
    double f = fraction[k * ld];
    FK_UNROLL
    for (int c = 0; c < 1 << k; c++) {
      weight[c + (1 << k)] = weight[c] * f;
      weight[c] -= weight[c + (1 << k)];
    }
  }
  FK_UNROLL
  for (int c = 0; c < 1 << d; c++) corner[c] += weight[c];
}

static void add_mass(double *corner, const double *fraction, int64_t ld, int d, double mass) {
  switch (d) { /* lengths that compilers know */
    case 1: add_hats(corner, fraction, ld, 1, mass); break;
    case 2: add_hats(corner, fraction, ld, 2, mass); break;
    case 3: add_hats(corner, fraction, ld, 3, mass); break;
    default: add_hats(corner, fraction, ld, d, mass);
  }
}

/* Points of one piece, as many as are looked at together. */
struct look {
  const double *fraction;
  double u[LOOK * FK_GRID_MAX_D], work[LOOK * FK_GRID_MAX_D], fractions[LOOK * FK_GRID_MAX_D], mass[LOOK];
  uint64_t keys[LOOK];
  struct fk_envelope_filled *cells[LOOK];
};

static void weigh(const struct envelope_call *c, int64_t first, int64_t count, struct look *l) {
  const struct fk_envelope_points *p = c->points;
  if (c->sources && p->mass) p->mass(p->data, first, count, l->mass);
  for (int64_t r = 0; r < count && !(c->sources && p->mass); r++) l->mass[r] = c->sources;
}

/* Keys and places in the cells. False: a point is too far out. */
static bool locate(const struct envelope_call *c, int64_t first, int64_t count, struct look *l) {
  const struct fk_envelope_points *p = c->points;
  struct fk_grid_points whitened = {l->u, count, LOOK};
  if (p->raw) fk_whiten(p->whitening, p->raw, NULL, first, count, l->u, LOOK, l->work);
  return p->raw ? c->e->ops->locate(&c->e->cells_layout, &whitened, 0, count, l->keys, l->fractions, LOOK)
                : c->e->ops->locate(&c->e->cells_layout, p->whitened, first, count, l->keys, l->fractions, LOOK);
}

/* The cells of points, all of them before they are used: most are not in the first caches. */
static bool look_up(const struct envelope_call *c, int64_t piece, int64_t first, int64_t count, struct look *l) {
  struct fk_blocks *found = &c->e->found[piece];
  int64_t d = c->e->spec.d;
  l->fraction = l->fractions;
  if (c->again) {
    l->fraction = c->e->fraction + first * d;
    for (int64_t r = 0; r < count; r++) {
      l->cells[r] = fk_blocks_at(found, c->e->cell[first + r]);
      __builtin_prefetch(l->cells[r], 1);
    }
    return true;
  }
  for (int64_t r = 0; r < count; r++) {
    int64_t at = fk_blocks_find(found, l->keys[r]);
    if (at < 0) at = fk_blocks_insert(found, l->keys[r]);
    if (at < 0) return false;
    l->cells[r] = fk_blocks_at(found, at);
    __builtin_prefetch(l->cells[r], 1);
    if (c->e->cell) c->e->cell[first + r] = (uint32_t)at;
  }
  for (int64_t k = 0; c->e->fraction && k < d; k++)
    memcpy(c->e->fraction + first * d + k * count, l->fractions + k * LOOK, (size_t)count * sizeof(double));
  return true;
}

static void add_piece(struct envelope_call *c, int64_t piece) {
  const struct fk_envelope *e = c->e;
  int64_t begin = c->first + c->n * piece / c->pieces, end = c->first + c->n * (piece + 1) / c->pieces;
  bool targets = c->targets && !c->again;
  struct look l;
  double total = 0;
  for (int64_t i = begin; i < end; i += LOOK) {
    int64_t count = fk_smaller(LOOK, end - i), ld = c->again ? count : LOOK;
    c->outside[piece] = !c->again && !locate(c, i, count, &l);
    c->failed[piece] = !c->outside[piece] && !look_up(c, piece, i, count, &l);
    if (c->outside[piece] || c->failed[piece]) return;
    weigh(c, i, count, &l);
    for (int64_t r = 0; r < count; r++) {
      double mass = l.mass[r], *corner = l.cells[r]->corner;
      if (targets && l.cells[r]->targets++ == 0) l.cells[r]->row = i + r;
      if (mass > 0) add_mass(corner, l.fraction + r, ld, e->spec.d, mass);
      if (mass > 0 && e->spec.counted)
        add_mass(corner + ((size_t)1 << e->spec.d), l.fraction + r, ld, e->spec.d, 1);
      total += mass;
    }
  }
  c->total[piece] = total;
}

static void add_pieces(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  for (int64_t piece = first; piece < end; piece++) add_piece(data, piece);
}

static enum fk_status add_some(struct envelope_call *c, struct fk_error *err) {
  struct fk_envelope *e = c->e;
  c->pieces = (int)fk_larger(1, fk_smaller(e->pieces, c->n / fk_costs.grid_cpu.envelope_piece[1]));
  int threads = fk_threads_for_work(e->spec.threads, 60.0 * (double)(c->n << e->spec.d));
  fk_parallel_for(threads, c->pieces, 1, add_pieces, c);
  for (int i = 0; i < c->pieces; i++) {
    if (c->outside[i])
      return fk_fail(err, FK_STATUS_UNSUPPORTED,
                     "points are too far apart, in bandwidths, for a grid in %d dimensions", e->spec.d);
    if (c->failed[i]) return fk_envelope_no_memory(err);
    e->mass += c->total[i];
  }
  return FK_STATUS_OK;
}

/* So many at a time that an interrupt is heard soon. */
static enum fk_status add(struct envelope_call *c, struct fk_error *err) {
  int64_t step = fk_costs.grid_cpu.envelope_step, n = c->points->raw ? c->points->raw->n : c->points->whitened->n;
  enum fk_status status = FK_STATUS_OK;
  c->e->merged = false;
  for (c->first = 0; c->first < n && !status; c->first += step) {
    c->n = fk_smaller(step, n - c->first);
    status = add_some(c, err);
    if (!status) status = fk_look_up(&c->e->spec.poll, 0, err);
  }
  return status;
}

/* Without memory for it nothing is remembered. */
static void remember(struct fk_envelope *e, int64_t n) {
  e->cell = fk_aligned_alloc(sizeof *e->cell * (size_t)n);
  e->fraction = fk_aligned_alloc(sizeof *e->fraction * (size_t)(n * e->spec.d));
  if (e->cell && e->fraction) return;
  fk_aligned_free(e->cell);
  fk_aligned_free(e->fraction);
  e->cell = NULL;
  e->fraction = NULL;
}

enum fk_status fk_envelope_add(struct fk_envelope *e, const struct fk_envelope_points *sources, bool targets_too,
                               struct fk_error *err) {
  struct envelope_call c = {
      .e = e, .points = sources, .sources = true, .targets = targets_too, .again = e->placed};
  int64_t n = sources->raw ? sources->raw->n : sources->whitened->n;
  if (e->spec.stays && !e->cell && targets_too && n <= fk_costs.grid_cpu.envelope_step) remember(e, n);
  enum fk_status status = add(&c, err);
  e->placed = !status && e->cell != NULL;
  return status;
}

enum fk_status fk_envelope_expect(struct fk_envelope *e, const struct fk_envelope_points *targets,
                                  struct fk_error *err) {
  struct envelope_call c = {.e = e, .points = targets, .targets = true};
  return add(&c, err);
}

/* ---- at targets ------------------------------------------------------------------------------- */

struct at {
  const struct fk_envelope *e;
  const struct fk_grid_points *targets;
  double *error;
};

static void interpolate(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct at *a = data;
  const struct fk_envelope *e = a->e;
  int64_t corners = (int64_t)1 << e->spec.d;
  uint64_t keys[LOOK];
  double fractions[LOOK * FK_GRID_MAX_D];
  for (int64_t i = first; i < end; i += LOOK) {
    int64_t count = fk_smaller(LOOK, end - i);
    bool inside = e->ops->locate(&e->cells_layout, a->targets, i, count, keys, fractions, LOOK);
    for (int64_t r = 0; r < count; r++) {
      double weight[CORNERS] = {0}, sum = 0;
      int64_t cell = inside ? fk_blocks_find(&e->cells, keys[r]) : -1, at = cell < 0 ? -1 : e->bound_of[cell];
      if (at >= 0) add_mass(weight, fractions + r, LOOK, e->spec.d, 1);
      for (int64_t c = 0; at >= 0 && c < corners; c++) sum += weight[c] * e->at_corners[at * corners + c];
      a->error[i + r] = at < 0 ? (double)INFINITY : sum * (1 + 1e-12);
    }
  }
}

enum fk_status fk_envelope_at(const struct fk_envelope *e, const struct fk_grid_points *targets, double *error,
                              struct fk_error *err) {
  struct at a = {e, targets, error};
  if (!e->merged)
    return fk_fail(err, FK_STATUS_INVALID, "the bound of the grid's error is not ready: merge its parts first");
  int threads = fk_threads_for_work(e->spec.threads, (double)(targets->n << e->spec.d) * 20);
  fk_parallel_for(threads, targets->n, 8 * LOOK, interpolate, &a);
  return FK_STATUS_OK;
}

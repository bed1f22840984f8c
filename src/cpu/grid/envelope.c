#include "envelope_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/costs.h"
#include "../../core/count.h"

enum fk_status fk_envelope_no_memory(struct fk_error *err) {
  return fk_no_memory(err, 0, "the bound of the grid's error");
}

/* ---- layouts ---------------------------------------------------------------------------------- */

static int64_t coordinate(const struct fk_layout *l, uint64_t key, int k) {
  uint64_t mask = ((uint64_t)1 << l->bits) - 1;
  return (int64_t)(key >> l->shift[k] & mask) - ((int64_t)1 << (l->bits - 1));
}

/* The block of a node, and its place there. */
static uint64_t node(const struct fk_layout *l, const int64_t *at, int64_t *place) {
  uint64_t key = l->bias;
  int64_t stride = 1;
  *place = 0;
  for (int k = 0; k < l->d; k++) {
    int64_t side = l->side[k], block = at[k] >= 0 ? at[k] / side : -((side - 1 - at[k]) / side);
    key += (uint64_t)block << l->shift[k];
    *place += (at[k] - block * side) * stride;
    stride *= side;
  }
  return key;
}

/* ---- life ------------------------------------------------------------------------------------- */

static void set_most(struct fk_envelope *e) {
  double nodes = e->spec.most_nodes;
  int64_t most = nodes > 0 ? 1 + (int64_t)(nodes / (double)e->layout.cells) : 0;
  e->nodes.most = e->result.most = e->between.most = most;
}

enum fk_status fk_envelope_create(const struct fk_envelope_spec *spec, struct fk_envelope **envelope,
                                  struct fk_error *err) {
  struct fk_envelope *e = *envelope = calloc(1, sizeof *e);
  if (!e) return fk_envelope_no_memory(err);
  int d = spec->d;
  size_t corners = (size_t)(1 + spec->counted) << d,
         cell = sizeof(struct fk_envelope_filled) + corners * sizeof(double);
  e->spec = *spec;
  e->ops = fk_grid_ops(false);
  e->use = (spec->laplace != 0 ? FK_WINDOW_LAPLACE : 0) | (spec->gradient ? FK_WINDOW_GRADIENT : 0);
  e->parts = 1 << ((spec->laplace != 0) + spec->gradient);
  /* each has a table, whose cells take 8 bytes a corner */
  double pieces = spec->points / (double)fk_costs.grid_cpu.envelope_piece[0];
  e->pieces = (int)fmax(1, fmin(d <= 3 ? FK_ENVELOPE_PIECES : d <= 5 ? 4 : 2, pieces));
  fk_grid_lay_out(&e->cells_layout, d, 1, true);
  fk_grid_lay_out(&e->layout, d, 1, false);
  for (int i = 0; i < FK_ENVELOPE_PIECES; i++) fk_blocks_init(&e->found[i], cell, true);
  fk_blocks_init(&e->cells, cell, true);
  size_t block = (size_t)e->layout.cells * sizeof(double);
  fk_blocks_init(&e->nodes, (size_t)(1 + spec->counted) * block, true);
  fk_blocks_init(&e->needed, 0, false);
  fk_blocks_init(&e->result, (2 * (size_t)e->parts + spec->counted) * block, false);
  fk_blocks_init(&e->between, (2 * (size_t)e->parts + spec->counted) * block, false);
  set_most(e);
  return FK_STATUS_OK;
}

static bool is_of(const struct fk_envelope *e, const struct fk_envelope_spec *spec) {
  const struct fk_envelope_spec *own = &e->spec;
  return own->d == spec->d && own->threads == spec->threads && own->plain == spec->plain &&
         own->laplace == spec->laplace && own->gradient == spec->gradient && own->points == spec->points &&
         own->counted == spec->counted;
}

bool fk_envelope_reuse(struct fk_envelope *e, const struct fk_envelope_spec *spec) {
  if (!is_of(e, spec)) return false;
  e->spec = *spec;
  set_most(e);
  return true;
}

static void free_tables(struct fk_envelope *e) {
  struct fk_blocks *tables[] = {&e->cells, &e->nodes, &e->needed, &e->result, &e->between};
  for (int i = 0; i < 5; i++) fk_blocks_free(tables[i]);
}

double fk_envelope_empty(struct fk_envelope *e) {
  size_t corners = sizeof(double) * (size_t)(1 + e->spec.counted) << e->spec.d;
  double bytes = e->spec.points * (double)(sizeof *e->cell + sizeof *e->fraction * (size_t)e->spec.d);
  for (int i = 0; i < FK_ENVELOPE_PIECES; i++) bytes += (double)e->found[i].n * (double)e->found[i].bytes;
  if (!e->placed) return 0;
  for (int i = 0; i < FK_ENVELOPE_PIECES; i++)
    for (int64_t j = 0; j < e->found[i].n; j++) {
      struct fk_envelope_filled *cell = fk_blocks_at(&e->found[i], j);
      memset(cell->corner, 0, corners);
    }
  free_tables(e);
  e->merged = false;
  e->mass = 0;
  return bytes;
}

void fk_envelope_free(struct fk_envelope *e) {
  if (!e) return;
  fk_aligned_free(e->cell);
  fk_aligned_free(e->fraction);
  for (int i = 0; i < FK_ENVELOPE_PIECES; i++) fk_blocks_free(&e->found[i]);
  free_tables(e);
  free(e->bounds);
  free(e->cell_of);
  free(e->at_corners);
  free(e->bound_of);
  free(e);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

bool fk_envelope_gather(struct fk_envelope *e) {
  int corners = (1 + e->spec.counted) << e->spec.d;
  for (int i = 0; i < FK_ENVELOPE_PIECES; i++) {
    for (int64_t j = 0; j < e->found[i].n; j++) {
      const struct fk_envelope_filled *from = fk_blocks_at(&e->found[i], j);
      int64_t at = fk_blocks_insert(&e->cells, e->found[i].keys[j]);
      if (at < 0) return false;
      struct fk_envelope_filled *to = fk_blocks_at(&e->cells, at);
      if (from->targets && !to->targets) to->row = from->row;
      to->targets += from->targets;
      for (int c = 0; c < corners; c++) to->corner[c] += from->corner[c];
    }
    if (!e->placed) fk_blocks_clear(&e->found[i]);
  }
  return true;
}

struct fk_envelope_corners fk_envelope_corners_of(const struct fk_envelope *e, uint64_t cell) {
  struct fk_envelope_corners c = {.apart = false};
  int64_t stride = 1, rest = 0;
  for (int k = 0; k < e->spec.d; k++) c.at[k] = coordinate(&e->cells_layout, cell, k);
  c.key = node(&e->layout, c.at, &c.place);
  rest = c.place;
  for (int k = 0; k < e->spec.d; k++) {
    stride = e->layout.side[k];
    if (rest % stride == stride - 1) c.apart = true;
    rest /= stride;
  }
  return c;
}

uint64_t fk_envelope_corner_key(const struct fk_envelope *e, const struct fk_envelope_corners *c, int corner,
                                int64_t *place) {
  int64_t at[FK_GRID_MAX_D], stride = 1;
  if (c->apart) {
    for (int k = 0; k < e->spec.d; k++) at[k] = c->at[k] + (corner >> k & 1);
    return node(&e->layout, at, place);
  }
  *place = c->place;
  for (int k = 0; k < e->spec.d; k++) {
    *place += (corner >> k & 1) * stride;
    stride *= e->layout.side[k];
  }
  return c->key;
}

static bool fill_nodes(struct fk_envelope *e) {
  uint64_t key, last = 0;
  int64_t place, block = -1;
  fk_blocks_clear(&e->nodes);
  fk_blocks_clear(&e->needed);
  for (int64_t i = 0; i < e->cells.n; i++) {
    const struct fk_envelope_filled *cell = fk_blocks_at(&e->cells, i);
    struct fk_envelope_corners corners = fk_envelope_corners_of(e, e->cells.keys[i]);
    for (int c = 0; c < 1 << e->spec.d; c++) {
      key = fk_envelope_corner_key(e, &corners, c, &place);
      if (cell->targets && (c == 0 || corners.apart) && fk_blocks_insert(&e->needed, key) < 0) return false;
      if (cell->corner[c] == 0) continue;
      if (block < 0 || key != last) block = fk_blocks_insert(&e->nodes, key);
      if (block < 0) return false;
      last = key;
      double *to = (double *)fk_blocks_at(&e->nodes, block) + place;
      *to += cell->corner[c];
      if (e->spec.counted) to[e->layout.cells] += cell->corner[c + (1 << e->spec.d)];
    }
  }
  return true;
}

/* To the next place of a box of cells, or (more 1) of nodes. */
static void step(const struct fk_envelope *e, const struct fk_grid_cells *box, int more, int64_t *at) {
  for (int k = 0; k < e->spec.d; k++) {
    if (++at[k] < box->low[k] + box->cells[k] + more) return;
    at[k] = box->low[k];
  }
}

static bool take_nodes(struct fk_envelope *e, const struct fk_grid_cells *box) {
  int64_t at[FK_GRID_MAX_D], n = 1, place, block = -1;
  uint64_t last = 0;
  for (int k = 0; k < e->spec.d; k++) {
    at[k] = box->low[k];
    n *= box->cells[k] + 1;
  }
  for (int64_t i = 0; i < n; i++, step(e, box, 1, at)) {
    if (box->mass[i] == 0) continue;
    uint64_t key = node(&e->layout, at, &place);
    if (block < 0 || key != last) block = fk_blocks_insert(&e->nodes, key);
    if (block < 0) return false;
    last = key;
    double *to = (double *)fk_blocks_at(&e->nodes, block) + place, mass = (double)box->mass[i] * box->unit;
    *to = mass;
    if (e->spec.counted) to[e->layout.cells] = (double)box->count[i] * box->unit;
    e->mass += mass;
  }
  return true;
}

static bool take_cells(struct fk_envelope *e, const struct fk_grid_cells *box) {
  int64_t at[FK_GRID_MAX_D], n = 1, place;
  uint64_t last = 0;
  for (int k = 0; k < e->spec.d; k++) {
    at[k] = box->low[k];
    n *= box->cells[k];
  }
  for (int64_t i = 0; i < n; i++, step(e, box, 0, at)) {
    if (box->targets[i] == 0) continue;
    uint64_t key = e->cells_layout.bias;
    for (int k = 0; k < e->spec.d; k++) key += (uint64_t)at[k] << e->cells_layout.shift[k];
    int64_t number = fk_blocks_insert(&e->cells, key);
    if (number < 0) return false;
    struct fk_envelope_filled *cell = fk_blocks_at(&e->cells, number);
    cell->targets = (int64_t)box->targets[i];
    cell->row = (int64_t)box->row[i];
    struct fk_envelope_corners corners = fk_envelope_corners_of(e, key);
    for (int c = 0; c < (corners.apart ? 1 << e->spec.d : 1); c++) {
      uint64_t block = fk_envelope_corner_key(e, &corners, c, &place);
      if ((e->needed.n == 0 || block != last) && fk_blocks_insert(&e->needed, block) < 0) return false;
      last = block;
    }
  }
  return true;
}

static bool list_bounds(struct fk_envelope *e) {
  int64_t n = e->cells.n, corners = (int64_t)1 << e->spec.d;
  free(e->bounds);
  free(e->cell_of);
  free(e->at_corners);
  free(e->bound_of);
  e->n_bounds = 0;
  e->bound_of = malloc((size_t)(n + 1) * sizeof *e->bound_of);
  for (int64_t i = 0; i < n && e->bound_of; i++) {
    const struct fk_envelope_filled *cell = fk_blocks_at(&e->cells, i);
    e->bound_of[i] = cell->targets ? e->n_bounds++ : -1;
  }
  e->bounds = malloc((size_t)(e->n_bounds + 1) * sizeof *e->bounds);
  e->cell_of = malloc((size_t)(e->n_bounds + 1) * sizeof *e->cell_of);
  e->at_corners = malloc((size_t)(e->n_bounds * corners + 1) * sizeof(double));
  if (!e->bound_of || !e->bounds || !e->cell_of || !e->at_corners) return false;
  for (int64_t i = 0; i < n; i++) {
    const struct fk_envelope_filled *cell = fk_blocks_at(&e->cells, i);
    if (!cell->targets) continue;
    e->bounds[e->bound_of[i]] = (struct fk_envelope_cell){.targets = cell->targets, .row = cell->row};
    e->cell_of[e->bound_of[i]] = i;
  }
  return true;
}

enum fk_status fk_envelope_prepare(struct fk_envelope *e, struct fk_error *err) {
  if (e->merged) return FK_STATUS_OK;
  if (!fk_envelope_gather(e)) return fk_envelope_no_memory(err);
  bool fits = fill_nodes(e);
  if (!fits && e->nodes.most && e->nodes.n >= e->nodes.most)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a grid");
  if (!fits || !list_bounds(e)) return fk_envelope_no_memory(err);
  e->merged = true;
  return FK_STATUS_OK;
}

enum fk_status fk_envelope_take(struct fk_envelope *e, const struct fk_grid_cells *box, struct fk_error *err) {
  for (int k = 0; k < e->spec.d; k++) {
    double most = fmax(fabs((double)box->low[k]), fabs((double)(box->low[k] + box->cells[k])));
    if (most >= e->cells_layout.limit[k])
      return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too far apart for a grid in %d dimensions",
                     e->spec.d);
  }
  bool fits = take_nodes(e, box);
  if (!fits && e->nodes.most && e->nodes.n >= e->nodes.most)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a grid");
  if (!fits || !take_cells(e, box) || !list_bounds(e)) return fk_envelope_no_memory(err);
  e->merged = true;
  return FK_STATUS_OK;
}

double fk_envelope_reach(const struct fk_envelope *e) {
  double reach = 0;
  for (int64_t i = 0; i < e->n_bounds; i++)
    for (int k = 0; k < e->spec.d; k++) {
      double at = (double)coordinate(&e->cells_layout, e->cells.keys[e->cell_of[i]], k);
      reach = fmax(reach, fmax(fabs(at), fabs(at + 1)));
    }
  return reach;
}

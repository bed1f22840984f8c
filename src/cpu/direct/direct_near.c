/* Which sources matter for a box of targets: as few as the bound on the others allows.
 *
 * The bound counts: a cell of mass W whose nearest point is r away adds at most W |f| exp(-r^2/2). Cells for which
 * that is next to nothing are left out whole. The others are sorted by distance, and the cutoff goes in from the
 * outside for as long as what it leaves out fits the budget.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "direct_parts.h"

void fk_reach_init(struct fk_reach *reach, const struct fk_direct *direct, const struct fk_direct_job *job) {
  reach->direct = direct;
  for (int k = 0; k < 3; k++) reach->factor[k] = fabs(job->factor[k]);
  reach->gradient = job->gradient != NULL;
  reach->plain = !reach->gradient && job->factor[0] == 1 && job->factor[1] == 0 && job->factor[2] == 0;
}

/* An upper bound of |f(q/2)| exp(-(q - offset)/2), for the gradient times |x - y|, over q >= q0 and offset. The
 * polynomial is of degree 3 at most, so that it falls from q/2 = 3 on. */
static double reach_at(const struct fk_reach *reach, double q0, double offset) {
  q0 = q0 > offset ? q0 : offset;
  double step = (q0 - offset) * (1 / FK_DECAY_PER_STEP), h = q0 > 6 ? q0 / 2 : 3;
  double decay = step < FK_DECAY_STEPS ? reach->direct->decay[(int)step] : exp(-0.5 * (q0 - offset));
  if (reach->plain) return decay;
  decay *= reach->factor[0] + h * (reach->factor[1] + h * reach->factor[2]);
  return reach->gradient ? decay * (0.5 + h) : decay; /* sqrt(2 h) <= 0.5 + h */
}

static bool add_piece(struct fk_direct_near *near, const struct fk_cells *cells, int64_t i, double near2) {
  const struct fk_cell *cell = cells->cells + i;
  if (near->n_pieces == near->capacity) {
    int64_t capacity = 2 * near->capacity + 256;
    struct fk_piece *more = realloc(near->pieces, sizeof *more * (size_t)capacity);
    if (!more) return false;
    near->pieces = more;
    near->capacity = capacity;
  }
  near->pieces[near->n_pieces++] = (struct fk_piece){(uint32_t)i, cell->first, cell->end, near2};
  return true;
}

bool fk_direct_near_within(struct fk_direct_near *near, const struct fk_direct *direct, const double *box,
                           double cut2) {
  const struct fk_cells *cells = &direct->cells;
  near->n_pieces = 0;
  near->cut2 = cut2;
  near->left_out = 0;
  for (int64_t i = 0; i < cells->n_cells;) {
    const struct fk_cell *cell = cells->cells + i;
    double near2 = fk_boxes_near2(box, fk_cell_box(cells, i), cells->d);
    bool far = near2 > cut2 || direct->mass[i] == 0, leaf = fk_cell_is_leaf(cells, i);
    if (!far && leaf && !add_piece(near, cells, i, near2)) return false;
    i = far || leaf ? cell->skip : i + 1;
  }
  return true;
}

static int step_of(double q, double offset) {
  double step = (q - offset) * (1 / FK_DECAY_PER_STEP);
  return step < 0 ? 0 : step < FK_DECAY_STEPS ? (int)step : FK_DECAY_STEPS;
}

/* At least so much it adds to each sum: what stands in the box, as if all of it were in its farthest corner. */
static void count_leaf(struct fk_direct_near *near, const struct fk_reach *reach,
                       const struct fk_direct_near_ask *ask, int64_t i, double near2) {
  const struct fk_direct *s = reach->direct;
  const struct fk_cell *cell = s->cells.cells + i;
  double far2 = fk_boxes_far2(ask->box, fk_cell_box(&s->cells, i), s->cells.d);
  int far = step_of(far2, ask->offset);
  near->bins[step_of(near2, ask->offset)] += s->mass[i];
  near->far_bins[far] += s->mass[i];
  bool own = cell->first < ask->own_end && ask->own_first < cell->end;
  if (!own && far + 1 < FK_DECAY_STEPS) near->least += s->mass[i] * s->decay[far + 1];
}

/* Cells whose bound is above `negligible`; the sum of the others' goes to left_out. */
static bool collect(struct fk_direct_near *near, const struct fk_reach *reach,
                    const struct fk_direct_near_ask *ask, double negligible) {
  int64_t visited = 0;
  const struct fk_cells *cells = &reach->direct->cells;
  const double *mass = reach->direct->mass;
  near->n_pieces = 0;
  near->left_out = 0;
  near->least = 0;
  memset(near->bins, 0, sizeof near->bins);
  memset(near->far_bins, 0, sizeof near->far_bins);
  for (int64_t i = 0; i < cells->n_cells; visited++) {
    const struct fk_cell *cell = cells->cells + i;
    double near2 = fk_boxes_near2(ask->box, fk_cell_box(cells, i), cells->d);
    double most = mass[i] == 0 ? 0 : mass[i] * reach_at(reach, near2, ask->offset);
    if (most <= negligible) {
      near->left_out += most;
      i = cell->skip;
    } else if (fk_cell_is_leaf(cells, i)) {
      count_leaf(near, reach, ask, i, near2);
      if (!add_piece(near, cells, i, near2)) return false;
      i = cell->skip;
    } else {
      i++;
    }
  }
  near->visited += (double)visited;
  near->least = fmax(ask->least, near->least * (1 - 1e-12));
  return true;
}

static double budget_of(const struct fk_direct_near *near, const struct fk_direct_near_ask *ask) {
  return fmax(ask->budget, ask->tol * near->least);
}

/* The cutoff goes in, step by step: the mass outside counts by its distance, that of boxes which the cutoff cuts
 * as if all of it were just beyond. */
static void choose_cutoff(struct fk_direct_near *near, const struct fk_reach *reach, double offset,
                          double budget) {
  int top = FK_DECAY_STEPS;
  double within = 0, uncut = 0, outside = near->left_out;
  for (int i = 0; i <= FK_DECAY_STEPS; i++) within += near->bins[i];
  near->cut2 = INFINITY;
  near->inside = within;
  if (near->bins[FK_DECAY_STEPS] > 0) return; /* the budget is next to nothing */
  while (top > 0 && near->far_bins[top - 1] == 0 && near->bins[top - 1] == 0) top--;
  for (int i = 0; i < top; i++) uncut += near->far_bins[i];
  for (int step = top; step > 0; step--) {
    double cut2 = offset + step * FK_DECAY_PER_STEP, cut = fmax(0, within - uncut) + 1e-15 * within;
    double left_out = outside + cut * reach_at(reach, cut2, offset);
    if (!(left_out <= budget)) return;
    near->cut2 = cut2;
    near->left_out = left_out;
    near->inside = within;
    within -= near->bins[step - 1];
    uncut -= near->far_bins[step - 1];
    outside += near->bins[step - 1] * reach_at(reach, cut2 - FK_DECAY_PER_STEP, offset);
  }
}

bool fk_direct_near_find(struct fk_direct_near *near, const struct fk_reach *reach,
                         const struct fk_direct_near_ask *ask) {
  double share = 1.0 / 256;
  near->least = ask->least;
  for (int attempt = 0;; attempt++) {
    if (!collect(near, reach, ask, attempt < 4 ? budget_of(near, ask) * share : 0)) return false;
    if (near->left_out <= 0.25 * budget_of(near, ask) || attempt == 4) break;
    share /= 8;
  }
  choose_cutoff(near, reach, ask->offset, budget_of(near, ask));
  int64_t kept = 0;
  for (int64_t i = 0; i < near->n_pieces; i++) {
    struct fk_piece piece = near->pieces[i];
    if (piece.near2 <= near->cut2) near->pieces[kept++] = piece;
  }
  near->n_pieces = kept;
  return true;
}

/* ---- the nearest ------------------------------------------------------------------------------ */

/* The children of a cell, the nearer one first. */
struct branches {
  int64_t cell[2];
  double near2[2];
};

static struct branches branches_of(const struct fk_direct *s, int64_t i, const double *box) {
  const struct fk_cells *cells = &s->cells;
  struct branches b = {{i + 1, cells->cells[i + 1].skip}, {0, 0}};
  for (int k = 0; k < 2; k++)
    b.near2[k] = s->mass[b.cell[k]] > 0 ? fk_boxes_near2(box, fk_cell_box(cells, b.cell[k]), cells->d) : INFINITY;
  if (b.near2[0] <= b.near2[1]) return b;
  return (struct branches){{b.cell[1], b.cell[0]}, {b.near2[1], b.near2[0]}};
}

struct nearest {
  int64_t at; /* -1: none */
  double near2;
};

static void search_leaves(const struct fk_direct *s, int64_t i, const double *box, double near2,
                          struct nearest *best) {
  if (fk_cell_is_leaf(&s->cells, i)) {
    *best = (struct nearest){i, near2};
    return;
  }
  struct branches b = branches_of(s, i, box);
  for (int k = 0; k < 2; k++)
    if (b.near2[k] < best->near2) search_leaves(s, b.cell[k], box, b.near2[k], best);
}

int64_t fk_direct_near_leaf(const struct fk_direct *s, const double *box, double *near2) {
  struct nearest best = {-1, INFINITY};
  if (s->cells.n > 0 && s->mass[0] > 0) {
    double root2 = fk_boxes_near2(box, fk_cell_box(&s->cells, 0), s->cells.d);
    if (root2 < INFINITY) search_leaves(s, 0, box, root2, &best);
  }
  *near2 = best.near2;
  return best.at;
}

static bool has_mass(const struct fk_direct *s, int64_t j) {
  if (!s->columns) return true;
  for (int c = 0; c < s->n_columns; c++)
    if (s->columns[c * s->cells.n + j] != 0) return true;
  return false;
}

static void search_leaf(const struct fk_direct *s, const struct fk_cell *leaf, const double *x, int64_t self,
                        struct nearest *best) {
  const struct fk_cells *cells = &s->cells;
  double q[FK_DIRECT_LEAF] = {0};
  int count = (int)(leaf->end - leaf->first);
  for (int k = 0; k < cells->d; k++) {
    const double *from = cells->x + k * cells->n + leaf->first;
    for (int i = 0; i < count; i++) q[i] += (from[i] - x[k]) * (from[i] - x[k]);
  }
  for (int i = 0; i < count; i++) {
    int64_t j = leaf->first + i;
    if (q[i] < best->near2 && j != self && has_mass(s, j)) *best = (struct nearest){j, q[i]};
  }
}

/* box: the point, twice. */
static void search_sources(const struct fk_direct *s, int64_t i, const double *box, int64_t self,
                           struct nearest *best) {
  if (fk_cell_is_leaf(&s->cells, i)) {
    search_leaf(s, s->cells.cells + i, box, self, best);
    return;
  }
  struct branches b = branches_of(s, i, box);
  for (int k = 0; k < 2; k++)
    if (b.near2[k] < best->near2) search_sources(s, b.cell[k], box, self, best);
}

int64_t fk_direct_near_source(const struct fk_direct *s, const double *x, int64_t self, double *near2) {
  struct nearest best = {-1, INFINITY};
  double box[2 * FK_CELLS_MAX_DIM];
  memcpy(box, x, sizeof(double) * (size_t)s->cells.d);
  memcpy(box + s->cells.d, x, sizeof(double) * (size_t)s->cells.d);
  if (s->cells.n > 0 && s->mass[0] > 0) search_sources(s, 0, box, self, &best);
  *near2 = best.near2;
  return best.at;
}

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

/* An upper bound of |f(q/2)| exp(-(q - offset)/2), for the gradient times |x - y|, over q >= q0. The polynomial is
 * of degree 3 at most, so that it falls from q/2 = 3 on. */
static double reach_at(const struct fk_reach *reach, double q0, double offset) {
  double step = (q0 - offset) * (1 / FK_DECAY_PER_STEP), h = q0 > 6 ? q0 / 2 : 3;
  double decay = step < 0                ? 1
                 : step < FK_DECAY_STEPS ? reach->direct->decay[(int)step]
                                         : exp(-0.5 * (q0 - offset));
  if (reach->plain) return decay;
  decay *= reach->factor[0] + h * (reach->factor[1] + h * reach->factor[2]);
  return reach->gradient ? decay * (0.5 + h) : decay; /* sqrt(2 h) <= 0.5 + h */
}

static bool add_piece(struct fk_near *near, const struct fk_cells *cells, int64_t i, double near2) {
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

bool fk_near_within(struct fk_near *near, const struct fk_direct *direct, const double *box, double cut2) {
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

/* Cells whose bound is above `negligible`; the sum of the others' goes to left_out. */
static bool collect(struct fk_near *near, const struct fk_reach *reach, const double *box, double offset,
                    double negligible) {
  int64_t visited = 0;
  const struct fk_cells *cells = &reach->direct->cells;
  const double *mass = reach->direct->mass;
  near->n_pieces = 0;
  near->left_out = 0;
  memset(near->bins, 0, sizeof near->bins);
  for (int64_t i = 0; i < cells->n_cells; visited++) {
    const struct fk_cell *cell = cells->cells + i;
    double near2 = fk_boxes_near2(box, fk_cell_box(cells, i), cells->d);
    double most = mass[i] == 0 ? 0 : mass[i] * reach_at(reach, near2, offset);
    if (most <= negligible) {
      near->left_out += most;
      i = cell->skip;
    } else if (fk_cell_is_leaf(cells, i)) {
      double step = (near2 - offset) * (1 / FK_DECAY_PER_STEP);
      near->bins[step < 0 ? 0 : step < FK_DECAY_STEPS ? (int)step : FK_DECAY_STEPS] += mass[i];
      if (!add_piece(near, cells, i, near2)) return false;
      i = cell->skip;
    } else {
      i++;
    }
  }
  near->visited += (double)visited;
  return true;
}

/* The cutoff goes in, step by step: the mass outside counts by its distance, that inside as if all of it were just
 * beyond the cutoff. */
static void choose_cutoff(struct fk_near *near, const struct fk_reach *reach, double offset, double budget) {
  int top = FK_DECAY_STEPS;
  double inside = 0, outside = near->left_out;
  near->cut2 = INFINITY;
  if (near->bins[FK_DECAY_STEPS] > 0) return; /* the budget is next to nothing */
  while (top > 0 && near->bins[top - 1] == 0) top--;
  for (int i = 0; i < top; i++) inside += near->bins[i];
  while (top < FK_DECAY_STEPS &&
         outside + inside * reach_at(reach, offset + top * FK_DECAY_PER_STEP, offset) > budget)
    top++;
  for (int step = top; step > 0; step--) {
    double cut2 = offset + step * FK_DECAY_PER_STEP, most = reach_at(reach, cut2, offset);
    if (!(outside + inside * most <= budget)) return;
    near->cut2 = cut2;
    near->left_out = outside + inside * most;
    inside -= near->bins[step - 1];
    outside += near->bins[step - 1] * reach_at(reach, cut2 - FK_DECAY_PER_STEP, offset);
  }
}

bool fk_near_find(struct fk_near *near, const struct fk_reach *reach, const double *box, double offset,
                  double budget) {
  double share = 1.0 / 256;
  for (int attempt = 0;; attempt++) {
    if (!collect(near, reach, box, offset, attempt < 4 ? budget * share : 0)) return false;
    if (near->left_out <= 0.25 * budget || attempt == 4) break;
    share /= 8;
  }
  choose_cutoff(near, reach, offset, budget);
  int64_t kept = 0;
  for (int64_t i = 0; i < near->n_pieces; i++) {
    struct fk_piece piece = near->pieces[i];
    if (piece.near2 <= near->cut2) near->pieces[kept++] = piece;
  }
  near->n_pieces = kept;
  return true;
}

/* What the grid's error can be at most, before anything is spread on it, and how large the sums are.
 *
 * A window has the error eps(r) in one dimension at distance r (grid/window.h), so that in d dimensions
 *
 *   |error(y)| <= sum_j |b_j| [prod_k (f + eps)(r_jk) - prod_k f(r_jk)],   f(r) = exp(-r^2 / 2).
 *
 * All terms are positive: a crude sum keeps its relative accuracy, however far away the mass lies. It is done on
 * nodes a bandwidth apart: |b| goes to the corners of its cell by hats, filters made so that the sum of hats
 * dominates f and eps at every offset take the place of both, and the hats of a target read the nodes. For
 * gradients and the Laplace correction f has more parts, f_u by enum fk_window_use, of which each factor of the
 * product may be one: numbers a + t b + u c + tu d with t^2 = u^2 = 0 carry them, one plane for each part.
 *
 *   fk_envelope_create -> fk_envelope_add ... [-> fk_envelope_expect ...] -> fk_envelope_bound ... -> free
 */
#pragma once

#include "../../grid/backend.h"
#include "grid.h"

struct fk_envelope;

/* What is summed: f = laplace (1 + d/2 - q/2) + plain, and its gradient. */
struct fk_envelope_spec {
  int d, threads;
  double plain, laplace;
  bool gradient;
  double points;     /* about how many will come */
  double most_nodes; /* 0: as many as memory takes. Beyond it a bound is FK_STATUS_UNSUPPORTED */
  bool stays;        /* where points are is remembered, for other |b| of theirs */
  bool counted;      /* points are counted beside |b|, for arithmetic that rounds each alike; where there is a b */
  struct fk_poll poll;
};

enum fk_status fk_envelope_create(const struct fk_envelope_spec *spec, struct fk_envelope **envelope,
                                  struct fk_error *err);
void fk_envelope_free(struct fk_envelope *envelope);
/* Between two uses of one that stays, which are one fk_envelope_add() of the same points each, sources and targets
 * at once. Emptied, it has no |b|, and remembers points in so many bytes; 0: none. It is of use for the sums of a
 * spec that differs in its limits alone. */
double fk_envelope_empty(struct fk_envelope *envelope);
bool fk_envelope_reuse(struct fk_envelope *envelope, const struct fk_envelope_spec *spec);

/* Points as they are, or whitened already (raw NULL). mass writes the |b| of `count` of them; NULL: ones. */
struct fk_envelope_points {
  const struct fk_matrix *raw;
  const struct fk_whitening *whitening;
  const struct fk_grid_points *whitened;
  void (*mass)(const void *data, int64_t first, int64_t count, double *mass);
  const void *data;
};

/* Sources, targets, or points that are both. FK_STATUS_UNSUPPORTED where they are too far apart for a key. */
enum fk_status fk_envelope_add(struct fk_envelope *envelope, const struct fk_envelope_points *sources,
                               bool targets_too, struct fk_error *err);
enum fk_status fk_envelope_expect(struct fk_envelope *envelope, const struct fk_envelope_points *targets,
                                  struct fk_error *err);

/* What sources have left, for another of the same spec, without counts: written, and joined, |b| times a scale. */
enum fk_status fk_envelope_put(struct fk_envelope *envelope, struct fk_bytes *to, struct fk_error *err);
enum fk_status fk_envelope_join(struct fk_envelope *envelope, struct fk_bytes *from, double scale,
                                struct fk_error *err);

/* The largest coordinate of a cell with targets, in absolute value. */
double fk_envelope_reach(const struct fk_envelope *envelope);

/* In place of all these, a box of cells whose sums are there. */
enum fk_status fk_envelope_take(struct fk_envelope *envelope, const struct fk_grid_cells *box,
                                struct fk_error *err);

/* Of a cell with targets. */
struct fk_envelope_cell {
  double error, sum; /* at most, of a target in it: the error; sum |b| exp(-q/2), which is less by up to 1.25^d */
  int64_t targets, row; /* how many, and the first of them */
};

/* What arithmetic leaves, relative: of all that is summed, and of each node's value by itself. Each total is
 * rounded to `unit` besides. place: of coordinates, that are put on a grid so far from 0; 0: it does not count. */
struct fk_envelope_rounding {
  double sums, node, unit, place;
};

/* The error with a window. NULL: the sums alone, whose errors are of no meaning. */
enum fk_status fk_envelope_bound(struct fk_envelope *envelope, const struct fk_window *window,
                                 struct fk_envelope_rounding rounding, struct fk_error *err);
/* What it found, until it is called again. */
int64_t fk_envelope_cells(const struct fk_envelope *envelope, const struct fk_envelope_cell **cells);
/* The bound at targets, which must have been expected. */
enum fk_status fk_envelope_at(const struct fk_envelope *envelope, const struct fk_grid_points *targets,
                              double *error, struct fk_error *err);

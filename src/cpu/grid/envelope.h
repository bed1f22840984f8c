/* The envelope: upper bounds of the grid's error and the size of the sums, computed before points are spread on a
 * grid.
 *
 * A window has the error eps(r) in one dimension at distance r (grid/window.h), so that in d dimensions
 *
 *   |error(y)| <= sum_j |b_j| [prod_k (f + eps)(r_jk) - prod_k f(r_jk)],   f(r) = exp(-r^2 / 2).
 *
 * All terms are positive, so that a coarse sum keeps its relative accuracy at any distance. It is computed on
 * nodes one bandwidth apart. Linear interpolation ("hats", B-splines of order 2) distributes |b| to the corners of
 * its cell and interpolates at the targets. Filters whose sum of hats is above f and eps at every offset replace f
 * and eps. For gradients and the Laplace correction f has more parts, f_u by enum fk_window_use, one of which may
 * be in each factor of the product: numbers a + t b + u c + tu d with t^2 = u^2 = 0 carry them, one plane for each
 * part.
 *
 *   fk_envelope_create -> fk_envelope_add ... [-> fk_envelope_expect ...] -> fk_envelope_bound ... -> free
 */
#pragma once

#include "../../grid/backend.h"
#include "grid.h"

struct fk_envelope;

/* The sum to be bounded: f = laplace (1 + d/2 - q/2) + plain, and its gradient. */
struct fk_envelope_spec {
  int d, threads;
  double plain, laplace;
  bool gradient;
  double points;     /* approximate number of points of the larger side */
  double most_nodes; /* limit of nodes, 0: none. Beyond it fk_envelope_bound() is FK_STATUS_UNSUPPORTED */
  bool stays;        /* store the points' positions, for later sums with other |b| */
  bool counted;      /* also count points with b, for arithmetic that rounds each point alike */
  struct fk_poll poll;
};

/* The caller frees *envelope. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_envelope_create(const struct fk_envelope_spec *spec, struct fk_envelope **envelope,
                                  struct fk_error *err);
void fk_envelope_free(struct fk_envelope *envelope);
/* Estimated time of all this on one thread, for a window and the sums before it, with `cells` cells of targets. */
double fk_envelope_seconds(const struct fk_grid_work *work, double cells);
/* For repeated use of an envelope that stays, each time with one fk_envelope_add() of the same points as sources
 * and targets. fk_envelope_empty() discards |b| and returns the bytes of the stored positions; 0: none.
 * fk_envelope_reuse() returns true if the envelope can be used for the new spec, which may differ in its limits
 * only. */
double fk_envelope_empty(struct fk_envelope *envelope);
bool fk_envelope_reuse(struct fk_envelope *envelope, const struct fk_envelope_spec *spec);

/* Points to whiten (raw), or whitened points (raw NULL). mass writes |b| of points first .. first + count - 1;
 * NULL: ones. */
struct fk_envelope_points {
  const struct fk_matrix *raw;
  const struct fk_whitening *whitening;
  const struct fk_grid_points *whitened;
  void (*mass)(const void *data, int64_t first, int64_t count, double *mass);
  const void *data;
};

/* Adds sources, which with targets_too are targets as well; adds targets. FK_STATUS_UNSUPPORTED: the points are
 * too far apart for a key. */
enum fk_status fk_envelope_add(struct fk_envelope *envelope, const struct fk_envelope_points *sources,
                               bool targets_too, struct fk_error *err);
enum fk_status fk_envelope_expect(struct fk_envelope *envelope, const struct fk_envelope_points *targets,
                                  struct fk_error *err);

/* put: serializes the sums of the sources, for an envelope of the same spec without counts. join: adds them, with
 * |b| multiplied by scale. */
enum fk_status fk_envelope_put(struct fk_envelope *envelope, struct fk_bytes *to, struct fk_error *err);
enum fk_status fk_envelope_join(struct fk_envelope *envelope, struct fk_bytes *from, double scale,
                                struct fk_error *err);

/* The largest absolute coordinate of a cell with targets, in bandwidths. */
double fk_envelope_reach(const struct fk_envelope *envelope);

/* Takes the sums of a box of cells, in place of points. */
enum fk_status fk_envelope_take(struct fk_envelope *envelope, const struct fk_grid_cells *box,
                                struct fk_error *err);

/* Bounds for a cell with targets. */
struct fk_envelope_cell {
  /* Upper bounds for a target in the cell: the error, and sum |b| exp(-q/2), which may be 1.25^d times too large.
   */
  double error, sum;
  int64_t targets, row; /* number of targets, and the first of them */
};

/* Relative rounding errors. sums: of all that is summed; node: of each node's own value; unit: totals are rounded
 * to multiples of it; place: of coordinates on the grid, 0: ignored. */
struct fk_envelope_rounding {
  double sums, node, unit, place;
};

/* Computes the bounds for a window. window NULL: computes only the sums; the errors are then meaningless. */
enum fk_status fk_envelope_bound(struct fk_envelope *envelope, const struct fk_window *window,
                                 struct fk_envelope_rounding rounding, struct fk_error *err);
/* The cells with targets and their number; *cells is valid until the next fk_envelope_bound(). */
int64_t fk_envelope_cells(const struct fk_envelope *envelope, const struct fk_envelope_cell **cells);
/* error[i]: the bound at target i. The targets must have been announced by fk_envelope_expect(). */
enum fk_status fk_envelope_at(const struct fk_envelope *envelope, const struct fk_grid_points *targets,
                              double *error, struct fk_error *err);

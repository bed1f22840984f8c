/* Distances to the k-th nearest neighbour, exactly, by the walk of ../walk.h.
 *
 * Each target keeps the squared distances below its bound; when there are many more than k, the k-th smallest
 * becomes the bound. What a bound is decides how long it takes, never what is found. */
#include "neighbours.h"

#include <math.h>

#include "../../core/plan.h"
#include "../walk.h"

/* Targets of a piece. */
enum { PIECE = 8 * FK_NEAR_TARGETS };

struct neighbours {
  int64_t k, room; /* room: squared distances that a target can keep */
  double *out;
};

/* The smallest squared distances found for the targets of a group, [target][room]. */
struct neighbours_room {
  int64_t n[FK_NEAR_TARGETS];
  double squares[];
};

/* ---- selection -------------------------------------------------------------------------------- */

/* A pivot for a selection. */
#define MEDIAN_OF(a, b, c) fmax(fmin(a, b), fmin(fmax(a, b), c))

/* Puts those below the pivot first, or those that are not above it; how many. Without branches, which would be
 * guessed wrong half of the time. NaN is not above any. */
static int64_t part(double *a, int64_t n, double pivot, bool equal) {
  int64_t low = 0;
  for (int64_t i = 0; i < n; i++) {
    double value = a[i];
    a[i] = a[low];
    a[low] = value;
    low += equal ? !(value > pivot) : value < pivot;
  }
  return low;
}

/* The k-th smallest of n numbers; the k smallest come first then. */
static double select_smallest(double *a, int64_t n, int64_t k) {
  for (;;) {
    double pivot = MEDIAN_OF(a[n / 4], a[n / 2], a[n - 1 - n / 4]);
    int64_t low = part(a, n, pivot, false);
    if (k <= low) {
      n = low;
      continue;
    }
    if (low == 0 && k <= (low = part(a, n, pivot, true))) return pivot;
    a += low, n -= low, k -= low;
  }
}

/* ---- search ----------------------------------------------------------------------------------- */

/* One 0 less, for a point's distance to itself. */
static int without_self(double *squares, int found) {
  for (int i = 0; i < found; i++)
    if (squares[i] == 0) {
      squares[i] = squares[found - 1];
      return found - 1;
    }
  return found;
}

static void neighbours_panel(struct fk_walk_group *g, int64_t panel, const double *gaps) {
  const struct fk_walk *w = g->walk;
  const struct neighbours *s = w->of;
  const double *points = fk_walk_panel(w, panel), *low = fk_walk_low(w, panel);
  struct neighbours_room *kept = g->room;
  for (int t = 0; t < g->count; t++) {
    if (!(gaps[t] < g->bound[t])) continue;
    double *own = kept->squares + t * s->room, *more = own + kept->n[t];
    int found = w->ops->near_points(points, low, w->d, g->y + t, g->low + t, g->bound[t], more);
    if (w->own && (g->first + t) / FK_NEAR_POINTS == panel) found = without_self(more, found);
    kept->n[t] += found;
    if (kept->n[t] < (g->bound[t] < INFINITY ? s->room - FK_NEAR_POINTS : s->k)) continue;
    g->bound[t] = select_smallest(own, kept->n[t], s->k);
    kept->n[t] = s->k;
  }
}

/* No k-th neighbour is further away than that of another target and the way there: a bound to begin with, with
 * room for rounding. Of the targets of the piece that are done the group before, if there is one, has the
 * closest. */
static double first_bound(const struct fk_walk_group *g, int t) {
  const struct fk_walk *w = g->walk;
  const struct neighbours *s = w->of;
  double reach = INFINITY;
  if (g->first % PIECE == 0) return INFINITY;
  for (int64_t i = g->first - FK_NEAR_TARGETS; i < g->first; i++) {
    const double *other = w->y.x + w->targets[i] * w->d;
    double square = 0;
    for (int64_t k = 0; k < w->d; k++) {
      double y = g->y[k * FK_NEAR_TARGETS + t];
      double gap = fabs(y - other[k]) + (w->y.low ? 0x1p-51 * fabs(y) : 0);
      square += gap * gap;
    }
    reach = fmin(reach, s->out[w->targets[i]] + sqrt(square));
  }
  return reach * reach * (1 + 1e-10) + 0x1p-1000;
}

static bool neighbours_group(struct fk_walk_group *g) {
  static const struct fk_walk_look look = {fk_walk_near_gap, fk_walk_near_opens, neighbours_panel};
  const struct fk_walk *w = g->walk;
  const struct neighbours *s = w->of;
  struct neighbours_room *kept = g->room;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    g->bound[t] = first_bound(g, t);
    kept->n[t] = 0;
  }
  fk_walk_through(g, &look);
  for (int t = 0; t < g->count; t++) {
    bool enough = kept->n[t] >= s->k; /* others are too far away for numbers */
    double square = enough ? select_smallest(kept->squares + t * s->room, kept->n[t], s->k) : INFINITY;
    s->out[w->targets[g->first + t]] = sqrt(square);
  }
  return true;
}

enum fk_status fk_neighbour_distances(const struct fk_neighbours *of, const struct fk_opts *opts, double *out,
                                      struct fk_stats *stats, struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_NEIGHBOURS,
      .width = FK_NEAR_TARGETS,
      .piece = PIECE,
      .few = 16,
      .padding = INFINITY,
      .group = neighbours_group,
  };
  const struct neighbours s = {of->k, fk_smaller(2 * of->k + FK_NEAR_POINTS, of->n) + FK_NEAR_POINTS, out};
  struct fk_walk walk = {.rule = &rule, .of = &s, .d = of->d};
  walk.x = (struct fk_walk_points){of->x, of->x_low, of->n};
  walk.y = (struct fk_walk_points){of->y, of->y_low, of->m};
  walk.room = sizeof(struct neighbours_room) + sizeof(double) * (size_t)(FK_NEAR_TARGETS * s.room);
  walk.work = (double)fk_smaller(4 * of->k + 100, of->n) * fk_plan_pair_work(FK_OP_NEIGHBOURS, of->d, 1);
  return fk_walk_run(&walk, opts, stats, err);
}

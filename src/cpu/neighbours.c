/* Distances to the k-th nearest neighbour, exactly, by a k-d tree.
 *
 * Each target keeps the squared distances below its bound; when there are many more than k, the k-th smallest
 * becomes the bound. What a bound is decides how long it takes, never what is found. */
#include "../core/neighbours.h"

#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "near_tree.h"

/* Targets of a piece of the loop. Fewer targets than FEW are not worth an order of the points. */
enum { PIECE = 8 * FK_NEAR_TARGETS, FEW = 16 };

struct search {
  const struct fk_tile_ops *ops;
  struct fk_panels panels; /* of the points */
  const double *y, *y_low; /* y_low: of double-doubles; NULL: 0 */
  int64_t m, k;
  bool own;         /* the targets are the points */
  int64_t *targets; /* their order */
  struct fk_scratch scratch;
  int64_t room; /* squared distances that a target can keep */
  double *out;
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

/* What the targets of a group have kept. */
struct kept {
  const struct search *search;
  double *low;     /* of the group's targets, as these */
  double *squares; /* [target][room] */
  int64_t n[FK_NEAR_TARGETS];
};

/* One 0 less, for a point's distance to itself. */
static int without_self(double *squares, int found) {
  for (int i = 0; i < found; i++)
    if (squares[i] == 0) {
      squares[i] = squares[found - 1];
      return found - 1;
    }
  return found;
}

static void look_at_panel(void *data, struct fk_near_group *g, int64_t panel, const double *squares) {
  struct kept *kept = data;
  const struct search *s = kept->search;
  const struct fk_panels *p = &s->panels;
  for (int t = 0; t < g->count; t++) {
    if (!(squares[t] < g->bound[t])) continue;
    double *own = kept->squares + t * s->room, *more = own + kept->n[t];
    int found = s->ops->near_points(fk_panel_at(p, panel), fk_panel_low_at(p, panel), p->d, g->y + t,
                                    kept->low + t, g->bound[t], more);
    if (s->own && (g->first + t) / FK_NEAR_POINTS == panel) found = without_self(more, found);
    kept->n[t] += found;
    if (kept->n[t] < (g->bound[t] < INFINITY ? s->room - FK_NEAR_POINTS : s->k)) continue;
    g->bound[t] = select_smallest(own, kept->n[t], s->k);
    kept->n[t] = s->k;
  }
}

/* No k-th neighbour is further away than that of another target and the way there: a bound to begin with, with
 * room for rounding. Of the targets done before, the group from `before` on has the closest. */
static double first_bound(const struct search *s, const double *y, int64_t before) {
  double reach = INFINITY;
  for (int64_t i = before; before >= 0 && i < before + FK_NEAR_TARGETS; i++) {
    const double *other = s->y + s->targets[i] * s->panels.d;
    double square = 0;
    for (int64_t k = 0; k < s->panels.d; k++) {
      double gap = fabs(y[k] - other[k]) + (s->y_low ? 0x1p-51 * fabs(y[k]) : 0);
      square += gap * gap;
    }
    reach = fmin(reach, s->out[s->targets[i]] + sqrt(square));
  }
  return reach * reach * (1 + 1e-10) + 0x1p-1000;
}

static void start_low(const struct search *s, int64_t first, int count, double *low) {
  for (int t = 0; t < FK_NEAR_TARGETS; t++)
    for (int64_t k = 0; k < s->panels.d; k++)
      low[k * FK_NEAR_TARGETS + t] =
          s->y_low ? s->y_low[s->targets[first + (t < count ? t : 0)] * s->panels.d + k] : 0;
}

static void do_piece(const struct search *s, int64_t piece, struct fk_near_group *g, struct kept *kept) {
  int64_t d = s->panels.d, end = fk_smaller(s->m, (piece + 1) * PIECE), before = -1;
  for (int64_t first = piece * PIECE; first < end; first += FK_NEAR_TARGETS) {
    fk_near_group_start(g, s->y, d, s->targets, first, end);
    start_low(s, first, g->count, kept->low);
    for (int t = 0; t < FK_NEAR_TARGETS; t++) {
      g->bound[t] = first_bound(s, s->y + s->targets[first + (t < g->count ? t : 0)] * d, before);
      kept->n[t] = 0;
    }
    fk_near_tree_visit(s->ops, &s->panels, g, look_at_panel, kept);
    for (int t = 0; t < g->count; t++) {
      bool enough = kept->n[t] >= s->k; /* others are too far away for numbers */
      double square = enough ? select_smallest(kept->squares + t * s->room, kept->n[t], s->k) : INFINITY;
      s->out[s->targets[first + t]] = sqrt(square);
    }
    before = first;
  }
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct search *s = data;
  struct fk_near_group g = {.y = fk_scratch_at(&s->scratch, slot)};
  struct kept kept = {.search = s, .low = g.y + FK_NEAR_TARGETS * s->panels.d};
  kept.squares = kept.low + FK_NEAR_TARGETS * s->panels.d;
  for (int64_t i = first; i < end; i++) do_piece(s, i, &g, &kept);
}

static enum fk_status prepare(struct search *s, const struct fk_neighbours *of, int threads,
                              struct fk_error *err) {
  int64_t d = of->d;
  s->room = fk_smaller(2 * s->k + FK_NEAR_POINTS, of->n) + FK_NEAR_POINTS;
  size_t scratch = sizeof(double) * FK_NEAR_TARGETS * (size_t)(2 * d + s->room);
  s->ops = fk_isa()->f64;
  bool ready = fk_panels_init(&s->panels, of->x, of->x_low, of->n, d, s->m > FEW, INFINITY, threads);
  s->targets = s->own ? s->panels.order : fk_panels_order(s->y, s->m, d, s->m > FEW, threads);
  if (!ready || !s->targets || !fk_scratch_init(&s->scratch, threads, scratch))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the %.0f nearest neighbours of points", (double)s->k);
  return FK_STATUS_OK;
}

enum fk_status fk_neighbour_distances(const struct fk_neighbours *of, const struct fk_opts *opts, double *out,
                                      struct fk_error *err) {
  struct search s = {.y = of->y ? of->y : of->x, .m = of->m, .k = of->k, .own = !of->y, .out = out};
  s.y_low = of->y ? of->y_low : of->x_low;
  double work = (double)fk_smaller(4 * s.k + 100, of->n) * (double)(of->d + 4); /* of a target */
  int threads = fk_threads_for_work(opts->threads, work * (double)s.m);
  enum fk_status status = prepare(&s, of, threads, err);
  struct fk_loop loop = {threads, fk_pieces(s.m, PIECE), 1, work * PIECE};
  if (!status) status = fk_loop_run(&loop, &opts->poll, do_pieces, &s, err);
  fk_scratch_free(&s.scratch);
  if (!s.own) free(s.targets);
  fk_panels_free(&s.panels);
  return status;
}

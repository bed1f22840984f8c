/* Distances to the k-th nearest neighbour, exactly, by a k-d tree.
 *
 * Targets go through the tree of panels.h in groups of a few that are close to each other, near nodes first. Each
 * keeps the squared distances below its bound; when there are many more than k, the k-th smallest becomes the
 * bound. What a bound is decides how long it takes, never what is found. */
#include "../core/neighbours.h"

#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "panels.h"

/* Targets of a piece of the loop. Fewer targets than FEW are not worth an order of the points. */
enum { PIECE = 8 * FK_NEAR_TARGETS, FEW = 16 };

struct search {
  const struct fk_tile_ops *ops;
  const double *x, *y;
  int64_t n, m, d, k;
  bool own;                /* the targets are the points */
  struct fk_panels panels; /* of the points */
  int64_t *targets;        /* their order */
  struct fk_scratch scratch;
  int64_t room; /* squared distances that a target can keep */
  int64_t from; /* pieces from `from` on */
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

/* Targets first .. first + count - 1 of their order, with what each has kept. */
struct group {
  int64_t first;
  int count;
  double *y, *kept; /* [k][FK_NEAR_TARGETS], [target][room] */
  double bound[FK_NEAR_TARGETS];
  int64_t n_kept[FK_NEAR_TARGETS];
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

static void look_at_panel(const struct search *s, struct group *g, int64_t panel, const double *squares) {
  for (int t = 0; t < g->count; t++) {
    if (!(squares[t] < g->bound[t])) continue;
    double *kept = g->kept + t * s->room, *more = kept + g->n_kept[t];
    int found = s->ops->near_points(fk_panel_at(&s->panels, panel), s->d, g->y + t, g->bound[t], more);
    if (s->own && (g->first + t) / FK_NEAR_POINTS == panel) found = without_self(more, found);
    g->n_kept[t] += found;
    if (g->n_kept[t] < (g->bound[t] < INFINITY ? s->room - FK_NEAR_POINTS : s->k)) continue;
    g->bound[t] = select_smallest(kept, g->n_kept[t], s->k);
    g->n_kept[t] = s->k;
  }
}

static bool may_be_near(const struct group *g, const double *squares) {
  bool any = false;
  for (int t = 0; t < g->count; t++) any |= squares[t] < g->bound[t];
  return any;
}

static double sum_of(const double *squares) {
  double sum = 0;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) sum += squares[t];
  return sum;
}

/* squares: from the targets to the node's box. */
static void visit(const struct search *s, struct group *g, int64_t node, int64_t first, int64_t end,
                  const double *squares) {
  if (!may_be_near(g, squares)) return;
  if (end - first == 1) {
    look_at_panel(s, g, first, squares);
    return;
  }
  int64_t middle = fk_panels_middle(first, end), right = fk_node_right(node, first, middle);
  double of_left[FK_NEAR_TARGETS], of_right[FK_NEAR_TARGETS];
  s->ops->near_box(fk_node_box(&s->panels, node + 1), s->d, g->y, of_left);
  s->ops->near_box(fk_node_box(&s->panels, right), s->d, g->y, of_right);
  bool right_first = sum_of(of_right) < sum_of(of_left);
  if (right_first) visit(s, g, right, middle, end, of_right);
  visit(s, g, node + 1, first, middle, of_left);
  if (!right_first) visit(s, g, right, middle, end, of_right);
}

/* No k-th neighbour is further away than that of another target and the way there: a bound to begin with, with
 * room for rounding. Of the targets done before, the group from `before` on has the closest. */
static double first_bound(const struct search *s, const double *y, int64_t before) {
  double reach = INFINITY;
  for (int64_t i = before; before >= 0 && i < before + FK_NEAR_TARGETS; i++) {
    const double *other = s->y + s->targets[i] * s->d;
    double square = 0;
    for (int64_t k = 0; k < s->d; k++) square += (y[k] - other[k]) * (y[k] - other[k]);
    reach = fmin(reach, s->out[s->targets[i]] + sqrt(square));
  }
  return reach * reach * (1 + 1e-10) + 0x1p-1000;
}

/* Lanes without a target have the first one's again. */
static void start_group(const struct search *s, struct group *g, int64_t first, int64_t end, int64_t before) {
  g->first = first;
  g->count = (int)fk_smaller(FK_NEAR_TARGETS, end - first);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    const double *y = s->y + s->targets[first + (t < g->count ? t : 0)] * s->d;
    for (int64_t k = 0; k < s->d; k++) g->y[k * FK_NEAR_TARGETS + t] = y[k];
    g->bound[t] = first_bound(s, y, before);
    g->n_kept[t] = 0;
  }
}

static void do_piece(const struct search *s, int64_t piece, struct group *g) {
  const double at_root[FK_NEAR_TARGETS] = {0};
  int64_t end = fk_smaller(s->m, (piece + 1) * PIECE), before = -1;
  for (int64_t first = piece * PIECE; first < end; first += FK_NEAR_TARGETS) {
    start_group(s, g, first, end, before);
    visit(s, g, 0, 0, s->panels.count, at_root);
    for (int t = 0; t < g->count; t++) {
      bool enough = g->n_kept[t] >= s->k; /* others are too far away for numbers */
      double square = enough ? select_smallest(g->kept + t * s->room, g->n_kept[t], s->k) : INFINITY;
      s->out[s->targets[first + t]] = sqrt(square);
    }
    before = first;
  }
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct search *s = data;
  struct group g = {.y = fk_scratch_at(&s->scratch, slot)};
  g.kept = g.y + FK_NEAR_TARGETS * s->d;
  for (int64_t i = s->from + first; i < s->from + end; i++) do_piece(s, i, &g);
}

static enum fk_status prepare(struct search *s, int threads, struct fk_error *err) {
  s->room = fk_smaller(2 * s->k + FK_NEAR_POINTS, s->n) + FK_NEAR_POINTS;
  size_t scratch = sizeof(double) * FK_NEAR_TARGETS * (size_t)(s->d + s->room);
  /* what is missing in the last panel is infinitely far away */
  bool ready = fk_panels_init(&s->panels, s->x, s->n, s->d, s->m > FEW, INFINITY, threads);
  s->targets = s->own ? s->panels.order : fk_panels_order(s->y, s->m, s->d, s->m > FEW, threads);
  if (!ready || !s->targets || !fk_scratch_init(&s->scratch, threads, scratch))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the %.0f nearest neighbours of points", (double)s->k);
  return FK_STATUS_OK;
}

enum fk_status fk_neighbour_distances(const struct fk_neighbours *of, const struct fk_opts *opts, double *out,
                                      struct fk_error *err) {
  struct search s = {.x = of->x, .y = of->y ? of->y : of->x, .n = of->n, .m = of->m, .d = of->d, .k = of->k};
  s.own = !of->y;
  s.out = out;
  double work = (double)fk_smaller(4 * s.k + 100, s.n) * (double)(s.d + 4); /* of a target */
  int threads = fk_threads_for_work(opts->threads, work * (double)s.m);
  s.ops = fk_isa()->f64;
  enum fk_status status = prepare(&s, threads, err);
  int64_t pieces = fk_pieces(s.m, PIECE);
  struct fk_chunks progress;
  fk_chunks_start(&progress, &opts->poll, threads, (double)pieces, work * PIECE);
  for (int64_t to; s.from < pieces && !status; s.from = to) {
    to = fk_smaller(pieces, s.from + progress.size);
    fk_parallel_for(threads, to - s.from, 1, do_pieces, &s);
    status = fk_chunks_done(&progress, to - s.from, err);
  }
  fk_scratch_free(&s.scratch);
  if (!s.own) free(s.targets);
  fk_panels_free(&s.panels);
  return status;
}

/* Probabilities of rectangles; what they are stands in core/rectangles.h.
 *
 * Points lie in the tree of panels.h. A node that lies in a rectangle, far from its sides, counts with all of its
 * weight; one that is so far outside that all weights there could not change the sum does not count. */
#include "../core/rectangles.h"

#include <stdlib.h>

#include "../core/pool.h"
#include "../core/threads.h"
#include "panels.h"

#define WELL_INSIDE 9 /* sds: 1 - Phi(9) < 2e-19 */
enum { STEPS = 32, DEGREE = 9, NODES = 2 * WELL_INSIDE * STEPS + 1 };
enum { FEW = 4 }; /* rectangles that are not worth an order of the points */

struct pass {
  const struct fk_rectangles *of;
  struct fk_panels panels;
  double *widest, *mass; /* of each node: the largest f, the weight */
  double *series;        /* of Phi at each of its nodes */
  double inside;         /* sds from which on a kernel is inside */
  struct fk_scratch scratch;
  double *out;
};

/* One rectangle: limits, sum of the kernels, and of the corrections; exp(-s) is negligible for s above `reach`. */
struct search {
  const double *lower, *upper, *lower_low, *upper_low; /* low parts: NULL: 0 */
  bool *across;                                        /* d: of the node that was looked at last */
  double plain, correction, reach;
};

static void fill_nodes(const struct pass *s, int64_t node, int64_t first, int64_t end) {
  double *widest = s->widest + node, *mass = s->mass + node;
  *widest = *mass = 0;
  if (end - first == 1) {
    for (int i = 0; i < fk_panel_size(&s->panels, first); i++) {
      int64_t point = s->panels.order[first * FK_NEAR_POINTS + i];
      *widest = fmax(*widest, s->of->factors ? s->of->factors[point] : 1);
      *mass += s->of->weights[point];
    }
    return;
  }
  int64_t middle = fk_panels_middle(first, end), left = node + 1, right = fk_node_right(node, first, middle);
  fill_nodes(s, left, first, middle);
  fill_nodes(s, right, middle, end);
  *widest = fmax(s->widest[left], s->widest[right]);
  *mass = s->mass[left] + s->mass[right];
}

/* ---- one kernel ------------------------------------------------------------------------------- */

/* Phi on [-9, 9], to a relative error of 1e-15 beside rounding: its Taylor series of DEGREE at the nearest
 * multiple of 1 / STEPS. Many times as fast as erfc(). */
static double normal_below(const struct pass *s, double z) {
  if (!(z > -WELL_INSIDE)) return fk_normal_below(z);
  if (!(z < WELL_INSIDE)) return 1;
  int node = (int)(z * STEPS + (WELL_INSIDE * STEPS + 0.5));
  const double *c = s->series + node * (DEGREE + 1);
  double t = z - (double)(node - WELL_INSIDE * STEPS) / STEPS, sum = c[DEGREE];
  for (int k = DEGREE - 1; k >= 0; k--) sum = sum * t + c[k];
  return sum;
}

/* The k-th derivative is (-1)^(k - 1) phi(z) times Hermite's polynomial of degree k - 1. */
static void fill_series(double *series) {
  for (int node = 0; node < NODES; node++) {
    double z = (double)(node - WELL_INSIDE * STEPS) / STEPS, before = 0, hermite = fk_normal_density(z);
    double *c = series + node * (DEGREE + 1), factorial = 1;
    c[0] = fk_normal_below(z);
    for (int k = 1; k <= DEGREE; k++) {
      factorial *= k;
      c[k] = hermite / factorial;
      double next = -z * hermite - (k - 1) * before;
      before = hermite;
      hermite = next;
    }
  }
}

/* z phi(z), also at infinity. */
static double slope(double z) { return fabs(z) < 40 ? z * fk_normal_density(z) : 0; }

/* For z <= 0 what a kernel of bounded reach has below z. */
static double compact_below(const struct fk_rectangles *of, double z) {
  double within = fmax((of->reach + z) / of->reach, 0), sum = 0;
  for (int i = of->below.count - 1; i >= 0; i--) sum = sum * within + of->below.c[i];
  return sum;
}

/* To the digits of the smaller tail. */
static double between(const struct pass *s, double a, double b) {
  const struct fk_rectangles *of = s->of;
  if (of->below.count > 0) {
    if (a > 0) return compact_below(of, -a) - compact_below(of, -b);
    return (b > 0 ? 1 - compact_below(of, -b) : compact_below(of, b)) - compact_below(of, a);
  }
  if (a > 0) return normal_below(s, -a) - normal_below(s, -b);
  return normal_below(s, b) - (a > -40 ? normal_below(s, a) : 0);
}

/* The limit times the derivative by it, for both, of P(X < h, Y < k). */
static double corner_slope(double h, double k, double r) {
  double width = sqrt((1 - r) * (1 + r)), sum = 0;
  if (fabs(h) < 40) sum += slope(h) * fk_normal_below((k - r * h) / width);
  if (fabs(k) < 40) sum += slope(k) * fk_normal_below((h - r * k) / width);
  return sum;
}

/* By its corners, of the mirror image whose lower limits are furthest out, so that differences are of small tails.
 */
static void of_pair(const struct fk_rectangles *of, const double *a, const double *b, double *p, double *extra) {
  double low[2] = {a[0], a[1]}, high[2] = {b[0], b[1]}, r = of->correlation;
  for (int k = 0; k < 2; k++)
    if (low[k] > 0) {
      low[k] = -b[k];
      high[k] = -a[k];
      r = -r;
    }
  *p = *extra = 0;
  for (int i = 0; i < 4; i++) {
    double h = i & 1 ? low[0] : high[0], k = i & 2 ? low[1] : high[1], sign = i == 1 || i == 2 ? -1 : 1;
    if (h == -INFINITY || k == -INFINITY) continue;
    *p += sign * fk_bivariate_upper(-h, -k, r);
    if (of->laplace) *extra += sign * corner_slope(h, k, r) / 2;
  }
  *p = fmax(*p, 0);
}

/* ---- search ----------------------------------------------------------------------------------- */

enum place { OUTSIDE, ACROSS, INSIDE };

/* Of a node's points and, in g->across, of their coordinates. */
static enum place place_of(const struct pass *s, struct search *g, int64_t node) {
  const double *box = fk_node_box(&s->panels, node);
  const int64_t d = s->of->d;
  double f = s->widest[node], away = 0;
  bool any = false;
  for (int64_t k = 0; k < d; k++) {
    away = fmax(away, fmax(g->lower[k] - box[d + k], box[k] - g->upper[k]));
    g->across[k] = !(box[k] - g->lower[k] >= s->inside * f && g->upper[k] - box[d + k] >= s->inside * f);
    any |= g->across[k];
  }
  if (!any) return INSIDE;
  return away / f * (away / f) / 2 > g->reach ? OUTSIDE : ACROSS;
}

/* A tail is below exp(-z^2 / 2) / 2; the correction's below a few z times that. Kernels of bounded reach end. */
static double reach_of(const struct pass *s, const struct search *g) {
  if (s->of->below.count > 0) return s->of->reach * s->of->reach / 2;
  double reach = g->plain > 0 ? log(s->mass[0] / g->plain) + 54 * FK_LN2 : 745;
  return fmin(reach + 2 * log1p(reach), 745);
}

/* Of a panel's points in coordinate k: limits a and b of each kernel, in its sds. */
static void limits_of(const struct pass *s, const struct search *g, int64_t panel, int64_t k, double *a,
                      double *b) {
  const double *x = fk_panel_at(&s->panels, panel) + k * FK_NEAR_POINTS;
  const double *low = fk_panel_low_at(&s->panels, panel);
  if (low) low += k * FK_NEAR_POINTS;
  const int64_t *points = s->panels.order + panel * FK_NEAR_POINTS;
  double lower_low = g->lower_low ? g->lower_low[k] : 0, upper_low = g->upper_low ? g->upper_low[k] : 0;
  for (int i = 0; i < fk_panel_size(&s->panels, panel); i++) {
    double narrow = s->of->factors ? 1 / s->of->factors[points[i]] : 1;
    a[i] = g->lower[k] - x[i];
    b[i] = g->upper[k] - x[i];
    if (low) {
      a[i] += lower_low - low[i];
      b[i] += upper_low - low[i];
    }
    a[i] *= narrow;
    b[i] *= narrow;
  }
}

/* A panel's kernels and their corrections as the products of those of the coordinates, by the product rule. Where
 * all points are well inside, a coordinate does not count. */
static void by_product(const struct pass *s, const struct search *g, int64_t panel, const bool *across, double *p,
                       double *extra) {
  double a[FK_NEAR_POINTS], b[FK_NEAR_POINTS];
  int size = fk_panel_size(&s->panels, panel);
  for (int i = 0; i < size; i++) p[i] = 1, extra[i] = 0;
  for (int64_t k = 0; k < s->of->d; k++) {
    if (!across[k]) continue;
    limits_of(s, g, panel, k, a, b);
    for (int i = 0; i < size; i++) {
      double own = between(s, a[i], b[i]);
      if (s->of->laplace) extra[i] = extra[i] * own + p[i] * (slope(b[i]) - slope(a[i])) / 2;
      p[i] *= own;
    }
  }
}

static void by_pairs(const struct pass *s, const struct search *g, int64_t panel, double *p, double *extra) {
  double a[2][FK_NEAR_POINTS], b[2][FK_NEAR_POINTS];
  for (int k = 0; k < 2; k++) limits_of(s, g, panel, k, a[k], b[k]);
  for (int i = 0; i < fk_panel_size(&s->panels, panel); i++)
    of_pair(s->of, (const double[]){a[0][i], a[1][i]}, (const double[]){b[0][i], b[1][i]}, p + i, extra + i);
}

static void look_at_panel(const struct pass *s, struct search *g, int64_t panel, const bool *across) {
  double p[FK_NEAR_POINTS], extra[FK_NEAR_POINTS];
  if (s->of->correlation != 0 && across[0] && across[1])
    by_pairs(s, g, panel, p, extra);
  else
    by_product(s, g, panel, across, p, extra);
  for (int i = 0; i < fk_panel_size(&s->panels, panel); i++) {
    double weight = s->of->weights[s->panels.order[panel * FK_NEAR_POINTS + i]];
    g->plain += weight * p[i];
    g->correction += weight * extra[i];
  }
  g->reach = reach_of(s, g);
}

static void visit(const struct pass *s, struct search *g, int64_t node, int64_t first, int64_t end) {
  enum place place = place_of(s, g, node);
  if (place == OUTSIDE) return;
  if (place == INSIDE) {
    g->plain += s->mass[node];
    g->reach = reach_of(s, g);
    return;
  }
  if (end - first == 1) {
    look_at_panel(s, g, first, g->across);
    return;
  }
  int64_t middle = fk_panels_middle(first, end);
  visit(s, g, node + 1, first, middle);
  visit(s, g, fk_node_right(node, first, middle), middle, end);
}

static bool is_empty(const struct fk_rectangles *of, const struct search *g) {
  for (int64_t k = 0; k < of->d; k++)
    if (!(g->upper[k] > g->lower[k]) || g->upper[k] == -INFINITY) return true;
  return false;
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct pass *s = data;
  const struct fk_rectangles *of = s->of;
  for (int64_t j = first; j < end; j++) {
    struct search g = {.lower = of->lower + j * of->d, .upper = of->upper + j * of->d};
    if (of->lower_low) g.lower_low = of->lower_low + j * of->d;
    if (of->upper_low) g.upper_low = of->upper_low + j * of->d;
    g.reach = reach_of(s, &g);
    g.across = fk_scratch_at(&s->scratch, slot);
    if (!is_empty(of, &g)) visit(s, &g, 0, 0, s->panels.count);
    s->out[j] = g.plain + g.correction;
  }
}

static enum fk_status prepare(struct pass *s, int threads, struct fk_error *err) {
  const struct fk_rectangles *of = s->of;
  bool ready = fk_panels_init(&s->panels, of->x, of->x_low, of->n, of->d, of->m > FEW, 0, threads);
  size_t nodes = (size_t)fk_panels_nodes(&s->panels);
  s->widest = malloc(sizeof(double) * nodes);
  s->mass = malloc(sizeof(double) * nodes);
  s->series = malloc(sizeof(double) * NODES * (DEGREE + 1));
  if (!ready || !s->widest || !s->mass || !s->series ||
      !fk_scratch_init(&s->scratch, threads, sizeof(bool) * (size_t)of->d))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for probabilities of rectangles");
  fill_nodes(s, 0, 0, s->panels.count);
  fill_series(s->series);
  return FK_STATUS_OK;
}

enum fk_status fk_rectangle_sums(const struct fk_rectangles *of, const struct fk_opts *opts, double *out,
                                 struct fk_error *err) {
  struct pass s = {.of = of, .out = out, .inside = of->below.count > 0 ? of->reach : WELL_INSIDE};
  double work = 10 * (double)of->n * (double)of->d; /* of a rectangle, at most */
  int threads = fk_threads_for_work(opts->threads, work * (double)of->m);
  enum fk_status status = prepare(&s, threads, err);
  struct fk_loop loop = {threads, of->m, fk_step_for_work(work), work};
  if (!status) status = fk_loop_run(&loop, &opts->poll, do_pieces, &s, err);
  fk_scratch_free(&s.scratch);
  free(s.series);
  free(s.mass);
  free(s.widest);
  fk_panels_free(&s.panels);
  return status;
}

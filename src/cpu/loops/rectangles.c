/* Probabilities of rectangles by the walk of ../walk.h.
 *
 * A node that lies in a rectangle, far from its sides, counts with all of its weight; one that is so far outside
 * that all weights there could not change the sum does not count. */
#include "rectangles.h"

#include <math.h>
#include <stdlib.h>

#include "../../core/gauss.h"
#include "../../core/plan.h"
#include "../walk.h"
#include "bivariate.h"

#define WELL_INSIDE 9 /* sds: 1 - Phi(9) < 2e-19 */
enum { STEPS = 32, DEGREE = 9, NODES = 2 * WELL_INSIDE * STEPS + 1 };

/* The numbers of a point, f and 1 / f among them, and of a node: the largest f, the weight. */
enum { WEIGHT, FACTOR, NARROW, NUMBERS };
enum { WIDEST, MASS };

struct rectangles {
  const struct fk_rectangles *of;
  double *series; /* of Phi at each of its nodes */
  double inside;  /* sds from which on a kernel is inside */
  double *out;
};

/* One rectangle: limits, sum of the kernels, and of the corrections; exp(-s) is negligible for s above `reach`. */
struct rectangles_room {
  const double *lower, *upper, *lower_low, *upper_low; /* low parts: NULL: 0 */
  double plain, correction, reach;
  bool across[]; /* d: of the node that was looked at last */
};

static void rectangles_point(const void *data, int64_t point, double *values) {
  const struct fk_rectangles *of = ((const struct rectangles *)data)->of;
  values[WEIGHT] = point < 0 ? 0 : of->weights[point];
  values[FACTOR] = point >= 0 && of->factors ? of->factors[point] : 1;
  values[NARROW] = 1 / values[FACTOR];
}

/* ---- one kernel ------------------------------------------------------------------------------- */

/* Phi on [-9, 9], to a relative error of 1e-15 beside rounding: its Taylor series of DEGREE at the nearest
 * multiple of 1 / STEPS. Many times as fast as erfc(). */
static double normal_below(const struct rectangles *s, double z) {
  if (!(z > -WELL_INSIDE)) return fk_normal_below(z);
  if (!(z < WELL_INSIDE)) return 1;
  int node = (int)(z * STEPS + (WELL_INSIDE * STEPS + 0.5));
  const double *c = s->series + node * (DEGREE + 1);
  double t = z - (double)(node - WELL_INSIDE * STEPS) / STEPS, t2 = t * t, t4 = t2 * t2;
  double low = c[0] + c[1] * t + (c[2] + c[3] * t) * t2, high = c[4] + c[5] * t + (c[6] + c[7] * t) * t2;
  return low + (high + (c[8] + c[9] * t) * t4) * t4;
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
static double between(const struct rectangles *s, double a, double b) {
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

/* By its corners, of the mirror image whose lower limits are furthest out, so that differences are of small
 * tails. */
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

/* ---- one rectangle ---------------------------------------------------------------------------- */

/* A tail is below exp(-z^2 / 2) / 2; the correction's below a few z times that. Kernels of bounded reach end. */
static double rectangles_reach(const struct fk_walk *w, double plain) {
  const struct fk_rectangles *of = ((const struct rectangles *)w->of)->of;
  if (of->below.count > 0) return of->reach * of->reach / 2;
  double reach = plain > 0 ? log(fk_walk_node(w, 0)[MASS] / plain) + 54 * FK_LN2 : 745;
  return fmin(reach + 2 * log1p(reach), 745);
}

/* A node of which every coordinate is well inside counts as a whole. */
static bool rectangles_opens(struct fk_walk_group *g, int64_t node, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  const struct rectangles *s = w->of;
  const double *box = fk_walk_box(w, node), *numbers = fk_walk_node(w, node);
  struct rectangles_room *r = g->room;
  double f = numbers[WIDEST], away = 0;
  bool any = false;
  for (int64_t k = 0; k < w->d; k++) {
    away = fmax(away, fmax(r->lower[k] - box[w->d + k], box[k] - r->upper[k]));
    r->across[k] = !(box[k] - r->lower[k] >= s->inside * f && r->upper[k] - box[w->d + k] >= s->inside * f);
    any |= r->across[k];
  }
  if (any) return !(away / f * (away / f) / 2 > r->reach);
  r->plain += numbers[MASS];
  r->reach = rectangles_reach(w, r->plain);
  return false;
}

/* For a panel's points in coordinate k: limits a and b of each kernel, in its standard deviations. */
static void limits_of(const struct fk_walk *w, const struct rectangles_room *r, int64_t panel, int64_t k,
                      double *a, double *b) {
  const double *x = fk_walk_panel(w, panel) + k * FK_NEAR_POINTS;
  const double *low = fk_walk_low(w, panel), *narrow = fk_walk_values(w, NARROW, panel);
  if (low) low += k * FK_NEAR_POINTS;
  double lower_low = r->lower_low ? r->lower_low[k] : 0, upper_low = r->upper_low ? r->upper_low[k] : 0;
  for (int i = 0; i < fk_walk_size(w, panel); i++) {
    a[i] = r->lower[k] - x[i];
    b[i] = r->upper[k] - x[i];
    if (low) {
      a[i] += lower_low - low[i];
      b[i] += upper_low - low[i];
    }
    a[i] *= narrow[i];
    b[i] *= narrow[i];
  }
}

/* A panel's kernels and their corrections as the products of those of the coordinates, by the product rule. Where
 * all points are well inside, a coordinate does not count. */
static void by_product(const struct fk_walk *w, const struct rectangles_room *r, int64_t panel, double *p,
                       double *extra) {
  const struct rectangles *s = w->of;
  double a[FK_NEAR_POINTS], b[FK_NEAR_POINTS];
  int size = fk_walk_size(w, panel);
  for (int i = 0; i < size; i++) p[i] = 1, extra[i] = 0;
  for (int64_t k = 0; k < w->d; k++) {
    if (!r->across[k]) continue;
    limits_of(w, r, panel, k, a, b);
    for (int i = 0; i < size; i++) {
      double own = between(s, a[i], b[i]);
      if (s->of->laplace) extra[i] = extra[i] * own + p[i] * (slope(b[i]) - slope(a[i])) / 2;
      p[i] *= own;
    }
  }
}

static void by_pairs(const struct fk_walk *w, const struct rectangles_room *r, int64_t panel, double *p,
                     double *extra) {
  const struct rectangles *s = w->of;
  double a[2][FK_NEAR_POINTS], b[2][FK_NEAR_POINTS];
  for (int k = 0; k < 2; k++) limits_of(w, r, panel, k, a[k], b[k]);
  for (int i = 0; i < fk_walk_size(w, panel); i++)
    of_pair(s->of, (const double[]){a[0][i], a[1][i]}, (const double[]){b[0][i], b[1][i]}, p + i, extra + i);
}

static void rectangles_panel(struct fk_walk_group *g, int64_t panel, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  const struct fk_rectangles *of = ((const struct rectangles *)w->of)->of;
  const double *weights = fk_walk_values(w, WEIGHT, panel);
  struct rectangles_room *r = g->room;
  double p[FK_NEAR_POINTS], extra[FK_NEAR_POINTS];
  if (of->correlation != 0 && r->across[0] && r->across[1])
    by_pairs(w, r, panel, p, extra);
  else
    by_product(w, r, panel, p, extra);
  for (int i = 0; i < fk_walk_size(w, panel); i++) {
    r->plain += weights[i] * p[i];
    r->correction += weights[i] * extra[i];
  }
  r->reach = rectangles_reach(w, r->plain);
}

static bool is_empty(const struct rectangles_room *r, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    if (!(r->upper[k] > r->lower[k]) || r->upper[k] == -INFINITY) return true;
  return false;
}

/* The walk knows a rectangle by its lower limits. */
static bool rectangles_target(struct fk_walk_group *g) {
  static const struct fk_walk_look look = {.opens = rectangles_opens, .panel = rectangles_panel};
  const struct fk_walk *w = g->walk;
  const struct rectangles *s = w->of;
  const struct fk_rectangles *of = s->of;
  struct rectangles_room *r = g->room;
  r->lower = g->y;
  r->lower_low = g->low;
  r->upper = of->upper + g->first * w->d;
  r->upper_low = of->upper_low ? of->upper_low + g->first * w->d : NULL;
  r->plain = r->correction = 0;
  r->reach = rectangles_reach(w, 0);
  if (!is_empty(r, w->d)) fk_walk_through(g, &look);
  s->out[g->first] = r->plain + r->correction;
  return true;
}

enum fk_status fk_rectangle_sums(const struct fk_rectangles *of, const struct fk_opts *opts, double *out,
                                 struct fk_stats *stats, struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_RECTANGLES,
      .width = 1,
      .piece = 1,
      .few = 4,
      .values = NUMBERS,
      .point = rectangles_point,
      .numbers = {[WIDEST] = {FK_WALK_LARGEST, FACTOR}, [MASS] = {FK_WALK_SUM, WEIGHT}},
      .group = rectangles_target,
  };
  struct rectangles s = {.of = of, .out = out, .inside = of->below.count > 0 ? of->reach : WELL_INSIDE};
  struct fk_walk walk = {.rule = &rule, .of = &s, .d = of->d, .x = {of->x, of->x_low, of->n}};
  walk.y = (struct fk_walk_points){of->lower, of->lower_low, of->m};
  walk.room = sizeof(struct rectangles_room) + sizeof(bool) * (size_t)of->d;
  walk.work = (double)of->n * fk_plan_pair_work(FK_OP_RECTANGLES, of->d, 1);
  s.series = malloc(sizeof(double) * NODES * (DEGREE + 1));
  if (!s.series) return fk_no_memory(err, 0, "probabilities of rectangles");
  fill_series(s.series);
  enum fk_status status = fk_walk_run(&walk, opts, stats, err);
  free(s.series);
  return status;
}

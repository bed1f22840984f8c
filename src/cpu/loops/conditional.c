/* Distribution functions of one y given x, and quantiles, by the walk of ../walk.h.
 *
 * Points lie in the tree by x. For each place those whose weights there can matter are listed, once for all of its
 * y or probabilities: all others together weigh less than 2^-54 of each. */
#include "conditional.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/plan.h"
#include "../walk.h"

/* Rounds of a search, by 2,200 halvings of which any double leads to any other. */
enum { MOST_ROUNDS = 6600 };
/* The times that a quantile goes over its list, in the guess of its work. */
#define QUANTILE_PASSES 6.0
/* The points that are left out may have 2^-BITS of all weights: below the precision of doubles. */
#define BITS 54.0
/* A tail that is below this of the weights wants more points than those of BITS. */
#define SMALL_TAIL 0x1p-4
#define MOST_BITS 1021.0

/* The numbers of a point: log2 of the weight, log2(e) / (2 s^2), c, 1 / s, and where there are low parts that of
 * c. */
enum { LOG_WEIGHT, PRECISION, CENTRE, NARROW, CENTRE_LOW, NUMBERS };
/* Bounds of a node: the largest LOG_WEIGHT, the least PRECISION. */
enum { TOP, LEAST };

struct conditional {
  const struct fk_conditional *of;
  double narrowest;
  const double *y, *y_low;
  const struct fk_probability *p;
  int64_t count;
  double *out, *nearest;
};

/* A place, its points that count with their weights there, 1 being the largest, and the sum of these. */
struct conditional_place {
  const struct fk_walk *walk;
  const struct conditional *s;
  double *weight, *centre, *narrow; /* narrow: NULL without widths */
  /* With low parts: those of the centres, the places of the points among the panels', and the centres about what
   * they are looked at from, list_about(), whose low part is 0. */
  double *low, *number, *about;
  int64_t count;
  double top, least, total;
  _Alignas(64) double lists[];
};

static void conditional_point(const void *data, int64_t point, double *values) {
  const struct fk_conditional *of = ((const struct conditional *)data)->of;
  double width = point >= 0 && of->widths ? of->widths[point] : 1;
  values[LOG_WEIGHT] = point < 0 ? -INFINITY : FK_LOG2E * of->log_weights[point];
  values[PRECISION] = FK_LOG2E / (2 * width * width);
  values[CENTRE] = point < 0 ? 0 : of->centres[point];
  values[NARROW] = 1 / width;
  values[CENTRE_LOW] = point < 0 || !of->centres_low ? 0 : of->centres_low[point];
}

/* ---- points that count ------------------------------------------------------------------------ */

/* No point of the node has a larger exponent at the group's place: *bound. Of two nodes that with the largest
 * comes first. */
static double bound_gap(const struct fk_walk_group *g, int64_t node, double *bound) {
  const struct fk_walk *w = g->walk;
  const double *box = fk_walk_box(w, node), *numbers = fk_walk_node(w, node);
  double square = 0;
  for (int64_t k = 0; k < w->d; k++) {
    double z = fmax(fmax(box[k] - g->y[k], g->y[k] - box[w->d + k]), 0);
    square += z * z;
  }
  *bound = numbers[TOP] - numbers[LEAST] * square;
  return -*bound;
}

static double exponents_of(const struct fk_walk_group *g, int64_t panel, double *t) {
  const struct fk_walk *w = g->walk;
  return w->ops->point_exponents(fk_walk_panel(w, panel), fk_walk_low(w, panel), w->d, g->y, g->low,
                                 fk_walk_values(w, LOG_WEIGHT, panel), fk_walk_values(w, PRECISION, panel), t);
}

/* The largest exponent at the place. */
static bool top_opens(struct fk_walk_group *g, FK_UNUSED int64_t node, const double *bound) {
  return *bound > ((const struct conditional_place *)g->room)->top;
}

static void top_panel(struct fk_walk_group *g, int64_t panel, FK_UNUSED const double *bound) {
  struct conditional_place *place = g->room;
  double t[FK_NEAR_POINTS];
  exponents_of(g, panel, t);
  for (int i = 0; i < FK_NEAR_POINTS; i++) place->top = t[i] > place->top ? t[i] : place->top;
}

/* The points that count, in their order. */
static bool list_opens(struct fk_walk_group *g, int64_t node, FK_UNUSED const double *gaps) {
  double bound;
  bound_gap(g, node, &bound);
  return bound >= ((const struct conditional_place *)g->room)->least;
}

/* Most panels have points that all count, or none. */
static void list_panel(struct fk_walk_group *group, int64_t panel, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = group->walk;
  struct conditional_place *g = group->room;
  double *t = g->weight + g->count, *c = g->centre + g->count, *narrow = g->narrow ? g->narrow + g->count : NULL;
  const double *centre = fk_walk_values(w, CENTRE, panel), *own = fk_walk_values(w, NARROW, panel);
  const double *low = g->low ? fk_walk_values(w, CENTRE_LOW, panel) : NULL;
  bool all = exponents_of(group, panel, t) >= g->least;
  for (int i = 0, at = 0; low && i < FK_NEAR_POINTS; i++) {
    g->low[g->count + at] = low[i];
    g->number[g->count + at] = (double)(panel * FK_NEAR_POINTS + i);
    at += all || t[i] >= g->least;
  }
  if (all) {
    memcpy(c, centre, sizeof *c * FK_NEAR_POINTS);
    if (narrow) memcpy(narrow, own, sizeof *c * FK_NEAR_POINTS);
    g->count += FK_NEAR_POINTS;
    return;
  }
  int count = 0;
  for (int i = 0; i < fk_walk_size(w, panel); i++) {
    double exponent = t[i];
    t[count] = exponent;
    c[count] = centre[i];
    if (narrow) narrow[count] = own[i];
    count += exponent >= g->least;
  }
  g->count += count;
}

/* All others weigh less than 2^-BITS of a probability of at least `tail`, whatever their y are. */
static void list_points(struct fk_walk_group *group, double tail) {
  static const struct fk_walk_look look = {.opens = list_opens, .panel = list_panel};
  struct conditional_place *g = group->room;
  g->least = g->top - fmin(BITS + log2((double)g->s->of->n) - log2(tail), MOST_BITS);
  g->count = 0;
  fk_walk_through(group, &look);
  for (int64_t i = g->count; i < fk_walk_padded(g->count); i++) {
    g->weight[i] = -INFINITY;
    g->centre[i] = g->centre[0];
    if (g->low) g->low[i] = g->low[0];
    if (g->narrow) g->narrow[i] = g->narrow[0];
  }
  g->total = g->walk->ops->powers_of_two(g->weight, fk_walk_padded(g->count), g->top);
}

/* Lists of a place, and the numbers that each has room for. */
static int lists_of(const struct fk_conditional *of) { return (of->widths ? 3 : 2) + (of->centres_low ? 3 : 0); }
static int64_t list_room(const struct fk_conditional *of) { return fk_walk_padded(of->n) + FK_NEAR_POINTS; }

/* False: the distance is no double. */
static bool start_place(struct fk_walk_group *group) {
  static const struct fk_walk_look look = {.gap = bound_gap, .opens = top_opens, .panel = top_panel};
  const struct fk_walk *w = group->walk;
  const struct conditional *s = w->of;
  struct conditional_place *g = group->room;
  int64_t room = list_room(s->of);
  double *next = g->lists;
  *g = (struct conditional_place){.walk = w, .s = s, .top = -INFINITY, .weight = next};
  g->centre = next += room;
  if (s->of->widths) g->narrow = next += room;
  if (s->of->centres_low) {
    g->low = next += room;
    g->number = next += room;
    g->about = next + room;
  }
  fk_walk_through(group, &look);
  return g->top > -INFINITY;
}

/* The centres that shares are of, with low parts about a place whose own are these two. */
static const double *list_about(const struct conditional_place *g, double place, double low) {
  if (!g->about) return g->centre;
  for (int64_t i = 0; i < fk_walk_padded(g->count); i++) g->about[i] = (g->centre[i] - place) + (g->low[i] - low);
  return g->about;
}

/* The share of the weight below y, or with sign -1 above it. With low parts y is about that of list_about(). */
static struct fk_tile_normal share(const struct conditional_place *g, double y, double sign) {
  struct fk_tile_normal sums = {.count = fk_walk_padded(g->count), .y = y, .sign = sign};
  sums.weight = g->weight, sums.centre = g->about ? g->about : g->centre, sums.narrow = g->narrow;
  g->walk->ops->normal_sums(&sums);
  sums.below /= g->total;
  sums.density /= g->total;
  return sums;
}

/* ---- distribution functions ------------------------------------------------------------------- */

static double share_below(const struct conditional_place *g, int64_t at) {
  if (!g->about) return share(g, g->s->y[at], 1).below;
  list_about(g, g->s->y[at], g->s->y_low[at]);
  return share(g, 0, 1).below;
}

static void fill_cdf(const struct conditional_place *place, bool near, struct fk_walk_group *g) {
  const struct conditional *s = place->s;
  double reached = 1;
  if (near) list_points(g, reached);
  for (int64_t at = g->first * s->count; at < (g->first + 1) * s->count; at++) {
    double below = near ? share_below(place, at) : NAN;
    if (below < SMALL_TAIL * reached) {
      /* what was left out can only make it larger */
      reached = fmax(below, 0x1p-1000);
      list_points(g, reached);
      below = share_below(place, at);
    }
    s->out[at] = below;
  }
}

/* ---- quantiles -------------------------------------------------------------------------------- */

/* In the direction in which the tail grows: y times sign. Each kernel alone has its quantile at c + s z: the first
 * and the last of these enclose that of all. */
struct conditional_bracket {
  double sign, low, high, start;
};

static struct conditional_bracket bracket_of(const struct conditional_place *g, const double *centre,
                                             const struct fk_probability *p) {
  struct conditional_bracket b = {.sign = p->upper ? -1 : 1, .low = INFINITY, .high = -INFINITY};
  double mean = 0, square = 0, origin = b.sign * centre[0];
  for (int64_t i = 0; i < g->count; i++) {
    double width = g->narrow ? 1 / g->narrow[i] : 1, c = b.sign * centre[i], z = c - origin;
    b.low = fmin(b.low, c + width * p->normal);
    b.high = fmax(b.high, c + width * p->normal);
    mean += g->weight[i] * z;
    square += g->weight[i] * (z * z + width * width);
  }
  mean /= g->total;
  b.start = origin + mean + sqrt(fmax(square / g->total - mean * mean, 0)) * p->normal;
  return b;
}

/* About a place of list_about(), whose result is `centre`. By Newton's steps on the logarithm of the tail, which
 * is close to a parabola far out, and else by halves: where a step leaves the bracket, or is not half as long as
 * the one before. */
static double root_about(const struct conditional_place *g, const double *centre, const struct fk_probability *p) {
  const double narrowest = g->s->narrowest;
  struct conditional_bracket b = bracket_of(g, centre, p);
  double y = b.start, before = INFINITY;
  if (!(y > b.low && y < b.high)) y = b.low / 2 + b.high / 2;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    struct fk_tile_normal at = share(g, b.sign * y, b.sign);
    double excess = log(at.below / p->tail), size = fmax(1e-12 * narrowest, 4 * DBL_EPSILON * fabs(y));
    if (excess == 0) return b.sign * y;
    if (excess < 0)
      b.low = y;
    else
      b.high = y;
    double step = -excess * at.below / at.density, next = y + step;
    bool newton = next > b.low && next < b.high && fabs(step) < before / 2;
    if (!newton) next = b.low / 2 + b.high / 2;
    before = fabs(next - y);
    /* what a step of Newton's leaves is of the order of its square */
    if (b.high - b.low <= size || (newton && before <= fmax(1e-9 * narrowest, size))) return b.sign * next;
    y = next;
  }
  return b.sign * y;
}

/* With low parts about the centre of a point near it, which is found by a root about another. */
static void find_root(const struct conditional_place *g, const struct fk_probability *p, int64_t at) {
  const struct conditional *s = g->s;
  int64_t from = 0;
  for (int round = 0; round < (g->about ? 2 : 1); round++) {
    const double *centre = list_about(g, g->centre[from], g->low ? g->low[from] : 0);
    s->out[at] = root_about(g, centre, p);
    if (!g->about) return;
    s->nearest[at] = (double)g->walk->order[(int64_t)g->number[from]];
    for (int64_t i = 0; i < g->count && round == 0; i++)
      if (fabs(centre[i] - s->out[at]) < fabs(centre[from] - s->out[at])) from = i;
  }
}

static void fill_quantiles(const struct conditional_place *place, bool near, struct fk_walk_group *g) {
  const struct conditional *s = place->s;
  double tail = 1;
  for (int64_t k = 0; k < s->count; k++) tail = fmin(tail, s->p[k].tail);
  if (near) list_points(g, tail);
  for (int64_t k = 0; k < s->count; k++) {
    s->out[g->first * s->count + k] = NAN;
    if (near) find_root(place, s->p + k, g->first * s->count + k);
  }
}

/* ---- both ------------------------------------------------------------------------------------- */

static bool conditional_group(struct fk_walk_group *g) {
  const struct conditional *s = g->walk->of;
  bool near = start_place(g);
  if (s->p)
    fill_quantiles(g->room, near, g);
  else
    fill_cdf(g->room, near, g);
  return true;
}

static enum fk_status conditional_run(struct conditional *s, double passes, const struct fk_opts *opts,
                                      struct fk_stats *stats, struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_CONDITIONAL,
      .width = 1,
      .piece = 1,
      .few = 16,
      .values = NUMBERS,
      .point = conditional_point,
      .numbers = {[TOP] = {FK_WALK_LARGEST, LOG_WEIGHT}, [LEAST] = {FK_WALK_LEAST, PRECISION}},
      .group = conditional_group,
  };
  const struct fk_conditional *of = s->of;
  struct fk_walk walk = {.rule = &rule, .of = s, .d = of->d, .x = {of->x, of->x_low, of->n}};
  walk.y = (struct fk_walk_points){of->at, of->at_low, of->m};
  walk.room = sizeof(struct conditional_place) + sizeof(double) * (size_t)(lists_of(of) * list_room(of));
  walk.work = (double)of->n * fk_plan_pair_work(FK_OP_CONDITIONAL, of->d, passes * (double)s->count);
  s->narrowest = of->widths ? INFINITY : 1;
  for (int64_t i = 0; of->widths && i < of->n; i++) s->narrowest = fmin(s->narrowest, of->widths[i]);
  return fk_walk_run(&walk, opts, stats, err);
}

enum fk_status fk_conditional_cdf(const struct fk_conditional *of, const struct fk_conditional_at *y,
                                  const struct fk_opts *opts, double *out, struct fk_stats *stats,
                                  struct fk_error *err) {
  struct conditional s = {.of = of, .y = y->y, .y_low = y->y_low, .count = y->count, .out = out};
  return conditional_run(&s, 1, opts, stats, err);
}

enum fk_status fk_conditional_quantiles(const struct fk_conditional *of, const struct fk_probability *p,
                                        int64_t count, const struct fk_opts *opts, double *out, double *nearest,
                                        struct fk_stats *stats, struct fk_error *err) {
  struct conditional s = {.of = of, .p = p, .count = count, .out = out, .nearest = nearest};
  return conditional_run(&s, QUANTILE_PASSES, opts, stats, err);
}

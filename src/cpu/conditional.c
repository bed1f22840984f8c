/* Distribution functions of one y given x, and quantiles; what they are stands in core/conditional.h.
 *
 * Points lie in the tree of panels.h, by x. For each place those whose weights there can matter are listed, once
 * for all of its y or probabilities: all others together weigh less than 2^-54 of each. */
#include "../core/conditional.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/pool.h"
#include "../core/threads.h"
#include "panels.h"

/* Places that are not worth an order of the points; rounds of a search, by 2,200 halvings of which any double
 * leads to any other. */
enum { FEW = 16, MOST_ROUNDS = 6600 };
/* Multiply-adds of a pair, and the times that a quantile goes over its list. */
#define PAIR_WORK 60.0
#define QUANTILE_PASSES 6.0
/* Of all weights together, that what is left out may have: none of the double's digits. */
#define BITS 54.0
/* A tail that is below this of the weights wants more points than those of BITS. */
#define SMALL_TAIL 0x1p-4
#define MOST_BITS 1021.0

struct pass {
  const struct fk_conditional *of;
  const struct fk_tile_ops *ops;
  struct fk_panels panels;
  /* As the points lie in panels: log2 of the weight, log2(e) / (2 s^2), c, and 1 / s, NULL without widths. */
  double *log_weight, *precision, *centre, *centre_low, *narrow; /* centre_low: NULL without low parts */
  double *top, *least; /* of each node: the largest log_weight, the least precision */
  double narrowest;
  struct fk_scratch scratch;
  const double *y, *y_low;
  const struct fk_probability *p;
  int64_t count;
  double *out, *nearest;
};

/* A place, its points that count with their weights there, 1 being the largest, and the sum of these. */
struct place {
  const double *x, *x_low;
  double *weight, *centre, *narrow;
  /* With low parts: those of the centres, the places of the points among the panels', and the centres about what
   * they are looked at from, list_about(), whose low part is 0. */
  double *low, *number, *about;
  int64_t count;
  double top, least, total;
};

/* ---- points that count ------------------------------------------------------------------------ */

/* No point of the node has a larger exponent at x. */
static double bound_of(const struct pass *s, const double *x, int64_t node) {
  const double *box = fk_node_box(&s->panels, node);
  const int64_t d = s->of->d;
  double square = 0;
  for (int64_t k = 0; k < d; k++) {
    double z = fmax(fmax(box[k] - x[k], x[k] - box[d + k]), 0);
    square += z * z;
  }
  return s->top[node] - s->least[node] * square;
}

static double exponents_of(const struct pass *s, const struct place *g, int64_t panel, double *t) {
  return s->ops->point_exponents(fk_panel_at(&s->panels, panel), fk_panel_low_at(&s->panels, panel), s->of->d,
                                 g->x, g->x_low, s->log_weight + panel * FK_NEAR_POINTS,
                                 s->precision + panel * FK_NEAR_POINTS, t);
}

/* The largest exponent at the place, nearer nodes first. */
static void find_top(const struct pass *s, struct place *g, int64_t node, int64_t first, int64_t end) {
  if (!(bound_of(s, g->x, node) > g->top)) return;
  if (end - first == 1) {
    double t[FK_NEAR_POINTS];
    exponents_of(s, g, first, t);
    for (int i = 0; i < FK_NEAR_POINTS; i++) g->top = t[i] > g->top ? t[i] : g->top;
    return;
  }
  int64_t middle = fk_panels_middle(first, end), left = node + 1, right = fk_node_right(node, first, middle);
  bool swap = bound_of(s, g->x, right) > bound_of(s, g->x, left);
  if (swap) find_top(s, g, right, middle, end);
  find_top(s, g, left, first, middle);
  if (!swap) find_top(s, g, right, middle, end);
}

/* Most panels have points that all count, or none. */
static void list_panel(const struct pass *s, struct place *g, int64_t panel) {
  double *t = g->weight + g->count, *c = g->centre + g->count, *narrow = g->narrow ? g->narrow + g->count : NULL;
  const double *centre = s->centre + panel * FK_NEAR_POINTS;
  const double *own = narrow ? s->narrow + panel * FK_NEAR_POINTS : NULL;
  bool all = exponents_of(s, g, panel, t) >= g->least;
  for (int i = 0, at = 0; g->low && i < FK_NEAR_POINTS; i++) {
    g->low[g->count + at] = s->centre_low[panel * FK_NEAR_POINTS + i];
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
  for (int i = 0; i < fk_panel_size(&s->panels, panel); i++) {
    double exponent = t[i];
    t[count] = exponent;
    c[count] = centre[i];
    if (narrow) narrow[count] = own[i];
    count += exponent >= g->least;
  }
  g->count += count;
}

static void list_node(const struct pass *s, struct place *g, int64_t node, int64_t first, int64_t end) {
  if (!(bound_of(s, g->x, node) >= g->least)) return;
  if (end - first == 1) {
    list_panel(s, g, first);
    return;
  }
  int64_t middle = fk_panels_middle(first, end);
  list_node(s, g, node + 1, first, middle);
  list_node(s, g, fk_node_right(node, first, middle), middle, end);
}

static int64_t padded(int64_t count) { return fk_pieces(count, FK_NEAR_POINTS) * FK_NEAR_POINTS; }

/* All others weigh less than 2^-BITS of a probability of at least `tail`, whatever their y are. */
static void list_points(const struct pass *s, struct place *g, double tail) {
  g->least = g->top - fmin(BITS + log2((double)s->of->n) - log2(tail), MOST_BITS);
  g->count = 0;
  list_node(s, g, 0, 0, s->panels.count);
  for (int64_t i = g->count; i < padded(g->count); i++) {
    g->weight[i] = -INFINITY;
    g->centre[i] = g->centre[0];
    if (g->low) g->low[i] = g->low[0];
    if (g->narrow) g->narrow[i] = g->narrow[0];
  }
  g->total = s->ops->powers_of_two(g->weight, padded(g->count), g->top);
}

/* False: the distance is no double. */
static bool start_place(const struct pass *s, struct place *g, int64_t j, int slot) {
  int64_t room = padded(s->of->n) + FK_NEAR_POINTS;
  double *next = fk_scratch_at(&s->scratch, slot);
  *g = (struct place){.x = s->of->at + j * s->of->d, .top = -INFINITY, .weight = next};
  g->centre = next += room;
  if (s->of->widths) g->narrow = next += room;
  if (s->centre_low) {
    g->x_low = s->of->at_low + j * s->of->d;
    g->low = next += room;
    g->number = next += room;
    g->about = next + room;
  }
  find_top(s, g, 0, 0, s->panels.count);
  return g->top > -INFINITY;
}

/* The centres that shares are of, with low parts about a place whose own are these two. */
static const double *list_about(const struct place *g, double place, double low) {
  if (!g->about) return g->centre;
  for (int64_t i = 0; i < padded(g->count); i++) g->about[i] = (g->centre[i] - place) + (g->low[i] - low);
  return g->about;
}

/* The share of the weight below y, or with sign -1 above it. With low parts y is about that of list_about(). */
static struct fk_tile_normal share(const struct pass *s, const struct place *g, double y, double sign) {
  struct fk_tile_normal sums = {.count = padded(g->count), .y = y, .sign = sign};
  sums.weight = g->weight, sums.centre = g->about ? g->about : g->centre, sums.narrow = g->narrow;
  s->ops->normal_sums(&sums);
  sums.below /= g->total;
  sums.density /= g->total;
  return sums;
}

/* ---- distribution functions ------------------------------------------------------------------- */

static double share_below(const struct pass *s, const struct place *g, int64_t at) {
  if (!g->about) return share(s, g, s->y[at], 1).below;
  list_about(g, s->y[at], s->y_low[at]);
  return share(s, g, 0, 1).below;
}

static void fill_cdf(void *data, int64_t first, int64_t end, int slot) {
  const struct pass *s = data;
  for (int64_t j = first; j < end; j++) {
    struct place g;
    bool near = start_place(s, &g, j, slot);
    double reached = 1;
    if (near) list_points(s, &g, reached);
    for (int64_t k = 0; k < s->count; k++) {
      double below = near ? share_below(s, &g, j * s->count + k) : NAN;
      if (below < SMALL_TAIL * reached) {
        /* what was left out can only make it larger */
        reached = fmax(below, 0x1p-1000);
        list_points(s, &g, reached);
        below = share_below(s, &g, j * s->count + k);
      }
      s->out[j * s->count + k] = below;
    }
  }
}

/* ---- quantiles -------------------------------------------------------------------------------- */

/* In the direction in which the tail grows: y times sign. Each kernel alone has its quantile at c + s z: the first
 * and the last of these enclose that of all. */
struct bracket {
  double sign, low, high, start;
};

static struct bracket bracket_of(const struct place *g, const double *centre, const struct fk_probability *p) {
  struct bracket b = {.sign = p->upper ? -1 : 1, .low = INFINITY, .high = -INFINITY};
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
static double root_about(const struct pass *s, const struct place *g, const double *centre,
                         const struct fk_probability *p) {
  struct bracket b = bracket_of(g, centre, p);
  double y = b.start, before = INFINITY;
  if (!(y > b.low && y < b.high)) y = b.low / 2 + b.high / 2;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    struct fk_tile_normal at = share(s, g, b.sign * y, b.sign);
    double excess = log(at.below / p->tail), size = fmax(1e-12 * s->narrowest, 4 * DBL_EPSILON * fabs(y));
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
    if (b.high - b.low <= size || (newton && before <= fmax(1e-9 * s->narrowest, size))) return b.sign * next;
    y = next;
  }
  return b.sign * y;
}

/* With low parts about the centre of a point near it, which is found by a root about another. */
static void find_root(const struct pass *s, const struct place *g, const struct fk_probability *p, int64_t at) {
  int64_t from = 0;
  for (int round = 0; round < (g->about ? 2 : 1); round++) {
    const double *centre = list_about(g, g->centre[from], g->low ? g->low[from] : 0);
    s->out[at] = root_about(s, g, centre, p);
    if (!g->about) return;
    s->nearest[at] = (double)s->panels.order[(int64_t)g->number[from]];
    for (int64_t i = 0; i < g->count && round == 0; i++)
      if (fabs(centre[i] - s->out[at]) < fabs(centre[from] - s->out[at])) from = i;
  }
}

static void fill_quantiles(void *data, int64_t first, int64_t end, int slot) {
  const struct pass *s = data;
  double tail = 1;
  for (int64_t k = 0; k < s->count; k++) tail = fmin(tail, s->p[k].tail);
  for (int64_t j = first; j < end; j++) {
    struct place g;
    bool near = start_place(s, &g, j, slot);
    if (near) list_points(s, &g, tail);
    for (int64_t k = 0; k < s->count; k++) {
      s->out[j * s->count + k] = NAN;
      if (near) find_root(s, &g, s->p + k, j * s->count + k);
    }
  }
}

/* ---- both ------------------------------------------------------------------------------------- */

static void fill_node(const struct pass *s, int64_t node, int64_t first, int64_t end) {
  double *top = s->top + node, *least = s->least + node;
  if (end - first == 1) {
    *top = -INFINITY, *least = INFINITY;
    for (int64_t i = first * FK_NEAR_POINTS; i < first * FK_NEAR_POINTS + fk_panel_size(&s->panels, first); i++) {
      *top = fmax(*top, s->log_weight[i]);
      *least = fmin(*least, s->precision[i]);
    }
    return;
  }
  int64_t middle = fk_panels_middle(first, end), left = node + 1, right = fk_node_right(node, first, middle);
  fill_node(s, left, first, middle);
  fill_node(s, right, middle, end);
  *top = fmax(s->top[left], s->top[right]);
  *least = fmin(s->least[left], s->least[right]);
}

static void fill_weights(struct pass *s) {
  const struct fk_conditional *of = s->of;
  s->narrowest = of->widths ? INFINITY : 1;
  for (int64_t i = 0; i < s->panels.count * FK_NEAR_POINTS; i++) {
    int64_t point = i < of->n ? s->panels.order[i] : -1;
    double width = point >= 0 && of->widths ? of->widths[point] : 1;
    s->log_weight[i] = point < 0 ? -INFINITY : FK_LOG2E * of->log_weights[point];
    s->precision[i] = FK_LOG2E / (2 * width * width);
    s->centre[i] = point < 0 ? 0 : of->centres[point];
    if (s->centre_low) s->centre_low[i] = point < 0 ? 0 : of->centres_low[point];
    if (s->narrow) s->narrow[i] = 1 / width;
    if (point >= 0) s->narrowest = fmin(s->narrowest, width);
  }
  fill_node(s, 0, 0, s->panels.count);
}

static enum fk_status prepare(struct pass *s, int threads, struct fk_error *err) {
  const struct fk_conditional *of = s->of;
  bool ready = fk_panels_init(&s->panels, of->x, of->x_low, of->n, of->d, of->m > FEW, 0, threads);
  size_t points = (size_t)(s->panels.count * FK_NEAR_POINTS), nodes = (size_t)fk_panels_nodes(&s->panels);
  size_t lists = (of->widths ? 3 : 2) + (of->centres_low ? 3 : 0);
  s->log_weight = malloc(sizeof(double) * points);
  s->precision = malloc(sizeof(double) * points);
  s->centre = malloc(sizeof(double) * points);
  s->centre_low = of->centres_low ? malloc(sizeof(double) * points) : NULL;
  s->narrow = of->widths ? malloc(sizeof(double) * points) : NULL;
  s->top = malloc(sizeof(double) * nodes);
  s->least = malloc(sizeof(double) * nodes);
  if (!ready || !s->log_weight || !s->precision || !s->centre || (of->widths && !s->narrow) || !s->top ||
      !s->least || (of->centres_low && !s->centre_low) ||
      !fk_scratch_init(&s->scratch, threads, sizeof(double) * (points + FK_NEAR_POINTS) * lists))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for conditional distribution functions");
  fill_weights(s);
  return FK_STATUS_OK;
}

static enum fk_status run(struct pass *s, double passes, fk_body fill, const struct fk_opts *opts,
                          struct fk_error *err) {
  const struct fk_conditional *of = s->of;
  double work = PAIR_WORK * (double)of->n * passes * (double)s->count; /* of a place, at most */
  int threads = fk_threads_for_work(opts->threads, work * (double)of->m);
  enum fk_status status = prepare(s, threads, err);
  struct fk_loop loop = {threads, of->m, fk_step_for_work(work), work / PAIR_WORK};
  if (!status) status = fk_loop_run(&loop, &opts->poll, fill, s, err);
  fk_scratch_free(&s->scratch);
  free(s->least);
  free(s->top);
  free(s->narrow);
  free(s->centre);
  free(s->centre_low);
  free(s->precision);
  free(s->log_weight);
  fk_panels_free(&s->panels);
  return status;
}

enum fk_status fk_conditional_cdf(const struct fk_conditional *of, const struct fk_conditional_at *y,
                                  const struct fk_opts *opts, double *out, struct fk_error *err) {
  struct pass s = {.of = of, .ops = fk_isa()->f64, .y = y->y, .y_low = y->y_low, .count = y->count, .out = out};
  return run(&s, 1, fill_cdf, opts, err);
}

enum fk_status fk_conditional_quantiles(const struct fk_conditional *of, const struct fk_probability *p,
                                        int64_t count, const struct fk_opts *opts, double *out, double *nearest,
                                        struct fk_error *err) {
  struct pass s = {.of = of, .ops = fk_isa()->f64, .p = p, .count = count, .out = out, .nearest = nearest};
  return run(&s, QUANTILE_PASSES, fill_quantiles, opts, err);
}

/* With u the coordinates in which a Gaussian is the unit one about the origin, its mass in a polygon is, by
 * Green's theorem, the integral of Phi(u_1) phi(u_2) du_2 along all sides: a smooth function of the place on a
 * side. Its moment of u_1^a u_2^b has the moment of order a below u_1 in place of Phi, and u_2^b phi(u_2). */
#include "polygon.h"

#include <math.h>

#include "gauss.h"
#include "plan.h"
#include "pool.h"
#include "threads.h"

/* Beyond so many sds a Gaussian has less than 1e-16 of its mass: there Phi is 0 or 1. */
#define REACH 8.5

/* Of a polygon: sums[orders * b + a]. */
struct polygon_sums {
  int orders;
  double sums[FK_POLYGON_ORDERS * FK_POLYGON_ORDERS];
};

/* Integrals of t^a phi(t) up to z, a < orders. */
static void orders_below(double z, int orders, double *out) {
  out[0] = fk_normal_below(z);
  double term = fk_normal_density(z);
  for (int a = 1; a < orders; a++, term *= z) out[a] = (a > 1 ? (a - 1) * out[a - 2] : 0) - term;
}

static void add_at(struct polygon_sums *s, double weight, double x, double y) {
  double of_x[FK_POLYGON_ORDERS], of_y = weight * fk_normal_density(y);
  orders_below(x, s->orders, of_x);
  for (int b = 0; b < s->orders; b++, of_y *= y)
    for (int a = 0; a < s->orders; a++) s->sums[s->orders * b + a] += of_y * of_x[a];
}

/* To the right of reach, where the moments below u_1 are those of all. */
static void add_between(struct polygon_sums *s, double from, double to) {
  static const double all[FK_POLYGON_ORDERS] = {1, 0, 1, 0, 3};
  double at_from[FK_POLYGON_ORDERS], at_to[FK_POLYGON_ORDERS];
  orders_below(from, s->orders, at_from);
  orders_below(to, s->orders, at_to);
  for (int b = 0; b < s->orders; b++)
    for (int a = 0; a < s->orders; a++) s->sums[s->orders * b + a] += all[a] * (at_to[b] - at_from[b]);
}

/* Gauss' formulas on [-1, 1] for sides of up to 0.1, 0.5 and 2 sds: errors below 1e-14. Nodes come in pairs. */
struct polygon_rule {
  int pairs, middle;
  double node[7], weight[7];
};
static const struct polygon_rule rules[] = {
    {1, 1, {0.77459666924148338}, {0.27777777777777778}},
    {3,
     0,
     {0.93246951420315203, 0.66120938646626451, 0.23861918608319691},
     {0.085662246189585172, 0.18038078652406930, 0.23395696728634552}},
    {7,
     0,
     {0.98628380869681234, 0.92843488366357352, 0.82720131506976499, 0.68729290481168547, 0.51524863635815409,
      0.31911236892788976, 0.10805494870734367},
     {0.017559730165875932, 0.040079043579880105, 0.060759285343951592, 0.078601583579096767, 0.092769198738968907,
      0.10259923186064780, 0.10763192673157889}},
};
static const double middle_weight = 0.44444444444444444; /* of three nodes */

/* Along a piece with its middle at (x, y), half of it being (dx, dy). */
static void piece(struct polygon_sums *s, const struct polygon_rule *rule, double x, double y, double dx,
                  double dy) {
  if (rule->middle) add_at(s, 2 * dy * middle_weight, x, y);
  for (int i = 0; i < rule->pairs; i++) {
    double t = rule->node[i], weight = 2 * dy * rule->weight[i];
    add_at(s, weight, x - t * dx, y - t * dy);
    add_at(s, weight, x + t * dx, y + t * dy);
  }
}

/* The part of [from, to] where start + t step is between -REACH and REACH. */
static void clip(double start, double step, double *from, double *to) {
  if (step == 0) return;
  double enter = (-REACH - start) / step, leave = (REACH - start) / step;
  *from = fmax(*from, fmin(enter, leave));
  *to = fmin(*to, fmax(enter, leave));
}

/* Along the side from (x, y) to (x + dx, y + dy), some of which is in reach. */
static void along(struct polygon_sums *s, double x, double y, double dx, double dy) {
  double length = sqrt(dx * dx + dy * dy);
  if (length <= 0.5) {
    piece(s, rules + (length > 0.1), x + dx / 2, y + dy / 2, dx / 2, dy / 2);
    return;
  }
  double from = 0, to = 1;
  clip(y, dy, &from, &to);
  double first = from, last = to;
  clip(x, dx, &from, &to);
  if (dx > 0 && last > fmax(to, first)) add_between(s, y + fmax(to, first) * dy, y + last * dy);
  if (dx < 0 && fmin(from, last) > first) add_between(s, y + first * dy, y + fmin(from, last) * dy);
  if (!(to > from)) return;
  int pieces = (int)ceil(0.5 * length * (to - from));
  double step = (to - from) / pieces;
  for (int i = 0; i < pieces; i++) {
    double t = from + (i + 0.5) * step;
    piece(s, rules + 2, x + t * dx, y + t * dy, 0.5 * step * dx, 0.5 * step * dy);
  }
}

/* Number k of a side less that of a centre, of double-doubles. */
static double gap_of(const struct fk_polygon *of, int64_t side, int64_t centre, int k) {
  int64_t from = 4 * side + k, to = 2 * centre + k % 2;
  double low = (of->sides_low ? of->sides_low[from] : 0) - (of->centres_low ? of->centres_low[to] : 0);
  return (of->sides[from] - of->centres[to]) + low;
}

static void sums_of(const struct fk_polygon *of, int64_t i, struct polygon_sums *s) {
  double scale = of->widths ? 1 / of->widths[i] : 1;
  /* sides to the right of reach that follow each other: their integrals add up to the difference of their ends */
  double chain_from = 0, chain_to = 0;
  for (int64_t side = 0; side < of->n_sides; side++) {
    double x0 = gap_of(of, side, i, 0) * scale, y0 = gap_of(of, side, i, 1) * scale;
    double x1 = gap_of(of, side, i, 2) * scale, y1 = gap_of(of, side, i, 3) * scale;
    if (fmin(x0, x1) > REACH) {
      if (y0 != chain_to) {
        if (chain_from != chain_to) add_between(s, chain_from, chain_to);
        chain_from = y0;
      }
      chain_to = y1;
    } else if (fmax(x0, x1) > -REACH && fmin(y0, y1) < REACH && fmax(y0, y1) > -REACH) {
      along(s, x0, y0, x1 - x0, y1 - y0);
    }
  }
  if (chain_from != chain_to) add_between(s, chain_from, chain_to);
  s->sums[0] = fmin(fmax(s->sums[0], 0), 1);
}

struct masses {
  const struct fk_polygon *of;
  double *out;
};

static void fill(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct masses *m = data;
  for (int64_t i = first; i < end; i++) {
    struct polygon_sums s = {.orders = m->of->moments ? FK_POLYGON_ORDERS : 1};
    sums_of(m->of, i, &s);
    for (int k = 0; k < s.orders * s.orders; k++) m->out[i + m->of->n * k] = s.sums[k];
  }
}

enum fk_status fk_polygon_masses(const struct fk_polygon *of, const struct fk_opts *opts, double *out,
                                 struct fk_stats *stats, struct fk_error *err) {
  double started = fk_seconds(), work = (double)of->n_sides * fk_plan_pair_work(FK_OP_POLYGON, 2, 1);
  struct masses masses = {of, out};
  const struct fk_loop loop = fk_loop_of(opts->threads, of->n, work);
  enum fk_status status = fk_loop_run(&loop, &opts->poll, fill, &masses, err);
  fk_plan_describe(opts, FK_OP_POLYGON, (double)of->n_sides * (double)of->n, started, loop.threads, stats);
  return status;
}

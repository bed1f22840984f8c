/* Sums of kernels with their first and second derivatives by the walk of ../walk.h.
 *
 * A node that is out of reach of all targets of a group is left out with all of its points: per unit of weight it
 * adds less to any sum than 2^-54 of the target's own sum over all weights. */
#include "derivatives.h"

#include <math.h>
#include <string.h>

#include "../../core/plan.h"
#include "../walk.h"

/* In base 2: of the padding, whose kernels are 0. */
#define NO_WEIGHT -1e300
/* The numbers of a point. */
enum { LOG_WEIGHT, PRECISION, NUMBERS };

struct derivatives {
  const struct fk_derivatives *of;
  double log_total; /* of all weights */
};

/* For each target of a group: log_scale, the s beyond which no kernel counts, and sums [sum][FK_NEAR_TARGETS]. */
struct derivatives_room {
  _Alignas(64) double log_scale[FK_NEAR_TARGETS], reach[FK_NEAR_TARGETS];
  double sums[];
};

static void derivatives_point(const void *data, int64_t point, double *values) {
  const struct fk_derivatives *of = ((const struct derivatives *)data)->of;
  double f = point >= 0 && of->factors ? of->factors[point] : 1;
  values[LOG_WEIGHT] = point < 0 ? NO_WEIGHT : FK_LOG2E * of->log_weight[point];
  values[PRECISION] = 1 / (f * f);
}

static bool derivatives_opens(struct fk_walk_group *g, int64_t node, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  const struct derivatives_room *room = g->room;
  double squares[FK_NEAR_TARGETS], least = fk_walk_node(w, node)[0];
  bool any = false;
  w->ops->near_box(fk_walk_box(w, node), w->d, g->y, squares);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) any |= least * squares[t] / 2 < room->reach[t];
  return any;
}

static void derivatives_panel(struct fk_walk_group *g, int64_t panel, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  const struct derivatives *s = w->of;
  struct derivatives_room *room = g->room;
  bool own = w->own && g->first / FK_NEAR_POINTS == panel;
  struct fk_tile_derivatives tile = {
      .d = w->d,
      .points = fk_walk_panel(w, panel),
      .log_weight = fk_walk_values(w, LOG_WEIGHT, panel),
      .precision = fk_walk_values(w, PRECISION, panel),
      .targets = g->y,
      .points_low = fk_walk_low(w, panel),
      .targets_low = g->low,
      .log_scale = room->log_scale,
      .drop = own ? g->first % FK_NEAR_POINTS : FK_NEAR_POINTS,
      .sums = room->sums,
  };
  memcpy(tile.factor, s->of->factor, sizeof tile.factor);
  w->ops->derivatives(&tile);
}

/* The s beyond which exp(-s), times what the derivatives multiply it with, a polynomial of degree 3 or so, is
 * below 2^-54 of the sum per unit of weight. */
static double derivatives_reach(const struct derivatives *s, double log_scale) {
  double reach = fmax(s->log_total - log_scale, 0) + 54 * FK_LN2;
  return reach + 3 * log1p(2 * reach + 2 * (double)s->of->d);
}

static bool derivatives_group(struct fk_walk_group *g) {
  static const struct fk_walk_look look = {.opens = derivatives_opens, .panel = derivatives_panel};
  const struct fk_walk *w = g->walk;
  const struct derivatives *s = w->of;
  const struct fk_derivatives *of = s->of;
  struct derivatives_room *room = g->room;
  int64_t sums = fk_derivative_sums(of->d);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    double log_scale = of->log_scale[fk_walk_target(w, g->first + (t < g->count ? t : 0))];
    room->log_scale[t] = FK_LOG2E * log_scale;
    room->reach[t] = derivatives_reach(s, log_scale);
  }
  memset(room->sums, 0, sizeof(double) * FK_NEAR_TARGETS * (size_t)sums);
  fk_walk_through(g, &look);
  for (int t = 0; t < g->count; t++)
    for (int64_t i = 0; i < sums; i++)
      of->sums[fk_walk_target(w, g->first + t) * sums + i] = room->sums[i * FK_NEAR_TARGETS + t];
  return true;
}

static double log_of_sum(const double *logs, int64_t n) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = fmax(top, logs[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(logs[i] - top);
  return top + log(sum);
}

enum fk_status fk_kernel_derivatives(const struct fk_derivatives *of, const struct fk_opts *opts,
                                     struct fk_stats *stats, struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_DERIVATIVES,
      .width = FK_NEAR_TARGETS,
      .piece = 8 * FK_NEAR_TARGETS,
      .few = 64,
      .values = NUMBERS,
      .point = derivatives_point,
      .numbers = {{FK_WALK_LEAST, PRECISION}},
      .group = derivatives_group,
  };
  const struct derivatives s = {of, log_of_sum(of->log_weight, of->n)};
  double sums = (double)fk_derivative_sums(of->d);
  struct fk_walk walk = {.rule = &rule, .of = &s, .d = of->d};
  walk.x = (struct fk_walk_points){of->x, of->x_low, of->n};
  walk.y = (struct fk_walk_points){of->y, of->y_low, of->m};
  walk.room = sizeof(struct derivatives_room) + sizeof(double) * FK_NEAR_TARGETS * (size_t)sums;
  walk.work = (double)of->n * fk_plan_pair_work(FK_OP_DERIVATIVES, of->d, sums);
  return fk_walk_run(&walk, opts, stats, err);
}

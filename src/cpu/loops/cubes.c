/* Kernels of bounded reach in several dimensions by the walk of ../walk.h.
 *
 * Each target goes through the tree alone: a node whose box its cube does not meet is left out. Of other nodes
 * every panel is summed, so that results depend on the points and the target alone. */
#include "cubes.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/plan.h"
#include "../walk.h"

struct cubes {
  const struct fk_cubes *of;
  const double *narrow; /* 1 / reach */
};

/* Working memory of the current target. */
struct cubes_room {
  struct fk_tile_cubes tile;
  _Alignas(64) double weights[FK_NEAR_POINTS]; /* of its own panel, its own one 0 */
  _Alignas(64) double numbers[];               /* sums, and what the tile works in */
};

static int64_t cubes_sums(const struct fk_cubes *of) { return of->slope.count > 0 ? 1 + of->d : 1; }

static void cubes_point(const void *data, int64_t point, double *weight) {
  *weight = point < 0 ? 0 : ((const struct cubes *)data)->of->weights[point];
}

/* Rounding is monotone: what is out of reach of a box is so of the points in it. */
static bool cubes_opens(struct fk_walk_group *g, int64_t node, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  const double *box = fk_walk_box(w, node), *reach = ((const struct cubes *)w->of)->of->reach;
  for (int64_t k = 0; k < w->d; k++)
    if (!(box[k] - g->y[k] <= reach[k] && g->y[k] - box[w->d + k] <= reach[k])) return false;
  return true;
}

static void cubes_panel(struct fk_walk_group *g, int64_t panel, FK_UNUSED const double *gaps) {
  const struct fk_walk *w = g->walk;
  struct cubes_room *room = g->room;
  room->tile.points = fk_walk_panel(w, panel);
  room->tile.weights = fk_walk_values(w, 0, panel);
  if (w->own && g->first / FK_NEAR_POINTS == panel) {
    memcpy(room->weights, room->tile.weights, sizeof room->weights);
    room->weights[g->first % FK_NEAR_POINTS] = 0;
    room->tile.weights = room->weights;
  }
  w->ops->cubes(&room->tile);
}

static bool cubes_target(struct fk_walk_group *g) {
  static const struct fk_walk_look look = {.opens = cubes_opens, .panel = cubes_panel};
  const struct fk_walk *w = g->walk;
  const struct cubes *s = w->of;
  const struct fk_cubes *of = s->of;
  const int64_t sums = cubes_sums(of);
  struct cubes_room *room = g->room;
  room->tile = (struct fk_tile_cubes){.d = of->d, .value = of->value, .tip = of->tip, .slope = of->slope};
  room->tile.target = g->y;
  room->tile.reach = of->reach;
  room->tile.narrow = s->narrow;
  room->tile.sums = room->numbers;
  room->tile.work = room->numbers + sums * FK_CUBE_LANES;
  memset(room->numbers, 0, sizeof(double) * (size_t)(sums * FK_CUBE_LANES));
  fk_walk_through(g, &look);
  for (int64_t k = 0; k < sums; k++) {
    double sum = 0;
    for (int lane = 0; lane < FK_CUBE_LANES; lane++) sum += room->numbers[k * FK_CUBE_LANES + lane];
    of->sums[k * w->y.n + fk_walk_target(w, g->first)] = sum;
  }
  return true;
}

enum fk_status fk_cube_sums(const struct fk_cubes *of, const struct fk_opts *opts, struct fk_stats *stats,
                            struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_CUBES,
      .width = 1,
      .piece = 64,
      .few = 16,
      .values = 1,
      .point = cubes_point,
      .group = cubes_target,
  };
  double *narrow = malloc(sizeof(double) * (size_t)of->d);
  if (!narrow) return fk_no_memory(err, 0, "kernels of bounded reach");
  for (int64_t k = 0; k < of->d; k++) narrow[k] = 1 / of->reach[k];
  const struct cubes s = {of, narrow};
  struct fk_walk walk = {
      .rule = &rule, .of = &s, .d = of->d, .x = {of->x, NULL, of->n}, .y = {of->y, NULL, of->m}};
  size_t numbers = (size_t)(cubes_sums(of) * FK_CUBE_LANES + 2 * of->d * FK_CUBE_POINTS);
  walk.room = sizeof(struct cubes_room) + sizeof(double) * numbers;
  walk.work = (double)of->n * fk_plan_pair_work(FK_OP_CUBES, of->d, (double)(of->d * of->value.count));
  enum fk_status status = fk_walk_run(&walk, opts, stats, err);
  free(narrow);
  return status;
}

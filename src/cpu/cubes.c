/* Kernels of bounded reach in several dimensions; what they are stands in core/cubes.h.
 *
 * Points lie in the tree of panels.h, and each target goes through it alone: a node whose box its cube does not
 * meet is left out. Of other nodes every panel is summed, so that results go by the points and the target. */
#include "../core/cubes.h"
#include "../core/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/pool.h"
#include "../core/threads.h"
#include "panels.h"

/* Targets of a piece of the loop. Fewer targets than FEW are not worth an order of the points. */
enum { PIECE = 64, FEW = 16 };

struct pass {
  const struct fk_cubes *of;
  const struct fk_tile_ops *ops;
  int64_t m; /* targets */
  struct fk_panels panels;
  int64_t *targets; /* their order */
  double *weights;  /* as the points lie in panels */
  double *narrow;   /* 1 / reach */
  struct fk_scratch scratch;
  int threads;
};

/* What a slot has: one target at a time, whose own place is `self`, and how many panels were summed so far. */
struct search {
  struct fk_tile_cubes tile;
  int64_t self, looked;
  double weights[FK_NEAR_POINTS];
};

static int64_t n_sums(const struct fk_cubes *of) { return of->slope.count > 0 ? 1 + of->d : 1; }

static struct search *search_of(const struct pass *s, int slot) {
  struct search *g = fk_scratch_at(&s->scratch, slot);
  g->tile.of = s->of;
  g->tile.narrow = s->narrow;
  g->tile.sums = (double *)(g + 1);
  g->tile.work = g->tile.sums + n_sums(s->of) * FK_CUBE_LANES;
  return g;
}

/* Rounding is monotone: what is out of reach of a box is so of the points in it. */
static bool meets(const struct pass *s, const double *y, int64_t node) {
  const double *box = fk_node_box(&s->panels, node);
  const int64_t d = s->of->d;
  for (int64_t k = 0; k < d; k++)
    if (!(box[k] - y[k] <= s->of->reach[k] && y[k] - box[d + k] <= s->of->reach[k])) return false;
  return true;
}

static void look_at_panel(const struct pass *s, struct search *g, int64_t panel) {
  g->tile.points = fk_panel_at(&s->panels, panel);
  g->tile.weights = s->weights + panel * FK_NEAR_POINTS;
  if (g->self >= 0 && g->self / FK_NEAR_POINTS == panel) {
    memcpy(g->weights, g->tile.weights, sizeof g->weights);
    g->weights[g->self % FK_NEAR_POINTS] = 0;
    g->tile.weights = g->weights;
  }
  s->ops->cubes(&g->tile);
  g->looked++;
}

static void visit(const struct pass *s, struct search *g, int64_t node, int64_t first, int64_t end) {
  if (!meets(s, g->tile.target, node)) return;
  if (end - first == 1) {
    look_at_panel(s, g, first);
    return;
  }
  int64_t middle = fk_panels_middle(first, end);
  visit(s, g, node + 1, first, middle);
  visit(s, g, fk_node_right(node, first, middle), middle, end);
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct pass *s = data;
  const struct fk_cubes *of = s->of;
  const int64_t sums = n_sums(of);
  struct search *g = search_of(s, slot);
  for (int64_t i = first * PIECE; i < fk_smaller(s->m, end * PIECE); i++) {
    int64_t target = s->targets[i];
    g->tile.target = (of->y ? of->y : of->x) + target * of->d;
    g->self = of->y ? -1 : i;
    memset(g->tile.sums, 0, sizeof(double) * (size_t)(sums * FK_CUBE_LANES));
    visit(s, g, 0, 0, s->panels.count);
    for (int64_t k = 0; k < sums; k++) {
      double sum = 0;
      for (int lane = 0; lane < FK_CUBE_LANES; lane++) sum += g->tile.sums[k * FK_CUBE_LANES + lane];
      of->sums[k * s->m + target] = sum;
    }
  }
}

static enum fk_status prepare(struct pass *s, struct fk_error *err) {
  const struct fk_cubes *of = s->of;
  int64_t numbers = n_sums(of) * FK_CUBE_LANES + 2 * of->d * FK_CUBE_POINTS;
  bool ready = fk_panels_init(&s->panels, of->x, NULL, of->n, of->d, s->m > FEW, 0, s->threads);
  s->targets = of->y ? fk_panels_order(of->y, s->m, of->d, s->m > FEW, s->threads) : s->panels.order;
  s->weights = calloc((size_t)(s->panels.count * FK_NEAR_POINTS), sizeof(double));
  s->narrow = malloc(sizeof(double) * (size_t)of->d);
  if (!ready || !s->targets || !s->weights || !s->narrow ||
      !fk_scratch_init(&s->scratch, s->threads, sizeof(struct search) + sizeof(double) * (size_t)numbers))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for kernels of bounded reach");
  for (int64_t i = 0; i < of->n; i++) s->weights[i] = of->weights[s->panels.order[i]];
  for (int64_t k = 0; k < of->d; k++) s->narrow[k] = 1 / of->reach[k];
  for (int slot = 0; slot < s->threads; slot++) search_of(s, slot)->looked = 0;
  return FK_STATUS_OK;
}

static double pairs_looked_at(const struct pass *s) {
  int64_t looked = 0;
  for (int slot = 0; slot < s->threads; slot++) looked += search_of(s, slot)->looked;
  return (double)looked * FK_NEAR_POINTS;
}

enum fk_status fk_cube_sums(const struct fk_cubes *of, const struct fk_opts *opts, struct fk_stats *stats,
                            struct fk_error *err) {
  struct pass s = {.of = of, .ops = fk_isa()->f64, .m = of->y ? of->m : of->n};
  double started = fk_seconds(), work = (double)(of->n * of->d * (of->value.count + 8)); /* of a target, at most */
  s.threads = fk_threads_for_work(opts->threads, work * (double)s.m);
  enum fk_status status = prepare(&s, err);
  struct fk_loop loop = {s.threads, fk_pieces(s.m, PIECE), 1, (double)of->n * PIECE};
  if (!status) status = fk_loop_run(&loop, &opts->poll, do_pieces, &s, err);
  fk_plan_describe(opts, "cubes", (double)of->n * (double)s.m, started, stats);
  if (!status) stats->skipped = fmax(stats->pairs - pairs_looked_at(&s), 0);
  fk_scratch_free(&s.scratch);
  free(s.narrow);
  free(s.weights);
  if (of->y) free(s.targets);
  fk_panels_free(&s.panels);
  return status;
}

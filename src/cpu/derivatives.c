/* Sums of kernels with their first and second derivatives; what they are stands in core/derivatives.h.
 *
 * Points lie in the tree of panels.h. Targets go through it in groups of a few that are close to each other, and a
 * node that is out of reach of all of them is left out with all of its points: per unit of weight it adds less to
 * any sum than 2^-54 of the target's own sum over all weights. */
#include "../core/derivatives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/pool.h"
#include "../core/threads.h"
#include "panels.h"

/* Targets of a piece of the loop. FEW targets and less are done before the points would be in order. */
enum { PIECE = 8 * FK_NEAR_TARGETS, FEW = 64 };
/* In base 2: of the padding, whose kernels are 0. */
#define NO_WEIGHT -1e300

struct pass {
  const struct fk_derivatives *of;
  const struct fk_tile_ops *ops;
  int64_t m; /* targets */
  struct fk_panels panels;
  int64_t *targets; /* their order */
  /* As the points lie in panels: log2 w and 1 / f^2; of each node the least 1 / f^2; log of all weights. */
  double *log_weight, *precision, *least, log_total;
  struct fk_scratch scratch;
};

/* Targets first .. first + count - 1 of their order. */
struct group {
  int64_t first;
  int count;
  double *y, *low, *sums; /* [k][FK_NEAR_TARGETS], the low parts of these, [sum][FK_NEAR_TARGETS] */
  double log_scale[FK_NEAR_TARGETS], reach[FK_NEAR_TARGETS];
};

static double least_precision(const struct pass *s, int64_t node, int64_t first, int64_t end) {
  double *least = s->least + node;
  if (end - first == 1) {
    *least = INFINITY;
    for (int i = 0; i < fk_panel_size(&s->panels, first); i++)
      *least = fmin(*least, s->precision[first * FK_NEAR_POINTS + i]);
    return *least;
  }
  int64_t middle = fk_panels_middle(first, end);
  double left = least_precision(s, node + 1, first, middle);
  return *least = fmin(left, least_precision(s, fk_node_right(node, first, middle), middle, end));
}

static double log_of_sum(const double *logs, int64_t n) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = fmax(top, logs[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(logs[i] - top);
  return top + log(sum);
}

static void look_at_panel(const struct pass *s, struct group *g, int64_t panel) {
  bool own = !s->of->y && g->first / FK_NEAR_POINTS == panel;
  struct fk_tile_derivatives tile = {
      .d = s->of->d,
      .points = fk_panel_at(&s->panels, panel),
      .log_weight = s->log_weight + panel * FK_NEAR_POINTS,
      .precision = s->precision + panel * FK_NEAR_POINTS,
      .targets = g->y,
      .points_low = fk_panel_low_at(&s->panels, panel),
      .targets_low = g->low,
      .log_scale = g->log_scale,
      .drop = own ? g->first % FK_NEAR_POINTS : FK_NEAR_POINTS,
      .sums = g->sums,
  };
  memcpy(tile.factor, s->of->factor, sizeof tile.factor);
  s->ops->derivatives(&tile);
}

static void visit(const struct pass *s, struct group *g, int64_t node, int64_t first, int64_t end) {
  double squares[FK_NEAR_TARGETS];
  bool any = false;
  s->ops->near_box(fk_node_box(&s->panels, node), s->of->d, g->y, squares);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) any |= s->least[node] * squares[t] / 2 < g->reach[t];
  if (!any) return;
  if (end - first == 1) {
    look_at_panel(s, g, first);
    return;
  }
  int64_t middle = fk_panels_middle(first, end);
  visit(s, g, node + 1, first, middle);
  visit(s, g, fk_node_right(node, first, middle), middle, end);
}

/* The s beyond which exp(-s), times what the derivatives multiply it with, a polynomial of degree 3 or so, is
 * below 2^-54 of the sum per unit of weight. */
static double reach_of(const struct pass *s, double log_scale) {
  double reach = fmax(s->log_total - log_scale, 0) + 54 * FK_LN2;
  return reach + 3 * log1p(2 * reach + 2 * (double)s->of->d);
}

/* Lanes without a target have the first one's again. */
static void start_group(const struct pass *s, struct group *g, int64_t first, int64_t end) {
  const struct fk_derivatives *of = s->of;
  const double *y = of->y ? of->y : of->x, *low = of->y ? of->y_low : of->x_low;
  g->first = first;
  g->count = (int)fk_smaller(FK_NEAR_TARGETS, end - first);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    int64_t target = s->targets[first + (t < g->count ? t : 0)];
    for (int64_t k = 0; k < of->d; k++) {
      g->y[k * FK_NEAR_TARGETS + t] = y[target * of->d + k];
      g->low[k * FK_NEAR_TARGETS + t] = low ? low[target * of->d + k] : 0;
    }
    g->log_scale[t] = FK_LOG2E * of->log_scale[target];
    g->reach[t] = reach_of(s, of->log_scale[target]);
  }
  memset(g->sums, 0, sizeof(double) * FK_NEAR_TARGETS * (size_t)fk_derivative_sums(of->d));
}

static void do_piece(const struct pass *s, int64_t piece, struct group *g) {
  int64_t end = fk_smaller(s->m, (piece + 1) * PIECE), sums = fk_derivative_sums(s->of->d);
  for (int64_t first = piece * PIECE; first < end; first += FK_NEAR_TARGETS) {
    start_group(s, g, first, end);
    visit(s, g, 0, 0, s->panels.count);
    for (int t = 0; t < g->count; t++)
      for (int64_t i = 0; i < sums; i++)
        s->of->sums[s->targets[first + t] * sums + i] = g->sums[i * FK_NEAR_TARGETS + t];
  }
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct pass *s = data;
  struct group g = {.y = fk_scratch_at(&s->scratch, slot)};
  g.low = g.y + FK_NEAR_TARGETS * s->of->d;
  g.sums = g.low + FK_NEAR_TARGETS * s->of->d;
  for (int64_t i = first; i < end; i++) do_piece(s, i, &g);
}

static void fill_weights(struct pass *s) {
  const struct fk_derivatives *of = s->of;
  for (int64_t i = 0; i < s->panels.count * FK_NEAR_POINTS; i++) {
    int64_t point = i < of->n ? s->panels.order[i] : -1;
    double f = point >= 0 && of->factors ? of->factors[point] : 1;
    s->log_weight[i] = point < 0 ? NO_WEIGHT : FK_LOG2E * of->log_weight[point];
    s->precision[i] = 1 / (f * f);
  }
  s->log_total = log_of_sum(of->log_weight, of->n);
  least_precision(s, 0, 0, s->panels.count);
}

static enum fk_status prepare(struct pass *s, int threads, struct fk_error *err) {
  const struct fk_derivatives *of = s->of;
  size_t numbers = (size_t)(2 * of->d + fk_derivative_sums(of->d)) * FK_NEAR_TARGETS;
  bool ready = fk_panels_init(&s->panels, of->x, of->x_low, of->n, of->d, s->m > FEW, 0, threads);
  s->targets = of->y ? fk_panels_order(of->y, s->m, of->d, s->m > FEW, threads) : s->panels.order;
  s->log_weight = malloc(sizeof(double) * (size_t)(s->panels.count * FK_NEAR_POINTS));
  s->precision = malloc(sizeof(double) * (size_t)(s->panels.count * FK_NEAR_POINTS));
  s->least = malloc(sizeof(double) * (size_t)fk_panels_nodes(&s->panels));
  if (!ready || !s->targets || !s->log_weight || !s->precision || !s->least ||
      !fk_scratch_init(&s->scratch, threads, sizeof(double) * numbers))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for derivatives of sums of kernels");
  fill_weights(s);
  return FK_STATUS_OK;
}

enum fk_status fk_kernel_derivatives(const struct fk_derivatives *of, const struct fk_opts *opts,
                                     struct fk_error *err) {
  struct pass s = {.of = of, .ops = fk_isa()->f64, .m = of->y ? of->m : of->n};
  double work = (double)of->n * (double)(fk_derivative_sums(of->d) + 20); /* of a target, at most */
  int threads = fk_threads_for_work(opts->threads, work * (double)s.m);
  enum fk_status status = prepare(&s, threads, err);
  struct fk_loop loop = {threads, fk_pieces(s.m, PIECE), 1, (double)of->n * PIECE};
  if (!status) status = fk_loop_run(&loop, &opts->poll, do_pieces, &s, err);
  fk_scratch_free(&s.scratch);
  free(s.least);
  free(s.precision);
  free(s.log_weight);
  if (of->y) free(s.targets);
  fk_panels_free(&s.panels);
  return status;
}

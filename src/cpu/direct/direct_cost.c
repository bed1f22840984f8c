/* Estimates the time of pruned sums: counts the cells visited, sources packed and kernels computed on a sample of
 * groups of targets, and multiplies them by their costs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/threads.h"
#include "../tile.h"
#include "direct_parts.h"

/* For one group, on average. */
struct counts {
  double visited, packed, pairs, single, shifted;
};

static double seconds_of(const struct counts *each, double groups, double ordered, double d, double columns,
                         bool gradient, int threads) {
  const struct fk_direct_costs *c = &fk_costs.direct;
  double values = columns - 1 + (gradient ? d : 0), narrow = each->single, wide = each->pairs - each->single;
  double ns = c->group + each->visited * (c->visit + c->visit_coordinate * d);
  ns += each->packed * c->pack * (d + columns);
  double pairs = narrow * (c->f32 + c->f32_coordinate * d + c->f32_value * values) +
                 wide * (c->f64 + c->f64_coordinate * d + c->f64_value * values);
  ns += pairs * 16 / fk_isa()->per_cycle; /* 16 where the costs were measured */
  ns += each->shifted * c->shifted;
  return 1e-9 * (groups * ns / threads + ordered * c->order * (c->order_serial + (1 - c->order_serial) / threads));
}

double fk_direct_least_seconds(double n, double m, int threads) {
  static const struct counts none;
  return seconds_of(&none, m / FK_DIRECT_GROUP, n, 1, 1, false, fk_threads(threads));
}

/* At most `most` points, evenly spaced among the rows. */
static bool thin_out(const struct fk_matrix *from, int64_t most, struct fk_matrix *to) {
  int64_t n = fk_smaller(from->n, most);
  double *x = malloc(sizeof(double) * (size_t)(n * from->d + 1));
  *to = fk_doubles(x, n, from->d);
  if (x) fk_thin_out(from, n, x);
  return x != NULL;
}

struct guess {
  const struct fk_direct_question *question;
  struct fk_rows_work work;
  double times;  /* sources for each of the sample */
  double shrink; /* sides of a group among all targets, beside those among the sample */
  double least;  /* of the largest sums, in the sample's sources */
  struct counts each;
  double parts; /* that groups are summed in */
};

/* A group among all targets is a box smaller than one among the sample, around one of its points. */
static void shrink(const struct fk_cells *targets, int64_t at, double by, double *box) {
  const double *whole = fk_cell_box(targets, at);
  int d = targets->d;
  for (int k = 0; k < d; k++) {
    double half = 0.5 * by * (whole[d + k] - whole[k]), x = targets->x[k * targets->n + targets->cells[at].first];
    box[k] = x - half;
    box[d + k] = x + half;
  }
}

/* Groups whose targets' sums differ much are cut: so often that squared distances differ by 32 at most. */
static double parts_of(const struct fk_direct *s, const struct fk_cells *targets, int64_t at, double by) {
  const double *whole = fk_cell_box(targets, at);
  int d = targets->d;
  double x[FK_CELLS_MAX_DIM], near2, across2 = 0, parts = 1;
  for (int k = 0; k < d; k++) {
    x[k] = targets->x[k * targets->n + targets->cells[at].first];
    across2 += by * by * (whole[d + k] - whole[k]) * (whole[d + k] - whole[k]);
  }
  if (fk_direct_near_source(s, x, -1, &near2) < 0) return 1;
  while (parts < FK_DIRECT_GROUP && 2 * sqrt(across2 / d * near2) > 32) {
    across2 *= pow(2, -2.0 / d);
    parts *= 2;
  }
  return parts;
}

static bool guess_group(struct guess *g, struct fk_direct_group *group, int64_t i) {
  const struct fk_direct_groups *targets = &g->work.groups;
  int64_t at = targets->list[i], first = targets->cells->cells[at].first;
  double box[2 * FK_CELLS_MAX_DIM], parts = 1, pairs = group->pairs;
  if (g->question->by_rows) {
    parts = parts_of(g->work.direct, targets->cells, at, g->shrink);
    shrink(targets->cells, at, g->shrink * pow(parts, -1.0 / targets->cells->d), box);
    if (!fk_rows_sum(&g->work, group, first, first + 1, box)) return false;
  } else {
    const struct fk_direct *s = g->work.direct;
    shrink(targets->cells, at, g->shrink, box);
    struct fk_direct_near_ask ask = {.box = box, .budget = g->work.job->tol * g->least};
    if (!fk_direct_near_find(&group->near, &g->work.reach, &ask)) return false;
    double rounding = fk_direct_single_error(&g->work.reach, &group->near, box, 0, g->least);
    bool single = s->options.single && fk_direct_may_be_single(rounding, g->work.job->tol);
    struct fk_direct_targets one = {targets->cells->x + first, targets->cells->n, 1, box};
    fk_direct_group_sum(group, s, &one, -1, single, 0);
  }
  g->parts += parts;
  /* each part looks for its sources, and its targets meet all of them */
  group->packed_from += (parts - 1) * (group->pairs - pairs);
  return true;
}

static enum fk_status guess_groups(struct guess *g, struct fk_error *err) {
  const struct fk_direct_costs *c = &fk_costs.direct;
  int64_t share = (int64_t)(g->question->m / (c->groups_share * FK_DIRECT_GROUP));
  int64_t sample = fk_smaller(fk_larger(share, c->groups_least), fk_smaller(c->groups, g->work.groups.n));
  struct fk_direct *s = g->work.direct;
  struct fk_direct_group group;
  bool failed = !fk_direct_group_init(&group, s, g->work.job);
  group.only_count = true;
  for (int64_t i = 0; i < sample && !failed; i++) failed = !guess_group(g, &group, i * g->work.groups.n / sample);
  /* The sample's leaves are large for the box, so that more is looked at for each source that is kept than among
   * all points; the less so, the more dimensions there are. */
  double per = sample > 0 ? g->times / (double)sample : 0,
         looks = group.pairs > 0 ? group.packed_from / group.pairs : 1;
  if (s->d <= 3) looks = sqrt(looks);
  g->each = (struct counts){.packed = looks * group.pairs * per,
                            .pairs = group.pairs * per,
                            .single = group.single_pairs * per,
                            .shifted = group.shifted_pairs * per};
  g->each.visited = g->each.packed / 8;
  g->parts = sample > 0 ? g->parts / (double)sample : 1;
  fk_direct_group_free(&group);
  return failed ? fk_no_memory(err, 0, "a sample of pruned sums") : FK_STATUS_OK;
}

static void price(const struct guess *g, const struct fk_direct_options *options, struct fk_direct_cost *cost) {
  const struct fk_direct_question *q = g->question;
  const struct fk_matrix *aims = &g->work.job->targets;
  double per_group = aims->n > 0 ? (double)aims->n / (double)g->work.groups.n : 1, groups = q->m / per_group;
  double columns = q->by_rows ? 1 : (double)q->n_columns, times = q->by_rows ? (double)q->n_columns : 1;
  struct counts each = g->each;
  each.pairs *= per_group;
  each.single *= per_group;
  each.shifted *= per_group;
  int threads = fk_threads_for_work(options->threads, 10 * each.pairs * groups);
  cost->pairs = times * each.pairs * groups;
  cost->seconds = times * seconds_of(&each, groups, 0, (double)q->x.d, columns, q->gradient, threads);
  cost->seconds += 1e-9 * fk_costs.direct.group * times * groups * (g->parts - 1) / threads;
  static const struct counts none;
  cost->seconds += seconds_of(&none, 0, q->n + (q->targets.data ? q->m : 0), 1, 1, false, threads);
}

static enum fk_status guess(struct guess *g, const struct fk_direct_options *options, struct fk_direct_cost *cost,
                            struct fk_error *err) {
  const struct fk_direct_question *q = g->question;
  struct fk_direct_job *job = g->work.job;
  double unused[1];
  enum fk_status status = fk_direct_groups_init(&g->work.groups, g->work.direct, job, NULL, 0, err);
  if (!status) status = fk_direct_look(g->work.direct, job, &g->work.groups, &g->least, err);
  if (status) return status;
  if (!q->targets
           .data) /* a point of the sample meets itself once, and the others' neighbours are `times` as many */
    g->least = fmax(1, 1 + g->times * (g->least - 1)) / g->times;
  if (g->least < 1e-30) { /* as fk_direct_sums() would do */
    double far2;
    status = fk_direct_look_far(g->work.direct, job, &g->work.groups, &far2, err);
    g->least = exp2(fmax(far2, -1000));
  }
  job->gradient = q->gradient ? unused : NULL;
  fk_reach_init(&g->work.reach, g->work.direct, job);
  if (!status) status = guess_groups(g, err);
  if (!status) price(g, options, cost);
  return status;
}

enum fk_status fk_direct_guess(const struct fk_direct_question *q, const struct fk_direct_options *options,
                               struct fk_direct_cost *cost, struct fk_error *err) {
  struct fk_matrix sources = fk_doubles(NULL, 0, q->x.d), aims = sources;
  struct fk_direct_options quick = {.single = options->single, .threads = 1};
  struct guess g = {.question = q, .least = 0};
  enum fk_status status = FK_STATUS_OK;
  if (!thin_out(&q->x, fk_costs.direct.sample_sources, &sources) ||
      !thin_out(q->targets.data ? &q->targets : &q->x, fk_costs.direct.sample_targets, &aims))
    status = fk_no_memory(err, 0, "a sample of the points");
  struct fk_direct_job job = {.targets = aims, .self_first = -1, .factor = {1, 0, 0}, .tol = q->tol, .ld = aims.n};
  if (!status) status = fk_direct_create(&sources, NULL, 1, &quick, &g.work.direct, err);
  if (!status) {
    double dense = aims.n > 0 ? fmax(1, q->m / (double)aims.n) : 1;
    g.work.job = &job;
    g.times = sources.n > 0 ? q->n / (double)sources.n : 1;
    g.work.floor2 = q->floor > 0 ? log2(q->floor / g.times) : -INFINITY;
    g.shrink = pow(dense, -1 / (double)q->x.d);
    status = guess(&g, options, cost, err);
  }
  if (g.work.groups.cells) fk_direct_groups_free(&g.work.groups);
  fk_direct_destroy(g.work.direct);
  free((double *)sources.data);
  free((double *)aims.data);
  return status;
}

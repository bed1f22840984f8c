/* What pruned sums would cost: cells looked at, sources packed and kernels computed, counted on a sample of groups
 * of targets, times what each takes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/count.h"
#include "../core/threads.h"
#include "direct_parts.h"

enum { COUNTED = 64, GUESS_SOURCES = 1 << 15, GUESS_TARGETS = 1 << 13 };

/* For one group, on average. */
struct counts {
  double visited, packed, pairs;
};

/* Nanoseconds on one core (Zen 5, AVX-512); for other processors only their ratio to those of the other engines
 * matters. */
enum { GROUP_NS = 1800, ORDER_NS = 50 };

static double seconds_of(const struct counts *each, double groups, double ordered, double d, double columns,
                         bool gradient, bool single, int threads) {
  double pair = single ? 0.10 + 0.028 * d : 0.22 + 0.045 * d;
  pair += (single ? 0.03 : 0.06) * (columns - 1 + (gradient ? d : 0));
  double ns = GROUP_NS + each->visited * (2 + 0.7 * d) + each->packed * 0.75 * (d + columns) + each->pairs * pair;
  return 1e-9 * (groups * ns / threads + ordered * ORDER_NS * (0.4 + 0.6 / threads));
}

double fk_direct_least_seconds(double n, double m, int threads) {
  static const struct counts none;
  return seconds_of(&none, m / FK_DIRECT_GROUP, n, 1, 1, false, false, fk_threads(threads));
}

static bool count_groups(struct fk_direct *s, const struct fk_direct_job *job,
                         const struct fk_direct_groups *groups, double budget, struct counts *each) {
  int64_t sample = fk_smaller(COUNTED, groups->n);
  struct fk_direct_job plain = *job;
  struct fk_direct_group group;
  struct fk_reach reach;
  fk_reach_init(&reach, s, job);
  bool failed = !fk_direct_group_init(&group, s, &plain);
  group.only_count = true;
  for (int64_t i = 0; i < sample && !failed; i++) {
    int64_t at = groups->list[i * groups->n / sample];
    const struct fk_cell *cell = groups->cells->cells + at;
    const double *box = fk_cell_box(groups->cells, at);
    failed = !fk_near_find(&group.near, &reach, box, 0, budget);
    if (!failed)
      fk_direct_group_sum(&group, s, groups->cells->x + cell->first, groups->cells->n,
                          (int)(cell->end - cell->first), box, -1, false);
  }
  double per = sample > 0 ? 1 / (double)sample : 0;
  *each = (struct counts){group.near.visited * per, group.packed_from * per, group.pairs * per};
  fk_direct_group_free(&group);
  return !failed;
}

enum fk_status fk_direct_count(struct fk_direct *s, const struct fk_direct_job *job, struct fk_direct_cost *cost,
                               struct fk_error *err) {
  struct fk_direct_groups groups;
  struct counts each;
  double budget;
  enum fk_status status = fk_direct_check(s, job, err);
  if (status) return status;
  status = fk_direct_groups_init(&groups, s, job, err);
  if (!status) status = fk_direct_look(s, job, &groups, &budget, err);
  if (!status && !count_groups(s, job, &groups, budget, &each))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for a sample of pruned sums");
  if (!status) {
    double n_groups = (double)groups.n, m = job->targets.data ? (double)job->targets.n : 0;
    int threads = fk_threads_for_work(s->options.threads, 10 * each.pairs * n_groups);
    cost->pairs = each.pairs * n_groups;
    cost->seconds = seconds_of(&each, n_groups, (double)s->cells.n + m, s->cells.d, s->n_columns,
                               job->gradient != NULL, s->options.single, threads);
  }
  fk_direct_groups_free(&groups);
  return status;
}

/* ---- from a sample of the points -------------------------------------------------------------- */

/* At most `most` points, evenly spaced among the rows. */
static bool thin_out(const struct fk_points *from, int64_t most, struct fk_points *to) {
  int64_t n = fk_smaller(from->n, most);
  double *x = malloc(sizeof(double) * (size_t)(n * from->d + 1));
  if (!x) return false;
  for (int64_t k = 0; k < from->d; k++)
    for (int64_t i = 0; i < n; i++)
      x[k * n + i] = from->data[k * from->n + (int64_t)((double)i * ((double)from->n / (double)n))];
  *to = (struct fk_points){x, n, from->d};
  return true;
}

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

/* The sample's masses stand for `times` as many. */
static bool guess_groups(struct fk_direct *s, const struct fk_direct_job *job,
                         const struct fk_direct_groups *targets, double times, double by, double budget,
                         struct counts *each) {
  int64_t sample = fk_smaller(COUNTED, targets->n);
  struct fk_direct_group group;
  struct fk_reach reach;
  fk_reach_init(&reach, s, job);
  bool failed = !fk_direct_group_init(&group, s, job);
  group.only_count = true;
  for (int64_t i = 0; i < sample && !failed; i++) {
    int64_t at = targets->list[i * targets->n / sample];
    double box[2 * FK_DIRECT_MAX_DIM];
    const struct fk_cell *cell = targets->cells->cells + at;
    shrink(targets->cells, at, by, box);
    failed = !fk_near_find(&group.near, &reach, box, 0, budget / times);
    if (!failed)
      fk_direct_group_sum(&group, s, targets->cells->x + cell->first, targets->cells->n, 1, box, -1, false);
  }
  /* The sample's leaves are large for the box, so that more is looked at for each source that is kept than among
   * all points; the less so, the more dimensions there are. */
  double per = sample > 0 ? times / (double)sample : 0,
         looks = group.pairs > 0 ? group.packed_from / group.pairs : 1;
  if (s->cells.d <= 3) looks = sqrt(looks);
  *each = (struct counts){.packed = looks * group.pairs * per, .pairs = group.pairs * per};
  each->visited = each->packed / 8;
  fk_direct_group_free(&group);
  return !failed;
}

enum fk_status fk_direct_guess(const struct fk_points *x, double n, const struct fk_points *targets, double m,
                               int64_t n_columns, bool gradient, double tol,
                               const struct fk_direct_options *options, struct fk_direct_cost *cost,
                               struct fk_error *err) {
  struct fk_points sources = {NULL, 0, x->d}, aims = {NULL, 0, x->d};
  struct fk_direct_options quick = {.threads = 1};
  struct fk_direct *s = NULL;
  struct fk_direct_groups groups;
  struct counts each;
  double unused[1], budget = 0;
  enum fk_status status = FK_STATUS_OK;
  memset(&groups, 0, sizeof groups);
  if (!thin_out(x, GUESS_SOURCES, &sources) || !thin_out(targets->data ? targets : x, GUESS_TARGETS, &aims))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for a sample of the points");
  struct fk_direct_job job = {.targets = aims, .self_first = -1, .factor = {1, 0, 0}, .tol = tol, .ld = aims.n};
  if (!status) status = fk_direct_create(&sources, NULL, 1, &quick, &s, err);
  if (!status) status = fk_direct_groups_init(&groups, s, &job, err);
  if (!status) status = fk_direct_look(s, &job, &groups, &budget, err);
  if (!status) {
    double times = sources.n > 0 ? n / (double)sources.n : 1, dense = aims.n > 0 ? m / (double)aims.n : 1;
    /* A point of the sample meets itself once, and the others' neighbours are `times` as many. */
    budget = tol * fmax(1, 1 + times * (budget / fmax(tol, 1e-300) - 1));
    job.gradient = gradient ? unused : NULL;
    if (!guess_groups(s, &job, &groups, times, pow(dense, -1 / (double)x->d), budget, &each))
      status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for a sample of pruned sums");
    else {
      double per_group = aims.n > 0 ? (double)aims.n / (double)groups.n : 1, n_groups = m / per_group;
      int threads = fk_threads_for_work(options->threads, 10 * each.pairs * m);
      each.pairs *= per_group;
      cost->pairs = each.pairs * n_groups;
      cost->seconds = seconds_of(&each, n_groups, n + (targets->data ? m : 0), (double)x->d, (double)n_columns,
                                 gradient, options->single, threads);
    }
  }
  if (groups.cells) fk_direct_groups_free(&groups);
  fk_direct_destroy(s);
  free((double *)sources.data);
  free((double *)aims.data);
  return status;
}

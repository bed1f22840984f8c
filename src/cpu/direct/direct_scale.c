/* How large the sums are: a bound from below on the largest sum of |b| k, to which the tolerance is relative. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "direct_parts.h"

/* Most of a kernel's mass is that near. */
static double core2(int d) { return d <= 3 ? 9 : 16; }

static bool look_at(struct fk_direct_group *group, const struct fk_direct *s, const struct fk_direct_job *job,
                    const struct fk_direct_groups *groups, int64_t g, double *largest) {
  int64_t i = groups->list[g];
  const struct fk_cells *targets = groups->cells;
  const struct fk_cell *cell = targets->cells + i;
  const double *box = fk_cell_box(targets, i);
  if (!fk_direct_near_within(&group->near, s, box, core2(s->cells.d))) return false;
  struct fk_direct_targets here = {targets->x + cell->first, targets->n, (int)(cell->end - cell->first), box};
  fk_direct_group_sum(group, s, &here, -1, false, 0);
  for (int t = 0; t < group->tile.n_targets; t++) {
    int64_t self = fk_direct_self(s, job, fk_direct_row(groups, cell->first + t));
    for (int c = 0; c < s->n_columns; c++) {
      double own = self < 0 ? 0 : s->columns ? fabs(s->columns[c * s->cells.n + self]) : 1;
      double sum = group->tile.sums[c * FK_DIRECT_GROUP + t];
      largest[c] = fmax(largest[c], sum - own - 1e-14 * (sum + own));
    }
  }
  return true;
}

struct looks {
  struct fk_direct_team team;
  const struct fk_direct *direct;
  const struct fk_direct_job *job;
  const struct fk_direct_groups *groups;
  int64_t sample;
  double *largest; /* [group][column] */
};

static void look(void *data, int64_t first, int64_t end, int slot) {
  struct looks *l = data;
  for (int64_t i = first; i < end; i++)
    if (!look_at(&l->team.groups[slot], l->direct, l->job, l->groups, i * l->groups->n / l->sample,
                 l->largest + i * l->direct->n_columns))
      l->team.failed = true;
}

static bool look_at_sample(const struct fk_direct *s, const struct fk_direct_job *job,
                           const struct fk_direct_groups *groups, int64_t sample, double *largest) {
  int threads = fk_threads_for_work(s->options.threads, fk_costs.direct.sampled * (double)sample);
  struct fk_direct_job plain = {.factor = {1, 0, 0}};
  struct looks looks = {.direct = s, .job = job, .groups = groups, .sample = sample, .largest = largest};
  bool fits = fk_direct_team_init(&looks.team, threads, s, &plain);
  for (int i = 0; i < threads && fits; i++) looks.team.groups[i].tile.absolute = true;
  if (fits) fk_parallel_for(threads, sample, 1, look, &looks);
  fits = fits && !looks.team.failed;
  fk_direct_team_free(&looks.team);
  return fits;
}

enum fk_status fk_direct_look(struct fk_direct *s, const struct fk_direct_job *job,
                              const struct fk_direct_groups *groups, double *least, struct fk_error *err) {
  int64_t sample = fk_smaller(fk_costs.direct.groups, fk_pieces(groups->n, fk_costs.direct.groups_share));
  double *largest = calloc((size_t)(s->n_columns * (sample + 1)), sizeof(double));
  bool own_out = job->self_first >= 0, failed = !largest || !look_at_sample(s, job, groups, sample, largest);
  double *seen = s->seen + (own_out ? s->n_columns : 0);
  *least = INFINITY;
  for (int c = 0; c < s->n_columns && !failed; c++) {
    if (s->largest[c] == 0) continue;
    /* Among the targets is the source with the largest |b| of the column, and its kernel with itself is 1. */
    if (!job->targets.data && !own_out) seen[c] = fmax(seen[c], s->largest[c]);
    for (int64_t i = 0; i < sample; i++) seen[c] = fmax(seen[c], largest[i * s->n_columns + c]);
    if (job->known) seen[c] = fmax(seen[c], ldexp(job->known[c], -s->exponent[c]));
    *least = fmin(*least, seen[c]);
  }
  free(largest);
  return failed ? fk_no_memory(err, 0, "pruned sums") : FK_STATUS_OK;
}

/* ---- far away --------------------------------------------------------------------------------- */

enum { FAR_GROUPS = 4 };

/* The groups nearest to sources with mass. */
static void nearest_groups(const struct fk_direct *s, const struct fk_direct_groups *groups, int64_t *list) {
  double near2[FAR_GROUPS];
  for (int k = 0; k < FAR_GROUPS; k++) {
    near2[k] = INFINITY;
    list[k] = -1;
  }
  for (int64_t g = 0; g < groups->n; g++) {
    double q;
    int k = FAR_GROUPS;
    fk_direct_near_leaf(s, fk_cell_box(groups->cells, groups->list[g]), &q);
    for (; k > 0 && q < near2[k - 1]; k--)
      if (k < FAR_GROUPS) {
        near2[k] = near2[k - 1];
        list[k] = list[k - 1];
      }
    if (k < FAR_GROUPS) {
      near2[k] = q;
      list[k] = g;
    }
  }
}

/* Finds the nearest source of one target, from the boxes around it. */
static bool look_far_at(const struct fk_reach *reach, struct fk_direct_near *near, const struct fk_direct_job *job,
                        const struct fk_direct_groups *groups, int64_t at, double *least2) {
  const struct fk_direct *s = reach->direct;
  const struct fk_cells *y = groups->cells;
  double box[2 * FK_CELLS_MAX_DIM], q;
  for (int k = 0; k < s->cells.d; k++) box[k] = box[s->cells.d + k] = y->x[k * y->n + at];
  int64_t self = fk_direct_self(s, job, fk_direct_row(groups, at)),
          source = fk_direct_near_source(s, box, self, &q);
  if (source < 0) return true;
  double b = s->columns ? fabs(s->columns[source]) : 1;
  struct fk_direct_near_ask ask = {.box = box, .offset = q, .tol = 1e-3, .least = b};
  if (self >= 0) {
    ask.own_first = self;
    ask.own_end = self + 1;
  }
  if (!fk_direct_near_find(near, reach, &ask)) return false;
  *least2 = fmax(*least2, log2(near->least) - 0.5 * FK_LOG2E * q);
  return true;
}

enum fk_status fk_direct_look_far(struct fk_direct *s, const struct fk_direct_job *job,
                                  const struct fk_direct_groups *groups, double *least2, struct fk_error *err) {
  const struct fk_direct_job plain = {.factor = {1, 0, 0}};
  struct fk_direct_groups lifted;
  struct fk_reach reach;
  struct fk_direct_near near = {0};
  struct fk_direct *by;
  int64_t list[FAR_GROUPS];
  bool failed = false;
  *least2 = -INFINITY;
  memset(&lifted, 0, sizeof lifted);
  enum fk_status status = fk_direct_in_logs(s, &by, err);
  if (!status && by != s) {
    status = fk_direct_groups_init(&lifted, by, job, NULL, 0, err);
    groups = &lifted;
  }
  if (status) return status;
  fk_reach_init(&reach, by, &plain);
  nearest_groups(by, groups, list);
  for (int k = 0; k < FAR_GROUPS; k++) {
    const struct fk_cell *cell = groups->cells->cells + (list[k] < 0 ? 0 : groups->list[list[k]]);
    for (int64_t i = cell->first; list[k] >= 0 && i < cell->end && !failed; i++)
      failed = !look_far_at(&reach, &near, job, groups, i, least2);
  }
  free(near.pieces);
  if (groups == &lifted) fk_direct_groups_free(&lifted);
  return failed ? fk_no_memory(err, 0, "pruned sums") : FK_STATUS_OK;
}

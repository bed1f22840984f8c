/* How large the sums are: a bound from below on the largest sum of |b| k, to which the tolerance is relative. */
#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/threads.h"
#include "direct_parts.h"

/* Groups that are looked at: so many, but only a share of the work. */
enum { SAMPLE = 64, SHARE = 16 };

/* Most of a kernel's mass is that near. */
static double core2(int d) { return d <= 3 ? 9 : 16; }

static bool look_at(struct fk_direct_group *group, const struct fk_direct *s,
                    const struct fk_direct_groups *groups, int64_t g, double *largest) {
  int64_t i = groups->list[g];
  const struct fk_cells *targets = groups->cells;
  const struct fk_cell *cell = targets->cells + i;
  const double *box = fk_cell_box(targets, i);
  if (!fk_near_within(&group->near, s, box, core2(s->cells.d))) return false;
  fk_direct_group_sum(group, s, targets->x + cell->first, targets->n, (int)(cell->end - cell->first), box, -1,
                      false);
  for (int c = 0; c < s->n_columns; c++)
    for (int t = 0; t < group->tile.n_targets; t++)
      largest[c] = fmax(largest[c], group->tile.sums[c * FK_DIRECT_GROUP + t]);
  return true;
}

struct looks {
  struct fk_direct_team team;
  const struct fk_direct *direct;
  const struct fk_direct_groups *groups;
  int64_t sample;
  double *largest; /* [group][column] */
};

static void look(void *data, int64_t i, int64_t end, int slot) {
  struct looks *l = data;
  (void)end;
  if (!look_at(&l->team.groups[slot], l->direct, l->groups, i * l->groups->n / l->sample,
               l->largest + i * l->direct->n_columns))
    l->team.failed = true;
}

enum fk_status fk_direct_look(struct fk_direct *s, const struct fk_direct_job *job,
                              const struct fk_direct_groups *groups, double *budget, struct fk_error *err) {
  int64_t sample = fk_smaller(SAMPLE, fk_pieces(groups->n, SHARE));
  int threads = fk_threads_for_work(s->options.threads, 1e6 * (double)sample);
  struct fk_direct_job plain = {.factor = {1, 0, 0}};
  double *largest = calloc((size_t)(s->n_columns * (sample + 1)), sizeof(double));
  struct looks looks = {.direct = s, .groups = groups, .sample = sample, .largest = largest};
  bool failed = !fk_direct_team_init(&looks.team, threads, s, &plain) || !largest;
  for (int i = 0; i < threads && !failed; i++) looks.team.groups[i].tile.absolute = true;
  if (!failed) fk_parallel_for(threads, sample, 1, look, &looks);
  failed = failed || looks.team.failed;
  fk_direct_team_free(&looks.team);
  double least = INFINITY;
  for (int c = 0; c < s->n_columns && !failed; c++) {
    if (s->largest[c] == 0) continue;
    /* Among the targets is the source with the largest |b| of the column, and its kernel with itself is 1. */
    if (!job->targets.data) s->seen[c] = fmax(s->seen[c], 1);
    for (int64_t i = 0; i < sample; i++)
      s->seen[c] = fmax(s->seen[c], largest[i * s->n_columns + c] / s->largest[c]);
    least = fmin(least, s->seen[c]);
  }
  free(largest);
  /* Below the last term, a sum is 0 in double whatever is left out. */
  *budget = least < INFINITY ? fmax(job->tol * least, job->tol > 0 ? 1e-290 : 0) : 1;
  return failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory for pruned sums") : FK_STATUS_OK;
}

/* All targets to a share of the largest sum. */
#include <math.h>
#include <stdlib.h>

#include "direct_parts.h"

static enum fk_status out_of_memory(struct fk_error *err) { return fk_no_memory(err, 0, "pruned sums"); }

struct sums_work {
  struct fk_direct *direct;
  struct fk_reach reach;
  struct fk_direct_job *job;
  struct fk_direct_groups groups;
  double least; /* the largest sums, of all columns, are no smaller */
};

/* A group's sums, from the group to the job's rows. */
static void deliver(const struct sums_work *w, const struct fk_direct_group *group, const struct fk_cell *cell,
                    bool single) {
  const struct fk_direct_tile *tile = &group->tile;
  const struct fk_direct *s = w->direct;
  const struct fk_direct_job *job = w->job;
  for (int i = 0; i < tile->n_targets; i++) {
    int64_t row = fk_direct_row(&w->groups, cell->first + i), self = fk_direct_self(s, job, row);
    for (int c = 0; c < s->n_columns; c++) {
      double b = self < 0 ? 0 : s->columns ? s->columns[c * s->cells.n + self] : 1;
      /* A point's kernel with itself is 1, and its column as the tile has it. */
      double sum = tile->sums[c * FK_DIRECT_GROUP + i] - (single ? (double)(float)b : b) * job->factor[0];
      job->sums[row + c * job->ld] = ldexp(sum, s->exponent[c]);
    }
    for (int k = 0; k < s->d && job->gradient; k++)
      job->gradient[row + k * job->ld] =
          ldexp(tile->gradient[k * FK_DIRECT_GROUP + i] / FK_DIRECT_SCALE, s->exponent[0]);
  }
}

/* Rounding error of subtracting a target's own term, relative to the largest sum. */
static double own_error(const struct sums_work *w, bool single) {
  return w->job->self_first >= 0 ? (single ? 2e-7 : 2e-15) / w->least : 0;
}

/* Rounding of floats, relative to the largest sum. */
static double single_error(const struct sums_work *w, const struct fk_direct_near *near, const double *box) {
  if (!w->direct->options.single) return INFINITY;
  return own_error(w, true) + fk_direct_single_error(&w->reach, near, box, 0, w->least);
}

static bool sum_group(const void *work, struct fk_direct_group *group, int64_t g) {
  const struct sums_work *w = work;
  int64_t i = w->groups.list[g];
  const struct fk_cells *targets = w->groups.cells;
  const struct fk_cell *cell = targets->cells + i;
  const double *box = fk_cell_box(targets, i);
  double share = w->direct->options.single ? 2.0 / 3 : 1; /* floats may take the rest */
  struct fk_direct_near_ask ask = {.box = box, .budget = share * w->job->tol * w->least};
  if (!fk_direct_near_find(&group->near, &w->reach, &ask)) return false;
  double rounding = single_error(w, &group->near, box);
  bool single = fk_direct_may_be_single(rounding, w->job->tol);
  struct fk_direct_targets here = {targets->x + cell->first, targets->n, (int)(cell->end - cell->first), box};
  fk_direct_group_sum(group, w->direct, &here, -1, single, 0);
  deliver(w, group, cell, single);
  group->left_out = fmax(group->left_out, group->near.left_out);
  group->used_single = group->used_single || single;
  group->rounding = fmax(group->rounding, single ? rounding : own_error(w, false));
  return true;
}

/* Results are no larger than the sums of |b| k, but where a factor makes them so: what is left out is little
 * beside them, too, for every column that counts. */
static double largest_found(const struct sums_work *w) {
  const struct fk_direct_job *job = w->job;
  int64_t m = job->targets.data ? job->targets.n : w->direct->cells.n;
  double least = INFINITY;
  for (int c = 0; c < w->direct->n_columns; c++) {
    double most = 0;
    if (w->direct->largest[c] == 0) continue;
    for (int64_t i = 0; i < m && w->reach.plain; i++) most = fmax(most, fabs(job->sums[i + c * job->ld]));
    least = fmin(least, ldexp(most, -w->direct->exponent[c]));
  }
  return least < INFINITY ? fmax(least, w->least) : w->least;
}

static enum fk_status sum_groups(struct sums_work *w, struct fk_error *err) {
  double left_out, rounding;
  enum fk_status status =
      fk_direct_each_group(w->direct, w->job, w->groups.n, sum_group, w, &left_out, &rounding, err);
  if (!status && w->groups.n > 0)
    w->job->left_out = fmax(w->job->left_out, left_out / largest_found(w) + rounding);
  return status;
}

/* ---- where the sums are tiny -------------------------------------------------------------------- */

/* One column in the log domain; the tolerance is of the largest sum still, as far as that is known. */
static enum fk_status sum_by_rows(struct fk_direct *s, struct fk_direct_job *job,
                                  const struct fk_direct_groups *groups, double least, struct fk_error *err) {
  int64_t m = job->targets.data ? job->targets.n : s->cells.n;
  double *shift = malloc(sizeof(double) * (size_t)(m + 1)), least2 = log2(least), seen2;
  enum fk_status status = shift ? fk_direct_look_far(s, job, groups, &seen2, err) : out_of_memory(err);
  if (!status) status = fk_direct_by_rows(s, job, NULL, 0, shift, log2(job->tol) + fmax(least2, seen2), err);
  for (int64_t i = 0; i < m && !status; i++) {
    if (shift[i] == 0) continue;
    double scale = exp(shift[i]);
    job->sums[i] *= scale;
    for (int k = 0; k < s->d && job->gradient; k++) job->gradient[i + k * job->ld] *= scale;
  }
  free(shift);
  return status;
}

/* Each column by itself, for one is tiny beside the others. */
static enum fk_status sum_apart(struct fk_direct *s, struct fk_direct_job *job, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int c = 0; c < s->n_columns && !status; c++) {
    struct fk_direct *one;
    struct fk_direct_job part = *job;
    part.sums = job->sums + c * job->ld;
    part.gradient = c == 0 ? job->gradient : NULL;
    part.known = job->known ? job->known + c : NULL;
    status = fk_direct_one_column(s, c, &one, err);
    if (status) return status;
    /* what earlier chunks of targets have shown */
    for (int own = 0; own < 2; own++) one->seen[own] = s->seen[own * s->n_columns + c];
    status = fk_direct_sums(one, &part, err);
    for (int own = 0; own < 2; own++) s->seen[own * s->n_columns + c] = one->seen[own];
    job->pairs = part.pairs;
    job->left_out = part.left_out;
    job->used_single = part.used_single;
    fk_direct_destroy(one);
  }
  return status;
}

/* Below, cutoffs are relative to a group's nearest source; and own terms that come off again must not hide the
 * rest. */
#define TINY 1e-30
static bool is_tiny(const struct fk_direct_job *job, double least) {
  if (job->self_first >= 0 && 1e-15 > fmax(job->tol, 1e-12) / 16 * least) return true;
  return least < TINY;
}

enum fk_status fk_direct_sums(struct fk_direct *s, struct fk_direct_job *job, struct fk_error *err) {
  struct sums_work w = {.direct = s, .job = job};
  enum fk_status status = fk_direct_check(s, job, err);
  if (status) return status;
  fk_reach_init(&w.reach, s, job);
  status = fk_direct_groups_init(&w.groups, s, job, NULL, 0, err);
  if (!status) status = fk_direct_look(s, job, &w.groups, &w.least, err);
  if (!status && w.least < INFINITY && is_tiny(job, w.least))
    status = s->n_columns > 1 ? sum_apart(s, job, err) : sum_by_rows(s, job, &w.groups, w.least, err);
  else if (!status) {
    w.least = w.least < INFINITY ? w.least : 1; /* all b are 0 */
    status = sum_groups(&w, err);
  }
  fk_direct_groups_free(&w.groups);
  return status;
}

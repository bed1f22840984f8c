/* All targets to a share of the largest sum. */
#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/threads.h"
#include "direct_parts.h"

static enum fk_status out_of_memory(struct fk_error *err) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for pruned sums");
}

struct sums_work {
  struct fk_direct *direct;
  struct fk_reach reach;
  struct fk_direct_job *job;
  struct fk_direct_groups groups;
  double least; /* the largest sums, of all columns, are no smaller */
};

/* What all threads together leave out, and whether one took floats. */
struct sums_done {
  double pairs, left_out, rounding;
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

/* Rounding of floats, relative to the largest sum; an own term that comes off again adds its own. */
static double single_error(const struct sums_work *w, const struct fk_near *near, const double *box) {
  if (!w->direct->options.single) return INFINITY;
  double own = w->job->self_first >= 0 ? 2e-7 / w->least : 0;
  return own + fk_direct_single_error(&w->reach, near, box, 0, w->least);
}

static bool sum_group(const struct sums_work *w, struct fk_direct_group *group, int64_t g,
                      struct sums_done *done) {
  int64_t i = w->groups.list[g];
  const struct fk_cells *targets = w->groups.cells;
  const struct fk_cell *cell = targets->cells + i;
  const double *box = fk_cell_box(targets, i);
  struct fk_near_ask ask = {.box = box, .budget = w->job->tol * w->least};
  if (!fk_near_find(&group->near, &w->reach, &ask)) return false;
  double rounding = single_error(w, &group->near, box);
  bool single = fk_direct_may_be_single(rounding, w->job->tol);
  fk_direct_group_sum(group, w->direct, targets->x + cell->first, targets->n, (int)(cell->end - cell->first), box,
                      -1, single, 0);
  deliver(w, group, cell, single);
  done->left_out = fmax(done->left_out, group->near.left_out);
  if (single) done->rounding = fmax(done->rounding, rounding);
  return true;
}

static bool sum_range(const struct sums_work *w, int64_t from, int64_t to, int threads, struct sums_done *all) {
  bool failed = false;
  double pairs = 0, left_out = all->left_out, rounding = all->rounding;
#pragma omp parallel num_threads(threads) reduction(|| : failed) reduction(+ : pairs)                               \
    reduction(max : left_out, rounding)
  {
    struct fk_direct_group group;
    struct sums_done done = {0, 0, 0};
    failed = !fk_direct_group_init(&group, w->direct, w->job);
#pragma omp for schedule(dynamic, 8)
    for (int64_t g = from; g < to; g++)
      if (!failed) failed = !sum_group(w, &group, g, &done);
    pairs += group.pairs;
    left_out = fmax(left_out, done.left_out);
    rounding = fmax(rounding, done.rounding);
    fk_direct_group_free(&group);
  }
  *all = (struct sums_done){all->pairs + pairs, left_out, rounding};
  return !failed;
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
  struct fk_direct *s = w->direct;
  int threads = fk_threads_for_work(s->options.threads, 2e4 * (double)w->groups.n * FK_DIRECT_GROUP);
  enum fk_status status = FK_STATUS_OK;
  struct sums_done done = {0, 0, 0};
  struct fk_chunks progress;
  fk_chunks_start(&progress, &s->options.poll, threads, (double)w->groups.n, 3e4);
  for (int64_t from = 0, to; from < w->groups.n && !status; from = to) {
    to = fk_smaller(w->groups.n, from + progress.size);
    status =
        sum_range(w, from, to, threads, &done) ? fk_chunks_done(&progress, to - from, err) : out_of_memory(err);
  }
  w->job->pairs += done.pairs;
  w->job->used_single = w->job->used_single || done.rounding > 0;
  if (!status && w->groups.n > 0)
    w->job->left_out = fmax(w->job->left_out, done.left_out / largest_found(w) + done.rounding);
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

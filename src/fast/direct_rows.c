/* Single rows to a tolerance of their own: what is near enough is relative to the row's nearest source, and so is
 * the result, so that it never underflows. */
#include <math.h>
#include <stdlib.h>

#include "../core/count.h"
#include "../core/threads.h"
#include "direct_parts.h"

/* The nearest source that has mass. */
struct nearest {
  double q;
  int64_t at; /* -1: none */
};

static bool has_mass(const struct fk_direct *s, int64_t j) {
  if (!s->columns) return true;
  for (int c = 0; c < s->n_columns; c++)
    if (s->columns[c * s->cells.n + j] != 0) return true;
  return false;
}

static void search_leaf(const struct fk_direct *s, const struct fk_cell *leaf, const double *box, int64_t self,
                        struct nearest *best) {
  const struct fk_cells *cells = &s->cells;
  double q[FK_DIRECT_LEAF] = {0};
  int count = (int)(leaf->end - leaf->first);
  for (int k = 0; k < cells->d; k++) {
    const double *x = cells->x + k * cells->n + leaf->first;
    for (int i = 0; i < count; i++) q[i] += (x[i] - box[k]) * (x[i] - box[k]);
  }
  for (int i = 0; i < count; i++) {
    int64_t j = leaf->first + i;
    if (q[i] < best->q && j != self && has_mass(s, j)) *best = (struct nearest){q[i], j};
  }
}

/* The nearer half first: the other is then mostly out of reach. */
static void search_nearest(const struct fk_direct *s, int64_t i, const double *box, int64_t self,
                           struct nearest *best) {
  const struct fk_cells *cells = &s->cells;
  if (fk_cell_is_leaf(cells, i)) {
    search_leaf(s, cells->cells + i, box, self, best);
    return;
  }
  int64_t near = i + 1, far = cells->cells[i + 1].skip;
  double near2 = fk_boxes_near2(box, fk_cell_box(cells, near), cells->d);
  double far2 = fk_boxes_near2(box, fk_cell_box(cells, far), cells->d);
  if (far2 < near2) {
    int64_t swap = near;
    double swap2 = near2;
    near = far;
    far = swap;
    near2 = far2;
    far2 = swap2;
  }
  if (near2 < best->q && s->mass[near] > 0) search_nearest(s, near, box, self, best);
  if (far2 < best->q && s->mass[far] > 0) search_nearest(s, far, box, self, best);
}

/* Of all columns that are not all zero, the least share of its largest value that a sum is known to have: from one
 * source, or from sums of |b| k. */
static double least_share(const struct fk_direct *s, int64_t source, const double *sums) {
  double least = INFINITY;
  for (int c = 0; c < s->n_columns; c++) {
    if (s->largest[c] == 0) continue;
    double value = sums ? sums[c * FK_DIRECT_GROUP] : s->columns ? fabs(s->columns[c * s->cells.n + source]) : 1;
    least = fmin(least, value / s->largest[c]);
  }
  return least;
}

/* Several columns may be tiny at the nearest source, or 0: then their sums are bounded from below by those of what
 * is near on the scale of the largest column. */
static bool find_budget(struct fk_direct_group *group, const struct fk_reach *reach, const double *x, int64_t self,
                        const struct nearest *best, double tol, double *budget) {
  const struct fk_direct *s = reach->direct;
  double share = least_share(s, best->at, NULL);
  if (s->n_columns > 1 && share < 1e-2) {
    double box[2 * FK_DIRECT_MAX_DIM];
    for (int k = 0; k < s->cells.d; k++) box[k] = box[s->cells.d + k] = x[k];
    if (!fk_near_find(&group->near, reach, box, best->q, 1e-3 * tol)) return false;
    group->tile.absolute = true;
    fk_direct_group_sum(group, s, x, 1, 1, box, self, false);
    group->tile.absolute = false;
    share = least_share(s, best->at, group->tile.sums);
  }
  *budget = tol * share;
  return true;
}

static bool sum_row(struct fk_direct_group *group, const struct fk_reach *reach, const struct fk_direct_job *job,
                    const struct fk_points *targets, int64_t row, double *shift) {
  const struct fk_direct *s = reach->direct;
  int d = s->cells.d;
  int64_t self = fk_direct_self(s, job, row);
  double x[FK_DIRECT_MAX_DIM], box[2 * FK_DIRECT_MAX_DIM], shift2, budget;
  struct nearest best = {INFINITY, -1};
  for (int k = 0; k < d; k++) box[k] = box[d + k] = x[k] = targets->data[k * targets->n + row];
  if (s->cells.n > 0 && s->mass[0] > 0) search_nearest(s, 0, box, self, &best);
  shift[row] = best.at < 0 ? 0 : -0.5 * best.q;
  if (best.at < 0) { /* no source has mass, or distances overflow */
    for (int c = 0; c < s->n_columns; c++) job->sums[row + c * job->ld] = 0;
    for (int k = 0; k < d && job->gradient; k++) job->gradient[row + k * job->ld] = 0;
    return true;
  }
  shift2 = shift[row] * FK_LOG2E;
  group->tile.shift = &shift2;
  if (!find_budget(group, reach, x, self, &best, job->tol, &budget)) return false;
  if (!fk_near_find(&group->near, reach, box, best.q, budget)) return false;
  fk_direct_group_sum(group, s, x, 1, 1, box, self, false);
  group->tile.shift = NULL;
  for (int c = 0; c < s->n_columns; c++) job->sums[row + c * job->ld] = group->tile.sums[c * FK_DIRECT_GROUP];
  for (int k = 0; k < d && job->gradient; k++)
    job->gradient[row + k * job->ld] = group->tile.gradient[k * FK_DIRECT_GROUP] / FK_DIRECT_SCALE;
  return true;
}

struct some_rows {
  struct fk_direct_team team;
  const struct fk_reach *reach;
  const struct fk_direct_job *job;
  const struct fk_points *targets;
  const int64_t *rows;
  int64_t from; /* of the rows, the one that is done first */
  double *shift;
};

static void sum_rows(void *data, int64_t first, int64_t end, int slot) {
  struct some_rows *s = data;
  struct fk_direct_group *group = &s->team.groups[slot];
  for (int64_t r = s->from + first; r < s->from + end && !s->team.failed; r++)
    if (!sum_row(group, s->reach, s->job, s->targets, s->rows ? s->rows[r] : r, s->shift)) s->team.failed = true;
}

enum fk_status fk_direct_rows(struct fk_direct *s, struct fk_direct_job *job, const int64_t *rows, int64_t n_rows,
                              double *shift, struct fk_error *err) {
  struct fk_reach reach;
  struct fk_chunks progress;
  enum fk_status status = fk_direct_check(s, job, err);
  if (!status) status = fk_direct_positions(s, job, err);
  if (status) return status;
  /* Where the sources are the targets, they are only kept in their own order: rows are found there. */
  struct fk_points targets = job->targets;
  bool own = !targets.data;
  if (own) {
    targets = (struct fk_points){NULL, s->cells.n, s->cells.d};
    double *x = malloc(sizeof(double) * (size_t)(targets.n * targets.d + 1));
    if (!x) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for single rows");
    for (int64_t k = 0; k < targets.d; k++)
      for (int64_t j = 0; j < targets.n; j++) x[k * targets.n + s->cells.rows[j]] = s->cells.x[k * targets.n + j];
    targets.data = x;
  }
  if (!rows) n_rows = targets.n;
  int threads = fk_threads_for_work(s->options.threads, 1e5 * (double)n_rows);
  fk_reach_init(&reach, s, job);
  fk_chunks_start(&progress, &s->options.poll, threads, (double)n_rows, 4e3);
  struct some_rows some = {.reach = &reach, .job = job, .targets = &targets, .rows = rows, .shift = shift};
  some.team.failed = !fk_direct_team_init(&some.team, threads, s, job);
  for (int64_t to; some.from < n_rows && !status; some.from = to) {
    to = fk_smaller(n_rows, some.from + progress.size);
    if (!some.team.failed) fk_parallel_for(threads, to - some.from, 16, sum_rows, &some);
    status = some.team.failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory for single rows")
                              : fk_chunks_done(&progress, to - some.from, err);
  }
  job->pairs += fk_direct_team_pairs(&some.team);
  fk_direct_team_free(&some.team);
  if (own) free((double *)targets.data);
  return status;
}

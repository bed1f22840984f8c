/* Pruned direct sums: the sources, and groups of targets against what is near them. */
#include "direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/count.h"
#include "../core/threads.h"
#include "direct_parts.h"

static enum fk_status out_of_memory(struct fk_error *err, double bytes) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for pruned sums", bytes / 1e6);
}

/* ---- sources ---------------------------------------------------------------------------------- */

enum fk_status fk_direct_create(const struct fk_points *x, const double *b, int64_t n_columns,
                                const struct fk_direct_options *options, struct fk_direct **direct,
                                struct fk_error *err) {
  struct fk_direct *s = *direct = calloc(1, sizeof *s);
  if (!s) return out_of_memory(err, sizeof *s);
  s->options = *options;
  for (int i = 0; i < FK_DECAY_STEPS; i++) s->decay[i] = exp(-0.5 * FK_DECAY_PER_STEP * i);
  enum fk_status status = fk_cells_init(&s->cells, x, FK_DIRECT_LEAF, options->threads, err);
  if (!status) status = fk_cells_groups(&s->cells, FK_DIRECT_GROUP, &s->groups, &s->n_groups, err);
  if (!status) status = fk_direct_set_columns(s, b, n_columns, err);
  if (status) {
    fk_direct_destroy(s);
    *direct = NULL;
  }
  return status;
}

void fk_direct_destroy(struct fk_direct *direct) {
  if (!direct) return;
  fk_cells_free(&direct->cells);
  free(direct->columns);
  free(direct->largest);
  free(direct->seen);
  free(direct->mass);
  free(direct->groups);
  free(direct->position);
  free(direct);
}

/* Of a leaf: the sum over its points of the largest |b| / largest. */
static double leaf_mass(const struct fk_direct *s, const struct fk_cell *cell) {
  double sum = 0;
  if (!s->columns) return cell->end - cell->first;
  for (uint32_t j = cell->first; j < cell->end; j++) {
    double most = 0;
    for (int c = 0; c < s->n_columns; c++)
      if (s->largest[c] > 0) most = fmax(most, fabs(s->columns[c * s->cells.n + j]) / s->largest[c]);
    sum += most;
  }
  return sum;
}

static void weigh(void *data, int64_t first, int64_t end, int slot) {
  struct fk_direct *s = data;
  (void)slot;
  for (int64_t i = first; i < end; i++)
    if (fk_cell_is_leaf(&s->cells, i)) s->mass[i] = leaf_mass(s, s->cells.cells + i);
}

/* A column in the order of the cells. */
struct gathering {
  const struct fk_direct *direct;
  const double *from;
  double *to;
};

static void gather(void *data, int64_t first, int64_t end, int slot) {
  const struct gathering *g = data;
  (void)slot;
  for (int64_t j = first; j < end; j++) g->to[j] = g->from[g->direct->cells.rows[j]];
}

enum fk_status fk_direct_set_columns(struct fk_direct *s, const double *b, int64_t n_columns,
                                     struct fk_error *err) {
  int64_t n = s->cells.n, columns = b ? n_columns : 1;
  int threads = fk_threads_for_bytes(s->options.threads, 40.0 * (double)n * (double)columns);
  free(s->columns);
  free(s->largest);
  free(s->seen);
  free(s->mass);
  s->n_columns = (int)columns;
  s->columns = b ? calloc((size_t)(n * columns + FK_CELLS_SPARE), sizeof(double)) : NULL;
  s->largest = calloc((size_t)columns, sizeof(double));
  s->seen = calloc((size_t)columns, sizeof(double));
  s->mass = malloc(sizeof(double) * (size_t)(s->cells.n_cells + 1));
  if ((b && !s->columns) || !s->largest || !s->seen || !s->mass)
    return out_of_memory(err, 8.0 * (double)n * (double)columns);
  for (int64_t c = 0; c < columns; c++) {
    for (int64_t j = 0; j < n && b; j++) s->largest[c] = fmax(s->largest[c], fabs(b[c * n + j]));
    if (!b) s->largest[c] = 1;
    struct gathering gathering = {s, b ? b + c * n : NULL, b ? s->columns + c * n : NULL};
    if (b) fk_parallel_for(threads, n, fk_step_for_bytes(40), gather, &gathering);
  }
  const struct fk_cell *cells = s->cells.cells;
  double cell_bytes = 16.0 * (double)(n * columns) / (double)(s->cells.n_cells + 1);
  fk_parallel_for(threads, s->cells.n_cells, fk_step_for_bytes(cell_bytes), weigh, s);
  for (int64_t i = s->cells.n_cells - 1; i >= 0; i--)
    if (!fk_cell_is_leaf(&s->cells, i)) s->mass[i] = s->mass[i + 1] + s->mass[cells[i + 1].skip];
  return FK_STATUS_OK;
}

enum fk_status fk_direct_positions(struct fk_direct *s, const struct fk_direct_job *job, struct fk_error *err) {
  if (job->self_first < 0 || s->position) return FK_STATUS_OK;
  s->position = malloc(sizeof(uint32_t) * (size_t)(s->cells.n + 1));
  if (!s->position) return out_of_memory(err, 4.0 * (double)s->cells.n);
  for (int64_t j = 0; j < s->cells.n; j++) s->position[s->cells.rows[j]] = (uint32_t)j;
  return FK_STATUS_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------- */

enum fk_status fk_direct_check(const struct fk_direct *s, const struct fk_direct_job *job, struct fk_error *err) {
  int64_t m = job->targets.data ? job->targets.n : s->cells.n;
  if (!(job->tol >= 0) || job->ld < m || (job->targets.data && job->targets.d != s->cells.d))
    return fk_fail(err, FK_STATUS_INVALID, "pruned sums: tolerance, dimension or leading dimension is wrong");
  if (job->self_first >= 0 && job->self_first + m > s->cells.n)
    return fk_fail(err, FK_STATUS_INVALID, "pruned sums: targets are to be sources that do not exist");
  return FK_STATUS_OK;
}

enum fk_status fk_direct_groups_init(struct fk_direct_groups *g, const struct fk_direct *s,
                                     const struct fk_direct_job *job, struct fk_error *err) {
  memset(g, 0, sizeof *g);
  if (!job->targets.data) {
    g->cells = &s->cells;
    g->list = s->groups;
    g->n = s->n_groups;
    return FK_STATUS_OK;
  }
  g->cells = &g->own;
  enum fk_status status = fk_cells_init(&g->own, &job->targets, FK_DIRECT_GROUP, s->options.threads, err);
  if (!status) status = fk_cells_groups(&g->own, FK_DIRECT_GROUP, &g->list, &g->n, err);
  return status;
}

void fk_direct_groups_free(struct fk_direct_groups *g) {
  if (g->cells == &g->own) free(g->list);
  fk_cells_free(&g->own);
}

/* A group's sums, from the group to the job's rows. */
static void deliver(const struct fk_direct_group *group, const struct fk_direct *s,
                    const struct fk_direct_job *job, const struct fk_cells *targets, const struct fk_cell *cell,
                    bool single) {
  const struct fk_direct_tile *tile = &group->tile;
  int count = (int)(cell->end - cell->first), d = s->cells.d;
  for (int i = 0; i < count; i++) {
    int64_t row = targets->rows[cell->first + i], self = fk_direct_self(s, job, row);
    for (int c = 0; c < s->n_columns; c++) {
      double b = self < 0 ? 0 : s->columns ? s->columns[c * s->cells.n + self] : 1;
      /* A point's kernel with itself is 1, and its column as the tile has it. */
      job->sums[row + c * job->ld] =
          tile->sums[c * FK_DIRECT_GROUP + i] - (single ? (double)(float)b : b) * job->factor[0];
    }
    for (int k = 0; k < d && job->gradient; k++)
      job->gradient[row + k * job->ld] = tile->gradient[k * FK_DIRECT_GROUP + i] / FK_DIRECT_SCALE;
  }
}

/* Coordinates up to this many bandwidths from a group's centre keep an exponent's error in float near 1e-6. */
#define SINGLE_EXTENT 24.0
/* Sums in float of kernels below 2^-125 would lose them. */
#define SINGLE_BUDGET 1e-25

static bool fits_single(const struct fk_direct *s, const struct fk_near *near, const double *box, double budget) {
  double extent = 0, reach = near->cut2;
  if (!s->options.single || budget < SINGLE_BUDGET) return false;
  if (!(reach < INFINITY)) reach = fk_boxes_far2(box, fk_cell_box(&s->cells, 0), s->cells.d);
  for (int k = 0; k < s->cells.d; k++) extent = fmax(extent, box[s->cells.d + k] - box[k]);
  return 0.5 * extent + sqrt(reach) <= SINGLE_EXTENT;
}

static bool sum_group(struct fk_direct_group *group, const struct fk_direct *s, const struct fk_reach *reach,
                      const struct fk_direct_job *job, const struct fk_direct_groups *groups, int64_t g,
                      double budget) {
  int64_t i = groups->list[g];
  const struct fk_cells *targets = groups->cells;
  const struct fk_cell *cell = targets->cells + i;
  const double *box = fk_cell_box(targets, i);
  if (!fk_near_find(&group->near, reach, box, 0, budget)) return false;
  bool single = fits_single(s, &group->near, box, budget);
  fk_direct_group_sum(group, s, targets->x + cell->first, targets->n, (int)(cell->end - cell->first), box, -1,
                      single);
  deliver(group, s, job, targets, cell, single);
  return true;
}

struct some_groups {
  struct fk_direct_team team;
  const struct fk_direct *direct;
  const struct fk_reach *reach;
  const struct fk_direct_job *job;
  const struct fk_direct_groups *groups;
  int64_t from; /* the group that is done first */
  double budget;
};

static void sum_some(void *data, int64_t first, int64_t end, int slot) {
  struct some_groups *s = data;
  struct fk_direct_group *group = &s->team.groups[slot];
  for (int64_t g = s->from + first; g < s->from + end && !s->team.failed; g++)
    if (!sum_group(group, s->direct, s->reach, s->job, s->groups, g, s->budget)) s->team.failed = true;
}

static enum fk_status sum_groups(struct fk_direct *s, struct fk_direct_job *job,
                                 const struct fk_direct_groups *groups, double budget, struct fk_error *err) {
  int threads = fk_threads_for_work(s->options.threads, 2e4 * (double)groups->n * FK_DIRECT_GROUP);
  enum fk_status status = FK_STATUS_OK;
  struct fk_reach reach;
  struct fk_chunks progress;
  fk_reach_init(&reach, s, job);
  fk_chunks_start(&progress, &s->options.poll, threads, (double)groups->n, 3e4);
  struct some_groups some = {.direct = s, .reach = &reach, .job = job, .groups = groups, .budget = budget};
  some.team.failed = !fk_direct_team_init(&some.team, threads, s, job);
  for (int64_t to; some.from < groups->n && !status; some.from = to) {
    to = fk_smaller(groups->n, some.from + progress.size);
    if (!some.team.failed) fk_parallel_for(threads, to - some.from, 8, sum_some, &some);
    status = some.team.failed ? out_of_memory(err, 1e6) : fk_chunks_done(&progress, to - some.from, err);
  }
  job->pairs += fk_direct_team_pairs(&some.team);
  fk_direct_team_free(&some.team);
  return status;
}

enum fk_status fk_direct_sums(struct fk_direct *s, struct fk_direct_job *job, struct fk_error *err) {
  struct fk_direct_groups groups;
  double budget;
  enum fk_status status = fk_direct_check(s, job, err);
  if (status) return status;
  status = fk_direct_groups_init(&groups, s, job, err);
  if (!status) status = fk_direct_positions(s, job, err);
  if (!status) status = fk_direct_look(s, job, &groups, &budget, err);
  if (!status) status = sum_groups(s, job, &groups, budget, err);
  fk_direct_groups_free(&groups);
  return status;
}

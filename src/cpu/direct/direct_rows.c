/* Rows to a tolerance of their own: in groups of targets near each other, what is near enough is relative to the
 * group's nearest source, and so are sums that would underflow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "direct_parts.h"

/* A group in whose boxes, or at whose targets, the largest terms differ by more than e^16 is cut in two: the least
 * of its sums decides what may be left out of all. */
#define BOX_SPREAD 8.0
#define SPREAD 16.0
/* Squared distances beyond, and exponents with them, have no digits for differences: the nearest source counts. */
#define NO_DIGITS 1e12

/* Bounds of a group's sums that are known before they are computed. */
struct reckoning {
  double offset; /* no source is nearer than its root */
  double least;  /* every sum is at least that, times exp(-offset / 2) */
  bool none;     /* no source has mass for any of the targets */
  bool apart;    /* the targets differ too much */
};

static bool reckon_by_box(const struct fk_direct *s, const double *box, struct reckoning *r) {
  double near2;
  int64_t leaf = fk_direct_near_leaf(s, box, &near2);
  r->none = leaf < 0;
  if (r->none) return true;
  double far2 = fk_boxes_far2(box, fk_cell_box(&s->cells, leaf), s->cells.d);
  r->offset = near2;
  r->least = s->mass[leaf] * exp(-0.5 * (far2 - near2));
  return far2 - near2 <= 2 * BOX_SPREAD;
}

static void reckon_by_sources(const struct fk_rows_work *w, int64_t first, int64_t end, struct reckoning *r) {
  const struct fk_direct *s = w->direct;
  const struct fk_cells *targets = w->groups.cells;
  double q[FK_DIRECT_GROUP], b[FK_DIRECT_GROUP], low = INFINITY, high = 0;
  int found = 0, count = (int)(end - first);
  for (int i = 0; i < count; i++) {
    double x[FK_CELLS_MAX_DIM];
    for (int k = 0; k < s->cells.d; k++) x[k] = targets->x[k * targets->n + first + i];
    int64_t self = fk_direct_self(s, w->job, fk_direct_row(&w->groups, first + i));
    int64_t at = fk_direct_near_source(s, x, self, &q[found]);
    if (at < 0) continue;
    b[found] = s->columns ? fabs(s->columns[at]) : 1;
    low = fmin(low, q[found]);
    high = fmax(high, q[found++]);
  }
  *r = (struct reckoning){.offset = low, .least = INFINITY, .none = found == 0};
  r->apart = count > 1 && found > 0 && (found < count || high - low > 2 * SPREAD || high > NO_DIGITS);
  for (int i = 0; i < found; i++) r->least = fmin(r->least, b[i] * exp(-0.5 * (q[i] - low)));
}

/* Own terms of a group that leaves them out: where they stand, and the largest. */
struct own_terms {
  int64_t first, end;
  double most;
};

static double own_term(const struct fk_direct *s, int64_t self) {
  double b = s->columns ? s->columns[self] : 1;
  if (!s->lifted) return b;
  double lift = s->cells.x[s->d * s->cells.n + self] * FK_DIRECT_SCALE;
  return ldexp(b, -(int)rint(lift * lift));
}

static struct own_terms own_terms_of(const struct fk_rows_work *w, int64_t first, int64_t end) {
  struct own_terms own = {0, 0, 0};
  for (int64_t i = first; i < end && w->job->self_first >= 0; i++) {
    int64_t self = fk_direct_self(w->direct, w->job, fk_direct_row(&w->groups, i));
    if (own.end == 0) own.first = self;
    own.first = fk_smaller(own.first, self);
    own.end = fk_larger(own.end, self + 1);
    own.most = fmax(own.most, fabs(own_term(w->direct, self)));
  }
  return own;
}

/* ---- results ---------------------------------------------------------------------------------- */

/* A row's sums, `scale2` binary places too small, to where they belong. They go out as they are where that keeps
 * them in range, else with a shift that leaves numbers near 1. size2: log2 of a lower bound on the sum. */
static void deliver_row(const struct fk_rows_work *w, int64_t at, double sum, const double *gradient,
                        double scale2, double size2) {
  const struct fk_direct *s = w->direct;
  struct fk_direct_job *job = w->job;
  int64_t row = fk_direct_row(&w->groups, at);
  double exponent = s->exponent[0], most2 = log2(s->mass[0] + 1);
  bool plain = size2 + exponent > -900 && exponent + most2 < 900;
  double off = plain ? 0 : scale2 != 0 ? scale2 : floor(size2);
  int places = (int)(plain ? scale2 + exponent : scale2 - off);
  w->shift[row] = plain ? 0 : (off + exponent) * FK_LN2;
  job->sums[row] = ldexp(sum, places);
  for (int k = 0; k < s->d && job->gradient; k++)
    job->gradient[row + k * job->ld] = ldexp(gradient[k * FK_DIRECT_GROUP] / FK_DIRECT_SCALE, places);
}

static void deliver_nothing(const struct fk_rows_work *w, int64_t first, int64_t end) {
  for (int64_t i = first; i < end && w->shift; i++) {
    int64_t row = fk_direct_row(&w->groups, i);
    w->shift[row] = w->job->sums[row] = 0;
    for (int k = 0; k < w->direct->d && w->job->gradient; k++) w->job->gradient[row + k * w->job->ld] = 0;
  }
}

static void deliver(const struct fk_rows_work *w, const struct fk_direct_group *group, int64_t first, bool single,
                    double scale2, double size2) {
  const struct fk_direct_tile *tile = &group->tile;
  const struct fk_direct *s = w->direct;
  for (int i = 0; i < tile->n_targets && w->shift; i++) {
    double sum = tile->sums[i];
    if (tile->n_targets > 1 && w->job->self_first >= 0) {
      double own = own_term(s, fk_direct_self(s, w->job, fk_direct_row(&w->groups, first + i)));
      sum -= (single ? (double)(float)own : own) * w->job->factor[0];
    }
    deliver_row(w, first + i, sum, tile->gradient ? tile->gradient + i : NULL, scale2, size2);
  }
}

/* One target beyond all digits. */
static void deliver_nearest(const struct fk_rows_work *w, int64_t at) {
  const struct fk_direct *s = w->direct;
  const struct fk_cells *y = w->groups.cells;
  double x[FK_CELLS_MAX_DIM], gradient[FK_DIRECT_MAX_DIM * FK_DIRECT_GROUP], q;
  for (int k = 0; k < s->cells.d; k++) x[k] = y->x[k * y->n + at];
  int64_t source = fk_direct_near_source(s, x, fk_direct_self(s, w->job, fk_direct_row(&w->groups, at)), &q);
  double b = s->columns ? s->columns[source] : 1, h = q / 2;
  b *= w->job->factor[0] + h * (w->job->factor[1] + h * w->job->factor[2]);
  for (int k = 0; k < s->d; k++)
    gradient[k * FK_DIRECT_GROUP] = b * (s->cells.x[k * s->cells.n + source] - x[k]) * FK_DIRECT_SCALE;
  if (w->shift) deliver_row(w, at, b, gradient, -h * FK_LOG2E, -h * FK_LOG2E);
}

/* ---- groups ----------------------------------------------------------------------------------- */

static bool sum_halves(const struct fk_rows_work *w, struct fk_direct_group *group, int64_t first, int64_t end) {
  double box[2 * FK_CELLS_MAX_DIM];
  int64_t middle = first + (end - first) / 2;
  fk_cells_box(w->groups.cells, first, middle, box);
  if (!fk_rows_sum(w, group, first, middle, box)) return false;
  fk_cells_box(w->groups.cells, middle, end, box);
  return fk_rows_sum(w, group, middle, end, box);
}

/* Own terms come off again, and leave their rounding, beside sums of at least 2^size2. Where it would show,
 * targets are summed one by one, without them. */
static double own_error(const struct own_terms *own, bool single, double size2) {
  if (own->end == 0) return 0;
  return size2 > -900 ? (single ? 2e-7 : 2e-15) * own->most / exp2(size2) : (double)INFINITY;
}

/* The power of two that sums are divided by: none where no term that counts is near underflow. */
static double shift_of(const struct fk_direct *s, double offset, double size2) {
  if (size2 - log2(s->mass[0]) > -950) return 0;
  return floor(-0.5 * FK_LOG2E * offset * (1 - 1e-15)) + 1;
}

bool fk_rows_sum(const struct fk_rows_work *w, struct fk_direct_group *group, int64_t first, int64_t end,
                 const double *box) {
  const struct fk_direct *s = w->direct;
  const struct fk_cells *targets = w->groups.cells;
  bool own_out = w->job->self_first >= 0, one = end - first == 1;
  struct reckoning r = {0};
  if (own_out || !reckon_by_box(s, box, &r)) reckon_by_sources(w, first, end, &r);
  if (r.none) {
    deliver_nothing(w, first, end);
    return true;
  }
  if (r.apart || (r.offset > NO_DIGITS && !one)) return sum_halves(w, group, first, end);
  if (r.offset > NO_DIGITS) {
    deliver_nearest(w, first);
    return true;
  }

  struct own_terms own = own_terms_of(w, first, end);
  if (own_out && !one) { /* own terms are nearer, and bounds are to hold for them until they come off */
    r.least *= exp(-0.5 * r.offset);
    r.offset = 0;
  }
  double offset2 = 0.5 * FK_LOG2E * r.offset, tol = w->job->tol;
  double budget = exp2(fmin(w->floor2 + offset2, 1000));
  struct fk_direct_near_ask ask = {box, r.offset, budget, tol / 2, r.least, own.first, own.end};
  struct fk_direct_near *near = &group->near;
  if (!fk_direct_near_find(near, &w->reach, &ask)) return false;
  double size2 = log2(near->least) - offset2, allowed = tol > 0 ? fmax(near->least, budget / tol) : near->least;
  double rounding = s->options.single && !s->lifted
                        ? fk_direct_single_error(&w->reach, near, box, r.offset, allowed)
                        : (double)INFINITY;
  if (!one) rounding += own_error(&own, true, size2);
  bool single = fk_direct_may_be_single(rounding, tol);
  if (!one && !single && !(own_error(&own, false, size2) <= tol / 16)) return sum_halves(w, group, first, end);

  int64_t self = one && own_out ? own.first : -1;
  double scale2 = shift_of(s, r.offset, size2);
  struct fk_direct_targets here = {targets->x + first, targets->n, (int)(end - first), box};
  fk_direct_group_sum(group, s, &here, self, single, scale2);
  deliver(w, group, first, single, scale2, size2);
  if (!single) rounding = one ? 0 : own_error(&own, false, size2);
  group->left_out = fmax(group->left_out, near->left_out / allowed + rounding);
  group->used_single = group->used_single || single;
  return true;
}

/* ---- all of them ------------------------------------------------------------------------------ */

static bool sum_group(const void *work, struct fk_direct_group *group, int64_t g) {
  const struct fk_rows_work *w = work;
  int64_t i = w->groups.list[g];
  const struct fk_cell *cell = w->groups.cells->cells + i;
  return fk_rows_sum(w, group, cell->first, cell->end, fk_cell_box(w->groups.cells, i));
}

enum fk_status fk_direct_by_rows(struct fk_direct *s, struct fk_direct_job *job, const int64_t *rows,
                                 int64_t n_rows, double *shift, double floor2, struct fk_error *err) {
  struct fk_rows_work w = {.job = job, .shift = shift, .floor2 = floor2};
  double left_out, rounding;
  enum fk_status status = fk_direct_in_logs(s, &w.direct, err);
  if (!status) status = fk_direct_groups_init(&w.groups, w.direct, job, rows, n_rows, err);
  if (!status) {
    fk_reach_init(&w.reach, w.direct, job);
    status = fk_direct_each_group(w.direct, job, w.groups.n, sum_group, &w, &left_out, &rounding, err);
  }
  if (!status) job->left_out = fmax(job->left_out, left_out);
  fk_direct_groups_free(&w.groups);
  return status;
}

enum fk_status fk_direct_rows(struct fk_direct *s, struct fk_direct_job *job, const int64_t *rows, int64_t n_rows,
                              double *shift, struct fk_error *err) {
  enum fk_status status = fk_direct_check(s, job, err);
  if (!status && s->n_columns != 1)
    status = fk_fail(err, FK_STATUS_INVALID, "pruned sums of single rows must have one column");
  double floor2 = job->floor > 0 ? log2(job->floor) - s->exponent[0] : -INFINITY;
  return status ? status : fk_direct_by_rows(s, job, rows, n_rows, shift, floor2, err);
}

/* Sums over what is near: when they pay, and how. */
#include <math.h>
#include <stdlib.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/kept.h"
#include "../core/method.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "near.h"

/* ---- do they pay ------------------------------------------------------------------------------ */

/* A whitened sample of sources or targets, in panels of `width`: u[panel][k][lane]. */
struct near_sample {
  int64_t count, width;
  double *u;
};

/* Full panels alone. */
static bool sample_init(struct near_sample *a, const struct fk_sweep *s, const struct fk_matrix *x, int64_t most) {
  struct fk_error err = {FK_STATUS_OK, ""};
  int64_t d = x->d;
  a->count = fk_smaller(x->n, most) / a->width * a->width;
  double *raw = malloc(sizeof(double) * (size_t)(a->count * d + 1));
  a->u = malloc(sizeof(double) * (size_t)(a->count * d + 1));
  bool done = raw && a->u;
  if (done) fk_thin_out(x, a->count, raw);
  const struct fk_matrix picked = fk_doubles(raw, a->count, d);
  done = done && !fk_whiten_points(s->task->whitening, 1, &picked, 0, a->count, raw, a->count, &err);
  for (int64_t i = 0; i < a->count && done; i++)
    for (int64_t k = 0; k < d; k++) a->u[(i / a->width * d + k) * a->width + i % a->width] = raw[k * a->count + i];
  free(raw);
  return done;
}

/* The share of pairs that single points would need, of a sample of both sides; 1 where that has none. */
static double sampled_share(const struct fk_sweep *s) {
  const struct fk_tile_ops *ops = fk_isa()->f64;
  const struct fk_matrix *sources = &s->task->sources;
  struct near_sample x = {.width = FK_NEAR_POINTS}, y = {.width = FK_NEAR_TARGETS};
  bool coordinates = s->task->values == FK_VALUES_COORDINATES;
  double reach2 =
      fk_near_usual_reach2(&s->mode, coordinates, (double)sources->n) / (s->mode.scale * s->mode.scale);
  int64_t d = sources->d, near = 0;
  bool done = sample_init(&x, s, sources, fk_costs.near.sample_sources) &&
              sample_init(&y, s, fk_task_targets(s->task), fk_costs.near.sample_targets);
  for (int64_t j = 0; j < y.count && done; j++) {
    const double *target = y.u + j / y.width * d * y.width + j % y.width;
    double squares[FK_NEAR_POINTS];
    for (int64_t i = 0; i < x.count; i += x.width)
      near += ops->near_points(x.u + i * d, NULL, d, target, NULL, reach2, squares);
  }
  double share = done && x.count && y.count ? (double)near / ((double)x.count * (double)y.count) : 1;
  free(x.u);
  free(y.u);
  return share;
}

/* A pair of points at themselves is half the work, beside which putting them in order counts twice. */
static bool may_pay(const struct fk_sweep *s) {
  const struct fk_near_costs *c = &fk_costs.near;
  double n = (double)s->task->sources.n, m = (double)fk_n_targets(s->task);
  if (!fk_near_decays(&s->mode) || n == 0 || m == 0 || (s->opts->methods & FK_METHOD_PAIRS)) return false;
  return (s->opts->methods & FK_METHOD_NEAR) || (n * m >= c->pairs && fk_sweep_near_share(s) < 1);
}

double fk_sweep_near_share(const struct fk_sweep *s) {
  const struct fk_near_costs *c = &fk_costs.near;
  if (!fk_near_decays(&s->mode)) return 1;
  double points = fmin((double)s->task->sources.n, (double)fk_n_targets(s->task));
  if (s->task->targets.data) points *= 2;
  double most = c->sampled[s->task->sources.d > c->low] * fmin(1, points / c->points), share = sampled_share(s);
  return share <= most ? share : 1;
}

static bool pays(const struct fk_near_pairs *near, const struct fk_opts *opts) {
  double share = fk_near_share(near);
  return (opts->methods & FK_METHOD_NEAR) || share <= fk_costs.near.share;
}

/* ---- sources in the order of their blocks ----------------------------------------------------- */

/* Finds or makes the blocks of the sources. If the operator caches them, it is the `owner`; else *owner is NULL.
 */
static enum fk_status find_blocks(const struct fk_sweep *s, struct fk_near_blocks **blocks,
                                  struct fk_operator **owner, struct fk_error *err) {
  const struct fk_task *task = s->task;
  const struct fk_picked all = {&task->sources, task->whitening, NULL, 0, task->sources.n};
  *owner = fk_task_keeper(task);
  *blocks = *owner ? fk_kept_use(*owner, FK_KEEPER_BLOCKS) : NULL;
  if (*blocks && fk_mode_packs_as(&(*blocks)->mode, &s->mode)) return FK_STATUS_OK;
  if (*owner) fk_kept_drop(*owner, FK_KEEPER_BLOCKS);
  enum fk_status status = fk_near_blocks_create(&all, &s->mode, s->threads, blocks, err);
  double bytes = status ? INFINITY : fk_near_blocks_bytes(*blocks);
  struct fk_kept what = {.state = *blocks, .free = fk_near_blocks_free, .bytes = bytes};
  if (*owner && (bytes > fk_kept_limit(s->opts) || !fk_keep(*owner, FK_KEEPER_BLOCKS, what, s->opts)))
    *owner = NULL;
  return status;
}

/* The task with its sources in spatial order. */
struct ordered {
  struct fk_task task;
  struct fk_sweep sweep;
  double *weights, *columns;
};

static void put_in_order(const double *from, const int64_t *order, int64_t n, bool absolute, double *to) {
  for (int64_t i = 0; i < n; i++) to[i] = absolute ? fabs(from[order[i]]) : from[order[i]];
}

static void close_ordered(struct ordered *o) {
  fk_sweep_free(&o->sweep);
  free(o->weights);
  free(o->columns);
}

static enum fk_status open_ordered(const struct fk_sweep *s, const struct fk_near_blocks *x, bool absolute,
                                   struct ordered *o, struct fk_error *err) {
  int64_t n = x->n, columns = s->task->values == FK_VALUES_COLUMNS ? s->task->n_columns : 0;
  *o = (struct ordered){.task = *s->task};
  if (o->task.weights) o->weights = malloc(sizeof(double) * (size_t)n);
  if (columns) o->columns = malloc(sizeof(double) * (size_t)(n * columns));
  if ((o->task.weights && !o->weights) || (columns && !o->columns)) {
    close_ordered(o);
    return fk_no_memory(err, 8.0 * (double)n * (double)(columns + 1), "the weights in spatial order");
  }
  if (o->weights) put_in_order(s->task->weights, x->order, n, absolute, o->weights);
  for (int64_t v = 0; v < columns; v++)
    put_in_order(s->task->columns + v * n, x->order, n, absolute, o->columns + v * n);
  o->task.weights = o->weights;
  o->task.columns = o->columns;
  enum fk_status status = fk_sweep_init(&o->sweep, &o->task, s->opts, &s->mode, false, s->threads, err);
  o->sweep.kept = &x->points;
  if (status) close_ordered(o);
  return status;
}

static enum fk_status find_near(const struct fk_sweep *s, const struct fk_near_blocks *x,
                                const struct fk_near_blocks *y, struct fk_near_pairs *near, struct fk_error *err) {
  struct ordered sizes;
  enum fk_status status = open_ordered(s, x, true, &sizes, err);
  if (status) return status;
  near->sources = x;
  status = fk_near_init(near, &sizes.sweep, y, s->task->exclude_self, err);
  close_ordered(&sizes);
  return status;
}

/* ---- sums ------------------------------------------------------------------------------------- */

static enum fk_status sum_near(const struct fk_sweep *s, struct fk_near_pairs *near, struct fk_error *err) {
  const struct fk_near_blocks *y = near->targets;
  struct ordered o;
  enum fk_status status = open_ordered(s, near->sources, false, &o, err);
  if (status) return status;
  o.sweep.near = near;
  status = near->same && !fk_sweep_is_relative(s) ? fk_sweep_symmetric(&o.sweep, err)
                                                  : fk_sweep_targets(&o.sweep, y->order, y->n, NULL, false, err);
  close_ordered(&o);
  return status;
}

enum fk_status fk_sweep_near(const struct fk_sweep *s, bool *done, double *skipped, struct fk_error *err) {
  const struct fk_task *task = s->task;
  const struct fk_matrix *targets = &task->targets;
  const struct fk_picked all = {targets, task->whitening, NULL, 0, targets->n};
  struct fk_near_blocks *x = NULL, *y = NULL;
  struct fk_operator *owner = NULL;
  struct fk_near_pairs near = {.reach2 = NULL};
  *done = false;
  if (!may_pay(s)) return FK_STATUS_OK;
  enum fk_status status = find_blocks(s, &x, &owner, err);
  if (!status && targets->data) status = fk_near_blocks_create(&all, &s->mode, s->threads, &y, err);
  if (!status) status = find_near(s, x, y ? y : x, &near, err);
  if (!status && pays(&near, s->opts)) {
    status = sum_near(s, &near, err);
    *done = true;
    double n = (double)task->sources.n, pairs = n * (double)fk_n_targets(task);
    *skipped = fmax(0, pairs - (double)near.computed);
  }
  fk_near_free(&near);
  fk_near_blocks_free(y);
  if (!owner) fk_near_blocks_free(x);
  return status;
}

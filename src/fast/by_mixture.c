/* The fast engine for kernels k that are sums of Gaussians (mixture.h): each is a sum of the engine's own, with
 * bandwidth 1 / sqrt(2 rate). On the CPU a grid serves several of them, where that is cheaper: sources are spread
 * once, with the spacing of the narrowest, and targets interpolate once.
 *
 * Tolerance. S(i) = sum_j |b_j| k(s_ij) is what errors are relative to, S_c(i) the same of component c's
 * exp(-rate s). The mixture's error is relative to k at each s, hence to S(i) in each row. The rest of the
 * tolerance is shared out among the components.
 *
 * On a grid a component's error is at most that of the window times weight_c sum |b|. These kernels decay slowly:
 * every row has S(i) >= sum |b| k(s) of the largest s there is, and max S is known from a sample of rows, so that
 * sum |b| is not far beyond.
 *
 * Direct sums keep their tolerance relative to S_c. All terms are positive, so that with share_c the largest of
 * weight_c exp(-rate_c s) / k(s) over all s
 *
 *   weight_c S_c(i) <= share_c S(i)   in each row, and   weight_c max S_c <= share_c max S,
 *
 * and it may be tol_c where sum_c share_c tol_c is no more than the tolerance.
 */
#include "by_mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/costs.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "box.h"
#include "by_direct.h"
#include "columns.h"
#include "mixture.h"

/* Bandwidths on one grid, and what their errors are at most times the window's (on all windows 1.853:
 * tools/window-table.sh prints it). */
#define WIDEST_SCALE 8
#define ERROR_OF_SCALES 1.9
/* Errors of most are not looked for. */
#define COARSEST 0.3

/* Components that are summed together. */
struct part {
  int first, n;
  bool direct;
  double tol, seconds;
  struct fk_grid_work work;
  struct fk_window window; /* of a grid */
  bool single;
};

struct fk_fast_mixture {
  struct fk_mixture sum;
  double scales[FK_MIXTURE_MOST]; /* bandwidths, in those of the narrowest of their part */
  int n;
  double seconds, least; /* least: the sums that errors are relative to, as a share of sum |b| */
  struct part parts[FK_MIXTURE_MOST];
};

/* ---- a part as a sum of the engine ------------------------------------------------------------ */

struct sub {
  struct fk_fast_job job;
  struct fk_task task;
  struct fk_opts opts;
};

static double rate_of(const struct fk_fast_mixture *x, const struct part *part) {
  return x->sum.rate[part->first];
}

static void sub_init(struct sub *sub, const struct fk_fast_job *job, const struct fk_fast_mixture *x,
                     const struct part *part) {
  bool each_row = job->opts->tol_type == FK_TOL_POINTWISE;
  sub->job = *job;
  sub->task = *job->task;
  sub->opts = *job->opts;
  sub->job.task = &sub->task;
  sub->job.opts = &sub->opts;
  sub->job.tol = part->tol;
  sub->job.single = fk_fast_may_be_single(job->opts, part->tol) && !each_row && !job->wide;
  sub->job.laplace = 0;
  sub->job.plain = part->n == 1 && !part->direct ? x->sum.weight[part->first] : 1;
  sub->job.bound = 0;
  sub->task.kernel = (struct fk_kernel){.id = FK_KERNEL_GAUSSIAN};
  sub->task.exclude_self = sub->task.tail_pass = false;
  sub->task.shift = NULL;
}

/* ---- which parts ------------------------------------------------------------------------------ */

/* Half of it goes by the number of components, half by their weights: the heavy ones would need windows that there
 * are none of. */
static void set_tolerance(struct part *part, const struct fk_fast_job *job, const struct fk_fast_mixture *x) {
  double share = 0, weight = 0, all = 0, scales = part->n > 1 ? ERROR_OF_SCALES : 1;
  for (int c = 0; c < x->sum.n; c++) all += x->sum.weight[c];
  for (int c = part->first; c < part->first + part->n; c++) {
    share += fk_mixture_share(&x->sum, c);
    weight += x->sum.weight[c];
  }
  double own = (job->tol - x->sum.error) * 0.5 * (weight / all + (double)part->n / x->sum.n);
  part->tol = fmin(part->direct ? own / share : own * x->least / (weight * scales), COARSEST);
}

static void cost_on_grid(struct part *part, const struct fk_fast_job *job, const struct fk_grid_work *work,
                         struct fk_fast_mixture *x) {
  struct sub sub;
  part->direct = false;
  part->work = *work;
  fk_grid_magnify(&part->work, sqrt(2 * rate_of(x, part)));
  if (part->n > 1) {
    part->work.kernels = part->n;
    part->work.scales = x->scales + part->first;
    part->work.weights = x->sum.weight + part->first;
    for (int c = part->first; c < part->first + part->n; c++)
      x->scales[c] = sqrt(rate_of(x, part) / x->sum.rate[c]);
  }
  set_tolerance(part, job, x);
  sub_init(&sub, job, x, part);
  part->single = sub.job.single;
  part->seconds = INFINITY;
  if (fk_fast_may_be(job->opts, FK_METHOD_GRID))
    fk_fast_choose_window(&sub.job, &part->work, part->tol, &part->single, &part->window, &part->seconds);
}

static enum fk_status cost_of_direct(struct part *part, const struct fk_fast_job *job,
                                     const struct fk_fast_samples *s, double least,
                                     const struct fk_fast_mixture *x, struct fk_error *err) {
  int64_t numbers = (s->x.n + (s->y.data ? s->y.n : 0)) * job->d;
  struct fk_fast_samples scaled = *s;
  struct sub sub;
  double by = sqrt(2 * rate_of(x, part));
  part->direct = true;
  part->work.kernels = 0;
  set_tolerance(part, job, x);
  sub_init(&sub, job, x, part);
  scaled.u = malloc(sizeof(double) * (size_t)numbers);
  if (!scaled.u) return fk_no_memory(err, 0, "a sample of the points");
  scaled.kept = NULL; /* these are other points */
  double *to = scaled.u;
  struct fk_matrix *sides[] = {&scaled.x, &scaled.y}; /* an operator may keep the one, and not the other */
  for (int i = 0; i < 2 && sides[i]->data; i++) {
    int64_t count = sides[i]->n * job->d;
    for (int64_t k = 0; k < count; k++) to[k] = fk_column(sides[i], 0)[k] * by;
    sides[i]->data = to;
    to += count;
  }
  enum fk_status status = fk_fast_direct_seconds(&sub.job, &scaled, least, &part->seconds, err);
  free(scaled.u);
  return status;
}

/* From the narrowest on, each directly or on a grid, which wider ones join while that is cheaper than grids of
 * their own. */
static enum fk_status choose_parts(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                                   const struct fk_grid_work *work, struct fk_fast_mixture *x,
                                   struct fk_error *err) {
  bool may_direct = job->grid->direct && fk_fast_may_be(job->opts, FK_METHOD_DIRECT), try_direct = true;
  enum fk_status status = FK_STATUS_OK;
  struct part next = {.first = 0, .n = 1};
  cost_on_grid(&next, job, work, x);
  while (next.first < x->sum.n && !status) {
    struct part part = next, direct = next;
    direct.seconds = INFINITY;
    if (may_direct && (try_direct || !isfinite(part.seconds)))
      status = cost_of_direct(&direct, job, s, part.seconds, x, err);
    if (direct.seconds > fk_costs.choice.direct_hopeless * part.seconds)
      try_direct = false; /* for wider ones all the more */
    if (direct.seconds < part.seconds) part = direct;
    for (bool joined = true; joined;) {
      int at = part.first + part.n;
      next = (struct part){.first = at, .n = 1};
      if (at == x->sum.n) break;
      cost_on_grid(&next, job, work, x);
      struct part both = part;
      both.n++;
      joined = !part.direct && job->grid->several &&
               rate_of(x, &part) <= WIDEST_SCALE * WIDEST_SCALE * rate_of(x, &next);
      if (joined) cost_on_grid(&both, job, work, x);
      joined = joined && both.seconds < part.seconds + next.seconds;
      if (joined) part = both;
    }
    part.seconds += fk_costs.choice.component * part.n;
    if (part.first > 0) part.seconds -= job->grid->costs->call;
    x->parts[x->n++] = part;
    x->seconds += part.seconds;
    if (!isfinite(x->seconds)) break;
  }
  return status;
}

/* ---- how far points are apart ----------------------------------------------------------------- */

/* Sums of |b|, |b| u and |b| u^2 over the sources, in pieces that do not depend on the threads. */
enum { PIECES = 64 };
struct mixture_moments {
  const struct fk_fast_job *job;
  double sum[PIECES], first[PIECES][FK_GRID_MAX_D], second[PIECES][FK_GRID_MAX_D];
};

static void add_moments(struct mixture_moments *m, int64_t piece) {
  const struct fk_fast_job *job = m->job;
  int64_t blocks = fk_pieces(job->n, FK_BLOCK), d = job->d;
  double u[2 * FK_BLOCK * FK_GRID_MAX_D];
  for (int64_t i = blocks * piece / PIECES; i < blocks * (piece + 1) / PIECES; i++) {
    int64_t at = i * FK_BLOCK, rows = fk_smaller(job->n - at, FK_BLOCK);
    fk_whiten(job->task->whitening, &job->task->sources, NULL, at, rows, u, FK_BLOCK, u + FK_BLOCK * d);
    for (int64_t r = 0; r < rows; r++) {
      double mass = job->b ? fabs(job->b[at + r]) : 1;
      m->sum[piece] += mass;
      for (int64_t k = 0; k < d; k++) {
        double x = u[k * FK_BLOCK + r];
        m->first[piece][k] += mass * x;
        m->second[piece][k] += mass * x * x;
      }
    }
  }
}

static void add_all_moments(void *data, int64_t from, int64_t to, FK_UNUSED int slot) {
  for (int64_t piece = from; piece < to; piece++) add_moments(data, piece);
}

/* The mean of the squared distances from the sources, weighted by |b|, to any target in a box, is at most this. */
static enum fk_status farthest_mean(const struct fk_fast_job *job, const struct fk_fast_box *y, double *square,
                                    struct fk_error *err) {
  struct mixture_moments *m = calloc(1, sizeof *m);
  double sum = 0;
  if (!m) return fk_no_memory(err, 0, "moments of the points");
  m->job = job;
  int threads = fk_threads_for_bytes(job->opts->threads, 24.0 * (double)(job->n * job->d));
  fk_parallel_for(threads, PIECES, 1, add_all_moments, m);
  for (int p = 0; p < PIECES; p++) sum += m->sum[p];
  *square = 0;
  for (int64_t k = 0; k < job->d; k++) {
    double first = 0, second = 0;
    for (int p = 0; p < PIECES; p++) {
      first += m->first[p][k] / sum;
      second += m->second[p][k] / sum;
    }
    double low = y->low[k] * (y->low[k] - 2 * first), high = y->high[k] * (y->high[k] - 2 * first);
    *square += fmax(fmax(low, high) + second, 0) * (1 + 1e-9);
  }
  free(m);
  if (!(sum > 0)) *square = INFINITY;
  return FK_STATUS_OK;
}

/* No source is farther from a target; squared, in bandwidths. mean: nor their weighted mean, for one column. */
static enum fk_status farthest(struct fk_fast_job *job, double *square, double *mean, struct fk_error *err) {
  struct fk_fast_box x, y;
  enum fk_status status = fk_fast_find_box(job, &job->task->sources, &x, err);
  if (status) return status;
  y = x;
  if (!job->same) status = fk_fast_find_box(job, &job->task->targets, &y, err);
  *square = 0;
  for (int64_t k = 0; k < job->d; k++) {
    double apart = fmax(x.high[k] - y.low[k], y.high[k] - x.low[k]);
    *square += apart * apart * (1 + 1e-12);
  }
  *mean = *square;
  job->reach = fmin(fk_fast_box_reach(&x, job->d), fk_fast_box_reach(&y, job->d));
  if (!status && job->columns == 1) status = farthest_mean(job, &y, mean, err);
  *mean = fmin(*mean, *square);
  return status;
}

/* The sums that errors are relative to, as a share of their column's sum |b|. The kernel is convex in the squared
 * distance: their mean is at least the kernel's at the mean distance. Where the largest sum counts, the sample's
 * rows tell, too. */
static void find_least(const struct fk_fast_job *job, double square, struct fk_fast_mixture *x) {
  double ratio = 1; /* of sum |b| to the largest |b| */
  for (int64_t c = 0; c < job->columns; c++) {
    double sum = 0;
    for (int64_t i = 0; i < job->n && job->b; i++) sum += fabs(job->b[c * job->n + i]);
    if (job->size[c] > 0) ratio = fmax(ratio, job->b ? sum / job->size[c] : (double)job->n);
  }
  x->least = pow(1 + square, -x->sum.power);
  if (!fk_fast_pointwise(job)) x->least = fmax(x->least, job->least / (ratio * (1 + 1e-12)));
}

enum fk_status fk_fast_mixture_init(struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    const struct fk_grid_work *work, struct fk_fast_mixture **mixture,
                                    double *seconds, struct fk_error *err) {
  struct fk_fast_mixture *x = calloc(1, sizeof *x);
  struct fk_error why = {FK_STATUS_OK, ""};
  double square, mean;
  *mixture = NULL;
  *seconds = INFINITY;
  if (!x) return fk_no_memory(err, 0, "a sum of Gaussians");
  enum fk_status status = farthest(job, &square, &mean, err), found = FK_STATUS_OK;
  double power = fk_kernel_info(job->task->kernel.id)->mixture;
  if (!status) found = fk_mixture_init(&x->sum, power, square, fk_costs.choice.mixture_part * job->tol, &why);
  if (!status && found && found != FK_STATUS_UNSUPPORTED) status = fk_fail(err, found, "%s", why.message);
  if (!status && !found) find_least(job, mean, x);
  if (!status && !found) status = choose_parts(job, s, work, x, err);
  if (status || found || !isfinite(x->seconds)) {
    free(x);
    return status;
  }
  *mixture = x;
  *seconds = x->seconds;
  return FK_STATUS_OK;
}

void fk_fast_mixture_free(struct fk_fast_mixture *x) { free(x); }

/* ---- the sums --------------------------------------------------------------------------------- */

enum fk_status fk_fast_by_mixture(struct fk_fast_job *job, const struct fk_fast_mixture *x, struct fk_error *err) {
  int64_t d = job->d, numbers = job->m * job->columns;
  double *values = fk_aligned_alloc(sizeof(double) * (size_t)(numbers + d * d)), *chol = values + numbers;
  struct fk_step progress = {&job->opts->poll, 0, 0};
  struct fk_grid_task whole = fk_fast_grid_task(job);
  enum fk_status status = FK_STATUS_OK;
  int grids = 0;
  if (!values) return fk_no_memory(err, 8.0 * (double)(numbers + d * d), "sums");
  for (int p = 0; p < x->n && !status; p++) {
    const struct part *part = &x->parts[p];
    struct fk_whitening narrow = *job->task->whitening;
    struct sub sub;
    sub_init(&sub, job, x, part);
    for (int64_t i = 0; i < d * d; i++) chol[i] = narrow.chol[i] / sqrt(2 * rate_of(x, part));
    narrow.chol = chol;
    sub.task.whitening = &narrow;
    sub.task.sums = values;
    sub.task.mass = values + (job->columns - 1) * job->m;
    progress.from = progress.to;
    progress.to += part->seconds / x->seconds;
    sub.opts.poll = fk_poll_of_step(&progress);
    status = part->direct ? fk_fast_by_direct(&sub.job, err)
                          : fk_fast_terms(&sub.job, &part->work, &part->window, part->single, err);
    if (!status) fk_grid_join(&whole, 0, job->m, part->direct ? x->sum.weight[part->first] : 1, p == 0, values);
    job->used_single = job->used_single || sub.job.used_single;
    grids += !part->direct;
  }
  fk_aligned_free(values);
  if (status) return status;
  job->bound = job->tol; /* by construction */
  job->stats->method = grids == x->n ? "grid" : grids ? "grid and direct" : "direct";
  fk_fast_find_largest(job);
  if (job->task->exclude_self) fk_fast_leave_out(job);
  return FK_STATUS_OK;
}

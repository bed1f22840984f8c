/* The fast engine by a grid, to a tolerance that is proven: the envelope (envelope.h) tells what error each window
 * can have where, and how large the sums are. A window is chosen by that, with the rows that direct sums would
 * have to do again counted in; after its sums are there, rows whose error is not proven are done again. */
#include "tolerance.h"

#include <math.h>
#include <stdlib.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/scan.h"
#include "../cpu/direct/direct.h"
#include "box.h"
#include "by_direct.h"
#include "columns.h"
#include "envelope_job.h"
#include "sample.h"

struct fk_fast_plan {
  const struct fk_fast_samples *samples; /* while it is made */
  struct fk_fast_envelope bound;
  struct fk_grid_work work;
  struct fk_window window;
  bool single;
  double seconds;
  /* The window whose errors the envelope has now; if there is none, it has only sums. */
  struct fk_window bounded;
  bool bounded_single, is_bounded;
};

/* The first targets of the cells with the largest sums, at most FK_CHECK_ROWS. */
static int64_t heaviest_rows(const struct fk_envelope *e, int64_t *rows) {
  const struct fk_envelope_cell *cells;
  int64_t n = fk_envelope_cells(e, &cells), found = 0;
  double sum[FK_CHECK_ROWS];
  for (int64_t i = 0; i < n; i++) {
    int64_t at = found;
    if (found == FK_CHECK_ROWS && !(cells[i].sum > sum[found - 1])) continue;
    for (at = found < FK_CHECK_ROWS ? found++ : found - 1; at > 0 && sum[at - 1] < cells[i].sum; at--) {
      sum[at] = sum[at - 1];
      rows[at] = rows[at - 1];
    }
    sum[at] = cells[i].sum;
    rows[at] = cells[i].row;
  }
  return found;
}

/* ---- the window ------------------------------------------------------------------------------- */

/* The error that is allowed in a cell. Sums are taken as half of their bound, which interpolation overestimates by
 * about as much in few dimensions, and those of the column that is smallest beside its size by its share; the sums
 * themselves decide later. */
static double limit_of(const struct fk_fast_job *job, const struct fk_envelope_cell *cell) {
  double own = fmax(0.5, pow(0.8, (double)job->d)) * cell->sum * job->share;
  double limit = fk_fast_pointwise(job) ? job->tol * own : job->tol * job->least;
  return fk_fast_has_quotient(job) ? fmin(limit, FK_FAST_LOG_SHARE * own) : limit;
}

/* The absolute error that is allowed in a recomputed row. largest: a lower bound of max_j A_j, for a column of
 * size 1. */
static double floor_of(const struct fk_fast_job *job, double largest) {
  return fk_fast_pointwise(job) || fk_fast_has_quotient(job) ? 0 : 0.5 * job->tol * largest;
}

/* Trial of a window: a histogram of targets by log2(error / limit), from -BINS / 2 on. */
enum { BINS = 128 };
struct trial {
  struct fk_window window;
  bool single;
  double seconds, rows; /* of the grid; targets that are left to direct sums */
  double count[BINS];
};

/* The bin of a ratio error / limit: its logarithm in base 2, rounded up. */
static int bin_of(double ratio) {
  int exponent = -BINS;
  if (ratio > 0 && ratio < exp2(BINS)) exponent -= frexp(ratio, &exponent) == 0.5;
  if (ratio >= exp2(BINS)) exponent = BINS;
  exponent += BINS / 2;
  return exponent < 0 ? 0 : exponent >= BINS ? BINS - 1 : exponent;
}

/* The envelope's errors with a window, unless they are there. */
static enum fk_status bound_errors(const struct fk_fast_job *job, struct fk_fast_plan *p,
                                   const struct fk_window *window, bool single, struct fk_error *err) {
  if (p->is_bounded && p->bounded_single == single && fk_window_equal(&p->bounded, window)) return FK_STATUS_OK;
  p->bounded = *window;
  p->bounded_single = single;
  p->is_bounded = true;
  return fk_envelope_bound(p->bound.envelope, window,
                           fk_fast_rounding(single, job->grid->unit, job->opts->as_exact), err);
}

static enum fk_status try_window(const struct fk_fast_job *job, struct fk_fast_plan *plan, struct trial *t,
                                 struct fk_error *err) {
  const struct fk_envelope_cell *cells;
  enum fk_status status = bound_errors(job, plan, &t->window, t->single, err);
  if (status) return status;
  int64_t n = fk_envelope_cells(plan->bound.envelope, &cells);
  t->rows = 0;
  for (int i = 0; i < BINS; i++) t->count[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    double targets = (double)cells[i].targets, limit = limit_of(job, &cells[i]);
    bool fits = cells[i].error <= limit;
    if (!fits) t->rows += targets;
    t->count[fits && limit == 0 ? 0 : bin_of(cells[i].error / limit)] += targets;
  }
  return FK_STATUS_OK;
}

/* The ratio that all but so many targets keep to. */
static double ratio_but_for(const struct trial *t, double targets) {
  double over = 0;
  for (int i = BINS - 1; i >= 0; i--)
    if ((over += t->count[i]) > targets) return exp2(i - BINS / 2);
  return exp2(-BINS / 2);
}

/* A cell's first target stands for all of them. */
static enum fk_status take_unproven(const struct fk_fast_job *job, const struct fk_envelope *e,
                                    struct fk_matrix *taken, struct fk_error *err) {
  const struct fk_matrix *from = fk_task_targets(job->task);
  const struct fk_envelope_cell *cells;
  int64_t n = fk_envelope_cells(e, &cells), found = 0, kept = 0, d = job->d;
  for (int64_t i = 0; i < n; i++) found += !(cells[i].error <= limit_of(job, &cells[i]));
  int64_t step = fk_pieces(found, fk_costs.choice.unproven), count = fk_pieces(found, step), at = 0;
  double *raw = malloc(sizeof(double) * (size_t)(count * d)), *u = malloc(sizeof(double) * (size_t)(count * d));
  int64_t *rows = malloc(sizeof *rows * (size_t)(count + 1));
  enum fk_status status = raw && u && rows ? FK_STATUS_OK : fk_no_memory(err, 0, "a sample of rows");
  for (int64_t i = 0; i < n && !status; i++)
    if (!(cells[i].error <= limit_of(job, &cells[i])) && at++ % step == 0) rows[kept++] = cells[i].row;
  struct fk_matrix picked = fk_doubles(raw, count, d);
  if (!status) fk_gather(from, rows, count, raw, count);
  if (!status) status = fk_fast_whiten(job, &picked, 0, count, u, count, err);
  free(rows);
  free(raw);
  *taken = fk_doubles(u, count, d);
  return status;
}

/* Estimated time of the rows that a trial leaves to direct sums: for all pairs if they are few, else from samples.
 */
static enum fk_status seconds_of_rows(const struct fk_fast_job *job, const struct fk_fast_plan *plan, double rows,
                                      double *seconds, struct fk_error *err) {
  const struct fk_fast_choice_costs *c = &fk_costs.choice;
  double pair = (c->pair + c->pair_coordinate * (double)job->d) * 1e-9 * (double)job->columns;
  struct fk_direct_options options = {.threads = 1};
  struct fk_direct_question question = {.x = plan->samples->x, .n = (double)job->n, .m = rows};
  struct fk_direct_cost cost;
  struct fk_matrix taken = fk_doubles(NULL, 0, job->d);
  *seconds = rows * (double)job->n * pair;
  if (*seconds < c->guess || job->n >= (int64_t)1 << 32) return FK_STATUS_OK;
  enum fk_status status = take_unproven(job, plan->bound.envelope, &taken, err);
  question.targets = taken;
  question.n_columns = job->columns;
  question.gradient = job->gradient;
  question.by_rows = true;
  question.tol = job->tol;
  question.floor = floor_of(job, job->least);
  if (!status) status = fk_direct_guess(&question, &options, &cost, err);
  if (!status) *seconds = fmin(*seconds, cost.seconds);
  free((double *)taken.data);
  return status;
}

/* From the window that a guess allows, to finer ones while rows are left over, or to coarser ones. */
static enum fk_status choose_window(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err) {
  enum { TRIALS = 5 };
  double m = (double)job->m, few = fmax(fk_costs.choice.rows_least, fk_costs.choice.rows_share * m),
         least_error = INFINITY;
  double tol = job->tol / (fk_fast_pointwise(job) || fk_fast_has_quotient(job) ? 16 : 3), coarsest = INFINITY;
  enum fk_status status = FK_STATUS_OK;
  struct trial t = {.rows = 0}, last = {.rows = 0};
  plan->seconds = INFINITY;
  for (int i = 0; i < fk_window_count(); i++)
    least_error = fmin(least_error, fk_window_error(fk_window_at(i), (int)job->d, plan->work.use));
  for (int trial = 0; trial < TRIALS && !status; trial++) {
    t.single = job->single;
    tol = fmax(tol, 1.001 * least_error);
    fk_fast_choose_window(job, &plan->work, tol, &t.single, &t.window, &t.seconds);
    double error = fk_window_error(&t.window, (int)job->d, plan->work.use);
    bool again = trial > 0 && t.single == last.single && fk_window_equal(&t.window, &last.window);
    if (!isfinite(t.seconds) || again || t.seconds >= plan->seconds) break;
    double of_rows = 0;
    status = try_window(job, plan, &t, err);
    if (!status) status = seconds_of_rows(job, plan, t.rows, &of_rows, err);
    if (!status && t.seconds + of_rows < plan->seconds) {
      plan->window = t.window;
      plan->single = t.single;
      plan->seconds = t.seconds + of_rows;
    }
    last = t;
    double ratio = ratio_but_for(&t, few);
    if (t.rows > few) {
      coarsest = fmin(coarsest, error);
      tol = 0.8 * error / ratio;
      if (tol >= error || error <= 1.002 * least_error) break;
    } else {
      tol = 0.9 * error / ratio;
      if (tol < 1.5 * error || tol >= coarsest) break;
    }
  }
  return status;
}

/* ---- the plan --------------------------------------------------------------------------------- */

/* The sums in the cells: with the errors of the window that served the operator's last sum, and mostly will
 * again. */
static enum fk_status bound_sums(const struct fk_fast_job *job, struct fk_fast_plan *p, struct fk_error *err) {
  const struct fk_fast_last *last = fk_fast_last_of(p->samples);
  if (last) return bound_errors(job, p, &last->window, last->single, err);
  return fk_envelope_bound(p->bound.envelope, NULL, fk_fast_rounding(false, 0, false), err);
}

enum fk_status fk_fast_plan_grid(struct fk_fast_job *job, const struct fk_fast_samples *samples,
                                 const struct fk_grid_work *work, struct fk_fast_sample *sample,
                                 struct fk_fast_plan **plan, double *seconds, struct fk_error *err) {
  double grid_seconds = *seconds;
  struct fk_fast_plan *p = *plan = calloc(1, sizeof *p);
  struct fk_error why = {FK_STATUS_OK, ""};
  int64_t rows[FK_CHECK_ROWS], n_rows = 0;
  *seconds = INFINITY;
  if (!p) return fk_no_memory(err, 0, "the plan of the grid");
  p->work = *work;
  p->samples = samples;
  enum fk_status status = fk_fast_envelope_open(job, grid_seconds, &p->bound, &why);
  if (!status) status = bound_sums(job, p, &why);
  if (!status) status = fk_fast_find_reach(job, fk_envelope_reach(p->bound.envelope), &why);
  if (!status && !fk_fast_keeps_places(job)) return FK_STATUS_OK;
  if (!status) n_rows = heaviest_rows(p->bound.envelope, rows);
  if (!status) status = fk_fast_check_init(job, rows, n_rows, sample, &why);
  if (!status) job->least = fk_fast_check_least(job, sample);
  if (!status && job->least > 0) status = choose_window(job, p, &why);
  if (status == FK_STATUS_UNSUPPORTED) return FK_STATUS_OK; /* too far apart, or too thin, for a grid */
  if (status) return fk_fail(err, status, "%s", why.message);
  *seconds = p->seconds > 0 ? p->seconds : INFINITY;
  if (isfinite(*seconds)) fk_fast_remember(samples, &p->window, p->single);
  return FK_STATUS_OK;
}

void fk_fast_plan_free(struct fk_fast_plan *plan) {
  if (!plan) return;
  fk_fast_envelope_close(&plan->bound);
  free(plan);
}

/* ---- what is proven --------------------------------------------------------------------------- */

/* Sums of |b| k of all columns, where they are not the task's own sums. */
static bool has_own_absolute(const struct fk_fast_job *job) {
  return !job->negative && job->laplace == 0 && job->plain == 1;
}

static enum fk_status sum_absolute(struct fk_fast_job *job, const struct fk_fast_plan *plan, double *absolute,
                                   struct fk_error *err) {
  struct fk_fast_job sub = *job;
  struct fk_task task = *job->task;
  struct fk_grid_work work = plan->work;
  int64_t numbers = job->n * job->columns;
  double *b = job->negative ? malloc(sizeof(double) * (size_t)numbers) : NULL;
  if (job->negative && !b) return fk_no_memory(err, 0, "columns of |b|");
  for (int64_t i = 0; i < numbers && b; i++) b[i] = fabs(job->b[i]);
  if (b) sub.b = b;
  task.sums = absolute;
  task.mass = absolute + (job->columns - 1) * job->m;
  task.shift = NULL;
  sub.task = &task;
  sub.laplace = 0;
  sub.plain = 1;
  sub.gradient = false;
  work.use = FK_WINDOW_VALUE;
  enum fk_status status = fk_fast_terms(&sub, &work, &plan->window, plan->single, err);
  if (!status && job->task->exclude_self) fk_fast_leave_out(&sub);
  free(b);
  return status;
}

/* The proof for one row: its error in a column of size 1. */
struct proof {
  const struct fk_fast_job *job;
  const double *absolute; /* NULL: the sums themselves */
  double largest;         /* max_j A_j is no less */
};

/* The largest error / A over the columns with any b, infinite where A is not known to be more than its error. */
static double relative_error(const struct proof *p, int64_t row, double error) {
  const struct fk_fast_job *job = p->job;
  double worst = 0;
  for (int64_t c = 0; c < job->columns; c++) {
    if (job->size[c] == 0) continue;
    double sum = (p->absolute ? p->absolute + c * job->m : fk_fast_out(job, c))[row], own = error * job->size[c];
    worst = fmax(worst, sum > own ? own / (sum - own) : (double)INFINITY);
  }
  return worst;
}

/* Does the error leave a quotient by the mass? */
static bool has_quotient(const struct proof *p, int64_t row, double error) {
  const struct fk_fast_job *job = p->job;
  int64_t c = job->columns - 1;
  double mass = fabs(fk_fast_out(job, c)[row]), own = error * job->size[c];
  return mass > own && own <= FK_FAST_LOG_SHARE * (mass - own);
}

/* Rows first .. first + count - 1 whose error is not proven; *bound: of the others, at most. */
static int64_t find_rows(const struct proof *p, const double *error, int64_t first, int64_t count, int64_t *rows,
                         double *bound) {
  const struct fk_fast_job *job = p->job;
  bool pointwise = fk_fast_pointwise(job), quotient = fk_fast_has_quotient(job);
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) {
    double relative = pointwise ? relative_error(p, first + i, error[i]) : error[i] / p->largest;
    bool proven = relative <= job->tol && (!quotient || has_quotient(p, first + i, error[i]));
    if (proven)
      *bound = fmax(*bound, relative);
    else
      rows[found++] = first + i;
  }
  return found;
}

static enum fk_status find_all(const struct proof *p, const struct fk_envelope *e, int64_t **rows, int64_t *found,
                               double *bound, struct fk_error *err) {
  const struct fk_fast_job *job = p->job;
  int64_t chunk = fk_smaller(FK_GRID_CHUNK, job->m), capacity = 0;
  double *u = malloc(sizeof(double) * (size_t)(chunk * (job->d + 1))), *error = u + chunk * job->d;
  enum fk_status status = u ? FK_STATUS_OK : fk_no_memory(err, 0, "whitened points");
  for (int64_t at = 0; at < job->m && !status; at += chunk) {
    int64_t count = fk_smaller(chunk, job->m - at);
    struct fk_grid_points points = {u, count, count};
    if (*found + count > capacity) {
      capacity = fk_smaller(job->m, fk_larger(2 * capacity, *found + count));
      int64_t *more = realloc(*rows, sizeof **rows * (size_t)capacity);
      if (!more) status = fk_no_memory(err, 8.0 * (double)capacity, "rows");
      if (more) *rows = more;
    }
    if (!status) status = fk_fast_whiten(job, fk_task_targets(job->task), at, count, u, count, err);
    if (!status) status = fk_envelope_at(e, &points, error, err);
    if (!status) *found += find_rows(p, error, at, count, *rows + *found, bound);
  }
  free(u);
  return status;
}

/* All cells' errors are within the tolerance, and no row has to be looked at. */
static bool is_plain(const struct proof *p, double error) {
  const struct fk_fast_job *job = p->job;
  if (fk_fast_pointwise(job) || !(error <= job->tol * p->largest)) return false;
  if (!fk_fast_has_quotient(job)) return true;
  double least = error * job->size[job->columns - 1] * (1 + 1 / FK_FAST_LOG_SHARE);
  for (int64_t i = 0; i < job->m; i++)
    if (!(fabs(job->task->mass[i]) >= least)) return false;
  return true;
}

/* A lower bound of the largest sum, by the sample's rows and by the sums that are there. */
static double largest_sum(const struct fk_fast_job *job, double error) {
  double least = INFINITY;
  if (!has_own_absolute(job)) return job->least;
  for (int64_t c = 0; c < job->columns; c++) {
    bool known = c == job->columns - 1 && !job->task->exclude_self;
    if (job->size[c] == 0) continue;
    double most = known ? job->largest : fk_largest(fk_fast_out(job, c), job->m, job->opts->threads);
    least = fmin(least, most / job->size[c]);
  }
  return isfinite(least) ? fmax(job->least, least - error) : job->least;
}

static enum fk_status prove(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err) {
  const struct fk_envelope_cell *cells;
  struct proof p = {.job = job};
  double error = 0, *absolute = NULL;
  int64_t *rows = NULL, found = 0;
  enum fk_status status = bound_errors(job, plan, &plan->window, plan->single, err);
  if (status) return status;
  int64_t n = fk_envelope_cells(plan->bound.envelope, &cells);
  for (int64_t i = 0; i < n; i++) error = fmax(error, cells[i].error);
  p.largest = largest_sum(job, error);
  if (is_plain(&p, error)) {
    job->bound = error / p.largest;
    return FK_STATUS_OK;
  }
  if (fk_fast_pointwise(job) && !has_own_absolute(job)) {
    p.absolute = absolute = malloc(sizeof(double) * (size_t)(job->m * job->columns));
    status = absolute ? sum_absolute(job, plan, absolute, err) : fk_no_memory(err, 0, "sums of |b|");
  }
  if (!status) status = find_all(&p, plan->bound.envelope, &rows, &found, &job->bound, err);
  if (!status && found > 0) {
    status = fk_fast_rows(job, rows, found, floor_of(job, p.largest), err);
    job->bound = fmax(job->bound, 0.5 * job->tol);
  }
  job->tail_rows += found;
  free(rows);
  free(absolute);
  return status;
}

enum fk_status fk_fast_by_plan(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err) {
  enum fk_status status = fk_fast_terms(job, &plan->work, &plan->window, plan->single, err);
  if (status) return status;
  fk_fast_find_largest(job);
  if (job->task->exclude_self) fk_fast_leave_out(job);
  status = prove(job, plan, err);
  return status ? status : fk_fast_redo_heavy(job, err);
}

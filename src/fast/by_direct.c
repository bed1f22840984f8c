#include "by_direct.h"

#include <math.h>
#include <stdlib.h>

#include "../core/kept.h"
#include "../cpu/direct/direct.h"
#include "columns.h"
#include "sample.h"

static void free_direct(void *state) { fk_direct_destroy(state); }

static enum fk_status whiten(const struct fk_fast_job *job, const struct fk_matrix *points, double **u,
                             struct fk_error *err) {
  *u = malloc(sizeof(double) * (size_t)(points->n * job->d));
  return *u ? fk_fast_whiten(job, points, 0, points->n, *u, points->n, err)
            : fk_no_memory(err, 8.0 * (double)points->n * (double)job->d, "whitened points");
}

/* The sources in their cells, which an operator may have already. Sides that are needed are whitened: the sources
 * as u, other targets as v. */
static enum fk_status open_direct(const struct fk_fast_job *job, double **u, double **v, struct fk_direct **direct,
                                  struct fk_error *err) {
  struct fk_operator *op = fk_task_keeper(job->task);
  struct fk_direct_options options = {job->single, job->opts->threads, job->opts->poll};
  enum fk_status status = FK_STATUS_OK;
  *direct = op ? fk_kept_use(op, FK_KEEPER_DIRECT) : NULL;
  if (!*direct || (job->same && job->gradient)) status = whiten(job, &job->task->sources, u, err);
  if (!job->same && !status) status = whiten(job, fk_task_targets(job->task), v, err);
  struct fk_matrix x = fk_doubles(*u, job->n, job->d);
  if (status) return status;
  return *direct ? fk_direct_restart(*direct, job->b, job->columns, &options, err)
                 : fk_direct_create(&x, job->b, job->columns, &options, direct, err);
}

/* It stays with the operator, if there is room. */
static void close_direct(const struct fk_fast_job *job, struct fk_direct *direct) {
  struct fk_operator *op = fk_task_keeper(job->task);
  if (op && direct) {
    struct fk_kept what = {.state = direct, .free = free_direct, .bytes = fk_direct_rest(direct)};
    fk_keep(op, FK_KEEPER_DIRECT, what, job->opts);
  } else {
    fk_direct_destroy(direct);
  }
}

/* Arrays for sums of the columns and gradients. The mass is the last column of the job, but the first column of
 * the direct sums, which take the gradient of that one. Only one column has a gradient. */
struct results {
  struct fk_direct_job ask;
  double *out, *shift;
};

static enum fk_status sum_all(struct fk_fast_job *job, struct fk_direct *direct, struct results *r,
                              struct fk_error *err) {
  enum fk_status status = fk_direct_sums(direct, &r->ask, err);
  for (int64_t i = 0; i < job->m && !status; i++) {
    for (int64_t c = 0; c < job->columns; c++) fk_fast_out(job, c)[i] = r->out[c * job->m + i];
    if (job->task->shift) job->task->shift[i] = 0;
  }
  return status;
}

/* Rows that got a scale of their own are as good as exact, and cannot be told from others by their sums. */
static void mark_scaled(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows) {
  struct fk_fast_sample *sample = job->sample;
  bool quotients = job->gradient && !job->task->shift;
  for (int r = 0; r < sample->check.rows; r++) {
    int64_t low = 0, high = n_rows; /* rows are ascending */
    while (rows && low < high) {
      int64_t middle = (low + high) / 2;
      if (rows[middle] < sample->row[r])
        low = middle + 1;
      else
        high = middle;
    }
    bool found = !rows || (low < n_rows && rows[low] == sample->row[r]);
    if (found) sample->scaled[r] = quotients || (job->task->shift && job->task->shift[sample->row[r]] != 0);
  }
}

/* The mass first: the others have its shift. Quotients need none. floor: in columns of size 1. */
static enum fk_status sum_rows(struct fk_fast_job *job, struct fk_direct *direct, const int64_t *rows,
                               int64_t n_rows, double floor, struct results *r, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  double *shift = job->task->shift;
  for (int64_t c = job->columns - 1; c >= 0 && !status; c--) {
    double *out = fk_fast_out(job, c);
    r->ask.floor = floor * job->size[c];
    if (job->b && job->columns > 1) status = fk_direct_set_columns(direct, job->b + c * job->n, 1, err);
    if (!status) status = fk_direct_rows(direct, &r->ask, rows, n_rows, r->shift, err);
    for (int64_t k = 0; k < (rows ? n_rows : job->m) && !status; k++) {
      int64_t i = rows ? rows[k] : k;
      if (shift && c == job->columns - 1) shift[i] = r->shift[i];
      double off = shift ? r->shift[i] - shift[i] : job->gradient ? 0 : r->shift[i];
      out[i] = off == 0 ? r->out[i] : r->out[i] * exp(off);
    }
  }
  return status;
}

/* All rows (rows NULL), by their own tolerance or that of all, or some. */
static enum fk_status sum_near(struct fk_fast_job *job, bool by_rows, const int64_t *rows, int64_t n_rows,
                               double floor, struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_direct *direct = NULL;
  double *u = NULL, *v = NULL;
  int64_t m = job->m, d = job->d, sums = job->columns * m;
  struct results r = {.shift = malloc(sizeof(double) * (size_t)(m + job->columns))};
  double *known = r.shift + m;
  enum fk_status status = open_direct(job, &u, &v, &direct, err);
  r.out = malloc(sizeof(double) * (size_t)(sums + (job->gradient ? m * d : 0)));
  if (!status && (!r.out || !r.shift)) status = fk_no_memory(err, 8.0 * (double)sums, "sums");
  if (!status) {
    r.ask = (struct fk_direct_job){.targets = fk_doubles(v, m, d),
                                   .self_first = task->exclude_self ? 0 : -1,
                                   .tol = job->tol,
                                   .sums = r.out,
                                   .ld = m};
    r.ask.gradient = job->gradient ? r.out + sums : NULL;
    for (int i = 0; i < 3; i++) r.ask.factor[i] = task->factor[i];
    for (int64_t c = 0; c < job->columns; c++) known[c] = job->least * job->size[c];
    r.ask.known = known;
    status = by_rows ? sum_rows(job, direct, rows, n_rows, floor, &r, err) : sum_all(job, direct, &r, err);
    if (by_rows && !status) mark_scaled(job, rows, n_rows);
    if (!rows) job->used_single = r.ask.used_single;
    /* what is relative to `floor`, half of the tolerance, is half as much relative to what that is */
    double left_out = floor > 0 ? fmin(r.ask.left_out, 0.85 * job->tol) : r.ask.left_out;
    job->bound = fmax(job->bound, left_out + FK_FAST_ROUNDING(false));
    const double *target = v ? v : u;
    for (int64_t k = 0; k < (rows ? n_rows : m) && job->gradient && !status; k++) {
      int64_t i = rows ? rows[k] : k;
      for (int64_t a = 0; a < d; a++)
        task->sums[a * m + i] = r.ask.gradient[a * m + i] + target[a * m + i] * task->mass[i];
    }
  }
  close_direct(job, direct);
  free(u);
  free(v);
  free(r.shift);
  free(r.out);
  return status;
}

/* Recomputes rows whose mass is not much larger than the error that the tolerance allows. */
static enum fk_status redo_lost(struct fk_fast_job *job, struct fk_error *err) {
  double least = (1 + 1 / FK_FAST_LOG_SHARE) * job->bound * job->largest;
  int64_t *rows, found;
  enum fk_status status = fk_rows_below(job->task->mass, job->m, least, &rows, &found, err);
  if (!status && found > 0) status = fk_fast_rows(job, rows, found, 0, err);
  job->tail_rows += found;
  free(rows);
  return status;
}

/* Leave-one-out estimates divide by the weights that are left. That at most doubles errors where no weight is more
 * than half of all, but for one row that may have such a weight. */
enum fk_status fk_fast_redo_heavy(struct fk_fast_job *job, struct fk_error *err) {
  double sum = 0;
  int64_t heavy = 0;
  if (!job->task->exclude_self || !job->b || fk_fast_pointwise(job)) return FK_STATUS_OK;
  for (int64_t i = 0; i < job->n; i++) {
    sum += fabs(job->b[i]) / job->size[0];
    if (fabs(job->b[i]) > fabs(job->b[heavy])) heavy = i;
  }
  return sum < 2 ? fk_fast_rows(job, &heavy, 1, 0, err) : FK_STATUS_OK;
}

enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err) {
  bool quotient = fk_fast_has_quotient(job), by_rows = fk_fast_pointwise(job) || (quotient && job->laplace != 0);
  enum fk_status status = sum_near(job, by_rows, NULL, 0, 0, err);
  if (status) return status;
  fk_fast_find_largest(job);
  if (quotient && !by_rows) status = redo_lost(job, err);
  return status ? status : fk_fast_redo_heavy(job, err);
}

/* ---- some rows -------------------------------------------------------------------------------- */

/* Recomputes rows by the exact engine. */
static enum fk_status sum_exactly(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows,
                                  struct fk_error *err) {
  const struct fk_matrix *targets = fk_task_targets(job->task);
  struct fk_opts opts = *job->opts;
  struct fk_stats unused = {0};
  struct fk_task task = *job->task;
  bool relative = false;
  int64_t d = job->d, values = fk_n_values(&task), own = job->gradient ? 0 : values;
  double *memory = malloc(sizeof(double) * (size_t)(n_rows * (d + values + 2))), *x = memory;
  if (!memory) return fk_no_memory(err, 0, "single rows");
  fk_gather(targets, rows, n_rows, x, n_rows);
  task.targets = fk_doubles(x, n_rows, d);
  task.mass = x + n_rows * d;
  task.sums = values ? task.mass + n_rows : NULL;
  task.shift = task.mass + n_rows * (1 + values);
  task.tail_pass = true;
  if (own == 0) task.weights = job->b; /* on its scale */
  task.relative = &relative;
  opts.precision = FK_PRECISION_DOUBLE;
  opts.poll.fn = NULL;
  enum fk_status status = job->grid->exact->sums(&task, &opts, &unused, err);
  if (!status && relative) {
    status = fk_fast_whiten(job, &task.targets, 0, n_rows, x, n_rows, err); /* in place of the targets */
    for (int64_t c = 0; c < values && !status; c++)
      for (int64_t r = 0; r < n_rows; r++) task.sums[c * n_rows + r] += x[c * n_rows + r] * task.mass[r];
  }
  for (int64_t r = 0; r < n_rows && !status; r++) {
    int64_t i = rows[r];
    bool keep = job->task->shift || job->gradient; /* the row's scale; quotients need none */
    double scale = keep ? 1 : exp(task.shift[r]);
    if (job->task->shift) job->task->shift[i] = task.shift[r];
    job->task->mass[i] = own ? ldexp(task.mass[r] * scale, -job->exponent[own]) : task.mass[r] * scale;
    for (int64_t c = 0; c < values; c++) {
      double sum = task.sums[c * n_rows + r] * scale;
      job->task->sums[c * job->m + i] = own ? ldexp(sum, -job->exponent[c]) : sum;
    }
  }
  free(memory);
  if (!status) mark_scaled(job, rows, n_rows);
  return status;
}

/* Few rows are not worth a tree, and one has only so many points; exact sums have one scale for all b. */
enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, double floor,
                            struct fk_error *err) {
  bool many = job->n >= (int64_t)1 << 32, self = job->task->exclude_self;
  if (many && self) return fk_fail(err, FK_STATUS_UNSUPPORTED, "too many points to recompute single rows");
  const struct fk_fast_choice_costs *c = &fk_costs.choice;
  double each = c->few_row + c->few_row_coordinate * (double)job->d;
  bool few = (double)n_rows * (double)job->columns * each < c->few_rows;
  return many || (few && !self && !job->wide) ? sum_exactly(job, rows, n_rows, err)
                                              : sum_near(job, true, rows, n_rows, floor, err);
}

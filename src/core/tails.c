/* Finds rows whose sums have lost terms to underflow, and recomputes them. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "../fk.h"
#include "scan.h"

/* In single precision terms are under 2^-125, and 2^27 of them are needed to matter. */
double fk_lost_below(bool single, int64_t n, double weight_scale) {
  double lost = single ? 0x1p-125 * 0x1p27 : FK_LOST;
  return (double)n * fmax(lost * weight_scale, FK_LOST);
}

enum fk_status fk_rows_below(const double *mass, int64_t m, double threshold, int64_t **rows, int64_t *found,
                             struct fk_error *err) {
  int64_t count = 0, at = 0;
  *rows = NULL;
  *found = 0;
  for (int64_t j = 0; j < m; j++) count += !(fabs(mass[j]) >= threshold);
  if (count == 0) return FK_STATUS_OK;
  *rows = malloc(sizeof(int64_t) * (size_t)count);
  if (!*rows) return fk_no_memory(err, 8.0 * (double)count, "rows that underflow");
  for (int64_t j = 0; j < m; j++)
    if (!(fabs(mass[j]) >= threshold)) (*rows)[at++] = j;
  *found = count;
  return FK_STATUS_OK;
}

/* Recomputes some rows of one column, as a task whose weights are the column. */
struct lost {
  const double *column;
  double *sums; /* of all rows */
  int64_t *rows, count;
};
static enum fk_status redo_rows(const struct fk_task *task, const struct lost *lost,
                                const struct fk_engine *engine, const struct fk_opts *opts, struct fk_error *err) {
  int64_t count = lost->count;
  const int64_t *rows = lost->rows;
  const struct fk_matrix *y = fk_task_targets(task);
  int64_t d = y->d;
  double *targets = malloc(sizeof(double) * (size_t)(count * (d + 2)));
  if (!targets) return fk_no_memory(err, 8.0 * (double)(count * (d + 2)), "sums of rows that underflow");
  fk_gather(y, rows, count, targets, count);
  struct fk_stats unused = {0};
  struct fk_task own = *task;
  own.targets = fk_doubles(targets, count, d);
  own.weights = lost->column;
  own.values = FK_VALUES_NONE;
  own.mass = targets + count * d;
  own.sums = NULL;
  own.shift = own.mass + count;
  own.tail_pass = true;
  enum fk_status status = engine->sums(&own, opts, &unused, err);
  for (int64_t r = 0; r < count && !status; r++) {
    double root = exp(own.shift[r] / 2); /* twice, for what they make may be a number where exp(shift) is none */
    lost->sums[rows[r]] = own.mass[r] * root * root;
  }
  free(targets);
  return status;
}

enum fk_status fk_redo_lost_sums(const struct fk_task *task, const struct fk_engine *engine,
                                 const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err) {
  bool columns = task->values == FK_VALUES_COLUMNS, underflows = fk_kernel_info(task->kernel.id)->underflows;
  int64_t n = task->sources.n, m = fk_n_targets(task), count = columns ? task->n_columns : task->weights ? 1 : 0;
  enum fk_status status = FK_STATUS_OK;
  bool others = task->values == FK_VALUES_COORDINATES || (columns && task->weights);
  /* relative to the largest sum, unless exact sums were asked for */
  bool global = opts->tol > 0 && opts->tol_type == FK_TOL_GLOBAL && opts->engine != FK_ENGINE_EXACT;
  if (task->tail_pass || task->exclude_self || !underflows || others) return status;
  for (int64_t v = 0; v < count && !status; v++) {
    struct lost lost = {.column = columns ? task->columns + v * n : task->weights};
    double threshold = (double)n * FK_LOST * fk_largest(lost.column, n, opts->threads);
    lost.sums = columns ? task->sums + v * m : task->mass;
    bool matters = !global || threshold > opts->tol * fk_largest(lost.sums, m, opts->threads);
    if (matters && threshold >= DBL_MIN) /* else of no number's size */
      status = fk_rows_below(lost.sums, m, threshold, &lost.rows, &lost.count, err);
    if (!status && lost.count) status = redo_rows(task, &lost, engine, opts, err);
    stats->tail_rows += (double)lost.count;
    free(lost.rows);
  }
  return status;
}

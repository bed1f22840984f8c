/* Normal products: as a whole where the engine has that, or by two sums. */
#include <stdio.h>
#include <string.h>

#include "aligned.h"
#include "plan.h"
#include "pool.h"
#include "threads.h"

static void say(struct fk_stats *stats, const char *how) {
  size_t length = strlen(stats->reason_engine);
  snprintf(stats->reason_engine + length, sizeof stats->reason_engine - length, "; %s", how);
}

/* The operator's points as targets; without data if they are the sources. */
static struct fk_matrix points_of(const struct fk_operator *op, bool own) {
  struct fk_matrix x = op->x;
  if (own) x.data = NULL;
  return x;
}

struct fk_task fk_normal_task(struct fk_operator *op, const struct fk_normal *normal) {
  struct fk_task task = {.op = op, .sources = op->x, .whitening = &op->whitening, .kernel = op->kernel};
  task.targets = points_of(normal->rows, normal->rows == op);
  task.values = FK_VALUES_COLUMNS;
  task.columns = normal->v;
  task.n_columns = normal->n_columns;
  task.factor[0] = 1;
  return task;
}

struct residuals {
  const struct fk_normal *normal;
  double *u; /* K v, or 0; then W (K v + w) */
  int64_t m;
};

static void weigh(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct residuals *r = data;
  const double *w = r->normal->w, *weights = r->normal->weights;
  int64_t m = r->m;
  for (int64_t v = 0; v < r->normal->n_columns; v++)
    for (int64_t j = first; j < end; j++) {
      double *u = r->u + v * m + j;
      if (r->normal->sums) r->normal->sums[v * m + j] = *u;
      if (w) *u += w[v * m + j];
      if (weights) *u *= weights[j];
    }
}

static enum fk_status by_sums(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                              double *product, struct fk_stats *stats, struct fk_error *err) {
  bool own = normal->rows == op;
  struct fk_matrix rows = points_of(normal->rows, own), columns = points_of(op, own);
  int64_t m = rows.n, count = normal->n_columns;
  double numbers = (double)m * (double)count;
  struct residuals residuals = {normal, fk_aligned_alloc(sizeof(double) * (size_t)(m * count)), m};
  enum fk_status status = FK_STATUS_OK;
  if (!residuals.u) return fk_no_memory(err, 8.0 * numbers, "intermediate results");
  if (normal->v)
    status = fk_kernel_sum(op, &rows, normal->v, count, opts, residuals.u, stats, err);
  else
    memset(residuals.u, 0, sizeof(double) * (size_t)(m * count));
  int threads = fk_threads_for_bytes(opts->threads, 24 * numbers);
  if (!status) fk_parallel_for(threads, m, fk_step_for_bytes(24.0 * (double)count), weigh, &residuals);
  if (!status) status = fk_kernel_sum(normal->rows, &columns, residuals.u, count, opts, product, stats, err);
  fk_aligned_free(residuals.u);
  return status;
}

enum fk_status fk_normal_product(struct fk_operator *op, const struct fk_normal *normal,
                                 const struct fk_opts *opts, double *product, struct fk_stats *stats,
                                 struct fk_error *err) {
  struct fk_plan_choice choice;
  struct fk_work work = {.n = (double)op->x.n, .m = (double)normal->rows->x.n, .d = (double)op->x.d};
  work.n_values = normal->n_columns > 1 ? (double)normal->n_columns : 0; /* one is the mass */
  work.kernel = op->kernel;
  work.operation = FK_OP_NORMAL;
  enum fk_status status = fk_operator_here(op, opts->threads, NULL, err);
  if (!status && !normal->rows->x.data) status = fk_operator_here(normal->rows, opts->threads, NULL, err);
  if (!status) status = fk_plan_choose(opts, &work, &choice, stats, err);
  if (status) return status;
  if (choice.engine->normal) status = choice.engine->normal(op, normal, &choice.opts, product, stats, err);
  if (choice.engine->normal && status != FK_STATUS_UNSUPPORTED) {
    say(stats, choice.engine->backend == FK_BACKEND_CPU ? "one sweep" : stats->method);
    return status;
  }
  *err = (struct fk_error){FK_STATUS_OK, ""};
  status = by_sums(op, normal, opts, product, stats, err);
  if (normal->v) say(stats, "two sums");
  return status;
}

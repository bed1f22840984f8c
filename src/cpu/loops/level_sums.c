/* Sums of kernels by cells of levels; what they are stands in level_sums.h. A piece is a run of rows, each
 * against all points; its moments are its own, and are added in the order of the pieces. */
#include "level_sums.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "../../core/count.h"
#include "../../core/plan.h"
#include "../../core/pool.h"
#include "../../core/threads.h"

enum { PIECE = 16 };

struct level_sums {
  const struct fk_level_sums *of;
  double *narrow; /* n: 1 / (2 f^2); NULL: all 1/2 */
  int64_t count;  /* of moments */
  double *partial;
  struct fk_scratch scratch;
};

/* Memory of a row: kernels, sums of cells, differences. */
struct level_sums_row {
  int64_t i, own; /* its number among rows, and among points */
  double top, *kernels, *sums, *u, *weighted;
};

static int64_t cell_of(const struct fk_level_sums *of, int64_t point) {
  int64_t low = 0, high = of->cells - 1;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (of->ends[middle] > (double)point)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* log w - s of all points, -infinity of the row itself; the largest of them. */
static void fill_logs(const struct level_sums *s, struct level_sums_row *r) {
  const struct fk_level_sums *of = s->of;
  double *logs = r->kernels;
  for (int64_t j = 0; j < of->n; j++) logs[j] = 0;
  for (int64_t k = 0; k < of->d; k++) {
    const double *x = of->x + k * of->n, at = x[r->own];
    for (int64_t j = 0; j < of->n; j++) logs[j] += (x[j] - at) * (x[j] - at);
  }
  r->top = -DBL_MAX;
  for (int64_t j = 0; j < of->n; j++) {
    logs[j] = of->log_weight[j] - (s->narrow ? s->narrow[j] : 0.5) * logs[j];
    if (j != r->own && logs[j] > r->top) r->top = logs[j];
  }
  logs[r->own] = -INFINITY;
}

static void sum_cells(const struct fk_level_sums *of, struct level_sums_row *r) {
  int64_t j = 0;
  for (int64_t c = 0; c < of->cells; c++) {
    double sum = 0;
    for (; j < (int64_t)of->ends[c]; j++) {
      double t = r->kernels[j] - r->top;
      sum += r->kernels[j] = t < -745 ? 0 : exp(t);
    }
    r->sums[c] = sum;
  }
}

/* In four parts, which need not wait for each other. */
static double product(const double *a, const double *b, int64_t n) {
  double sums[4] = {0, 0, 0, 0};
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (int p = 0; p < 4; p++) sums[p] += a[j + p] * b[j + p];
  for (; j < n; j++) sums[0] += a[j] * b[j];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* Kernels times `weight` and what their cells give. */
static void add_moments(const struct fk_level_sums *of, struct level_sums_row *r, const double *shares,
                        double weight, double *moments) {
  int64_t j = 0;
  for (int64_t c = 0; c < of->cells; c++)
    for (; j < (int64_t)of->ends[c]; j++) r->kernels[j] *= weight * shares[c * of->cells];
  for (int64_t a = 0; a < of->d; a++) {
    const double *x = of->x + a * of->n, at = x[r->own];
    double *u = r->u + a * of->n;
    for (j = 0; j < of->n; j++) {
      u[j] = x[j] - at;
      r->weighted[j] = r->kernels[j] * u[j];
    }
    for (int64_t b = of->diagonal ? a : 0; b <= a; b++)
      *moments++ += product(r->weighted, r->u + b * of->n, of->n);
  }
}

static void do_row(const struct level_sums *s, struct level_sums_row *r, double *moments) {
  const struct fk_level_sums *of = s->of;
  fill_logs(s, r);
  sum_cells(of, r);
  of->top[r->i] = r->top;
  if (!of->shares) {
    for (int64_t c = 0; c < of->cells; c++) of->sums[r->i + c * of->m] = r->sums[c];
    return;
  }
  const double *shares = of->shares + cell_of(of, r->own);
  double sum = 0;
  for (int64_t c = 0; c < of->cells; c++) sum += shares[c * of->cells] * r->sums[c];
  of->sums[r->i] = sum;
  if (!of->v) return;
  sum += exp(of->log_floor[r->i] - r->top);
  if (sum > 0 && sum < INFINITY) add_moments(of, r, shares, of->v[r->i] / sum, moments);
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct level_sums *s = data;
  const struct fk_level_sums *of = s->of;
  struct level_sums_row r = {.kernels = fk_scratch_at(&s->scratch, slot)};
  r.sums = r.kernels + of->n;
  r.weighted = r.sums + of->cells;
  r.u = r.weighted + of->n;
  for (int64_t piece = first; piece < end; piece++)
    for (r.i = piece * PIECE; r.i < fk_smaller(of->m, (piece + 1) * PIECE); r.i++) {
      r.own = (int64_t)of->rows[r.i];
      do_row(s, &r, s->partial + piece * s->count);
    }
}

static enum fk_status level_sums_init(struct level_sums *s, int64_t pieces, int threads, struct fk_error *err) {
  const struct fk_level_sums *of = s->of;
  int64_t room = of->cells + of->n * (of->v ? of->d + 2 : 1);
  s->count = !of->v ? 0 : of->diagonal ? of->d : of->d * (of->d + 1) / 2;
  s->partial = calloc((size_t)(pieces * s->count + 1), sizeof(double));
  s->narrow = of->factors ? malloc(sizeof(double) * (size_t)of->n) : NULL;
  if (!s->partial || (of->factors && !s->narrow) ||
      !fk_scratch_init(&s->scratch, threads, sizeof(double) * (size_t)room))
    return fk_no_memory(err, 0, "sums by cells");
  for (int64_t j = 0; s->narrow && j < of->n; j++) s->narrow[j] = 0.5 / (of->factors[j] * of->factors[j]);
  return FK_STATUS_OK;
}

enum fk_status fk_level_sums(const struct fk_level_sums *of, const struct fk_opts *opts, struct fk_stats *stats,
                             struct fk_error *err) {
  double started = fk_seconds();
  struct level_sums s = {.of = of};
  int64_t pieces = fk_pieces(of->m, PIECE);
  double work = (double)of->n * fk_plan_pair_work(FK_OP_LEVELS, of->d, 1) * PIECE; /* of a piece */
  const struct fk_loop loop = fk_loop_of(opts->threads, pieces, work);
  enum fk_status status = level_sums_init(&s, pieces, loop.threads, err);
  if (!status) status = fk_loop_run(&loop, &opts->poll, do_pieces, &s, err);
  for (int64_t v = 0; !status && v < s.count; v++) {
    of->moments[v] = 0;
    for (int64_t i = 0; i < pieces; i++) of->moments[v] += s.partial[i * s.count + v];
  }
  fk_scratch_free(&s.scratch);
  free(s.narrow);
  free(s.partial);
  fk_plan_describe(opts, FK_OP_LEVELS, (double)of->n * (double)of->m, started, loop.threads, stats);
  return status;
}

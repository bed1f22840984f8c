/* What error the fast engine has achieved: a sample of rows, every source, in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/threads.h"
#include "../cpu/aligned.h"
#include "direct_parts.h"
#include "engine.h"

/* Eight rows take 4 ns for each source, more than a twentieth of some sums; 2e6 pairs beyond, a millisecond. */
static int64_t sample_size(const struct fk_fast_job *job) {
  int64_t rows = 8 + (int64_t)(2e6 / (double)job->n);
  return fk_smaller(job->m, fk_smaller(rows, FK_DIRECT_GROUP));
}

/* Random rows, but the same for the same sizes (splitmix64): points often come in some order. */
static int64_t row_of(const struct fk_fast_job *job, int64_t r) {
  uint64_t z = ((uint64_t)r + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return fk_smaller((int64_t)(0x1p-53 * (double)(z >> 11) * (double)job->m), job->m - 1);
}

/* ---- the sums of the sample ------------------------------------------------------------------- */

/* Sources are shared out in pieces whose sums are added in order: the bits do not depend on the threads. */
enum { PIECES = 64, STEP = 2 * FK_BLOCK /* sources at a time */ };
_Static_assert((int)STEP <= (int)FK_DIRECT_PACKED, "a tile holds a step of sources");

struct sample {
  const struct fk_fast_job *job;
  int rows, columns; /* b, and |b| where some are negative */
  double *targets;   /* as a tile has them */
  double *sums;      /* [piece][column][FK_DIRECT_GROUP] */
};

/* As a tile has its points; the columns are `ld` and `to_ld` apart. */
static void scale(const double *u, int64_t d, int64_t n, int64_t ld, double *to, int64_t to_ld) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t i = 0; i < n; i++) to[k * to_ld + i] = u[k * ld + i] * FK_DIRECT_SCALE;
}

static void fill_columns(const struct sample *s, int64_t first, int64_t count, double *to) {
  const struct fk_fast_job *job = s->job;
  for (int64_t c = 0; c < job->columns; c++) {
    const double *b = job->b ? job->b + c * job->n + first : NULL;
    double *at = to + c * FK_DIRECT_PACKED, *absolute = at + job->columns * FK_DIRECT_PACKED;
    for (int64_t i = 0; i < count; i++) at[i] = b ? b[i] : 1;
    for (int64_t i = 0; i < count && job->negative; i++) absolute[i] = fabs(b[i]);
  }
}

static bool sum_piece(const struct sample *s, int64_t piece) {
  const struct fk_fast_job *job = s->job;
  const double *f = job->task->factor;
  int64_t d = job->d, first = job->n * piece / PIECES, end = job->n * (piece + 1) / PIECES;
  struct fk_direct_tile tile = {.d = (int)d, .n_targets = s->rows, .n_columns = s->columns, .targets = s->targets};
  double *sources =
      fk_aligned_alloc(sizeof(double) * (size_t)((d + s->columns) * FK_DIRECT_PACKED + 2 * d * STEP));
  if (!sources) return false;
  tile.sources = sources;
  tile.b = sources + d * FK_DIRECT_PACKED;
  double *u = sources + (d + s->columns) * FK_DIRECT_PACKED;
  tile.sums = s->sums + piece * s->columns * FK_DIRECT_GROUP;
  tile.has_factor = f[0] != 1 || f[1] != 0 || f[2] != 0;
  tile.factor[0] = f[0]; /* q/2 = -t ln 2 */
  tile.factor[1] = -FK_LN2 * f[1];
  tile.factor[2] = FK_LN2 * FK_LN2 * f[2];
  for (; first < end; first += STEP) {
    int64_t count = fk_smaller(STEP, end - first);
    tile.n_sources = (int)count;
    fk_whiten(job->task->whitening, &job->task->sources, NULL, first, count, u, STEP, u + d * STEP);
    scale(u, d, count, STEP, sources, FK_DIRECT_PACKED);
    fill_columns(s, first, count, tile.b);
    fk_direct_isa()->f64->sums(&tile);
  }
  fk_aligned_free(sources);
  return true;
}

static enum fk_status sum_sample(const struct sample *s, const struct fk_points *raw, struct fk_error *err) {
  const struct fk_fast_job *job = s->job;
  int64_t d = job->d;
  bool failed = false;
  enum fk_status status = fk_fast_whiten(job, raw, 0, s->rows, s->targets, FK_DIRECT_GROUP, err);
  if (status) return status;
  scale(s->targets, d, s->rows, FK_DIRECT_GROUP, s->targets, FK_DIRECT_GROUP);
  int threads = fk_threads_for_work(job->opts->threads, 20.0 * (double)job->n * s->rows);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) reduction(|| : failed)
  for (int64_t p = 0; p < PIECES; p++)
    if (!sum_piece(s, p)) failed = true;
  if (failed) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  for (int64_t p = 1; p < PIECES; p++)
    for (int64_t i = 0; i < s->columns * FK_DIRECT_GROUP; i++)
      s->sums[i] += s->sums[p * s->columns * FK_DIRECT_GROUP + i];
  return FK_STATUS_OK;
}

/* Of other kernels than the Gaussian, by the exact engine. */
static enum fk_status sum_exactly(const struct sample *s, const struct fk_points *raw, struct fk_error *err) {
  const struct fk_fast_job *job = s->job;
  struct fk_opts opts = *job->opts;
  struct fk_stats unused = {0};
  struct fk_task task = {.sources = job->task->sources, .targets = *raw, .whitening = job->task->whitening};
  enum fk_status status = FK_STATUS_OK;
  double *absolute = job->negative ? malloc(sizeof(double) * (size_t)job->n) : NULL;
  if (job->negative && !absolute) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  task.kernel = job->task->kernel;
  memcpy(task.factor, job->task->factor, sizeof task.factor);
  opts.precision = FK_PRECISION_DOUBLE;
  opts.poll.fn = NULL;
  for (int64_t c = 0; c < s->columns && !status; c++) {
    task.weights = job->b ? job->b + c % job->columns * job->n : NULL;
    if (c >= job->columns) {
      for (int64_t i = 0; i < job->n; i++) absolute[i] = fabs(task.weights[i]);
      task.weights = absolute;
    }
    task.mass = s->sums + c * FK_DIRECT_GROUP;
    status = fk_engine_exact_cpu.sums(&task, &opts, &unused, err);
  }
  free(absolute);
  return status;
}

/* ---- their errors ----------------------------------------------------------------------------- */

static double largest_error(const struct fk_fast_job *job, const struct sample *s, int64_t c) {
  const double *b = job->b ? job->b + c * job->n : NULL, *got = fk_fast_out(job, c);
  const double *sum = s->sums + c * FK_DIRECT_GROUP;
  const double *around = job->negative ? sum + job->columns * FK_DIRECT_GROUP : sum;
  bool pointwise = job->opts->tol_type == FK_TOL_POINTWISE;
  double most = 0, error = 0;
  for (int r = 0; r < s->rows; r++) most = fmax(most, fabs(around[r]));
  if (c == job->columns - 1 && !job->negative) most = fmax(most, job->largest);
  for (int r = 0; r < s->rows; r++) {
    int64_t i = row_of(job, r);
    double shift = job->task->shift ? job->task->shift[i] : 0, want = sum[r];
    if (job->task->exclude_self) want -= job->task->factor[0] * (b ? b[i] : 1);
    if (shift != 0) continue; /* of a row in the tails, which is as good as exact */
    double relative_to = pointwise ? fabs(around[r]) : most;
    if (relative_to > 0) error = fmax(error, fabs(got[i] - want) / relative_to);
  }
  return error;
}

enum fk_status fk_fast_check(struct fk_fast_job *job, double *achieved, struct fk_error *err) {
  const struct fk_points *targets = fk_fast_targets(job);
  struct sample s = {.job = job, .rows = (int)sample_size(job)};
  int64_t count = s.rows, d = job->d;
  s.columns = (int)(job->columns * (job->negative ? 2 : 1));
  size_t sums = PIECES * (size_t)s.columns * FK_DIRECT_GROUP;
  double *raw = calloc((size_t)(count * d) + (size_t)d * FK_DIRECT_GROUP + sums, sizeof(double));
  *achieved = 0;
  if (!raw) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  s.targets = raw + count * d;
  s.sums = s.targets + d * FK_DIRECT_GROUP;
  for (int64_t k = 0; k < d; k++)
    for (int64_t r = 0; r < count; r++) raw[k * count + r] = targets->data[k * targets->n + row_of(job, r)];
  struct fk_points rows = {raw, count, d};
  bool gaussian = job->task->kernel == FK_KERNEL_GAUSSIAN;
  enum fk_status status = gaussian ? sum_sample(&s, &rows, err) : sum_exactly(&s, &rows, err);
  for (int64_t c = 0; c < job->columns && !status; c++) *achieved = fmax(*achieved, largest_error(job, &s, c));
  free(raw);
  return status;
}

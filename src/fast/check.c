/* What error the fast engine has achieved: a sample of rows, every source, in double. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "../cpu/direct/direct_parts.h"
#include "engine.h"

/* Eight rows take 4 ns for each source, more than a twentieth of some sums; 1e6 pairs beyond, half a millisecond.
 */
int64_t fk_check_size(double n, int64_t m) {
  int64_t rows = 8 + (int64_t)(1e6 / n);
  return fk_smaller(m, fk_smaller(rows, FK_DIRECT_GROUP));
}

/* splitmix64: points often come in some order. */
int64_t fk_check_row(int64_t m, int64_t r) {
  uint64_t z = ((uint64_t)r + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return fk_smaller((int64_t)(0x1p-53 * (double)(z >> 11) * (double)m), m - 1);
}

/* ---- the sums of the sample ------------------------------------------------------------------- */

/* Sources are shared out in pieces whose sums are added in order: the bits do not depend on the threads. */
enum { PIECES = 64, STEP = 2 * FK_BLOCK /* sources at a time */ };
_Static_assert((int)STEP <= (int)FK_DIRECT_PACKED, "a tile holds a step of sources");

/* The sources of a call. */
struct addition {
  const struct fk_check *check;
  const struct fk_whitening *whitening;
  const double *factor;
  const struct fk_points *points;
  const double *b;
  int64_t pieces, numbers; /* of b's sums */
  double *sums;            /* [piece][column][FK_DIRECT_GROUP], of b and then of |b| without the factor */
  bool failed[PIECES];
};

/* As a tile has its points; the columns are `ld` and `to_ld` apart. */
static void scale(const double *u, int64_t d, int64_t n, int64_t ld, double *to, int64_t to_ld) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t i = 0; i < n; i++) to[k * to_ld + i] = u[k * ld + i] * FK_DIRECT_SCALE;
}

static void fill_columns(const struct addition *a, int64_t first, int64_t count, double *to) {
  for (int64_t c = 0; c < a->check->columns; c++)
    for (int64_t i = 0; i < count; i++)
      to[c * FK_DIRECT_PACKED + i] = a->b ? a->b[c * a->points->n + first + i] : 1;
}

static bool sum_piece(const struct addition *a, int64_t piece) {
  const double *f = a->factor;
  int64_t d = a->check->d, n = a->points->n, first = n * piece / a->pieces, end = n * (piece + 1) / a->pieces;
  int64_t columns = a->check->columns;
  struct fk_direct_tile tile = {.d = (int)d, .n_targets = a->check->rows, .n_columns = (int)columns};
  double *sources = fk_aligned_alloc(sizeof(double) * (size_t)((d + columns) * FK_DIRECT_PACKED + 2 * d * STEP));
  if (!sources) return false;
  tile.targets = a->check->targets;
  tile.sources = sources;
  tile.b = sources + d * FK_DIRECT_PACKED;
  double *u = sources + (d + columns) * FK_DIRECT_PACKED, *sums = a->sums + 2 * piece * a->numbers;
  tile.has_factor = f[0] != 1 || f[1] != 0 || f[2] != 0;
  tile.factor[0] = f[0]; /* q/2 = -t ln 2 */
  tile.factor[1] = -FK_LN2 * f[1];
  tile.factor[2] = FK_LN2 * FK_LN2 * f[2];
  for (; first < end; first += STEP) {
    int64_t count = fk_smaller(STEP, end - first);
    tile.n_sources = (int)count;
    fk_whiten(a->whitening, a->points, NULL, first, count, u, STEP, u + d * STEP);
    scale(u, d, count, STEP, sources, FK_DIRECT_PACKED);
    fill_columns(a, first, count, tile.b);
    tile.sums = sums;
    tile.absolute = false;
    fk_direct_isa()->f64->sums(&tile);
    tile.sums = sums + a->numbers;
    tile.absolute = true;
    if (a->check->apart) fk_direct_isa()->f64->sums(&tile);
  }
  fk_aligned_free(sources);
  return true;
}

static void sum_pieces(void *data, int64_t first, int64_t end, int slot) {
  struct addition *a = data;
  (void)slot;
  for (int64_t piece = first; piece < end; piece++) a->failed[piece] = !sum_piece(a, piece);
}

enum fk_status fk_check_init(struct fk_check *check, const struct fk_whitening *w, const struct fk_points *rows,
                             int64_t columns, int threads, struct fk_error *err) {
  int64_t d = rows->d, sums = columns * FK_DIRECT_GROUP;
  *check = (struct fk_check){.rows = (int)rows->n, .d = (int)d, .columns = columns};
  check->targets = calloc((size_t)(d * FK_DIRECT_GROUP + 2 * sums), sizeof(double));
  if (!check->targets) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  check->sums = check->targets + d * FK_DIRECT_GROUP;
  check->absolute = check->sums + sums;
  enum fk_status status =
      fk_fast_whiten_points(w, threads, rows, 0, rows->n, check->targets, FK_DIRECT_GROUP, err);
  if (!status) scale(check->targets, d, rows->n, FK_DIRECT_GROUP, check->targets, FK_DIRECT_GROUP);
  return status;
}

void fk_check_free(struct fk_check *check) {
  free(check->targets);
  check->targets = NULL;
}

enum fk_status fk_check_add(struct fk_check *check, const struct fk_whitening *w, const double factor[3],
                            const struct fk_points *points, const double *b, int threads, struct fk_error *err) {
  int64_t numbers = check->columns * FK_DIRECT_GROUP;
  struct addition a = {check, w, factor, points, b, .numbers = numbers};
  bool has_factor = factor[0] != 1 || factor[1] != 0 || factor[2] != 0, failed = false;
  if (!check->apart && (has_factor || (b && fk_any_negative(b, points->n * check->columns, threads)))) {
    memcpy(check->absolute, check->sums, (size_t)numbers * sizeof(double));
    check->apart = true;
  }
  a.pieces = fk_smaller(PIECES, fk_pieces(points->n, STEP));
  a.sums = calloc((size_t)(2 * a.pieces * numbers), sizeof(double));
  if (!a.sums) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  threads = fk_threads_for_work(threads, 20.0 * (double)points->n * check->rows);
  fk_parallel_for(threads, a.pieces, 1, sum_pieces, &a);
  for (int64_t p = 0; p < a.pieces; p++) {
    const double *from = a.sums + 2 * p * numbers;
    for (int64_t i = 0; i < numbers; i++) check->sums[i] += from[i];
    for (int64_t i = 0; i < numbers && check->apart; i++) check->absolute[i] += from[numbers + i];
    failed = failed || a.failed[p];
  }
  free(a.sums);
  return failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows") : FK_STATUS_OK;
}

/* ---- their errors ----------------------------------------------------------------------------- */

const double *fk_check_absolute(const struct fk_check *check, int64_t column) {
  return (check->apart ? check->absolute : check->sums) + column * FK_DIRECT_GROUP;
}

double fk_check_error(const struct fk_check *check, int64_t column, const double *got, bool pointwise,
                      double largest, double size) {
  const double *sum = check->sums + column * FK_DIRECT_GROUP, *around = fk_check_absolute(check, column);
  double most = largest, error = 0;
  for (int r = 0; r < check->rows; r++) most = fmax(most, fabs(around[r]));
  for (int r = 0; r < check->rows; r++) {
    double relative_to = pointwise ? fabs(around[r]) : most;
    if (isnan(got[r]) || relative_to <= 1e-290 * fmax(1, size)) continue; /* the sample has lost terms, too */
    error = fmax(error, fabs(got[r] - sum[r]) / relative_to);
  }
  return error;
}

/* ---- of a job --------------------------------------------------------------------------------- */

/* Of other kernels than the Gaussian, by the exact engine. */
static enum fk_status sum_exactly(const struct fk_fast_job *job, const struct fk_points *rows,
                                  struct fk_check *check, struct fk_error *err) {
  struct fk_opts opts = *job->opts;
  struct fk_stats unused = {0};
  struct fk_task task = {.sources = job->task->sources, .targets = *rows, .whitening = job->task->whitening};
  enum fk_status status = FK_STATUS_OK;
  double *absolute = job->negative ? fk_aligned_alloc(sizeof(double) * (size_t)job->n) : NULL;
  if (job->negative && !absolute) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  check->apart = job->negative;
  task.kernel = job->task->kernel;
  memcpy(task.factor, job->task->factor, sizeof task.factor);
  opts.precision = FK_PRECISION_DOUBLE;
  opts.poll.fn = NULL;
  for (int64_t c = 0; c < job->columns && !status; c++) {
    const double *b = job->b ? job->b + c * job->n : NULL;
    task.weights = b;
    task.mass = check->sums + c * FK_DIRECT_GROUP;
    status = fk_engine_exact_cpu.sums(&task, &opts, &unused, err);
    if (status || !job->negative) continue;
    for (int64_t i = 0; i < job->n; i++) absolute[i] = fabs(b[i]);
    task.weights = absolute;
    task.mass = check->absolute + c * FK_DIRECT_GROUP;
    status = fk_engine_exact_cpu.sums(&task, &opts, &unused, err);
  }
  fk_aligned_free(absolute);
  return status;
}

/* A row that is a source itself, without it: what rounding may have left of it does not count. */
static double without_own(const struct fk_fast_job *job, int64_t c, int64_t row, double absolute) {
  if (!job->task->exclude_self) return absolute * (1 - 1e-12);
  double own = job->b ? fabs(job->b[c * job->n + row]) : 1;
  return fmax(0, absolute * (1 - 1e-12) - own);
}

double fk_fast_check_least(const struct fk_fast_job *job, const struct fk_fast_sample *s) {
  double least = INFINITY;
  for (int64_t c = 0; c < job->columns; c++) {
    const double *absolute = fk_check_absolute(&s->check, c);
    double most = 0;
    for (int r = 0; r < s->check.rows; r++) most = fmax(most, without_own(job, c, s->row[r], absolute[r]));
    if (job->size[c] > 0) least = fmin(least, most / job->size[c]);
  }
  return isfinite(least) ? least : 0;
}

enum fk_status fk_fast_check_init(struct fk_fast_job *job, const int64_t *first, int64_t n_first,
                                  struct fk_fast_sample *s, struct fk_error *err) {
  const struct fk_points *targets = fk_fast_targets(job);
  const struct fk_whitening *w = job->task->whitening;
  int64_t count = fk_check_size((double)job->n, job->m), d = job->d;
  int threads = job->opts->threads;
  double *raw = malloc(sizeof(double) * (size_t)(count * d + 1));
  if (!raw) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: for a sample of rows");
  n_first = fk_smaller(n_first, count / 2);
  for (int64_t r = 0; r < count; r++) s->row[r] = r < n_first ? first[r] : fk_check_row(job->m, r);
  for (int64_t k = 0; k < d; k++)
    for (int64_t r = 0; r < count; r++) raw[k * count + r] = targets->data[k * targets->n + s->row[r]];
  struct fk_points rows = {raw, count, d};
  struct fk_check *check = &s->check;
  enum fk_status status = fk_check_init(check, w, &rows, job->columns, threads, err);
  if (!status && job->task->kernel != FK_KERNEL_GAUSSIAN)
    status = sum_exactly(job, &rows, check, err);
  else if (!status && job->terms == fk_fast_terms_cuda)
    status = fk_fast_sample_cuda(job, &rows, check, err);
  else if (!status)
    status = fk_check_add(check, w, job->task->factor, &job->task->sources, job->b, threads, err);
  free(raw);
  return status;
}

/* Sums of a job as the check has them: with the row's own kernel. */
static double error_of(const struct fk_fast_job *job, const struct fk_fast_sample *s, int64_t c) {
  const double *b = job->b ? job->b + c * job->n : NULL, *sums = fk_fast_out(job, c);
  double got[FK_DIRECT_GROUP];
  for (int r = 0; r < s->check.rows; r++) {
    int64_t i = s->row[r];
    got[r] = s->scaled[r] ? (double)NAN : sums[i];
    if (job->task->exclude_self) got[r] += job->task->factor[0] * (b ? b[i] : 1);
  }
  bool is_mass = c == job->columns - 1 && !s->check.apart;
  return fk_check_error(&s->check, c, got, job->opts->tol_type == FK_TOL_POINTWISE, is_mass ? job->largest : 0,
                        job->size[c]);
}

double fk_fast_check_achieved(const struct fk_fast_job *job, const struct fk_fast_sample *s) {
  double achieved = 0;
  for (int64_t c = 0; c < job->columns; c++) achieved = fmax(achieved, error_of(job, s, c));
  return achieved;
}

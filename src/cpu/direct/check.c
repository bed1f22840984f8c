/* Sums of a sample of targets: every source, in double. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/scan.h"
#include "../../core/threads.h"
#include "direct_parts.h"

/* ---- the sums of the sample ------------------------------------------------------------------- */

/* Sources are shared out in pieces whose sums are added in order: the bits do not depend on the threads. */
enum { PIECES = 64, STEP = 2 * FK_BLOCK /* sources at a time */ };
_Static_assert((int)FK_CHECK_ROWS == (int)FK_DIRECT_GROUP, "the sample is the targets of a tile");
_Static_assert((int)STEP <= (int)FK_DIRECT_PACKED, "a tile holds a step of sources");

/* The sources of a call. */
struct check_addition {
  const struct fk_check *check;
  const struct fk_whitening *whitening;
  const double *factor;
  const struct fk_matrix *points;
  const double *b;
  int64_t pieces, numbers; /* of b's sums */
  double *sums;            /* [piece][column][FK_DIRECT_GROUP], of b and then of |b| without the factor */
  bool failed[PIECES];
};

/* Scales points to the coordinates of a tile; columns are `ld` and `to_ld` numbers apart. */
static void scale(const double *u, int64_t d, int64_t n, int64_t ld, double *to, int64_t to_ld) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t i = 0; i < n; i++) to[k * to_ld + i] = u[k * ld + i] * FK_DIRECT_SCALE;
}

static void fill_columns(const struct check_addition *a, int64_t first, int64_t count, double *to) {
  double *absolute = to + a->check->columns * FK_DIRECT_PACKED;
  for (int64_t c = 0; c < a->check->columns; c++)
    for (int64_t i = 0; i < count; i++) {
      double b = a->b ? a->b[c * a->points->n + first + i] : 1;
      to[c * FK_DIRECT_PACKED + i] = b;
      absolute[c * FK_DIRECT_PACKED + i] = fabs(b);
    }
}

static bool sum_piece(const struct check_addition *a, int64_t piece) {
  const double *f = a->factor;
  int64_t d = a->check->d, n = a->points->n, first = n * piece / a->pieces, end = n * (piece + 1) / a->pieces;
  int64_t columns = a->check->columns;
  struct fk_direct_tile tile = {.d = (int)d, .n_targets = a->check->rows, .n_columns = (int)columns};
  double *sources =
      fk_aligned_alloc(sizeof(double) * (size_t)((d + 2 * columns) * FK_DIRECT_PACKED + 2 * d * STEP));
  if (!sources) return false;
  tile.targets = a->check->targets;
  tile.sources = sources;
  tile.b = sources + d * FK_DIRECT_PACKED;
  double *u = sources + (d + 2 * columns) * FK_DIRECT_PACKED, *sums = a->sums + 2 * piece * a->numbers;
  tile.has_factor = f[0] != 1 || f[1] != 0 || f[2] != 0;
  tile.factor[0] = f[0]; /* q/2 = -t ln 2 */
  tile.factor[1] = -FK_LN2 * f[1];
  tile.factor[2] = FK_LN2 * FK_LN2 * f[2];
  /* |b| are columns after those of b, but where only b has a factor */
  bool together = a->check->apart && !tile.has_factor;
  if (together) tile.n_columns *= 2;
  for (; first < end; first += STEP) {
    int64_t count = fk_smaller(STEP, end - first);
    tile.n_sources = (int)count;
    fk_whiten(a->whitening, a->points, NULL, first, count, u, STEP, u + d * STEP);
    scale(u, d, count, STEP, sources, FK_DIRECT_PACKED);
    fill_columns(a, first, count, tile.b);
    tile.sums = sums;
    tile.absolute = false;
    fk_direct_isa()->f64->sums(&tile);
    if (together || !a->check->apart) continue;
    tile.sums = sums + a->numbers;
    tile.absolute = true;
    fk_direct_isa()->f64->sums(&tile);
  }
  fk_aligned_free(sources);
  return true;
}

static void sum_pieces(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct check_addition *a = data;
  for (int64_t piece = first; piece < end; piece++) a->failed[piece] = !sum_piece(a, piece);
}

enum fk_status fk_check_init(struct fk_check *check, const struct fk_whitening *w, const struct fk_matrix *rows,
                             int64_t columns, int threads, struct fk_error *err) {
  int64_t d = rows->d, sums = columns * FK_DIRECT_GROUP;
  *check = (struct fk_check){.rows = (int)rows->n, .d = (int)d, .columns = columns};
  check->targets = calloc((size_t)(d * FK_DIRECT_GROUP + 2 * sums), sizeof(double));
  if (!check->targets) return fk_no_memory(err, 0, "a sample of rows");
  check->sums = check->targets + d * FK_DIRECT_GROUP;
  check->absolute = check->sums + sums;
  enum fk_status status = fk_whiten_points(w, threads, rows, 0, rows->n, check->targets, FK_DIRECT_GROUP, err);
  if (!status) scale(check->targets, d, rows->n, FK_DIRECT_GROUP, check->targets, FK_DIRECT_GROUP);
  return status;
}

void fk_check_free(struct fk_check *check) {
  free(check->targets);
  check->targets = NULL;
}

enum fk_status fk_check_clone(const struct fk_check *of, struct fk_check *check, struct fk_error *err) {
  size_t targets = (size_t)of->d * FK_DIRECT_GROUP, sums = (size_t)of->columns * FK_DIRECT_GROUP;
  *check = *of;
  check->apart = false;
  check->targets = calloc(targets + 2 * sums, sizeof(double));
  if (!check->targets) return fk_no_memory(err, 0, "a sample of rows");
  memcpy(check->targets, of->targets, sizeof(double) * targets);
  check->sums = check->targets + targets;
  check->absolute = check->sums + sums;
  return FK_STATUS_OK;
}

/* Sums of |b|, which are those of b until one is negative. */
static const double *absolute_of(const struct fk_check *check) {
  return check->apart ? check->absolute : check->sums;
}

void fk_check_put(const struct fk_check *check, struct fk_bytes *to) {
  size_t bytes = sizeof(double) * (size_t)check->columns * FK_DIRECT_GROUP;
  fk_bytes_put(to, &check->apart, sizeof check->apart);
  fk_bytes_put(to, check->sums, bytes);
  fk_bytes_put(to, absolute_of(check), bytes);
}

enum fk_status fk_check_take(struct fk_check *check, struct fk_bytes *from, struct fk_error *err) {
  int64_t numbers = check->columns * FK_DIRECT_GROUP;
  bool apart;
  double number;
  if (!fk_bytes_get(from, &apart, sizeof apart) || from->size - from->at < 2 * sizeof number * (size_t)numbers)
    return fk_fail(err, FK_STATUS_INVALID, "the serialized sample is truncated");
  if (apart && !check->apart) memcpy(check->absolute, check->sums, (size_t)numbers * sizeof(double));
  check->apart = check->apart || apart;
  for (int64_t i = 0; i < numbers && fk_bytes_get(from, &number, sizeof number); i++) check->sums[i] += number;
  for (int64_t i = 0; i < numbers && fk_bytes_get(from, &number, sizeof number); i++)
    if (check->apart) check->absolute[i] += number;
  return FK_STATUS_OK;
}

enum fk_status fk_check_add(struct fk_check *check, const struct fk_whitening *w, const double factor[3],
                            const struct fk_matrix *points, const double *b, int threads, struct fk_error *err) {
  int64_t numbers = check->columns * FK_DIRECT_GROUP;
  struct check_addition a = {check, w, factor, points, b, .numbers = numbers};
  bool has_factor = factor[0] != 1 || factor[1] != 0 || factor[2] != 0, failed = false;
  double low = 0, high;
  if (!check->apart && !has_factor && b) fk_range(b, points->n * check->columns, threads, &low, &high);
  if (!check->apart && (has_factor || low < 0)) {
    memcpy(check->absolute, check->sums, (size_t)numbers * sizeof(double));
    check->apart = true;
  }
  a.pieces = fk_smaller(PIECES, fk_pieces(points->n, STEP));
  a.sums = calloc((size_t)(2 * a.pieces * numbers), sizeof(double));
  if (!a.sums) return fk_no_memory(err, 0, "a sample of rows");
  threads = fk_threads_for_work(threads, 20.0 * (double)points->n * check->rows);
  fk_parallel_for(threads, a.pieces, 1, sum_pieces, &a);
  for (int64_t p = 0; p < a.pieces; p++) {
    const double *from = a.sums + 2 * p * numbers;
    for (int64_t i = 0; i < numbers; i++) check->sums[i] += from[i];
    for (int64_t i = 0; i < numbers && check->apart; i++) check->absolute[i] += from[numbers + i];
    failed = failed || a.failed[p];
  }
  free(a.sums);
  return failed ? fk_no_memory(err, 0, "a sample of rows") : FK_STATUS_OK;
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

/* Moments of pairs of points; what they are stands in moments.h.
 *
 * A piece is a run of held-out points, the columns, against all points, the rows. Their sums are complete when the
 * rows have gone by, and so each piece weighs its own moments; these are added in the order of the pieces. The
 * kernels of a tile are those of `sums`, their moments are taken of it while it is in the cache. */
#include "moments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/plan.h"
#include "../../core/threads.h"
#include "../pairs.h"

/* Few points are in narrow pieces, so that there are some for each thread. */
enum { NARROW = 48, MANY_POINTS = 64 * FK_TILE_COLS };

struct moments {
  const struct fk_moments_task *task;
  struct fk_pairs pairs;
  double value_factor[3], moment_factor[3]; /* in base 2 */
  bool factored, wide;
  int64_t width, pieces, count, fourth; /* columns of a piece; moments, and those of order 4 */
  double *partial;                      /* of each piece: moments, wide moments, order 4 */
};

/* A piece: sums of each column [FK_TILE_COLS], moments [number][FK_TILE_COLS]. */
struct moments_piece {
  double *kernel, *mass, *wide_mass, *unused, *moments, *wide_moments, *fourth;
};

int64_t fk_moments_count(int64_t d, enum fk_moments order) {
  return order == FK_MOMENTS_NONE ? 0 : order == FK_MOMENTS_DIAGONAL ? d : d * (d + 1) / 2;
}

int64_t fk_moments_fourth(int64_t d) {
  int64_t count = 0;
  for (int64_t a = 0; a < d; a++) count += (a + 1) * fk_moments_count(d - a, FK_MOMENTS_FULL);
  return count;
}

static int64_t numbers_of(const struct moments *s) { return (s->wide ? 2 : 1) * s->count + s->fourth; }

static struct moments_piece piece_at(const struct moments *s, int slot) {
  struct moments_piece p = {.kernel = fk_scratch_at(&s->pairs.scratch, slot)};
  p.mass = p.kernel + FK_TILE_ROWS * FK_TILE_COLS;
  p.wide_mass = p.mass + FK_TILE_COLS;
  p.unused = p.wide_mass + FK_TILE_COLS;
  p.moments = p.unused + FK_TILE_COLS;
  p.wide_moments = p.moments + s->count * FK_TILE_COLS;
  p.fourth = p.wide_moments + (s->wide ? s->count : 0) * FK_TILE_COLS;
  memset(p.mass, 0, sizeof(double) * (size_t)((3 + numbers_of(s)) * FK_TILE_COLS));
  return p;
}

/* Kernels of the tile, 0 of a point at itself, and their sums to `mass`. */
static void sum_tile(const struct moments *s, const double factor[3], const struct fk_tile *at, int64_t first_col,
                     double *unused, double *mass) {
  struct fk_tile tile = *at;
  unsigned flags = FK_TILE_DIFFERENCE | FK_TILE_STORE | (s->factored ? FK_TILE_FACTOR : 0);
  int64_t from = fk_larger(first_col, at->first_row),
          to = fk_smaller(first_col + at->n_cols, at->first_row + at->n_rows);
  bool drop = from < to;
  memcpy(tile.factor, factor, sizeof tile.factor);
  tile.col_mass = drop ? unused : mass;
  s->pairs.mode.ops->sums(&tile, flags);
  if (!drop) return;
  for (int64_t i = from; i < to; i++)
    ((double *)tile.kernel)[(i - at->first_row) * FK_TILE_COLS + i - first_col] = 0;
  struct fk_tile_moments sums = {.d = at->d, .n_rows = at->n_rows, .n_cols = at->n_cols, .times = {-1, -1}};
  sums.kernel = tile.kernel;
  sums.row_weight = tile.row_weight;
  sums.rows = tile.rows;
  sums.cols = tile.cols;
  sums.mass = mass;
  s->pairs.mode.ops->moments(&sums);
}

static void run_tile(const struct moments *s, const struct fk_tile *tile, int64_t first_col,
                     const struct moments_piece *p) {
  const struct fk_tile_ops *ops = s->pairs.mode.ops;
  int64_t d = tile->d;
  struct fk_tile_moments sums = {.d = d, .n_rows = tile->n_rows, .n_cols = tile->n_cols, .times = {-1, -1}};
  sum_tile(s, s->value_factor, tile, first_col, p->unused, s->wide ? p->wide_mass : p->mass);
  if (s->count > 0 && s->factored) sum_tile(s, s->moment_factor, tile, first_col, p->unused, p->unused);
  sums.kernel = tile->kernel;
  sums.row_weight = tile->row_weight;
  sums.rows = tile->rows;
  sums.cols = tile->cols;
  sums.diagonal = s->task->order == FK_MOMENTS_DIAGONAL;
  if (s->wide) {
    sums.out = s->count > 0 ? p->wide_moments : NULL;
    if (sums.out) ops->moments(&sums);
    sums.squared = true;
    sums.mass = p->mass;
  }
  sums.out = s->count > 0 ? p->moments : NULL;
  if (sums.out || sums.mass) ops->moments(&sums);
  if (s->fourth == 0) return;
  sums.mass = NULL;
  sums.out = p->fourth;
  for (int64_t a = 0; a < d; a++) {
    for (int64_t b = 0; b <= a; b++) {
      sums.times[0] = sums.first = a;
      sums.times[1] = b;
      ops->moments(&sums);
      sums.out += fk_moments_count(d - a, FK_MOMENTS_FULL) * FK_TILE_COLS;
    }
  }
}

/* to[v] = scale sum over columns of r moments[v]. */
static void weigh(const double *moments, int64_t count, const double *r, int64_t columns, double scale,
                  double *to) {
  for (int64_t v = 0; v < count; v++) {
    double sum = 0;
    for (int64_t c = 0; c < columns; c++) sum += r[c] * moments[v * FK_TILE_COLS + c];
    to[v] = scale * sum;
  }
}

static void finish_piece(const struct moments *s, int64_t piece, const struct moments_piece *p) {
  const struct fk_moments_task *task = s->task;
  int64_t first = piece * s->width, here = fk_smaller(s->width, task->x.n - first);
  double r[FK_TILE_COLS], *to = s->partial + piece * numbers_of(s), w = s->pairs.weight_scale;
  /* of u u' by the kernel of H; points are packed as those of 2H where both are asked */
  double square = w / (s->pairs.mode.scale * s->pairs.mode.scale);
  for (int64_t c = 0; c < here; c++) {
    double sum = task->sums[first + c] = w * p->mass[c];
    r[c] = task->row_weights ? task->row_weights[first + c] : 1;
    if (s->wide) task->wide_sums[first + c] = w * p->wide_mass[c];
    if (!task->ratio) continue;
    if (task->floor) sum += task->floor[first + c];
    r[c] = sum > 0 && r[c] / sum < INFINITY ? r[c] / sum : 0;
  }
  weigh(p->moments, s->count, r, here, square, to);
  weigh(p->fourth, s->fourth, r, here, square / (s->pairs.mode.scale * s->pairs.mode.scale),
        to + numbers_of(s) - s->fourth);
  if (s->wide) weigh(p->wide_moments, s->count, task->wide_weights + first, here, w * FK_LN2 * 2, to + s->count);
}

static void run_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct moments *s = data;
  int64_t n = s->task->x.n;
  for (int64_t i = first; i < end; i++) {
    struct moments_piece p = piece_at(s, slot);
    int64_t col = i * s->width;
    struct fk_tile tile = {.kernel = p.kernel};
    fk_packed_columns(&s->pairs.points, &s->pairs.mode, col, fk_smaller(s->width, n - col), &tile);
    for (int64_t j = 0; j < n; j += FK_TILE_ROWS) {
      tile.first_row = j;
      fk_packed_rows(&s->pairs.points, &s->pairs.mode, j, n - j, &tile);
      run_tile(s, &tile, col, &p);
    }
    finish_piece(s, i, &p);
  }
}

/* f(q/2) and (f - f')(q/2) as polynomials of t = -(q/2) log2(e). */
static void set_factors(struct moments *s) {
  const double *f = s->task->factor, change[3] = {f[0] - f[1], f[1] - 2 * f[2], f[2]};
  const double unit[3] = {1, -FK_LN2, FK_LN2 * FK_LN2};
  for (int i = 0; i < 3; i++) {
    s->value_factor[i] = unit[i] * f[i];
    s->moment_factor[i] = unit[i] * change[i];
  }
  s->factored = f[0] != 1 || f[1] != 0 || f[2] != 0;
}

static void add_pieces(const struct moments *s) {
  const struct fk_moments_task *task = s->task;
  double *const to[3] = {task->moments, task->wide_moments, task->fourth};
  const int64_t counts[3] = {s->count, s->wide ? s->count : 0, s->fourth};
  const double *from = s->partial;
  for (int part = 0; part < 3; part++)
    for (int64_t v = 0; v < counts[part]; v++, from++) {
      double sum = 0;
      for (int64_t i = 0; i < s->pieces; i++) sum += from[i * numbers_of(s)];
      to[part][v] = sum;
    }
}

static enum fk_status sum_moments(void *data, const struct fk_poll *poll, struct fk_error *err) {
  struct moments *s = data;
  struct fk_loop loop = {s->pairs.threads, s->pieces, 1, (double)s->width * (double)s->task->x.n};
  s->partial = calloc((size_t)(s->pieces * numbers_of(s) + 1), sizeof(double));
  if (!s->partial) return fk_no_memory(err, 0, "moments of pairs");
  enum fk_status status = fk_loop_run(&loop, poll, run_pieces, s, err);
  if (!status) add_pieces(s);
  free(s->partial);
  return status;
}

enum fk_status fk_pair_moments(const struct fk_moments_task *task, const struct fk_opts *opts,
                               struct fk_stats *stats, struct fk_error *err) {
  int64_t n = task->x.n, d = task->x.d;
  struct moments s = {.task = task, .wide = task->wide_weights != NULL};
  s.count = fk_moments_count(d, task->order);
  s.fourth = task->fourth ? fk_moments_fourth(d) : 0;
  s.width = n < MANY_POINTS ? NARROW : FK_TILE_COLS;
  s.pieces = fk_pieces(n, s.width);
  set_factors(&s);
  int64_t numbers = numbers_of(&s);
  s.pairs =
      (struct fk_pairs){.operation = FK_OP_MOMENTS, .x = &task->x, .chol = task->chol, .weights = task->weights};
  s.pairs.work = fk_plan_pair_work(FK_OP_MOMENTS, d, (double)numbers);
  s.pairs.room = sizeof(double) * (size_t)((FK_TILE_ROWS + 3 + numbers) * FK_TILE_COLS);
  s.pairs.mode.scale = sqrt(s.wide ? FK_LOG2E / 4 : FK_LOG2E / 2);
  return fk_pairs_run(&s.pairs, sum_moments, &s, opts, stats, err);
}

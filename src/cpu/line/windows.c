/* Nothing here cancels: a window is cut into blocks of sorted points, whose sums are added, never subtracted, and
 * all powers are of distances from the window's edge, which are positive. A block has its moments about the end
 * that is nearer to the edge; from there the edge is a positive shift away, by which binomials move them. So each
 * sum of powers has a relative error of a few rounding errors, however small it is beside the sums of other
 * windows and however far the origin. */
#include "line.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/plan.h"
#include "../../core/pool.h"
#include "../../core/threads.h"

/* Points of the smallest block. */
enum { LEAF = 16, MOST_LEVELS = 60 };

enum side { LEFT, RIGHT };

/* Blocks of level v are of LEAF 2^v points, the last of a level may be shorter. Of each the moments about either
 * end: sum w (|x - end| / reach)^k. */
struct tree {
  const struct fk_windows *of;
  double *moments;
  int64_t offset[MOST_LEVELS]; /* of the first block of a level */
  int levels;
};

static double *moments_of(const struct tree *t, int level, int64_t block, enum side end) {
  return t->moments + ((t->offset[level] + block) * 2 + end) * t->of->count;
}

static int64_t first_point(int level, int64_t block) { return (block * LEAF) << level; }

static int64_t end_point(const struct tree *t, int level, int64_t block) {
  return fk_smaller(t->of->n, first_point(level, block + 1));
}

/* a_k = sum_i C(k, i) s^(k - i) a_i: moments about a place that is s further away. */
static void shift(double *a, int count, double s) {
  for (int r = 1; r < count; r++)
    for (int k = count - 1; k >= r; k--) a[k] += s * a[k - 1];
}

/* a_k += w s^k */
static void add_powers(double *a, int count, double w, double s) {
  for (int k = 0; k < count; k++) {
    a[k] += w;
    w *= s;
  }
}

static void add_shifted(double *a, const double *moments, int count, double s) {
  double moved[FK_MOST_POWERS];
  memcpy(moved, moments, sizeof *moved * (size_t)count);
  shift(moved, count, s);
  for (int k = 0; k < count; k++) a[k] += moved[k];
}

/* ---- blocks ----------------------------------------------------------------------------------- */

struct level {
  const struct tree *tree;
  int at;
};

static void fill_leaf(const struct tree *t, int64_t block) {
  const struct fk_windows *of = t->of;
  int64_t first = first_point(0, block), end = end_point(t, 0, block);
  double *left = moments_of(t, 0, block, LEFT), *right = moments_of(t, 0, block, RIGHT);
  for (int64_t i = first; i < end; i++) {
    add_powers(left, of->count, of->weights[i], (of->x[i] - of->x[first]) / of->reach);
    add_powers(right, of->count, of->weights[i], (of->x[end - 1] - of->x[i]) / of->reach);
  }
}

/* Joins the moments of two adjacent blocks (the second may be missing). They are shifted, because the second
 * block's left end, and the first block's right end, differ from those of the joined block. */
static void join(const struct tree *t, int level, int64_t block) {
  const double *x = t->of->x;
  int count = t->of->count;
  int64_t a = 2 * block, b = a + 1, first = first_point(level, block), end = end_point(t, level, block);
  int64_t middle = fk_smaller(end, first_point(level - 1, b));
  double *left = moments_of(t, level, block, LEFT), *right = moments_of(t, level, block, RIGHT);
  double to_right_end = (x[end - 1] - x[middle - 1]) / t->of->reach;
  add_shifted(left, moments_of(t, level - 1, a, LEFT), count, 0);
  add_shifted(right, moments_of(t, level - 1, a, RIGHT), count, to_right_end);
  if (middle == end) return;
  double from_left_end = (x[middle] - x[first]) / t->of->reach;
  add_shifted(left, moments_of(t, level - 1, b, LEFT), count, from_left_end);
  add_shifted(right, moments_of(t, level - 1, b, RIGHT), count, 0);
}

/* No window has a block that is longer than the reach: it stays empty, as its powers might overflow. */
static void fill_blocks(void *data, int64_t begin, int64_t end, FK_UNUSED int slot) {
  const struct level *level = data;
  const struct tree *t = level->tree;
  for (int64_t block = begin; block < end; block++) {
    double length = t->of->x[end_point(t, level->at, block) - 1] - t->of->x[first_point(level->at, block)];
    if (!(length <= t->of->reach)) continue;
    if (level->at == 0)
      fill_leaf(t, block);
    else
      join(t, level->at, block);
  }
}

static enum fk_status plant(struct tree *t, int threads, struct fk_error *err) {
  int64_t leaves = fk_pieces(t->of->n, LEAF), blocks = 0;
  int count = t->of->count;
  for (int64_t many = leaves;; many = fk_pieces(many, 2)) {
    t->offset[t->levels++] = blocks;
    blocks += many;
    if (many == 1) break;
  }
  t->moments = calloc((size_t)blocks, 2 * sizeof *t->moments * (size_t)count);
  if (!t->moments)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the moments of %.0f points", (double)t->of->n);
  double work = 2 * count * (LEAF + count);
  threads = fk_threads_for_work(threads, work * (double)leaves);
  for (struct level level = {t, 0}; level.at < t->levels; level.at++, leaves = fk_pieces(leaves, 2))
    fk_parallel_for(threads, leaves, fk_step_for_work(work), fill_blocks, &level);
  return FK_STATUS_OK;
}

/* ---- windows ---------------------------------------------------------------------------------- */

/* Boundaries among sorted points relative to y: the first point within reach, at y, right of y, beyond reach. */
enum bound { REACH_BEGINS, NOT_LEFT, IS_RIGHT, REACH_ENDS };

static bool is_past(const struct fk_windows *of, double x, double y, enum bound bound) {
  switch (bound) {
    case REACH_BEGINS: return y - x <= of->reach;
    case NOT_LEFT: return x >= y;
    case IS_RIGHT: return x > y;
    default: return x - y > of->reach;
  }
}

static int64_t first_past(const struct fk_windows *of, double y, enum bound bound) {
  int64_t low = 0, high = of->n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (is_past(of, of->x[middle], y, bound))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* How far x is within the edge of the window of y: as exact as numbers of this size are, wherever the origin. */
static double within(const struct fk_windows *of, double x, double y, enum side side) {
  double away = side == LEFT ? y - x : x - y;
  return (of->reach - away) / of->reach;
}

static void add_points(double *a, const struct fk_windows *of, int64_t first, int64_t end, double y,
                       enum side side) {
  for (int64_t i = first; i < end; i++) add_powers(a, of->count, of->weights[i], within(of, of->x[i], y, side));
}

static void add_block(double *a, const struct tree *t, int level, int64_t block, double y, enum side side) {
  int64_t nearest = side == LEFT ? first_point(level, block) : end_point(t, level, block) - 1;
  double s = within(t->of, t->of->x[nearest], y, side);
  add_shifted(a, moments_of(t, level, block, side), t->of->count, s);
}

/* Over points first .. end - 1, all on one side of y and within its reach. */
static double sum_of(const struct tree *t, int64_t first, int64_t end, double y, enum side side) {
  const struct fk_windows *of = t->of;
  double a[FK_MOST_POWERS] = {0}, sum = 0;
  int64_t from = fk_pieces(first, LEAF), to = end / LEAF;
  if (from >= to) {
    add_points(a, of, first, end, y, side);
  } else {
    add_points(a, of, first, from * LEAF, y, side);
    add_points(a, of, to * LEAF, end, y, side);
    for (int level = 0; from < to; level++, from /= 2, to /= 2) {
      if (from % 2) add_block(a, t, level, from++, y, side);
      if (to % 2) add_block(a, t, level, --to, y, side);
    }
  }
  for (int k = 0; k < of->count; k++) sum += of->coefficients[k] * a[k];
  return sum;
}

struct values {
  const struct tree *tree;
  const double *y; /* NULL: the points */
  int64_t m;
  double *sums;
};

static void fill(void *data, int64_t begin, int64_t end, FK_UNUSED int slot) {
  const struct values *v = data;
  const struct fk_windows *of = v->tree->of;
  for (int64_t j = begin; j < end; j++) {
    double y = v->y ? v->y[j] : of->x[j];
    int64_t left_end = j, right_first = j + 1;
    if (v->y || !of->ties) {
      right_first = first_past(of, y, IS_RIGHT);
      left_end = of->ties ? right_first : first_past(of, y, NOT_LEFT);
    }
    v->sums[j] = sum_of(v->tree, first_past(of, y, REACH_BEGINS), left_end, y, LEFT);
    v->sums[v->m + j] = sum_of(v->tree, right_first, first_past(of, y, REACH_ENDS), y, RIGHT);
  }
}

enum fk_status fk_window_sums(const struct fk_windows *of, const double *y, int64_t m, const struct fk_opts *opts,
                              double *sums, struct fk_stats *stats, struct fk_error *err) {
  double started = fk_seconds(), work = fk_plan_pair_work(FK_OP_WINDOWS, 1, (double)of->count * of->count);
  struct tree tree = {.of = of};
  struct values values = {.tree = &tree, .y = y, .m = m, .sums = sums};
  const struct fk_loop loop = fk_loop_of(opts->threads, m, work);
  enum fk_status status = plant(&tree, opts->threads, err);
  if (!status) status = fk_loop_run(&loop, &opts->poll, fill, &values, err);
  free(tree.moments);
  fk_plan_describe(opts, FK_OP_WINDOWS, (double)of->n * (double)m, started, loop.threads, stats);
  return status;
}

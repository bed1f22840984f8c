/* Sums of kernels of many bandwidths, every pair once; what they are stands in scales.h. */
#include "scales.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "../../core/count.h"
#include "../../core/plan.h"
#include "../pairs.h"
#include "../tournament.h"

/* Blocks of few points are narrow, so that there are some for each thread. */
enum { NARROW = 48, FEW_BLOCKS = 16, MANY_BLOCKS = 128 };

/* Chains of powers, and the numbers of the powers, chain by chain. */
struct scales_plan {
  int chains, placed, order[FK_MOST_SCALES];
  struct fk_tile_chain chain[FK_MOST_SCALES];
};

_Static_assert((int)FK_MOST_SCALES <= (int)FK_TILE_SCALES, "a tile has no room for the sums");

struct scales {
  const struct fk_scales_task *task;
  struct fk_pairs pairs; /* scratch: sums of the columns of a tile, of the rows of a block */
  struct scales_plan plan;
  double factor[3];  /* in base 2 */
  double *precision; /* NULL, or 1 / g_j^2, padded */
  int64_t size;      /* of a block */
};

/* But for what rounding has made of 1 / c^2; -1: there is none, or none is left. */
static int find_power(const struct fk_scales_task *task, const bool *taken, double power) {
  for (int s = 0; s < task->count; s++)
    if (!taken[s] && fabs(task->powers[s] - power) <= 0x1p-50 * power) return s;
  return -1;
}

static void plan_chain(const struct fk_scales_task *task, bool *taken, double first, int times,
                       struct scales_plan *plan) {
  struct fk_tile_chain chain = {.power = first * times, .times = times};
  for (int m = times, s; m <= FK_MOST_TIMES && (s = find_power(task, taken, first * m)) >= 0; m *= 2) {
    taken[s] = true;
    plan->order[plan->placed++] = s;
    chain.length++;
  }
  if (chain.length > 0) plan->chain[plan->chains++] = chain;
}

static void plan_chains(const struct fk_scales_task *task, struct scales_plan *plan) {
  bool taken[FK_MOST_SCALES] = {false};
  for (int first = 0; first < task->count; first++)
    for (int times = 1; times <= 7 && (times > 1 || !taken[first]); times += 2)
      plan_chain(task, taken, task->powers[first], times, plan);
}

/* Powers of small kernels are 0 rather than denormal, which some processors multiply slowly. */
static unsigned flush_small(void) {
#ifdef __SSE2__
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
  return before;
#else
  return 0;
#endif
}

static void flush_as_before(FK_UNUSED unsigned before) {
#ifdef __SSE2__
  _mm_setcsr(before);
#endif
}

static void add_to_results(const struct scales *s, const double *part, int64_t ld, int64_t first, int64_t count) {
  for (int v = 0; v < s->task->count; v++, part += ld) {
    double *sums = s->task->sums + s->plan.order[v] * s->task->x.n + first;
    for (int64_t i = 0; i < count; i++) sums[i] += s->pairs.weight_scale * part[i];
  }
}

/* Adds the sums over block a at the points of block b, and if `both`, those over b at the points of a. */
static void sum_blocks(const struct scales *s, int64_t a, int64_t b, bool both, double *cols) {
  const struct fk_pairs *p = &s->pairs;
  int64_t n = s->task->x.n, a_end = fk_smaller(n, (a + 1) * s->size), b_end = fk_smaller(n, (b + 1) * s->size);
  int64_t index[FK_TILE_COLS];
  double *rows = cols + s->task->count * FK_TILE_COLS;
  struct fk_tile_scales at = {.n_scales = s->task->count, .n_chains = s->plan.chains, .row_ld = s->size};
  at.chains = s->plan.chain;
  struct fk_tile *tile = &at.tile;
  memcpy(tile->factor, s->factor, sizeof tile->factor);
  if (both) memset(rows, 0, sizeof(double) * (size_t)(s->task->count * s->size));
  for (int64_t j = b * s->size; j < b_end; j += FK_TILE_COLS) {
    int64_t here = fk_smaller(FK_TILE_COLS, b_end - j);
    fk_packed_columns(&p->points, &p->mode, j, here, tile);
    tile->col_mass = cols;
    for (int c = 0; c < FK_TILE_COLS; c++) index[c] = j + c;
    memset(cols, 0, sizeof(double) * (size_t)(s->task->count * FK_TILE_COLS));
    for (int64_t i = a * s->size; i < a_end; i += FK_TILE_ROWS) {
      tile->first_row = i;
      fk_packed_rows(&p->points, &p->mode, i, a_end - i, tile);
      at.row_precision = s->precision ? s->precision + i : NULL;
      tile->row_mass = both ? rows + (i - a * s->size) : NULL;
      tile->col_index = a == b && i < j + FK_TILE_COLS && j < i + FK_TILE_ROWS ? index : NULL;
      p->mode.ops->scales(&at);
    }
    add_to_results(s, cols, FK_TILE_COLS, j, here);
  }
  if (both) add_to_results(s, rows, s->size, a * s->size, a_end - a * s->size);
}

/* Every pair of a block with itself is met twice. With factors kernels are not symmetric, and all pairs are. */
static bool play_scales(void *data, int64_t a, int64_t b, int slot) {
  const struct scales *s = data;
  double *room = fk_scratch_at(&s->pairs.scratch, slot);
  unsigned rounding = flush_small();
  sum_blocks(s, a, b, a != b && !s->precision, room);
  if (a != b && s->precision) sum_blocks(s, b, a, false, room);
  flush_as_before(rounding);
  return true;
}

/* A part of FK_TILE_COLS, or some of them: a tile lies in one piece of what is packed. */
static int64_t block_size(int64_t n) {
  int64_t size = NARROW;
  while (size < FK_TILE_COLS && n > FEW_BLOCKS * size) size *= 2;
  return fk_larger(size, fk_padded(fk_pieces(n, MANY_BLOCKS), size));
}

static enum fk_status take_precision(struct scales *s, struct fk_error *err) {
  int64_t padded = s->pairs.points.capacity;
  if (!s->task->factors) return FK_STATUS_OK;
  s->precision = malloc(sizeof(double) * (size_t)padded);
  if (!s->precision) return fk_no_memory(err, 0, "kernels of many bandwidths");
  for (int64_t j = 0; j < padded; j++) {
    double factor = j < s->task->x.n ? s->task->factors[j] : 1;
    s->precision[j] = 1 / (factor * factor);
  }
  return FK_STATUS_OK;
}

static void take_logs(const struct fk_scales_task *task) {
  int64_t n = task->x.n;
  for (int v = 0; v < task->count; v++)
    for (int64_t i = 0; i < n; i++) {
      double *sum = task->sums + v * n + i, unit = task->log_unit[v] - task->log_others[i];
      double all = *sum + exp(task->log_floor[i] - unit);
      *sum = all > 0 && all < DBL_MAX ? log(all) + unit : task->log_floor[i];
    }
}

static enum fk_status sum_scales(void *data, const struct fk_poll *poll, struct fk_error *err) {
  struct scales *s = data;
  struct fk_tournament tournament = {s->task->x.n, s->size, s->pairs.threads, play_scales, s};
  enum fk_status status = take_precision(s, err);
  if (!status) status = fk_tournament_run(&tournament, poll, err);
  free(s->precision);
  if (!status && s->task->log_floor) take_logs(s->task);
  return status;
}

enum fk_status fk_pair_scales(const struct fk_scales_task *task, const struct fk_opts *opts,
                              struct fk_stats *stats, struct fk_error *err) {
  int64_t n = task->x.n;
  struct scales s = {.task = task, .size = block_size(n), .factor = {task->factor[0]}};
  plan_chains(task, &s.plan);
  /* f(t) as a polynomial of -t log2(e) */
  s.factor[1] = -FK_LN2 * task->factor[1];
  s.factor[2] = FK_LN2 * FK_LN2 * task->factor[2];
  memset(task->sums, 0, sizeof(double) * (size_t)(n * task->count));
  s.pairs =
      (struct fk_pairs){.operation = FK_OP_SCALES, .x = &task->x, .chol = task->chol, .weights = task->weights};
  s.pairs.work = fk_plan_pair_work(FK_OP_SCALES, task->x.d, 5.0 * s.plan.chains + task->count);
  s.pairs.room = sizeof(double) * (size_t)(task->count * (FK_TILE_COLS + s.size));
  s.pairs.mode.scale = sqrt(FK_LOG2E / 2);
  return fk_pairs_run(&s.pairs, sum_scales, &s, opts, stats, err);
}

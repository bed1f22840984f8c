/* Sums of kernels of many bandwidths, every pair once; what they are stands in core/scales.h. */
#include "../core/scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "exact_cpu.h"
#include "tournament.h"

/* Blocks of few points are narrow, so that there are some for each thread. */
enum { NARROW = 48, FEW_BLOCKS = 16, MANY_BLOCKS = 128 };

/* Chains of powers, and the numbers of the powers, chain by chain. */
struct plan {
  int chains, placed, order[FK_MOST_SCALES];
  struct fk_tile_chain chain[FK_MOST_SCALES];
};

_Static_assert((int)FK_MOST_SCALES <= (int)FK_TILE_SCALES, "a tile has no room for the sums");

struct pass {
  const struct fk_scales_task *task;
  struct fk_kernel_mode mode;
  struct fk_packed points;
  struct plan plan;
  double weight_scale, factor[3]; /* in base 2 */
  int64_t size;                   /* of a block */
  struct fk_scratch scratch;      /* sums of the columns of a tile, of the rows of a block */
};

/* But for what rounding has made of 1 / c^2; -1: there is none, or none is left. */
static int find_power(const struct fk_scales_task *task, const bool *taken, double power) {
  for (int s = 0; s < task->count; s++)
    if (!taken[s] && fabs(task->powers[s] - power) <= 0x1p-50 * power) return s;
  return -1;
}

static void plan_chain(const struct fk_scales_task *task, bool *taken, double first, int times,
                       struct plan *plan) {
  struct fk_tile_chain chain = {.power = first * times, .times = times};
  for (int m = times, s; m <= FK_MOST_TIMES && (s = find_power(task, taken, first * m)) >= 0; m *= 2) {
    taken[s] = true;
    plan->order[plan->placed++] = s;
    chain.length++;
  }
  if (chain.length > 0) plan->chain[plan->chains++] = chain;
}

static void plan_chains(const struct fk_scales_task *task, struct plan *plan) {
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

static void flush_as_before(unsigned before) {
#ifdef __SSE2__
  _mm_setcsr(before);
#else
  (void)before;
#endif
}

static void add_to_results(const struct pass *s, const double *part, int64_t ld, int64_t first, int64_t count) {
  for (int v = 0; v < s->task->count; v++, part += ld) {
    double *sums = s->task->sums + s->plan.order[v] * s->task->x.n + first;
    for (int64_t i = 0; i < count; i++) sums[i] += s->weight_scale * part[i];
  }
}

/* Rows of block a against columns of block b; where a == b every ordered pair is met, and only the column sums are
 * taken. */
static bool play(void *data, int64_t a, int64_t b, int slot) {
  const struct pass *s = data;
  const struct fk_packed *x = &s->points;
  const struct fk_tile_ops *ops = s->mode.ops;
  int64_t n = x->n, a_end = fk_smaller(n, (a + 1) * s->size), b_end = fk_smaller(n, (b + 1) * s->size);
  int64_t index[FK_TILE_COLS];
  double *cols = fk_scratch_at(&s->scratch, slot), *rows = cols + s->task->count * FK_TILE_COLS;
  unsigned rounding = flush_small();
  struct fk_tile_scales at = {.n_scales = s->task->count, .n_chains = s->plan.chains, .row_ld = s->size};
  at.chains = s->plan.chain;
  struct fk_tile *tile = &at.tile;
  tile->d = x->d;
  memcpy(tile->factor, s->factor, sizeof tile->factor);
  if (a != b) memset(rows, 0, sizeof(double) * (size_t)(s->task->count * s->size));
  for (int64_t j = b * s->size; j < b_end; j += FK_TILE_COLS) {
    int64_t here = fk_smaller(FK_TILE_COLS, b_end - j);
    tile->n_cols = (int)fk_padded(here, ops->panel);
    tile->cols = fk_packed_points_at(x, &s->mode, j);
    tile->col_const = fk_packed_constant_at(x, &s->mode, j);
    tile->col_weight = fk_packed_weight_at(x, &s->mode, j);
    tile->col_mass = cols;
    for (int c = 0; c < FK_TILE_COLS; c++) index[c] = j + c;
    memset(cols, 0, sizeof(double) * (size_t)(s->task->count * FK_TILE_COLS));
    for (int64_t i = a * s->size; i < a_end; i += FK_TILE_ROWS) {
      tile->n_rows = (int)fk_padded(fk_smaller(FK_TILE_ROWS, a_end - i), ops->row_step);
      tile->first_row = i;
      tile->rows = fk_packed_points_at(x, &s->mode, i);
      tile->row_const = fk_packed_constant_at(x, &s->mode, i);
      tile->row_weight = fk_packed_weight_at(x, &s->mode, i);
      tile->row_mass = a != b ? rows + (i - a * s->size) : NULL;
      tile->col_index = a == b && i < j + FK_TILE_COLS && j < i + FK_TILE_ROWS ? index : NULL;
      ops->scales(&at);
    }
    add_to_results(s, cols, FK_TILE_COLS, j, here);
  }
  if (a != b) add_to_results(s, rows, s->size, a * s->size, a_end - a * s->size);
  flush_as_before(rounding);
  return true;
}

/* A part of FK_TILE_COLS, or some of them: a tile lies in one piece of what is packed. */
static int64_t block_size(int64_t n) {
  int64_t size = NARROW;
  while (size < FK_TILE_COLS && n > FEW_BLOCKS * size) size *= 2;
  return fk_larger(size, fk_padded(fk_pieces(n, MANY_BLOCKS), size));
}

enum fk_status fk_pair_scales(const struct fk_scales_task *task, const struct fk_opts *opts,
                              struct fk_stats *stats, struct fk_error *err) {
  double start = fk_seconds();
  int64_t n = task->x.n, d = task->x.d;
  struct pass s = {.task = task, .size = block_size(n), .factor = {task->factor[0]}};
  struct fk_whitening whitening = {.centre = NULL};
  plan_chains(task, &s.plan);
  /* f(t) as a polynomial of -t log2(e) */
  s.factor[1] = -FK_LN2 * task->factor[1];
  s.factor[2] = FK_LN2 * FK_LN2 * task->factor[2];
  s.mode = (struct fk_kernel_mode){.ops = fk_isa()->f64, .difference = true, .scale = sqrt(FK_LOG2E / 2)};
  int threads = fk_threads_for_work(
      opts->threads, (double)n * (double)n * (double)(2 * d + 20 * s.plan.chains + 4 * task->count) / 2);
  size_t room = sizeof(double) * (size_t)(task->count * (FK_TILE_COLS + s.size));
  struct fk_tournament tournament = {n, s.size, threads, play, &s};
  fk_cpu_describe(stats, &s.mode, threads);

  enum fk_status status = fk_whitening_init(&whitening, task->chol, &task->x, task->weights, opts->threads, err);
  if (!status)
    status = fk_packed_all(&s.points, &s.mode, &task->x, &whitening, task->weights, threads, &s.weight_scale, err);
  if (!status && !fk_scratch_init(&s.scratch, threads, room))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for sums of kernels");
  memset(task->sums, 0, sizeof(double) * (size_t)(n * task->count));
  if (!status) status = fk_tournament_run(&tournament, &opts->poll, err);
  fk_scratch_free(&s.scratch);
  fk_packed_free(&s.points);
  fk_whitening_free(&whitening);
  stats->pairs += (double)n * (double)n;
  stats->seconds += fk_seconds() - start;
  return status;
}

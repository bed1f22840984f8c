/* Leave-one-out sums of score-debiased points; the formula stands in core/loo.h. Always in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/loo.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "exact_cpu.h"

struct loo {
  const struct fk_loo_task *task;
  const struct fk_opts *opts;
  struct fk_kernel_mode mode;
  int threads;
  struct fk_packed points, means, held_out; /* held_out: the points' own where they are the same */
  /* of the sources, padded, logs in base 2; log_height: of w_j f_j^-d relative to the largest */
  double *log_mass, *log_height, *precision;
  double *log_weight; /* of the held-out points: of v_i, for eps */
  int64_t *dominant;  /* of the sources, padded: which held-out point's pair is left out, as its index, or -1 */
};

/* A tile of held-out points, packed: position c of it is source index[c], if there is one. */
struct loo_held_out {
  int count;
  int64_t index[FK_TILE_COLS];
  double shift[FK_TILE_COLS], mass[FK_TILE_COLS], log_weight[FK_TILE_COLS];
  double *points;
};

static void gather(const struct loo *s, const int64_t *rows, int64_t first, const double *shift2,
                   struct loo_held_out *h) {
  int panel = s->mode.ops->panel;
  int64_t d = s->points.d;
  const double *from = s->held_out.points;
  memset(h->points, 0, sizeof(double) * (size_t)(FK_TILE_COLS * d));
  for (int c = 0; c < FK_TILE_COLS; c++) {
    bool real = c < h->count;
    int64_t i = !real ? -1 : rows ? rows[first + c] : first + c;
    h->index[c] = real ? s->task->held_out.first + i : -1;
    h->log_weight[c] = real ? s->log_weight[i] : -INFINITY;
    h->shift[c] = real && shift2 ? shift2[first + c] : 0;
    for (int64_t k = 0; k < d && real; k++)
      h->points[((c / panel) * d + k) * panel + c % panel] = from[((i / panel) * d + k) * panel + i % panel];
  }
}

/* Is one of these sources dominated by one of the held-out points? */
static bool meets_dominant(const struct loo_held_out *h, const int64_t *dominant, int n_rows) {
  for (int r = 0; r < n_rows; r++)
    if (dominant[r] >= h->index[0] && dominant[r] <= h->index[h->count - 1]) return true;
  return false;
}

static void run_tile(const struct loo *s, struct loo_held_out *h, bool find_max) {
  const struct fk_packed *x = &s->points;
  int panel = s->mode.ops->panel, step = s->mode.ops->row_step;
  struct fk_tile_loo tile = {.d = x->d, .lambda = s->task->lambda};
  tile.n_cols = (int)fk_padded(h->count, panel);
  tile.col_points = h->points;
  tile.col_log_weight = h->log_weight;
  tile.col_shift = h->shift;
  tile.col_index = h->index;
  tile.col_mass = h->mass;
  for (int c = 0; c < FK_TILE_COLS; c++) h->mass[c] = find_max ? -INFINITY : 0;
  for (int64_t j = 0; j < x->n; j += FK_TILE_ROWS) {
    tile.first_row = j;
    tile.n_rows = (int)fk_padded(fk_smaller(FK_TILE_ROWS, x->n - j), step);
    tile.row_points = (const double *)x->points + j * x->d;
    tile.row_means = (const double *)s->means.points + j * x->d;
    tile.row_log_mass = s->log_mass + j;
    tile.row_log_weight = s->log_height + j;
    tile.row_precision = s->precision + j;
    bool dominated = s->dominant && meets_dominant(h, s->dominant + j, tile.n_rows);
    tile.row_dominant = dominated ? s->dominant + j : NULL;
    tile.drop = dominated || fk_tile_meets_self(h->index, h->count, j, tile.n_rows);
    s->mode.ops->loo(&tile, find_max);
  }
}

struct loo_tiles {
  const struct loo *loo;
  const int64_t *rows;
  int64_t m; /* held-out points */
  const double *shift2;
  bool find_max;
  double *out;
  struct fk_scratch points;
};

static void run_tiles(void *data, int64_t first_tile, int64_t end, int slot) {
  const struct loo_tiles *t = data;
  struct loo_held_out h;
  h.points = fk_scratch_at(&t->points, slot);
  for (int64_t tile = first_tile; tile < end; tile++) {
    int64_t first = tile * FK_TILE_COLS;
    h.count = (int)fk_smaller(FK_TILE_COLS, t->m - first);
    gather(t->loo, t->rows, first, t->shift2, &h);
    run_tile(t->loo, &h, t->find_max);
    for (int c = 0; c < h.count; c++) t->out[first + c] = h.mass[c];
  }
}

/* Held-out points rows[0 .. m) (NULL: all). out: the sums, or with find_max the largest exponents. */
static enum fk_status run_points(const struct loo *s, const int64_t *rows, int64_t m, const double *shift2,
                                 bool find_max, double *out, struct fk_error *err) {
  struct loo_tiles t = {s, rows, m, shift2, find_max, out, {NULL, 0}};
  struct fk_loop loop = {s->threads, fk_pieces(m, FK_TILE_COLS), 1, (double)FK_TILE_COLS * (double)s->points.n};
  if (!fk_scratch_init(&t.points, s->threads, sizeof(double) * (size_t)(FK_TILE_COLS * s->points.d)))
    return fk_no_memory(err, 0, "a tile of held-out points");
  enum fk_status status = fk_loop_run(&loop, &s->opts->poll, run_tiles, &t, err);
  fk_scratch_free(&t.points);
  return status;
}

static enum fk_status run_with_tails(const struct loo *s, struct fk_stats *stats, struct fk_error *err) {
  double *log_sum = s->task->log_sum;
  int64_t n = s->points.n, m = s->held_out.n, found = 0;
  enum fk_status status = run_points(s, NULL, m, NULL, false, log_sum, err);
  if (status) return status;

  int64_t *rows = malloc(sizeof(int64_t) * (size_t)m);
  double *shift2 = malloc(sizeof(double) * (size_t)m), *sum = malloc(sizeof(double) * (size_t)m);
  if (!rows || !shift2 || !sum) status = fk_no_memory(err, 0, "leave-one-out sums");
  for (int64_t i = 0; i < m && !status; i++) {
    if (!(log_sum[i] >= FK_LOST * (double)n)) rows[found++] = i;
    log_sum[i] = log(log_sum[i]) + s->task->log_scale;
  }
  if (!status && found) status = run_points(s, rows, found, NULL, true, shift2, err);
  if (!status && found) {
    fk_cpu_drop_overflow(shift2, found);
    status = run_points(s, rows, found, shift2, false, sum, err);
  }
  for (int64_t r = 0; r < found && !status; r++)
    log_sum[rows[r]] = log(sum[r]) + shift2[r] * FK_LN2 + s->task->log_scale;
  stats->tail_rows += (double)found;
  free(rows);
  free(shift2);
  free(sum);
  return status;
}

/* The padding weighs nothing. */
static enum fk_status take_logs(struct loo *s, struct fk_error *err) {
  const struct fk_loo_task *task = s->task;
  const struct fk_widths *widths = &task->widths;
  const double *of_score = task->held_out.weights;
  int64_t n = task->points.n, m = s->held_out.n, padded = s->points.capacity;
  double d = (double)task->points.d;
  s->log_mass = calloc((size_t)(3 * padded + m), sizeof(double));
  if (!s->log_mass) return fk_no_memory(err, 0, "leave-one-out sums");
  s->log_height = s->log_mass + padded;
  s->precision = s->log_height + padded;
  s->log_weight = s->precision + padded;
  for (int64_t i = 0; i < n; i++) {
    double factor = widths->factors ? widths->factors[i] : 1, weight = widths->weights ? widths->weights[i] : 1;
    s->log_mass[i] = (widths->log_mass[i] - task->log_scale) * FK_LOG2E;
    s->log_height[i] = (log(weight) - d * log(factor) - task->log_scale) * FK_LOG2E;
    s->precision[i] = 1 / (factor * factor);
  }
  for (int64_t i = n; i < padded; i++) s->log_height[i] = -INFINITY;
  for (int64_t i = 0; i < m; i++)
    s->log_weight[i] = (log(of_score ? of_score[i] : 1) - task->log_scale) * FK_LOG2E;
  return FK_STATUS_OK;
}

static enum fk_status take_dominant(struct loo *s, struct fk_error *err) {
  const struct fk_loo_task *task = s->task;
  int64_t padded = s->points.capacity;
  if (!task->widths.dominant) return FK_STATUS_OK;
  s->dominant = malloc(sizeof(int64_t) * (size_t)padded);
  if (!s->dominant) return fk_no_memory(err, 0, "leave-one-out sums");
  for (int64_t j = 0; j < padded; j++) {
    int64_t i = j < task->points.n ? fk_loo_dominant(&task->widths, &task->held_out, j) : -1;
    s->dominant[j] = i < 0 ? -1 : task->held_out.first + i;
  }
  return FK_STATUS_OK;
}

static enum fk_status pack(const struct loo *s, const struct fk_matrix *x, struct fk_packed *packed,
                           struct fk_error *err) {
  return fk_packed_all(packed, &s->mode, x, s->task->whitening, NULL, s->threads, NULL, err);
}

enum fk_status fk_cpu_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                   struct fk_stats *stats, struct fk_error *err) {
  double start = fk_seconds();
  struct loo s = {.task = task, .opts = opts};
  struct fk_matrix means = fk_doubles(task->widths.means, task->points.n, task->points.d);
  int64_t n = task->points.n, d = task->points.d, m = task->held_out.points.n;
  bool own = fk_loo_is_own(task);
  s.threads = fk_threads_for_work(opts->threads, (double)n * (double)m * (double)(3 * d + 20));
  s.mode = (struct fk_kernel_mode){.ops = fk_isa()->f64, .difference = true, .scale = sqrt(FK_LOG2E / 2)};
  fk_cpu_describe(stats, &s.mode, s.threads);

  enum fk_status status = pack(&s, &task->points, &s.points, err);
  if (!status) status = pack(&s, &means, &s.means, err);
  if (own) s.held_out = s.points;
  if (!status && !own) status = pack(&s, &task->held_out.points, &s.held_out, err);
  if (!status) status = take_logs(&s, err);
  if (!status) status = take_dominant(&s, err);
  if (!status) status = run_with_tails(&s, stats, err);
  free(s.log_mass);
  free(s.dominant);
  fk_packed_free(&s.points);
  fk_packed_free(&s.means);
  if (!own) fk_packed_free(&s.held_out);
  stats->pairs += (double)n * (double)m;
  stats->seconds += fk_seconds() - start;
  return status;
}

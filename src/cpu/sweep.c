/* Setting up a sweep, and targets against sources.
 *
 * The same bits for any number of threads: a target's sum runs over the sources in splits whose length goes by
 * the dimension, some of them side by side (how many goes by the number of targets), and their partial sums are
 * added in order.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/costs.h"
#include "../core/count.h"
#include "../core/kept.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"
#include "near.h"

enum fk_status fk_sweep_init(struct fk_sweep *s, const struct fk_task *task, const struct fk_opts *opts,
                             const struct fk_kernel_mode *mode, bool tails, int threads, struct fk_error *err) {
  const struct fk_matrix *x = &task->sources;
  memset(s, 0, sizeof *s);
  s->task = task;
  s->opts = opts;
  s->mode = *mode;
  s->threads = threads;
  s->weighted = task->weights != NULL;
  s->tails = tails;
  s->weight_scale = s->weighted && !tails ? fk_largest_absolute(task->weights, x->n, threads) : 1;
  if (task->values == FK_VALUES_NONE) return FK_STATUS_OK;

  s->n_values = task->values == FK_VALUES_COORDINATES ? x->d : task->n_columns;
  s->value_scale = malloc(sizeof(double) * (size_t)s->n_values);
  if (!s->value_scale) return fk_no_memory(err, 0, "the scales of columns");
  bool signs = fk_form_metric(mode->form.type) == FK_METRIC_ABSOLUTE;
  for (int64_t v = 0; v < s->n_values; v++) s->value_scale[v] = signs ? 1 : 1 / mode->scale;
  enum fk_status status = FK_STATUS_OK;
  if (task->values == FK_VALUES_COLUMNS)
    status = fk_pack_columns(mode, task->columns, x->n, task->n_columns, &s->columns, s->value_scale, err);
  if (status) fk_sweep_free(s);
  return status;
}

void fk_sweep_free(struct fk_sweep *s) {
  fk_aligned_free(s->columns);
  free(s->value_scale);
  s->columns = NULL;
  s->value_scale = NULL;
}

enum fk_status fk_sources_init(struct fk_sources *p, const struct fk_sweep *s, int64_t capacity,
                               struct fk_error *err) {
  const struct fk_matrix *x = &s->task->sources;
  unsigned parts = (fk_mode_is_gram(&s->mode) ? FK_PACKED_CONSTANT : 0u) | (s->weighted ? FK_PACKED_WEIGHT : 0u) |
                   (s->weighted && s->tails ? FK_PACKED_EXPONENT : 0u) | (s->kept ? FK_PACKED_BORROWED : 0u);
  p->first = p->end = -1;
  return fk_packed_init(&p->points, &s->mode, s->kept ? x->n : capacity, x->d, parts, err);
}

enum fk_status fk_sources_pack(struct fk_sources *p, const struct fk_sweep *s, int64_t first, int64_t end,
                               int threads, struct fk_error *err) {
  const struct fk_task *task = s->task;
  if (p->first <= first && end <= p->end) return FK_STATUS_OK; /* there already */
  p->first = p->end = -1;
  if (s->kept) {
    first = 0;
    end = task->sources.n;
    fk_packed_borrow(&p->points, &s->mode, s->kept);
  } else {
    struct fk_picked picked = {&task->sources, task->whitening, NULL, first, end - first};
    enum fk_status status = fk_packed_fill(&p->points, &s->mode, &picked, threads, err);
    if (status) return status;
  }
  if (s->weighted) fk_packed_weights(&p->points, &s->mode, task->weights + first, s->weight_scale);
  p->first = first;
  p->end = end;
  return FK_STATUS_OK;
}

void fk_sources_free(struct fk_sources *p) { fk_packed_free(&p->points); }

const void *fk_values_at(const struct fk_sweep *s, const struct fk_sources *p, int64_t i) {
  if (s->columns) return fk_real_at(&s->mode, s->columns, i * s->n_values);
  return fk_packed_points_at(&p->points, &s->mode, i - p->first);
}

unsigned fk_sweep_flags(const struct fk_sweep *s, bool store, bool symmetric) {
  static const unsigned forms[] = {[FK_FORM_GAUSSIAN] = 0,
                                   [FK_FORM_ROOT] = FK_TILE_ROOT | FK_TILE_FACTOR,
                                   [FK_FORM_STRETCHED] = FK_TILE_STRETCHED,
                                   [FK_FORM_ABSOLUTE] = FK_TILE_ABSOLUTE,
                                   [FK_FORM_CAUCHY] = FK_TILE_CAUCHY,
                                   [FK_FORM_IMQ] = FK_TILE_IMQ,
                                   [FK_FORM_POWER] = FK_TILE_POWER,
                                   [FK_FORM_TANH] = FK_TILE_TANH};
  const double *f = s->mode.form.factor;
  bool factor = !fk_form_is_product(s->mode.form.type) && (f[0] != 1 || f[1] != 0 || f[2] != 0);
  return forms[s->mode.form.type] | (s->mode.difference ? FK_TILE_DIFFERENCE : 0u) |
         (factor ? FK_TILE_FACTOR : 0u) | (store ? FK_TILE_STORE : 0u) | (symmetric ? FK_TILE_SYMMETRIC : 0u);
}

/* ---- sources that are kept -------------------------------------------------------------------- */

/* The cached packed sources, in the mode of the last sum. */
struct sweep_kept {
  struct fk_kernel_mode mode;
  struct fk_packed points;
};

static void free_kept(void *state) {
  struct sweep_kept *kept = state;
  fk_packed_free(&kept->points);
  free(kept);
}

static struct sweep_kept *pack_all(const struct fk_sweep *s, unsigned parts) {
  const struct fk_matrix *x = &s->task->sources;
  const struct fk_picked all = {x, s->task->whitening, NULL, 0, x->n};
  struct fk_error err = {FK_STATUS_OK, ""};
  struct sweep_kept *kept = calloc(1, sizeof *kept);
  if (!kept) return NULL;
  kept->mode = s->mode;
  if (fk_packed_init(&kept->points, &s->mode, x->n, x->d, parts, &err) ||
      fk_packed_fill(&kept->points, &s->mode, &all, s->threads, &err)) {
    free_kept(kept);
    return NULL;
  }
  return kept;
}

const struct fk_packed *fk_sweep_kept(const struct fk_sweep *s) {
  struct fk_operator *op = fk_task_keeper(s->task);
  if (!op || fk_n_targets(s->task) > fk_costs.cpu_cuts.least_chunk) return NULL;
  struct sweep_kept *kept = fk_kept_use(op, FK_KEEPER_PACKED);
  if (kept && fk_mode_packs_as(&kept->mode, &s->mode)) return &kept->points;

  unsigned parts = fk_mode_is_gram(&s->mode) ? FK_PACKED_CONSTANT : 0;
  double bytes = fk_packed_bytes(&s->mode, s->task->sources.n, s->task->sources.d, parts);
  fk_kept_drop(op, FK_KEEPER_PACKED);
  kept = bytes <= fk_kept_limit(s->opts) ? pack_all(s, parts) : NULL;
  struct fk_kept what = {.state = kept, .free = free_kept, .bytes = bytes};
  return kept && fk_keep(op, FK_KEEPER_PACKED, what, s->opts) ? &kept->points : NULL;
}

/* ---- leave-one-out ---------------------------------------------------------------------------- */

bool fk_tile_meets_self(const int64_t *self, int n_cols, int64_t first_row, int n_rows) {
  for (int c = 0; c < n_cols; c++)
    if (self[c] >= first_row && self[c] < first_row + n_rows) return true;
  return false;
}

void fk_tile_drop_self(const struct fk_sweep *s, const struct fk_tile *tile, int64_t first_row,
                       const int64_t *self) {
  for (int c = 0; c < tile->n_cols; c++) {
    int64_t r = self[c] - first_row;
    if (r >= 0 && r < tile->n_rows) fk_real_set(&s->mode, tile->kernel, r * FK_TILE_COLS + c, 0);
  }
  for (int r = 0; r < tile->n_rows; r++) {
    double w = fk_real_get(&s->mode, tile->row_weight, r);
    for (int c = 0; c < tile->n_cols; c++)
      tile->col_mass[c] += w * fk_real_get(&s->mode, tile->kernel, (int64_t)r * FK_TILE_COLS + c);
  }
}

/* ---- one task: a tile of targets against a split of the sources ------------------------------- */

/* Tasks of a few milliseconds, and little memory for the packed splits. */
static int64_t split_size(int64_t d) {
  const int64_t split = fk_costs.cpu_cuts.split, size = split * 16 / d / FK_TILE_ROWS * FK_TILE_ROWS;
  return fk_smaller(split, fk_larger(split / 16, size));
}

struct sweep_chunk {
  struct fk_packed points; /* the targets */
  int64_t begin, width;    /* the first of them; those of a task */
  int64_t *self;           /* index of each target among the sources, or NULL */
  void *shift;             /* REAL, exponent taken off, or NULL */
  int64_t padded;          /* stride of the accumulators */
  int64_t split, group;    /* sources of a split; splits under way at a time */
  double *partial;         /* an accumulator for each of them; the first collects */
  struct fk_sources sources;
  int64_t first, end;        /* of the sources, those under way */
  struct fk_scratch kernels; /* a tile for each thread */
  bool find_max;
};

static int64_t accumulators(const struct fk_sweep *s, bool find_max) { return 1 + (find_max ? 0 : s->n_values); }

/* The next tile of sources, `first` or after it, that is not known to be too far away. */
static int64_t next_tile(const struct fk_sweep *s, const struct sweep_chunk *chunk, int64_t first_target,
                         int64_t first, int64_t end) {
  if (!s->near || first >= end) return first;
  int64_t target = (chunk->begin + first_target) / FK_NEAR_BLOCK;
  return FK_NEAR_BLOCK * fk_near_next(s->near, first / FK_NEAR_BLOCK, fk_pieces(end, FK_NEAR_BLOCK), target);
}

/* Values of the tile's rows, sources from i on, with its kernels. */
static void sum_values(const struct fk_sweep *s, const struct sweep_chunk *chunk, const struct fk_tile *tile,
                       int64_t i, double *out) {
  if (fk_sweep_is_relative(s)) {
    struct fk_tile_differences differences = {.d = tile->d, .n_rows = tile->n_rows, .n_cols = tile->n_cols};
    differences.kernel = tile->kernel;
    differences.weight = tile->row_weight;
    differences.rows = tile->rows;
    differences.rows_low = tile->rows_low;
    differences.cols = tile->cols;
    differences.cols_low = tile->cols_low;
    differences.out = out;
    differences.ld = chunk->padded;
    if (fk_form_metric(s->mode.form.type) == FK_METRIC_ABSOLUTE)
      s->mode.ops->signs(&differences);
    else
      s->mode.ops->differences(&differences);
    return;
  }
  struct fk_tile_values values = {.n_rows = tile->n_rows, .n_cols = tile->n_cols, .kernel = tile->kernel};
  values.weight = s->weighted || chunk->shift ? tile->row_weight : NULL; /* the padding counts in tails */
  values.values = fk_values_at(s, &chunk->sources, i);
  values.n_values = s->n_values;
  values.out = out;
  values.ld = chunk->padded;
  s->mode.ops->col_values(&values);
}

/* acc: mass in acc[0 .. padded), value v in acc[(1 + v) * padded ..]. */
static void run_task(const struct fk_sweep *s, const struct sweep_chunk *chunk, int64_t first_target,
                     int64_t first_source, void *kernel, double *acc) {
  const struct fk_kernel_mode *mode = &s->mode;
  const struct fk_packed *targets = &chunk->points;
  int64_t last = fk_smaller(first_source + chunk->split, chunk->end);
  const int64_t *self = chunk->self ? chunk->self + first_target : NULL;
  bool find_max = chunk->find_max;

  struct fk_tile tile = {.kernel = kernel, .col_mass = acc + first_target};
  int here = (int)fk_smaller(targets->n - first_target, chunk->width);
  fk_packed_columns(targets, mode, first_target, here, &tile);
  tile.col_shift = chunk->shift ? fk_real_at(mode, chunk->shift, first_target) : NULL;
  fk_tile_takes_form(&tile, &s->mode.form);

  for (int64_t i = first_source; (i = next_tile(s, chunk, first_target, i, last)) < last; i += FK_TILE_ROWS) {
    fk_packed_rows(&chunk->sources.points, mode, i - chunk->sources.first, last - i, &tile);
    if (s->near) fk_near_count(s->near, here, tile.n_rows);
    bool drop = self && fk_tile_meets_self(self, here, i, tile.n_rows);
    unsigned flags = fk_sweep_flags(s, s->n_values > 0 || drop, false);

    if (find_max) {
      tile.col_index = drop ? self : NULL;
      tile.first_row = i;
      mode->ops->largest(&tile, flags);
    } else if (drop) {
      struct fk_tile stored = tile;
      double unused[FK_TILE_COLS];
      stored.col_mass = unused;
      memset(unused, 0, sizeof unused);
      mode->ops->sums(&stored, flags);
      fk_tile_drop_self(s, &tile, i, self);
    } else {
      mode->ops->sums(&tile, flags);
    }
    if (!find_max && s->n_values > 0) sum_values(s, chunk, &tile, i, acc + chunk->padded + first_target);
  }
}

/* ---- a chunk of targets ----------------------------------------------------------------------- */

struct splits {
  const struct fk_sweep *sweep;
  const struct sweep_chunk *chunk;
};

static void run_tasks(void *data, int64_t first, int64_t end, int slot) {
  const struct splits *splits = data;
  const struct fk_sweep *s = splits->sweep;
  const struct sweep_chunk *chunk = splits->chunk;
  int64_t tiles = fk_pieces(chunk->points.n, chunk->width);
  int64_t size = accumulators(s, chunk->find_max) * chunk->padded;
  for (int64_t task = first; task < end; task++)
    run_task(s, chunk, task % tiles * chunk->width, chunk->first + task / tiles * chunk->split,
             fk_scratch_at(&chunk->kernels, slot), chunk->partial + task / tiles * size);
}

/* Each split's part joins the first in the order of the splits, and is cleared for the next. */
static void collect(const struct fk_sweep *s, const struct sweep_chunk *chunk, int64_t splits) {
  int64_t size = accumulators(s, chunk->find_max) * chunk->padded;
  double *sum = chunk->partial;
  for (int64_t g = 1; g < splits; g++) {
    for (int64_t i = 0; i < size; i++) {
      double *part = chunk->partial + g * size + i;
      if (!chunk->find_max) {
        sum[i] += *part;
        *part = 0;
      } else if (*part > sum[i]) {
        sum[i] = *part;
      }
    }
  }
}

static enum fk_status run_chunk(const struct fk_sweep *s, struct sweep_chunk *chunk, struct fk_chunks *progress,
                                struct fk_error *err) {
  int64_t n = s->task->sources.n, step = chunk->group * chunk->split;
  int64_t tiles = fk_pieces(chunk->points.n, chunk->width);
  int64_t size = chunk->group * accumulators(s, chunk->find_max) * chunk->padded;
  enum fk_status status = FK_STATUS_OK;
  for (int64_t i = 0; i < size; i++) chunk->partial[i] = chunk->find_max ? -INFINITY : 0;
  for (int64_t first = 0; first < n && !status; first += step) {
    int64_t end = fk_smaller(n, first + step), splits = fk_pieces(end - first, chunk->split);
    chunk->first = first;
    chunk->end = end;
    status = fk_sources_pack(&chunk->sources, s, first, end, s->threads, err);
    struct splits all = {s, chunk};
    if (!status) status = fk_chunks_run(progress, s->threads, tiles * splits, 1, run_tasks, &all, err);
    if (!status) collect(s, chunk, splits);
  }
  return status;
}

/* From the chunk's accumulators to the task's results. */
static void deliver(const struct fk_sweep *s, const struct sweep_chunk *chunk, const int64_t *rows, int64_t first,
                    double *shift2) {
  const struct fk_task *task = s->task;
  int64_t m = fk_n_targets(task);
  const double *acc = chunk->partial;
  for (int64_t j = 0; j < chunk->points.n; j++) {
    int64_t at = rows ? rows[first + j] : first + j;
    if (chunk->find_max) {
      shift2[first + j] = acc[j];
      continue;
    }
    task->mass[at] = acc[j] * s->weight_scale;
    for (int64_t v = 0; v < s->n_values; v++)
      task->sums[v * m + at] = acc[(1 + v) * chunk->padded + j] * s->value_scale[v] * s->weight_scale;
    if (task->shift) task->shift[at] = shift2 ? shift2[first + j] * FK_LN2 : 0;
  }
}

static void take_shifts(const struct fk_sweep *s, const struct sweep_chunk *chunk, const double *shift2) {
  for (int64_t j = 0; j < chunk->padded; j++) {
    double shift = j < chunk->points.n ? shift2[j] : 0;
    fk_real_set(&s->mode, chunk->shift, j, shift);
  }
}

static void chunk_free(struct sweep_chunk *chunk) {
  fk_packed_free(&chunk->points);
  fk_sources_free(&chunk->sources);
  fk_scratch_free(&chunk->kernels);
  free(chunk->self);
  fk_aligned_free(chunk->shift);
  fk_aligned_free(chunk->partial);
}

static enum fk_status chunk_init(const struct fk_sweep *s, int64_t m, bool shifted, bool find_max,
                                 struct sweep_chunk *chunk, struct fk_error *err) {
  int64_t n = s->task->sources.n, d = s->task->sources.d, per_target = accumulators(s, find_max);
  const struct fk_cpu_cuts *cuts = &fk_costs.cpu_cuts;
  int64_t size = cuts->chunk / (per_target + d + 3);
  memset(chunk, 0, sizeof *chunk);
  chunk->find_max = find_max;
  size = fk_smaller(fk_larger(cuts->least_chunk, size), m);
  chunk->padded = size = fk_padded(size, FK_TILE_COLS);
  chunk->split = split_size(d);
  chunk->width = s->near ? FK_NEAR_BLOCK : FK_TILE_COLS;
  int64_t tiles = size / chunk->width;
  int64_t group = fk_smaller(fk_pieces(cuts->tasks, tiles), cuts->group / (size * per_target + chunk->split * d));
  group = fk_larger(group, fk_pieces(cuts->least_tasks, tiles));
  chunk->group = fk_smaller(fk_pieces(n, chunk->split), group);
  bool self = s->task->exclude_self;

  unsigned parts = fk_mode_is_gram(&s->mode) ? FK_PACKED_CONSTANT : 0;
  enum fk_status status = fk_packed_init(&chunk->points, &s->mode, size, d, parts, err);
  if (!status) status = fk_sources_init(&chunk->sources, s, fk_smaller(n, chunk->group * chunk->split), err);
  if (!status) {
    double bytes = 8.0 * (double)(chunk->group * size * per_target);
    size_t tile = FK_TILE_ROWS * FK_TILE_COLS * fk_real_size(&s->mode);
    chunk->partial = fk_aligned_alloc((size_t)bytes);
    if (self) chunk->self = malloc(sizeof(int64_t) * (size_t)size);
    if (shifted) chunk->shift = fk_aligned_alloc(fk_real_size(&s->mode) * (size_t)size);
    bool tiles_fit = fk_scratch_init(&chunk->kernels, s->threads, tile);
    if (!tiles_fit || !chunk->partial || (self && !chunk->self) || (shifted && !chunk->shift))
      status = fk_no_memory(err, bytes, "partial sums");
  }
  if (status) chunk_free(chunk);
  return status;
}

enum fk_status fk_sweep_targets(const struct fk_sweep *s, const int64_t *rows, int64_t m, double *shift2,
                                bool find_max, struct fk_error *err) {
  const struct fk_task *task = s->task;
  const struct fk_matrix *targets = fk_task_targets(task);
  bool shifted = shift2 && !find_max;
  struct sweep_chunk chunk;
  enum fk_status status = chunk_init(s, m, shifted, find_max, &chunk, err);
  if (status) return status;

  struct fk_chunks progress;
  fk_chunks_start(&progress, &s->opts->poll, s->threads,
                  (double)fk_pieces(m, chunk.width) * (double)fk_pieces(task->sources.n, chunk.split),
                  (double)chunk.width * (double)fk_smaller(chunk.split, task->sources.n));
  for (int64_t first = 0; first < m && !status; first += chunk.padded) {
    int64_t count = fk_smaller(chunk.padded, m - first);
    chunk.begin = first;
    struct fk_picked picked = {targets, task->whitening, rows, first, count};
    status = fk_packed_fill(&chunk.points, &s->mode, &picked, s->threads, err);
    if (status) break;
    for (int64_t j = 0; chunk.self && j < chunk.padded; j++)
      chunk.self[j] = j >= count         ? -1
                      : rows && !s->near ? rows[first + j]
                                         : first + j; /* near ones: of its order */
    if (shifted) take_shifts(s, &chunk, shift2 + first);
    status = run_chunk(s, &chunk, &progress, err);
    if (!status) deliver(s, &chunk, rows, first, shift2);
  }
  chunk_free(&chunk);
  return status;
}

/* Setting up a sweep, and targets against sources.
 *
 * Deterministic for any number of threads: a target's sum runs over the sources in splits of fixed length,
 * and the partial sums of the splits are added in their order.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aligned.h"
#include "sums.h"
#include "threads.h"

#define LN2 0.693147180559945309417

enum {
  SPLIT = 256 * FK_TILE_ROWS, /* sources in one task */
  CHUNK = 1 << 21,            /* accumulators held at a time, doubles */
  TASKS = 64                  /* enough for any machine's threads; few targets are split over sources */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum fk_status fk_sweep_init(struct fk_sweep *s, const struct fk_task *task, const struct fk_opts *opts,
                             const struct fk_kernel_mode *mode, int threads, struct fk_error *err) {
  const struct fk_points *x = &task->sources;
  memset(s, 0, sizeof *s);
  s->task = task;
  s->opts = opts;
  s->mode = *mode;
  s->threads = threads;
  s->weighted = task->weights != NULL;
  /* q/2 = -t ln 2 */
  s->factor[0] = task->factor[0];
  s->factor[1] = -LN2 * task->factor[1];
  s->factor[2] = LN2 * LN2 * task->factor[2];

  s->weight_scale = s->weighted ? fk_largest_absolute(task->weights, x->n) : 1;
  if (task->values == FK_VALUES_NONE) return FK_STATUS_OK;

  s->n_values = task->values == FK_VALUES_COORDINATES ? x->d : task->n_columns;
  s->value_scale = malloc(sizeof(double) * (size_t)s->n_values);
  if (!s->value_scale) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  for (int64_t v = 0; v < s->n_values; v++) s->value_scale[v] = 1 / mode->scale;
  enum fk_status status = FK_STATUS_OK;
  if (task->values == FK_VALUES_COLUMNS)
    status = fk_pack_columns(mode, task->columns, x->n, task->n_columns, &s->columns, s->value_scale, err);
  if (status) fk_sweep_free(s);
  return status;
}

void fk_sweep_free(struct fk_sweep *s) {
  fk_packed_free(&s->sources);
  fk_aligned_free(s->columns);
  free(s->value_scale);
  s->columns = NULL;
  s->value_scale = NULL;
}

unsigned fk_sweep_parts(const struct fk_sweep *s) {
  return (s->mode.difference ? 0u : FK_PACKED_CONSTANT) | (s->weighted ? FK_PACKED_WEIGHT : 0u);
}

enum fk_status fk_sweep_pack(struct fk_sweep *s, struct fk_error *err) {
  const struct fk_points *x = &s->task->sources;
  enum fk_status status = fk_packed_init(&s->sources, &s->mode, x->n, x->d, fk_sweep_parts(s), err);
  if (!status)
    status = fk_packed_fill(&s->sources, &s->mode, x, s->task->whitening, NULL, 0, x->n, s->threads, err);
  if (!status && s->weighted) fk_packed_weights(&s->sources, &s->mode, s->task->weights, s->weight_scale);
  return status;
}

const void *fk_sweep_values_at(const struct fk_sweep *s, const struct fk_packed *block, int64_t first, int64_t i) {
  if (s->columns) return fk_real_at(&s->mode, s->columns, i * s->n_values);
  return fk_packed_points_at(block, &s->mode, i - first);
}

unsigned fk_sweep_flags(const struct fk_sweep *s, bool store, bool symmetric) {
  bool factor = s->factor[0] != 1 || s->factor[1] != 0 || s->factor[2] != 0;
  return (s->mode.difference ? FK_TILE_DIFFERENCE : 0u) | (factor ? FK_TILE_FACTOR : 0u) |
         (store ? FK_TILE_STORE : 0u) | (symmetric ? FK_TILE_SYMMETRIC : 0u);
}

/* ---- leave-one-out ---------------------------------------------------------------------------- */

static bool meets_self(const int64_t *self, int n_cols, int64_t first_row, int n_rows) {
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

/* Largest exponents without the pair (i, i): in plain C, for a few tiles along the diagonal only. */
static void largest_but_self(const struct fk_sweep *s, const struct fk_tile *tile, int64_t first_row,
                             const int64_t *self) {
  const struct fk_kernel_mode *mode = &s->mode;
  int panel = mode->ops->panel;
  for (int r = 0; r < tile->n_rows; r++) {
    if (fk_real_get(mode, tile->row_weight, r) == 0) continue;
    for (int c = 0; c < tile->n_cols; c++) {
      if (self[c] == first_row + r) continue;
      double t = mode->difference ? 0
                                  : fk_real_get(mode, tile->row_const, r) + fk_real_get(mode, tile->col_const, c);
      for (int64_t k = 0; k < tile->d; k++) {
        double x = fk_real_get(mode, tile->rows, ((r / panel) * tile->d + k) * panel + r % panel);
        double y = fk_real_get(mode, tile->cols, ((c / panel) * tile->d + k) * panel + c % panel);
        t += mode->difference ? -(x - y) * (x - y) : x * y;
      }
      if (t > tile->col_mass[c]) tile->col_mass[c] = t;
    }
  }
}

/* ---- one task: a tile of targets against a split of the sources ------------------------------- */

struct target_chunk {
  struct fk_packed points;
  const int64_t *self; /* index of each target among the sources */
  void *shift;         /* REAL, exponent taken off, or NULL */
  int64_t padded;      /* stride of the accumulators */
};

/* acc: mass in acc[0 .. padded), value v in acc[(1 + v) * padded ..]. */
static void run_task(const struct fk_sweep *s, const struct target_chunk *chunk, int64_t first_target,
                     int64_t first_source, bool find_max, void *kernel, double *acc) {
  const struct fk_kernel_mode *mode = &s->mode;
  const struct fk_packed *sources = &s->sources, *targets = &chunk->points;
  int panel = mode->ops->panel, step = mode->ops->row_step;
  int64_t last = smaller(first_source + SPLIT, sources->n);
  const int64_t *self = chunk->self ? chunk->self + first_target : NULL;
  bool exclude = s->task->exclude_self;

  struct fk_tile tile = {.d = sources->d, .kernel = kernel, .col_mass = acc + first_target};
  tile.n_cols = (int)(divide_up(smaller(targets->n - first_target, FK_TILE_COLS), panel) * panel);
  tile.cols = fk_packed_points_at(targets, mode, first_target);
  tile.col_const = fk_packed_constant_at(targets, mode, first_target);
  tile.col_shift = chunk->shift ? fk_real_at(mode, chunk->shift, first_target) : NULL;
  memcpy(tile.factor, s->factor, sizeof tile.factor);

  for (int64_t i = first_source; i < last; i += FK_TILE_ROWS) {
    tile.n_rows = (int)(divide_up(smaller(last - i, FK_TILE_ROWS), step) * step);
    tile.rows = fk_packed_points_at(sources, mode, i);
    tile.row_const = fk_packed_constant_at(sources, mode, i);
    tile.row_weight = fk_packed_weight_at(sources, mode, i);
    int here = (int)smaller(targets->n - first_target, FK_TILE_COLS);
    bool drop = exclude && meets_self(self, here, i, tile.n_rows);
    unsigned flags = fk_sweep_flags(s, s->n_values > 0 || drop, false);

    if (find_max && drop) {
      largest_but_self(s, &tile, i, self);
    } else if (find_max) {
      mode->ops->largest(&tile, flags & FK_TILE_DIFFERENCE);
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
    if (!find_max && s->n_values > 0) {
      struct fk_tile_values values = {.n_rows = tile.n_rows, .n_cols = tile.n_cols, .kernel = kernel};
      values.weight = s->weighted ? tile.row_weight : NULL;
      values.values = fk_sweep_values_at(s, sources, 0, i);
      values.n_values = s->n_values;
      values.out = acc + chunk->padded + first_target;
      values.ld = chunk->padded;
      mode->ops->col_values(&values);
    }
  }
}

/* ---- a chunk of targets ----------------------------------------------------------------------- */

/* partial: `group` accumulators, one for each split that is under way; the first collects. */
static enum fk_status run_chunk(const struct fk_sweep *s, const struct target_chunk *chunk, bool find_max,
                                int64_t group, double *partial, struct fk_chunks *progress, struct fk_error *err) {
  int64_t tiles = divide_up(chunk->points.n, FK_TILE_COLS), splits = divide_up(s->sources.n, SPLIT);
  int64_t size = (1 + (find_max ? 0 : s->n_values)) * chunk->padded;
  enum fk_status status = FK_STATUS_OK;

  for (int64_t i = 0; i < group * size; i++) partial[i] = find_max ? -INFINITY : 0;
  for (int64_t split = 0; split < splits && !status; split += group) {
    int64_t tasks = tiles * smaller(group, splits - split);
    for (int64_t from = 0, to; from < tasks && !status; from = to) {
      bool failed = false;
      to = smaller(tasks, from + progress->size);
#pragma omp parallel num_threads(s->threads) reduction(|| : failed)
      {
        void *kernel = fk_aligned_alloc(FK_TILE_ROWS * FK_TILE_COLS * fk_real_size(&s->mode));
        failed = !kernel;
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = from; task < to; task++) {
          if (!kernel) continue;
          run_task(s, chunk, task % tiles * FK_TILE_COLS, (split + task / tiles) * SPLIT, find_max, kernel,
                   partial + task / tiles * size);
        }
        fk_aligned_free(kernel);
      }
      status = failed ? fk_fail(err, FK_STATUS_ALLOC, "out of memory for a tile of kernel values")
                      : fk_chunks_done(progress, to - from, err);
    }
    /* Each split's part joins the first in the order of the splits, and is cleared for the next. */
    for (int64_t g = 1; g < group && g < splits - split; g++) {
      for (int64_t i = 0; i < size; i++) {
        double *part = partial + g * size + i;
        if (!find_max) {
          partial[i] += *part;
          *part = 0;
        } else if (*part > partial[i]) {
          partial[i] = *part;
        }
      }
    }
  }
  return status;
}

/* From the chunk's accumulators to the task's results. */
static void deliver(const struct fk_sweep *s, const struct target_chunk *chunk, const int64_t *rows, int64_t first,
                    double *shift2, bool find_max, const double *acc) {
  const struct fk_task *task = s->task;
  int64_t m = task->targets.data ? task->targets.n : task->sources.n;
  for (int64_t j = 0; j < chunk->points.n; j++) {
    int64_t at = rows ? rows[first + j] : first + j;
    if (find_max) {
      shift2[first + j] = acc[j];
      continue;
    }
    task->mass[at] = acc[j] * s->weight_scale;
    for (int64_t v = 0; v < s->n_values; v++)
      task->sums[v * m + at] =
          acc[(1 + v) * chunk->padded + j] * s->value_scale[v] * s->weight_scale;
    if (task->shift) task->shift[at] = shift2 ? shift2[first + j] * LN2 : 0;
  }
}

enum fk_status fk_sweep_targets(const struct fk_sweep *s, const int64_t *rows, int64_t m, double *shift2,
                                bool find_max, struct fk_error *err) {
  const struct fk_points *targets = s->task->targets.data ? &s->task->targets : &s->task->sources;
  int64_t per_target = 1 + (find_max ? 0 : s->n_values), splits = divide_up(s->sources.n, SPLIT);
  int64_t size = divide_up(CHUNK / per_target, FK_TILE_COLS) * FK_TILE_COLS;
  size = smaller(size, divide_up(m, FK_TILE_COLS) * FK_TILE_COLS);
  int64_t group = smaller(splits, divide_up(TASKS, size / FK_TILE_COLS));

  struct target_chunk chunk = {.padded = size};
  int64_t *self = malloc(sizeof(int64_t) * (size_t)size);
  double *partial = fk_aligned_alloc(sizeof(double) * (size_t)(group * size * per_target));
  void *shift = fk_aligned_alloc(fk_real_size(&s->mode) * (size_t)size);
  /* Constants are there in either mode: shifts go into them. */
  enum fk_status status = fk_packed_init(&chunk.points, &s->mode, size, s->sources.d, FK_PACKED_CONSTANT, err);
  if (!status && (!self || !partial || !shift))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for partial sums",
                     8e-6 * (double)(group * size * per_target));

  struct fk_chunks progress;
  fk_chunks_start(&progress, &s->opts->poll, (double)divide_up(m, FK_TILE_COLS) * (double)splits,
                  (double)FK_TILE_COLS * (double)smaller(SPLIT, s->sources.n));
  for (int64_t first = 0; first < m && !status; first += size) {
    int64_t count = smaller(size, m - first);
    status = fk_packed_fill(&chunk.points, &s->mode, targets, s->task->whitening, rows, first, count, s->threads,
                            err);
    if (status) break;
    for (int64_t j = 0; j < size; j++) self[j] = j >= count ? -1 : rows ? rows[first + j] : first + j;
    chunk.self = self;
    chunk.shift = NULL;
    if (shift2 && !find_max) {
      chunk.shift = shift;
      for (int64_t j = 0; j < count; j++) {
        double constant = fk_real_get(&s->mode, chunk.points.constant, j);
        fk_real_set(&s->mode, shift, j, shift2[first + j]);
        fk_real_set(&s->mode, chunk.points.constant, j, constant - shift2[first + j]);
      }
      for (int64_t j = count; j < size; j++) fk_real_set(&s->mode, shift, j, 0);
    }
    status = run_chunk(s, &chunk, find_max, group, partial, &progress, err);
    if (!status) deliver(s, &chunk, rows, first, shift2, find_max, partial);
  }
  fk_packed_free(&chunk.points);
  free(self);
  fk_aligned_free(partial);
  fk_aligned_free(shift);
  return status;
}

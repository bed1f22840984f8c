/* All points against each other, every pair once: a kernel tile serves its columns and its rows. */
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "sweep.h"
#include "tournament.h"

/* Set by inst/bench/dimensions.R and memory.R (2026-11, Zen 5); see inst/bench/NOTES.md. Not critical. */
enum { PACKED_BYTES = 5000000, MANY_BLOCKS = 128, ENOUGH_BLOCKS = 32, LONG_BLOCK = 768, LONGEST_BLOCK = 2112 };

/* Small inputs are packed once. Large ones are packed block by block, for each pair anew: no second copy of
 * the points is held, and the blocks are long enough for that to cost little. */
static bool packed_at_once(const struct fk_sweep *s) {
  return 8.0 * (double)s->task->sources.n * (double)s->task->sources.d <= PACKED_BYTES;
}

/* Many pairs a round, and tasks of a few milliseconds. The size depends on the points' number and dimension
 * alone, as the order of the sums does. */
static int64_t block_size(const struct fk_sweep *s) {
  int64_t n = s->task->sources.n, size = fk_pieces(n, MANY_BLOCKS);
  int64_t repacked = fk_smaller(fk_pieces(n, ENOUGH_BLOCKS), LONG_BLOCK);
  if (!packed_at_once(s) && size < repacked) size = repacked;
  return fk_smaller(fk_padded(size, FK_TILE_COLS), LONGEST_BLOCK);
}

struct scratch {
  struct fk_sources a, b; /* the two blocks of a pair, unless all are packed */
  void *kernel;
  double *cols, *rows; /* (1 + n_values) x FK_TILE_COLS, x block size */
};

struct pairs {
  const struct fk_sweep *sweep;
  struct fk_sources all; /* where packed_at_once() */
  int64_t size;
  struct scratch *scratch; /* of each thread */
};

static void add_to_results(const struct fk_sweep *s, const double *part, int64_t ld, int64_t first,
                           int64_t count) {
  const struct fk_task *task = s->task;
  int64_t n = task->sources.n;
  double weight_scale = s->weight_scale;
  for (int64_t i = 0; i < count; i++) task->mass[first + i] += part[i] * weight_scale;
  for (int64_t v = 0; v < s->n_values; v++) {
    double scale = s->value_scale[v] * weight_scale, *out = task->sums + v * n + first;
    for (int64_t i = 0; i < count; i++) out[i] += part[(1 + v) * ld + i] * scale;
  }
}

/* The sources among which block `number` is found: all of them, or `room` after packing it there. */
static enum fk_status get_block(const struct pairs *t, int64_t number, struct fk_sources *room,
                                const struct fk_sources **found, struct fk_error *err) {
  int64_t first = number * t->size, end = fk_smaller(t->sweep->task->sources.n, first + t->size);
  *found = packed_at_once(t->sweep) ? &t->all : room;
  return packed_at_once(t->sweep) ? FK_STATUS_OK : fk_sources_pack(room, t->sweep, first, end, 1, err);
}

/* Rows of block a against columns of block b; where a == b every ordered pair is met, and only the column
 * sums are taken. */
static enum fk_status run_pair(const struct pairs *t, int64_t a, int64_t b, struct scratch *scratch,
                               struct fk_error *err) {
  const struct fk_sweep *s = t->sweep;
  const struct fk_kernel_mode *mode = &s->mode;
  int64_t n = s->task->sources.n, size = t->size, a_end = fk_smaller(n, (a + 1) * size),
          b_end = fk_smaller(n, (b + 1) * size);
  int panel = mode->ops->panel, step = mode->ops->row_step;
  bool values = s->n_values > 0, symmetric = a != b, drop = a == b && s->task->exclude_self;

  const struct fk_sources *rows, *cols;
  enum fk_status status = get_block(t, a, &scratch->a, &rows, err);
  cols = rows;
  if (!status && symmetric) status = get_block(t, b, &scratch->b, &cols, err);
  if (status) return status;

  struct fk_tile tile = {.d = s->task->sources.d, .kernel = scratch->kernel};
  memcpy(tile.factor, s->mode.form.factor, sizeof tile.factor);
  if (symmetric) memset(scratch->rows, 0, sizeof(double) * (size_t)(size * (1 + s->n_values)));
  for (int64_t j = b * size; j < b_end; j += FK_TILE_COLS) {
    int64_t here = fk_smaller(FK_TILE_COLS, b_end - j), self[FK_TILE_COLS];
    tile.n_cols = (int)fk_padded(here, panel);
    fk_tile_cols_at(&tile, s, cols, j);
    for (int64_t c = 0; c < FK_TILE_COLS; c++) self[c] = j + c;
    memset(scratch->cols, 0, sizeof(double) * FK_TILE_COLS * (size_t)(1 + s->n_values));

    for (int64_t i = a * size; i < a_end; i += FK_TILE_ROWS) {
      tile.n_rows = (int)fk_padded(fk_smaller(FK_TILE_ROWS, a_end - i), step);
      tile.row_mass = scratch->rows + (i - a * size);
      fk_tile_rows_at(&tile, s, rows, i);
      bool diagonal = drop && i < j + FK_TILE_COLS && j < i + FK_TILE_ROWS;
      double unused[FK_TILE_COLS] = {0};
      tile.col_mass = diagonal ? unused : scratch->cols;
      mode->ops->sums(&tile, fk_sweep_flags(s, values || diagonal, symmetric));
      if (diagonal) {
        tile.col_mass = scratch->cols;
        fk_tile_drop_self(s, &tile, i, self);
      }
      if (!values) continue;
      struct fk_tile_values sums = {.n_rows = tile.n_rows, .n_cols = tile.n_cols, .kernel = tile.kernel};
      sums.n_values = s->n_values;
      sums.weight = s->weighted ? tile.row_weight : NULL;
      sums.values = fk_values_at(s, rows, i);
      sums.out = scratch->cols + FK_TILE_COLS;
      sums.ld = FK_TILE_COLS;
      mode->ops->col_values(&sums);
      if (!symmetric) continue;
      sums.weight = s->weighted ? tile.col_weight : NULL;
      sums.values = fk_values_at(s, cols, j);
      sums.out = tile.row_mass + size;
      sums.ld = size;
      mode->ops->row_values(&sums);
    }
    add_to_results(s, scratch->cols, FK_TILE_COLS, j, here);
  }
  if (symmetric) add_to_results(s, scratch->rows, size, a * size, a_end - a * size);
  return FK_STATUS_OK;
}

static bool scratch_init(const struct pairs *t, struct scratch *scratch) {
  const struct fk_sweep *s = t->sweep;
  struct fk_error err = {FK_STATUS_OK, ""};
  memset(scratch, 0, sizeof *scratch);
  scratch->kernel = fk_aligned_alloc(FK_TILE_ROWS * FK_TILE_COLS * fk_real_size(&s->mode));
  scratch->cols = fk_aligned_alloc(sizeof(double) * FK_TILE_COLS * (size_t)(1 + s->n_values));
  scratch->rows = fk_aligned_alloc(sizeof(double) * (size_t)(t->size * (1 + s->n_values)));
  if (!scratch->kernel || !scratch->cols || !scratch->rows) return false;
  if (packed_at_once(s)) return true;
  return fk_sources_init(&scratch->a, s, t->size, &err) == FK_STATUS_OK &&
         fk_sources_init(&scratch->b, s, t->size, &err) == FK_STATUS_OK;
}

static void scratch_free(struct scratch *scratch) {
  fk_sources_free(&scratch->a);
  fk_sources_free(&scratch->b);
  fk_aligned_free(scratch->kernel);
  fk_aligned_free(scratch->cols);
  fk_aligned_free(scratch->rows);
}

static void pairs_free(struct pairs *t) {
  for (int i = 0; t->scratch && i < t->sweep->threads; i++) scratch_free(&t->scratch[i]);
  free(t->scratch);
  fk_sources_free(&t->all);
}

static enum fk_status pairs_init(struct pairs *t, const struct fk_sweep *s, struct fk_error *err) {
  int64_t n = s->task->sources.n;
  memset(t, 0, sizeof *t);
  t->sweep = s;
  t->size = block_size(s);
  t->scratch = calloc((size_t)s->threads, sizeof *t->scratch);
  bool fits = t->scratch;
  for (int i = 0; i < s->threads && fits; i++) fits = scratch_init(t, &t->scratch[i]);
  if (!fits) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a tile of kernel values");
  if (!packed_at_once(s)) return FK_STATUS_OK;
  enum fk_status status = fk_sources_init(&t->all, s, n, err);
  return status ? status : fk_sources_pack(&t->all, s, 0, n, s->threads, err);
}

static bool play(void *data, int64_t a, int64_t b, int slot) {
  const struct pairs *t = data;
  struct fk_error err = {FK_STATUS_OK, ""};
  return run_pair(t, a, b, &t->scratch[slot], &err) == FK_STATUS_OK;
}

enum fk_status fk_sweep_symmetric(const struct fk_sweep *s, struct fk_error *err) {
  const struct fk_task *task = s->task;
  struct pairs t;
  enum fk_status status = pairs_init(&t, s, err);
  int64_t n = task->sources.n;

  memset(task->mass, 0, sizeof(double) * (size_t)n);
  if (task->sums) memset(task->sums, 0, sizeof(double) * (size_t)(n * s->n_values));
  if (task->shift) memset(task->shift, 0, sizeof(double) * (size_t)n);
  struct fk_tournament tournament = {n, t.size, s->threads, play, &t};
  if (!status) status = fk_tournament_run(&tournament, &s->opts->poll, err);
  pairs_free(&t);
  return status;
}

/* All points against each other, every pair once: a kernel tile serves its columns and its rows. */
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/costs.h"
#include "../core/count.h"
#include "near.h"
#include "tournament.h"

/* Small inputs, and those in blocks, are packed once. Large ones are packed block by block, for each pair anew: no
 * second copy of the points is held, and the blocks are long enough for that to cost little. */
static bool packed_at_once(const struct fk_sweep *s) {
  return s->kept ||
         8.0 * (double)s->task->sources.n * (double)s->task->sources.d <= fk_costs.cpu_cuts.packed_bytes;
}

/* Many pairs a round, and tasks of a few milliseconds. The size depends on the points' number and dimension
 * alone, as the order of the sums does. */
static int64_t block_size(const struct fk_sweep *s) {
  if (s->near) return s->near->sources->per_region * FK_NEAR_BLOCK;
  const struct fk_cpu_cuts *cuts = &fk_costs.cpu_cuts;
  int64_t n = s->task->sources.n, size = fk_pieces(n, cuts->blocks);
  if (!packed_at_once(s)) size = fk_larger(size, fk_smaller(fk_pieces(n, cuts->repacked), cuts->long_block));
  return fk_smaller(fk_padded(size, FK_TILE_COLS), cuts->longest_block);
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
  const int64_t *order = s->near ? s->near->sources->order + first : NULL;
  double weight_scale = s->weight_scale;
  for (int64_t i = 0; i < count; i++) task->mass[order ? order[i] : first + i] += part[i] * weight_scale;
  for (int64_t v = 0; v < s->n_values; v++) {
    double scale = s->value_scale[v] * weight_scale, *out = task->sums + v * n;
    for (int64_t i = 0; i < count; i++) out[order ? order[i] : first + i] += part[(1 + v) * ld + i] * scale;
  }
}

/* The sources among which block `number` is found: all of them, or `room` after packing it there. */
static enum fk_status get_block(const struct pairs *t, int64_t number, struct fk_sources *room,
                                const struct fk_sources **found, struct fk_error *err) {
  int64_t first = number * t->size, end = fk_smaller(t->sweep->task->sources.n, first + t->size);
  *found = packed_at_once(t->sweep) ? &t->all : room;
  return packed_at_once(t->sweep) ? FK_STATUS_OK : fk_sources_pack(room, t->sweep, first, end, 1, err);
}

/* A pair of blocks, and where in it a tile's columns are. */
struct pair {
  const struct pairs *t;
  const struct scratch *scratch;
  const struct fk_sources *rows, *cols;
  int64_t first, end; /* of the rows */
  bool symmetric;     /* else every ordered pair is met, and only the column sums are taken */
  int64_t j, n_cols;
};

static int64_t next_rows(const struct pair *p, int64_t i) {
  struct fk_near_pairs *near = p->t->sweep->near;
  if (!near || i >= p->end) return i;
  return FK_NEAR_BLOCK *
         fk_near_next(near, i / FK_NEAR_BLOCK, fk_pieces(p->end, FK_NEAR_BLOCK), p->j / FK_NEAR_BLOCK);
}

static void run_values(const struct pair *p, const struct fk_tile *tile, int64_t i) {
  const struct fk_sweep *s = p->t->sweep;
  struct fk_tile_values sums = {.n_rows = tile->n_rows, .n_cols = tile->n_cols, .kernel = tile->kernel};
  sums.n_values = s->n_values;
  sums.weight = s->weighted ? tile->row_weight : NULL;
  sums.values = fk_values_at(s, p->rows, i);
  sums.out = p->scratch->cols + FK_TILE_COLS;
  sums.ld = FK_TILE_COLS;
  s->mode.ops->col_values(&sums);
  if (!p->symmetric) return;
  sums.weight = s->weighted ? tile->col_weight : NULL;
  sums.values = fk_values_at(s, p->cols, p->j);
  sums.out = tile->row_mass + p->t->size;
  sums.ld = p->t->size;
  s->mode.ops->row_values(&sums);
}

/* All rows of a pair against one tile of its columns. */
static void run_columns(const struct pair *p) {
  const struct fk_sweep *s = p->t->sweep;
  const struct fk_kernel_mode *mode = &s->mode;
  const struct scratch *scratch = p->scratch;
  int64_t j = p->j, self[FK_TILE_COLS];
  bool values = s->n_values > 0, drop = !p->symmetric && s->task->exclude_self;
  struct fk_tile tile = {.kernel = scratch->kernel};
  fk_tile_takes_form(&tile, &mode->form);
  fk_packed_columns(&p->cols->points, mode, j - p->cols->first, p->n_cols, &tile);
  for (int64_t c = 0; c < FK_TILE_COLS; c++) self[c] = j + c;
  memset(scratch->cols, 0, sizeof(double) * FK_TILE_COLS * (size_t)(1 + s->n_values));

  for (int64_t i = p->first; (i = next_rows(p, i)) < p->end; i += FK_TILE_ROWS) {
    tile.row_mass = scratch->rows + (i - p->first);
    fk_packed_rows(&p->rows->points, mode, i - p->rows->first, p->end - i, &tile);
    if (s->near) fk_near_count(s->near, p->n_cols, tile.n_rows * (p->symmetric ? 2 : 1));
    bool diagonal = drop && i < j + p->n_cols && j < i + FK_TILE_ROWS;
    double unused[FK_TILE_COLS] = {0};
    tile.col_mass = diagonal ? unused : scratch->cols;
    mode->ops->sums(&tile, fk_sweep_flags(s, values || diagonal, p->symmetric));
    if (diagonal) {
      tile.col_mass = scratch->cols;
      fk_tile_drop_self(s, &tile, i, self);
    }
    if (values) run_values(p, &tile, i);
  }
}

/* Rows of block a against columns of block b. */
static enum fk_status run_pair(const struct pairs *t, int64_t a, int64_t b, struct scratch *scratch,
                               struct fk_error *err) {
  const struct fk_sweep *s = t->sweep;
  int64_t n = s->task->sources.n, size = t->size, end = fk_smaller(n, (b + 1) * size);
  int64_t width = s->near ? FK_NEAR_BLOCK : FK_TILE_COLS;
  struct pair p = {.t = t, .scratch = scratch, .first = a * size, .end = fk_smaller(n, (a + 1) * size)};
  p.symmetric = a != b;
  if (s->near && !fk_near_regions(s->near, a, b)) return FK_STATUS_OK;
  enum fk_status status = get_block(t, a, &scratch->a, &p.rows, err);
  p.cols = p.rows;
  if (!status && p.symmetric) status = get_block(t, b, &scratch->b, &p.cols, err);
  if (status) return status;

  if (p.symmetric) memset(scratch->rows, 0, sizeof(double) * (size_t)(size * (1 + s->n_values)));
  for (p.j = b * size; p.j < end; p.j += width) {
    p.n_cols = fk_smaller(width, end - p.j);
    run_columns(&p);
    add_to_results(s, scratch->cols, FK_TILE_COLS, p.j, p.n_cols);
  }
  if (p.symmetric) add_to_results(s, scratch->rows, size, p.first, p.end - p.first);
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
  if (!fits) return fk_no_memory(err, 0, "a tile of kernel values");
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

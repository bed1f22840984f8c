/* Normal products K'(W (K v + w)) in one sweep: the kernels of a block of rows at all sources are computed once,
 * give K v of these rows, and are still in the cache for K'.
 *
 * The same bits for any number of threads: rows are cut into pieces whose size goes by their number; each piece
 * has a result of its own, and these are added in order.
 */
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/costs.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"
#include "exact_cpu.h"

/* row_values() may meet so many rows past the last. */
enum { MORE_ROWS = 16 };

/* Working memory of a thread. */
struct normal_room {
  struct fk_packed rows; /* FK_TILE_COLS of them */
  void *kernels;         /* of a block: rows x FK_TILE_COLS of each tile of sources */
  void *residuals;       /* W (K v + w) of its rows, in panels */
  double *products;      /* K v, n_columns x ROOM_ROWS */
};
enum { ROOM_ROWS = FK_TILE_ROWS + MORE_ROWS };

struct normal {
  const struct fk_sweep *sweep; /* v is its columns */
  const struct fk_normal *spec;
  const struct fk_matrix *targets; /* the rows of K */
  struct fk_sources sources;
  int64_t padded;              /* number of sources */
  int64_t block, piece;        /* rows */
  double *scale, weight_scale; /* residuals are in units of these, a scale for each column */
  struct normal_room *rooms;
  double *partial; /* n_columns x padded of each piece under way; the first collects */
};

/* ---- a block of rows -------------------------------------------------------------------------- */

static struct fk_tile tile_at(const struct normal *p, const struct normal_room *room, int64_t row, int64_t count) {
  const struct fk_kernel_mode *mode = &p->sweep->mode;
  const struct fk_packed *rows = &room->rows;
  int panel = mode->ops->panel;
  int64_t d = rows->d, lane = row % panel;
  struct fk_tile tile = {.d = d, .n_rows = (int)fk_padded(count, mode->ops->row_step)};
  tile.rows = fk_real_at(mode, fk_packed_points_at(rows, mode, row - lane), lane);
  tile.rows_low = rows->low ? fk_packed_low_at(rows, row - lane) + lane : NULL;
  tile.row_const = fk_packed_constant_at(rows, mode, row);
  tile.row_weight = rows->ones;
  fk_tile_takes_form(&tile, &mode->form);
  return tile;
}

static void *kernels_at(const struct normal *p, const struct normal_room *room, int64_t source) {
  return fk_real_at(&p->sweep->mode, room->kernels, source * p->block);
}

/* Kernels of `count` rows from `row` of the room on, and K v. */
static void multiply(const struct normal *p, const struct normal_room *room, int64_t row, int64_t count) {
  const struct fk_sweep *s = p->sweep;
  const struct fk_tile_ops *ops = s->mode.ops;
  double unused[FK_TILE_COLS] = {0};
  int64_t n = p->sources.end;
  bool one = s->n_values == 1; /* column, which the tile takes for weights */
  struct fk_tile tile = tile_at(p, room, row, count);
  struct fk_tile_values values = {.n_rows = tile.n_rows, .n_values = s->n_values};
  tile.col_mass = unused;
  tile.row_mass = values.out = room->products;
  values.ld = ROOM_ROWS;
  memset(room->products, 0, sizeof(double) * (size_t)(s->n_values * ROOM_ROWS));
  for (int64_t i = 0; i < n; i += FK_TILE_COLS) {
    fk_packed_columns(&p->sources.points, &s->mode, i, n - i, &tile);
    values.n_cols = tile.n_cols;
    values.kernel = tile.kernel = kernels_at(p, room, i);
    tile.col_weight = values.values = fk_values_at(s, &p->sources, i);
    ops->sums(&tile, fk_sweep_flags(s, true, one));
    if (!one) ops->row_values(&values);
  }
}

/* W (K v + w) of rows first .. first + count - 1 of K; 0 in the padding. */
static void weigh(const struct normal *p, const struct normal_room *room, int64_t first, int64_t count) {
  const struct fk_kernel_mode *mode = &p->sweep->mode;
  const struct fk_normal *spec = p->spec;
  int64_t columns = spec->n_columns, panel = mode->ops->panel, m = p->targets->n;
  memset(room->residuals, 0, fk_real_size(mode) * (size_t)(columns * FK_TILE_ROWS));
  for (int64_t v = 0; v < columns; v++) {
    double value_scale = p->sweep->value_scale[v], product_scale = value_scale / p->scale[v];
    for (int64_t r = 0; r < count; r++) {
      if (spec->sums) spec->sums[v * m + first + r] = room->products[v * ROOM_ROWS + r] * value_scale;
      double residual = room->products[v * ROOM_ROWS + r] * product_scale;
      if (spec->w) residual += spec->w[v * m + first + r] / p->scale[v];
      if (spec->weights) residual *= spec->weights[first + r] / p->weight_scale;
      fk_real_set(mode, room->residuals, (r / panel * columns + v) * panel + r % panel, residual);
    }
  }
}

/* K' times that, added to out: backwards, for the last kernels are nearest. */
static void multiply_transposed(const struct normal *p, const struct normal_room *room, int64_t count,
                                double *out) {
  const struct fk_sweep *s = p->sweep;
  const struct fk_tile_ops *ops = s->mode.ops;
  int64_t n = p->sources.end;
  struct fk_tile_values values = {.n_rows = (int)fk_padded(count, ops->row_step), .n_values = s->n_values};
  values.values = room->residuals;
  values.ld = p->padded;
  for (int64_t i = p->padded - FK_TILE_COLS; i >= 0; i -= FK_TILE_COLS) {
    values.n_cols = (int)fk_padded(fk_smaller(FK_TILE_COLS, n - i), ops->panel);
    values.kernel = kernels_at(p, room, i);
    values.out = out + i;
    ops->col_values(&values);
  }
}

/* ---- pieces of the rows ----------------------------------------------------------------------- */

static int64_t partial_size(const struct normal *p) { return p->spec->n_columns * p->padded; }

/* Memory is all that can fail. */
static bool run_piece(const struct normal *p, int64_t piece, struct normal_room *room, double *out) {
  struct fk_error err = {FK_STATUS_OK, ""};
  int64_t first = piece * p->piece, end = fk_smaller(p->targets->n, first + p->piece);
  for (; first < end; first += FK_TILE_COLS) {
    int64_t here = fk_smaller(FK_TILE_COLS, end - first);
    struct fk_picked picked = {p->targets, p->sweep->task->whitening, NULL, first, here};
    if (fk_packed_fill(&room->rows, &p->sweep->mode, &picked, 1, &err)) return false;
    for (int64_t row = 0; row < here; row += p->block) {
      int64_t count = fk_smaller(p->block, here - row);
      multiply(p, room, row, count);
      weigh(p, room, first + row, count);
      multiply_transposed(p, room, count, out);
    }
  }
  return true;
}

/* Pieces of the group that begins with `group`. */
struct normal_pieces {
  const struct normal *normal;
  int64_t group;
  atomic_bool failed;
};

static void run_pieces(void *data, int64_t first, int64_t end, int slot) {
  struct normal_pieces *pieces = data;
  const struct normal *p = pieces->normal;
  for (int64_t i = first; i < end && !pieces->failed; i++)
    if (!run_piece(p, pieces->group + i, &p->rooms[slot], p->partial + i * partial_size(p))) pieces->failed = true;
}

/* Each piece's part joins the first in the order of the pieces, and is cleared for the next. */
struct normal_join {
  const struct normal *normal;
  int64_t count;
};
static void collect(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct normal_join *join = data;
  int64_t size = partial_size(join->normal);
  double *sum = join->normal->partial;
  for (int64_t g = 1; g < join->count; g++) {
    double *part = sum + g * size;
    for (int64_t i = first; i < end; i++) {
      sum[i] += part[i];
      part[i] = 0;
    }
  }
}

static int64_t group_of(const struct normal *p) {
  const struct fk_cpu_cuts *cuts = &fk_costs.cpu_cuts;
  int64_t group = fk_larger(cuts->least_pieces, cuts->group / partial_size(p));
  return fk_smaller(group, fk_pieces(p->targets->n, p->piece));
}

static enum fk_status run_normal(struct normal *p, struct fk_error *err) {
  int64_t pieces = fk_pieces(p->targets->n, p->piece), group = group_of(p), size = partial_size(p);
  int threads = p->sweep->threads;
  enum fk_status status = FK_STATUS_OK;
  struct fk_chunks progress;
  fk_chunks_start(&progress, &p->sweep->opts->poll, threads, (double)pieces,
                  (double)fk_smaller(p->piece, p->targets->n) * (double)p->sources.end);
  for (int64_t first = 0; first < pieces && !status; first += group) {
    int64_t end = fk_smaller(pieces, first + group);
    struct normal_pieces under_way = {p, first, false};
    status = fk_chunks_run(&progress, threads, end - first, 1, run_pieces, &under_way, err);
    if (under_way.failed) status = fk_no_memory(err, 0, "a block of rows");
    struct normal_join join = {p, end - first};
    double bytes = 24.0 * (double)(end - first);
    if (!status) fk_parallel_for(threads, size, fk_step_for_bytes(bytes), collect, &join);
  }
  return status;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static bool room_init(const struct normal *p, struct normal_room *room) {
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_kernel_mode *mode = &p->sweep->mode;
  int64_t columns = p->spec->n_columns;
  size_t real = fk_real_size(mode);
  unsigned parts = fk_mode_is_gram(mode) ? FK_PACKED_CONSTANT : 0;
  size_t kernels = real * (size_t)(p->padded * p->block + MORE_ROWS * FK_TILE_COLS);
  room->kernels = fk_aligned_alloc(kernels);
  room->residuals = fk_aligned_alloc(real * (size_t)(columns * FK_TILE_ROWS));
  room->products = fk_aligned_alloc(sizeof(double) * (size_t)(columns * ROOM_ROWS));
  if (room->kernels) memset(room->kernels, 0, kernels); /* numbers, if only to be left out */
  return room->kernels && room->residuals && room->products &&
         fk_packed_init(&room->rows, mode, FK_TILE_COLS, p->targets->d, parts, &err) == FK_STATUS_OK;
}

static void room_free(struct normal_room *room) {
  fk_packed_free(&room->rows);
  fk_aligned_free(room->kernels);
  fk_aligned_free(room->residuals);
  fk_aligned_free(room->products);
}

static void normal_free(struct normal *p) {
  for (int i = 0; p->rooms && i < p->sweep->threads; i++) room_free(&p->rooms[i]);
  free(p->rooms);
  free(p->scale);
  fk_aligned_free(p->partial);
  fk_sources_free(&p->sources);
}

static enum fk_status allocate(struct normal *p, struct fk_error *err) {
  int64_t columns = p->spec->n_columns, numbers = group_of(p) * partial_size(p);
  int threads = p->sweep->threads;
  p->scale = malloc(sizeof(double) * (size_t)columns);
  p->rooms = calloc((size_t)threads, sizeof *p->rooms);
  p->partial = fk_aligned_alloc(sizeof(double) * (size_t)numbers);
  bool fits = p->scale && p->rooms && p->partial;
  for (int i = 0; i < threads && fits; i++) fits = room_init(p, &p->rooms[i]);
  if (fits) memset(p->partial, 0, sizeof(double) * (size_t)numbers);
  return fits ? FK_STATUS_OK : fk_no_memory(err, 8.0 * (double)numbers, "partial sums");
}

/* |K v| <= n max |v|: in these units residuals are of moderate size. */
static void find_scales(struct normal *p) {
  const struct fk_normal *spec = p->spec;
  int64_t n = p->sources.end, m = p->targets->n;
  int threads = p->sweep->threads;
  p->weight_scale = spec->weights ? fk_largest_absolute(spec->weights, m, threads) : 1;
  for (int64_t v = 0; v < spec->n_columns; v++) {
    double sizes[] = {fk_largest(spec->v + v * n, n, threads),
                      spec->w ? fk_largest(spec->w + v * m, m, threads) : 0};
    p->scale[v] = fk_largest_absolute(sizes, 2, 1);
  }
}

static void deliver(const struct normal *p, double *product) {
  int64_t n = p->sources.end;
  for (int64_t v = 0; v < p->spec->n_columns; v++)
    for (int64_t i = 0; i < n; i++)
      product[v * n + i] = p->partial[v * p->padded + i] * p->scale[v] * p->weight_scale;
}

int64_t fk_sweep_kept_rows(int64_t n, bool single) {
  double most = fk_costs.exact_cpu.normal_bytes / ((double)n * (single ? sizeof(float) : sizeof(double)));
  return most >= 2 * FK_TILE_ROWS ? FK_TILE_ROWS : most >= FK_TILE_ROWS / 2 ? FK_TILE_ROWS / 2 : 0;
}

enum fk_status fk_sweep_normal(const struct fk_sweep *s, const struct fk_normal *normal, double *product,
                               struct fk_error *err) {
  int64_t n = s->task->sources.n, m = normal->rows->x.n;
  struct normal p = {.sweep = s, .spec = normal, .targets = &normal->rows->x};
  p.padded = fk_padded(n, FK_TILE_COLS);
  p.block = fk_sweep_kept_rows(n, s->mode.single);
  p.piece =
      fk_smaller(fk_costs.cpu_cuts.longest_piece, fk_padded(fk_pieces(m, fk_costs.cpu_cuts.pieces), FK_TILE_COLS));
  enum fk_status status = fk_sources_init(&p.sources, s, n, err);
  if (!status) status = fk_sources_pack(&p.sources, s, 0, n, s->threads, err);
  if (!status) status = allocate(&p, err);
  if (!status) find_scales(&p);
  if (!status) status = run_normal(&p, err);
  if (!status) deliver(&p, product);
  normal_free(&p);
  return status;
}

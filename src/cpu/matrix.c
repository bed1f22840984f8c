/* The matrix of kernels itself, as numbers: for preconditioners, and for who wants to look at it. */
#include <math.h>
#include <string.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/dense.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "exact_cpu.h"

struct kernel_matrix {
  struct fk_kernel_mode mode;
  unsigned flags;
  struct fk_packed rows, columns; /* targets and sources; where these are the same, `columns` alone */
  const struct fk_packed *targets;
  bool own; /* targets are the sources: the lower triangle */
  const struct fk_dense *K;
  struct fk_matrix_term term;
  struct fk_scratch tiles;
};

/* Kernels of a tile of targets at a strip of sources. The tile's rows are the sources, so that a column of the
 * matrix is a row of it. */
static void compute_tile(const struct kernel_matrix *p, int64_t target, int64_t source, int64_t count,
                         double *kernel) {
  const struct fk_kernel_mode *mode = &p->mode;
  double unused[FK_TILE_COLS] = {0};
  struct fk_tile tile = {.kernel = kernel, .col_mass = unused};
  fk_packed_rows(&p->columns, mode, source, count, &tile);
  fk_packed_columns(p->targets, mode, target, p->targets->n - target, &tile);
  tile.row_weight = p->columns.ones;
  fk_tile_takes_form(&tile, &mode->form);
  mode->ops->sums(&tile, p->flags);
}

static void fill_strips(void *data, int64_t first, int64_t end, int slot) {
  const struct kernel_matrix *p = data;
  double *kernel = fk_scratch_at(&p->tiles, slot), *K = p->K->data;
  const int64_t m = p->targets->n, n = p->columns.n, ld = p->K->ld;
  for (int64_t strip = first; strip < end; strip++) {
    const int64_t source = strip * FK_TILE_ROWS, count = fk_smaller(FK_TILE_ROWS, n - source);
    for (int64_t target = p->own ? source / FK_TILE_COLS * FK_TILE_COLS : 0; target < m; target += FK_TILE_COLS) {
      const int64_t last = fk_smaller(m, target + FK_TILE_COLS);
      compute_tile(p, target, source, count, kernel);
      for (int64_t i = 0; i < count; i++) {
        const int64_t begin = p->own ? fk_larger(target, source + i) : target;
        double *to = K + (source + i) * ld;
        const double *from = kernel + i * FK_TILE_COLS - target;
        for (int64_t j = begin; j < last; j++) to[j] = p->term.scale * from[j] + (p->term.adds ? to[j] : 0);
      }
    }
  }
}

static enum fk_status run_matrix(struct kernel_matrix *p, const struct fk_opts *opts, struct fk_error *err) {
  const int64_t m = p->targets->n, strips = fk_pieces(p->columns.n, FK_TILE_ROWS);
  const double work = (double)FK_TILE_ROWS * (double)m * (double)(p->columns.d + 20);
  const struct fk_loop loop = fk_loop_of(opts->threads, strips, work);
  if (!fk_scratch_init(&p->tiles, loop.threads, sizeof(double) * FK_TILE_ROWS * FK_TILE_COLS))
    return fk_no_memory(err, 0, "a block of kernels");
  enum fk_status status = fk_loop_run(&loop, &opts->poll, fill_strips, p, err);
  fk_scratch_free(&p->tiles);
  return status;
}

enum fk_status fk_cpu_matrix(const struct fk_task *task, const struct fk_matrix_term *term,
                             const struct fk_opts *opts, const struct fk_dense *K, struct fk_error *err) {
  struct kernel_matrix p = {.own = !task->targets.data, .K = K, .term = *term};
  const struct fk_kernel_form form = fk_task_form(task);
  double radius2 = 0;
  enum fk_status status = fk_cpu_radius2(task, opts->threads, &radius2, err);
  if (status) return status;
  radius2 =
      fmax(radius2, nextafter(fk_costs.limits.gram_f64, INFINITY)); /* by differences, however near they are */
  fk_cpu_choose_mode(FK_PRECISION_DOUBLE, &form, radius2, task->sources.d, &p.mode);
  const struct fk_sweep sweep = {.mode = p.mode};
  p.flags = fk_sweep_flags(&sweep, true, false);
  p.targets = p.own ? &p.columns : &p.rows;
  const struct fk_whitening *by = task->whitening;
  status = fk_packed_all(&p.columns, &p.mode, &task->sources, by, NULL, opts->threads, NULL, err);
  if (!status && !p.own)
    status = fk_packed_all(&p.rows, &p.mode, &task->targets, by, NULL, opts->threads, NULL, err);
  if (!status) status = run_matrix(&p, opts, err);
  fk_packed_free(&p.rows);
  fk_packed_free(&p.columns);
  return status;
}

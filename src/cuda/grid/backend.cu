/* The grid backend of NVIDIA GPUs; see grid/backend.h. */
#include <math.h>

#include "../../core/aligned.h"
#include "../device/common.cuh"
#include "task.cuh"

static struct fk_cuda_grid_task task_of(const struct fk_grid_task *from) {
  struct fk_cuda_grid_task task = {};
  task.sources = from->sources;
  if (!from->same) task.targets = from->targets;
  task.whitening = from->whitening;
  task.b = from->b;
  task.columns = from->columns;
  task.session = from->session;
  task.op = from->op;
  return task;
}

/* ---- all terms -------------------------------------------------------------------------------- */

/* The result of one call, to be added to the sums. */
struct grid_term {
  struct fk_cuda_grid_task task;
  double scale;
  bool first;
};

static enum fk_status add_term(const struct fk_grid_task *task, const struct grid_term *term,
                               struct fk_error *err) {
  int64_t m = task->targets.n, d = task->sources.d;
  enum fk_status status = fk_cuda_grid_sums(&term->task, task->opts, task->stats, err);
  if (!status) fk_grid_join(task, 0, m, term->scale, term->first, term->task.value);
  if (status || !term->task.gradient) return status;
  double *u = (double *)fk_aligned_alloc(sizeof(double) * FK_GRID_CHUNK * (size_t)d);
  if (!u) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for whitened points");
  for (int64_t at = 0; at < m && !status; at += FK_GRID_CHUNK) {
    int64_t count = fk_smaller(FK_GRID_CHUNK, m - at);
    status = fk_whiten_points(task->whitening, task->opts->threads, &task->targets, at, count, u, count, err);
    if (!status) fk_grid_join_coordinates(task, at, count, term->scale, term->task.gradient + at, m, u);
  }
  fk_aligned_free(u);
  return status;
}

static enum fk_status sum_terms(const struct fk_grid_task *task, const struct fk_grid_work *,
                                const struct fk_window *window, bool single, struct fk_error *err) {
  int64_t m = task->targets.n, values = m * task->columns, slopes = task->gradient ? m * task->sources.d : 0;
  enum fk_status status = FK_STATUS_OK;
  /* a single plain column is written to its place directly */
  bool in_place = task->columns == 1 && task->plain == 1 && task->laplace == 0;
  double *memory = (double *)fk_aligned_alloc(sizeof(double) * (size_t)((in_place ? 0 : values) + slopes + 1));
  double *gradient = task->gradient ? memory + (in_place ? 0 : values) : NULL;
  if (!memory) return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for values", 8e-6 * (double)values);
  struct grid_term term = {task_of(task), task->plain, true};
  term.task.window = *window;
  term.task.single = single;
  term.task.value = in_place ? task->mass : memory;
  if (task->plain != 0 || task->laplace == 0) {
    term.task.gradient = task->laplace == 0 ? gradient : NULL;
    status = add_term(task, &term, err);
    term.first = false;
  }
  if (!status && task->laplace != 0) {
    term.task.use = FK_WINDOW_LAPLACE;
    term.task.gradient = gradient;
    term.scale = task->laplace;
    status = add_term(task, &term, err);
  }
  fk_aligned_free(memory);
  return status;
}

/* ---- some rows, and cells --------------------------------------------------------------------- */

static enum fk_status sum_some_rows(const struct fk_grid_task *from, const struct fk_matrix *rows,
                                    const double factor[3], double *sums, double *absolute, struct fk_error *err) {
  static const double plain[3] = {1, 0, 0};
  struct fk_cuda_grid_task task = task_of(from);
  bool has_factor = factor[0] != 1 || factor[1] != 0 || factor[2] != 0;
  fk_host_array<double> unused(task.columns * rows->n);
  if (!unused.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a sample of rows");
  FK_TRY(fk_cuda_grid_rows(&task, rows, factor, from->opts, sums, absolute && !has_factor ? absolute : unused.at,
                           err));
  if (!absolute || !has_factor) return FK_STATUS_OK;
  return fk_cuda_grid_rows(&task, rows, plain, from->opts, unused.at, absolute, err);
}

static enum fk_status find_cells(const struct fk_grid_task *from, bool counted, double most_nodes,
                                 struct fk_grid_cells *cells, struct fk_error *err) {
  struct fk_cuda_grid_task task = task_of(from);
  return fk_cuda_grid_envelope(&task, from->size, counted, most_nodes, from->opts, cells, err);
}

const struct fk_grid_backend fk_grid_cuda = {
    .exact = &fk_engine_exact_cuda,
    .direct = false,
    .several = false,
    .costs = &fk_costs.grid_cuda.device,
    .unit = 0x1p-60,
    .seconds = fk_cuda_grid_seconds,
    .bytes = fk_cuda_grid_bytes,
    .terms = sum_terms,
    .rows = sum_some_rows,
    .cells = find_cells,
};

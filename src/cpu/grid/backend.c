/* The CPU's grid, as grid/backend.h has it: all terms by spreading, filtering, interpolating, chunk by chunk. */
#include "../../grid/backend.h"
#include "../../core/costs.h"

#include <stdlib.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/kept.h"
#include "../direct/check.h"
#include "grid.h"

/* One side's points, a chunk at a time, or all of them sorted. */
struct grid_side {
  const struct fk_matrix *points;
  double *u; /* d x size */
  int64_t size;
};

static enum fk_status side_init(struct grid_side *side, const struct fk_grid_task *task,
                                const struct fk_matrix *points, int64_t size, struct fk_error *err) {
  side->points = points;
  side->size = fk_smaller(size, points->n);
  side->u = fk_aligned_alloc(sizeof(double) * (size_t)(side->size * task->sources.d));
  if (!side->u) return fk_no_memory(err, 8.0 * (double)side->size * (double)task->sources.d, "whitened points");
  return FK_STATUS_OK;
}

/* The next of its points, whitened. */
static enum fk_status side_fetch(const struct grid_side *side, const struct fk_grid_task *task, int64_t at,
                                 struct fk_grid_points *points, struct fk_error *err) {
  int64_t count = fk_smaller(side->size, side->points->n - at);
  *points = (struct fk_grid_points){side->u, count, count};
  return fk_whiten_points(task->whitening, task->opts->threads, side->points, at, count, side->u, count, err);
}

/* Cached by an operator: its points in the order of a grid, and that grid, for one window. */
struct grid_kept {
  struct fk_window window;
  bool single, once;
  unsigned use;
  int64_t columns;
  int threads;
  struct fk_sorted *sorted; /* of the window's spacing */
  struct fk_grid *grid;     /* expects the sources themselves, `once`; NULL: there is none */
};

static void free_kept(void *state) {
  struct grid_kept *kept = state;
  fk_sorted_free(kept->sorted);
  fk_grid_free(kept->grid);
  free(kept);
}

/* Bytes of the sorted points. */
static double sorted_bytes(const struct fk_grid_task *task) {
  return (double)task->sources.n * (8.0 * (double)task->sources.d + 4);
}

/* Points that are too many are sorted again for every sum. */
static bool may_keep(const struct fk_grid_task *task) {
  return task->op && sorted_bytes(task) <= fk_kept_limit(task->opts);
}

struct grid_pass {
  const struct fk_grid_task *task;
  struct grid_side sources, targets;
  bool once;                /* targets are sorted once, for both uses of them */
  bool keeps;               /* what it makes is for the next sum, too */
  struct fk_sorted *sorted; /* the sources, or NULL */
  struct fk_sorted *at;     /* the targets, which may be `sorted`, or NULL */
  bool whitened;            /* all targets are in targets.u */
  struct fk_grid *grid;
  double *memory;
  double *value, *gradient; /* of a chunk of targets, or all; value may be where the sums go */
};

static enum fk_status add_sources(struct grid_pass *p, struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  enum fk_status status = FK_STATUS_OK;
  if (p->sorted) return fk_grid_add_sorted(p->grid, p->sorted, task->b, task->sources.n, err);
  for (int64_t at = 0; at < task->sources.n && !status; at += p->sources.size) {
    struct fk_grid_points points;
    status = side_fetch(&p->sources, task, at, &points, err);
    if (!status) status = fk_grid_add(p->grid, &points, task->b ? task->b + at : NULL, task->sources.n, err);
  }
  return status;
}

/* Only the blocks around targets are filtered. */
static enum fk_status expect_targets(struct grid_pass *p, struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  enum fk_status status = FK_STATUS_OK;
  if (p->once) return fk_grid_expect_sorted(p->grid, p->at, err);
  for (int64_t at = 0; at < task->targets.n && !status; at += p->targets.size) {
    struct fk_grid_points points;
    status = side_fetch(&p->targets, task, at, &points, err);
    if (!status) status = fk_grid_expect(p->grid, &points, err);
  }
  return status;
}

/* One term of the factor. Where there are coordinates it is the last that brings gradients. */
struct grid_term {
  double scale;
  bool first, gradient;
};

/* Values of the targets join the sums. */
static enum fk_status evaluate_term(struct grid_pass *p, const struct grid_term *term, struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  enum fk_status status = FK_STATUS_OK;
  int64_t size = p->once ? task->targets.n : p->targets.size;
  for (int64_t at = 0; at < task->targets.n && !status; at += size) {
    int64_t count = fk_smaller(size, task->targets.n - at);
    double *slope = term->gradient ? p->gradient : NULL;
    if (p->once) {
      struct fk_grid_points all;
      if (slope && !p->whitened)
        status = side_fetch(&p->targets, task, 0, &all, err); /* kept ones were sorted before */
      p->whitened = true;
      if (!status) status = fk_grid_evaluate_sorted(p->grid, p->at, p->value, slope, count, err);
    } else {
      struct fk_grid_points points;
      status = side_fetch(&p->targets, task, at, &points, err);
      if (!status) status = fk_grid_evaluate(p->grid, &points, p->value, slope, count, err);
    }
    if (status) break;
    fk_grid_join(task, at, count, term->scale, term->first, p->value);
    if (slope) fk_grid_join_coordinates(task, at, count, term->scale, slope, count, p->targets.u);
  }
  return status;
}

/* The points of a side in the grid's order. */
static enum fk_status sort_side(struct grid_pass *p, const struct grid_side *side, struct fk_sorted **sorted,
                                struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int64_t at = 0; at < side->points->n && !status; at += side->size) {
    struct fk_grid_points points;
    status = side_fetch(side, p->task, at, &points, err);
    if (!status) status = fk_grid_sort(p->grid, &points, sorted, err);
  }
  return status;
}

/* Those that are used more than once, of which an operator may have the sources already. */
static enum fk_status sort_points(struct grid_pass *p, struct fk_error *err) {
  bool same = p->task->same, needed = p->keeps || (same && p->once);
  enum fk_status status = FK_STATUS_OK;
  if (needed && !p->sorted) {
    status = sort_side(p, &p->sources, &p->sorted, err);
    p->whitened = same && p->sources.size >= p->task->sources.n;
  }
  if (same) p->at = p->sorted;
  if (p->once && !p->at && !status) {
    status = sort_side(p, &p->targets, &p->at, err);
    p->whitened = p->targets.size >= p->task->targets.n;
  }
  return status;
}

/* The grid of the last sum, where it is of this kind. */
static bool take_kept(struct grid_pass *p, unsigned use, const struct fk_window *window, bool single) {
  const struct fk_grid_task *task = p->task;
  struct grid_kept *kept = p->keeps ? fk_kept_use(task->op, FK_KEEPER_GRID) : NULL;
  if (!kept || !kept->sorted || kept->window.spacing != window->spacing || kept->single != single) return false;
  p->sorted = kept->sorted;
  kept->sorted = NULL;
  bool same = kept->grid && p->once && kept->once && task->same && fk_window_equal(&kept->window, window) &&
              kept->use == use && kept->columns == task->columns &&
              kept->threads == fk_threads(task->opts->threads);
  if (!same) return false;
  p->at = p->sorted;
  p->grid = kept->grid;
  kept->grid = NULL;
  fk_grid_restart(p->grid, &task->opts->poll);
  return true;
}

/* Caches the sorted points for the next sum, and the grid, too, if there is room for both. */
static void keep(struct grid_pass *p, unsigned use, const struct fk_window *window, bool single) {
  const struct fk_grid_task *task = p->task;
  struct grid_kept *kept = p->keeps ? malloc(sizeof *kept) : NULL;
  if (!kept) return;
  double bytes = sorted_bytes(task), grid_bytes = fk_grid_held(p->grid);
  *kept = (struct grid_kept){.window = *window,
                             .single = single,
                             .once = p->once && task->same,
                             .use = use,
                             .columns = task->columns,
                             .threads = fk_threads(task->opts->threads),
                             .sorted = p->sorted};
  if (p->at == p->sorted) p->at = NULL;
  p->sorted = NULL;
  if (bytes + grid_bytes <= fk_kept_limit(task->opts)) {
    bytes += grid_bytes;
    kept->grid = p->grid;
    p->grid = NULL;
  }
  fk_keep(task->op, FK_KEEPER_GRID, (struct fk_kept){.state = kept, .free = free_kept, .bytes = bytes},
          task->opts);
}

static enum fk_status make_grid(struct grid_pass *p, unsigned use, const struct fk_window *window, bool single,
                                struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  if (take_kept(p, use, window, single)) return add_sources(p, err);
  struct fk_grid_spec spec = {.d = (int)task->sources.d, .columns = task->columns, .use = use, .single = single};
  spec.window = *window;
  spec.threads = task->opts->threads;
  spec.poll = task->opts->poll;
  enum fk_status status = fk_grid_create(&spec, &p->grid, err);
  if (!status) status = sort_points(p, err);
  if (!status) status = expect_targets(p, err);
  if (!status) status = add_sources(p, err);
  return status;
}

static enum fk_status filter_grid(struct grid_pass *p, const struct fk_grid_work *work, struct fk_error *err) {
  if (work->kernels < 2) return fk_grid_convolve(p->grid, 1, err);
  return fk_grid_convolve_sum(p->grid, work->scales, work->weights, work->kernels, err);
}

static enum fk_status run_term(struct grid_pass *p, const struct fk_grid_work *work,
                               const struct fk_window *window, bool single, struct grid_term term, bool last,
                               struct fk_error *err) {
  unsigned use = (last && p->task->laplace != 0 ? FK_WINDOW_LAPLACE : 0) |
                 (term.gradient ? FK_WINDOW_GRADIENT : FK_WINDOW_VALUE);
  enum fk_status status = make_grid(p, use, window, single, err);
  if (!status) status = filter_grid(p, work, err);
  if (!status) status = evaluate_term(p, &term, err);
  if (!status && last) keep(p, use, window, single);
  fk_grid_free(p->grid);
  p->grid = NULL;
  return status;
}

/* All terms with one window. */
static enum fk_status run_terms(struct grid_pass *p, const struct fk_grid_work *work,
                                const struct fk_window *window, bool single, struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  bool laplace = task->laplace != 0, plain = task->plain != 0 || !laplace;
  struct grid_term first = {task->plain, true, task->gradient && !laplace};
  struct grid_term second = {task->laplace, task->plain == 0, task->gradient};
  enum fk_status status = plain ? run_term(p, work, window, single, first, !laplace, err) : FK_STATUS_OK;
  if (!status && laplace) status = run_term(p, work, window, single, second, true, err);
  return status;
}

static enum fk_status pass_init(struct grid_pass *p, struct fk_error *err) {
  const struct fk_grid_task *task = p->task;
  /* other targets than the sources are more memory: a few chunks of them */
  p->once = (double)task->targets.n <= (task->same ? fk_costs.grid_cpu.sorted_once : 4.0 * FK_GRID_CHUNK);
  p->keeps = may_keep(task);
  /* those who take gradients look at the points again */
  int64_t size = p->once && task->gradient ? task->targets.n : FK_GRID_CHUNK;
  enum fk_status status = side_init(&p->sources, task, &task->sources, task->same ? size : FK_GRID_CHUNK, err);
  if (status) return status;
  p->targets = p->sources;
  if (!task->same) status = side_init(&p->targets, task, &task->targets, size, err);
  bool in_place = p->once && task->columns == 1 && task->plain == 1 && task->laplace == 0;
  int64_t rows = p->once ? task->targets.n : p->targets.size, values = in_place ? 0 : rows * task->columns;
  int64_t slopes = task->gradient ? rows * task->sources.d : 0;
  p->memory = fk_aligned_alloc(sizeof(double) * (size_t)(values + slopes));
  p->value = in_place ? task->mass : p->memory;
  p->gradient = p->memory + values;
  if (!status && !p->memory) status = fk_no_memory(err, 8.0 * (double)(values + slopes), "values");
  return status;
}

static void pass_free(struct grid_pass *p) {
  if (p->targets.u != p->sources.u) fk_aligned_free(p->targets.u);
  fk_aligned_free(p->sources.u);
  fk_aligned_free(p->memory);
  if (p->at != p->sorted) fk_sorted_free(p->at);
  fk_sorted_free(p->sorted);
  fk_grid_free(p->grid);
}

static enum fk_status sum_terms(const struct fk_grid_task *task, const struct fk_grid_work *work,
                                const struct fk_window *window, bool single, struct fk_error *err) {
  struct grid_pass p = {.task = task};
  enum fk_status status = pass_init(&p, err);
  if (!status) status = run_terms(&p, work, window, single, err);
  pass_free(&p);
  return status;
}

/* ---- sums of some rows ------------------------------------------------------------------------ */

static enum fk_status sum_some_rows(const struct fk_grid_task *task, const struct fk_matrix *rows,
                                    const double factor[3], double *sums, double *absolute, struct fk_error *err) {
  struct fk_check check;
  int threads = task->opts->threads;
  enum fk_status status = fk_check_init(&check, task->whitening, rows, task->columns, threads, err);
  check.apart = absolute != NULL; /* who asks for them knows that they differ */
  if (!status) status = fk_check_add(&check, task->whitening, factor, &task->sources, task->b, threads, err);
  for (int64_t c = 0; c < task->columns && !status; c++)
    for (int64_t r = 0; r < rows->n; r++) {
      sums[c * rows->n + r] = check.sums[c * FK_CHECK_ROWS + r];
      if (absolute) absolute[c * rows->n + r] = fk_check_absolute(&check, c)[r];
    }
  fk_check_free(&check);
  return status;
}

const struct fk_grid_backend fk_grid_cpu = {
    .exact = &fk_engine_exact_cpu,
    .direct = true,
    .several = true,
    .costs = &fk_costs.grid_cpu.device,
    .seconds = fk_grid_seconds_alone,
    .bytes = fk_grid_bytes,
    .terms = sum_terms,
    .rows = sum_some_rows,
};

/* The terms of the fast engine's sums by the grid on the CPU: spread, filter, interpolate. */
#include <stdlib.h>

#include "../../core/aligned.h"
#include "../../fast/engine.h"

/* Points that are both sources and targets are sorted once while they are few enough to be held a second time. */
enum { SORTED_ONCE = 1 << 27 };

/* One side's points, a chunk at a time, or all of them sorted. */
struct side {
  const struct fk_points *points;
  double *u; /* d x size */
  int64_t size;
};

static enum fk_status side_init(struct side *side, const struct fk_fast_job *job, const struct fk_points *points,
                                int64_t size, struct fk_error *err) {
  side->points = points;
  side->size = fk_smaller(size, points->n);
  side->u = fk_aligned_alloc(sizeof(double) * (size_t)(side->size * job->d));
  if (!side->u)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for whitened points",
                   8e-6 * (double)side->size * (double)job->d);
  return FK_STATUS_OK;
}

struct pass {
  struct fk_fast_job *job;
  struct side sources, targets;
  bool once;                /* both sides are the same points, sorted once */
  struct fk_sorted *sorted; /* those, or NULL */
  struct fk_grid *grid;
  double *memory;
  double *value, *gradient; /* of a chunk of targets, or all; value may be where the sums go */
};

static enum fk_status add_sources(struct pass *p, struct fk_error *err) {
  struct fk_fast_job *job = p->job;
  enum fk_status status = FK_STATUS_OK;
  if (p->sorted) return fk_grid_add_sorted(p->grid, p->sorted, job->b, job->n, err);
  for (int64_t at = 0; at < job->n && !status; at += p->sources.size) {
    int64_t count = fk_smaller(p->sources.size, job->n - at);
    struct fk_grid_points points = {p->sources.u, count, count};
    status = fk_fast_whiten(job, p->sources.points, at, count, p->sources.u, count, err);
    if (!status) status = fk_grid_add(p->grid, &points, job->b ? job->b + at : NULL, job->n, err);
  }
  return status;
}

/* Only the blocks around targets are filtered. */
static enum fk_status expect_targets(struct pass *p, struct fk_error *err) {
  struct fk_fast_job *job = p->job;
  enum fk_status status = FK_STATUS_OK;
  if (p->sorted) return fk_grid_expect_sorted(p->grid, p->sorted, err);
  for (int64_t at = 0; at < job->m && !status; at += p->targets.size) {
    int64_t count = fk_smaller(p->targets.size, job->m - at);
    struct fk_grid_points points = {p->targets.u, count, count};
    status = fk_fast_whiten(job, p->targets.points, at, count, p->targets.u, count, err);
    if (!status) status = fk_grid_expect(p->grid, &points, err);
  }
  return status;
}

/* What is done with the values of targets at .. at + count - 1; u: their whitened coordinates. */
typedef void use_fn(struct pass *p, int64_t at, int64_t count, const double *u, void *data);

static enum fk_status evaluate(struct pass *p, bool gradient, use_fn *use, void *data, struct fk_error *err) {
  struct fk_fast_job *job = p->job;
  enum fk_status status = FK_STATUS_OK;
  int64_t size = p->sorted ? job->m : p->targets.size;
  for (int64_t at = 0; at < job->m && !status; at += size) {
    int64_t count = fk_smaller(size, job->m - at);
    struct fk_grid_points points = {p->targets.u, count, count};
    double *slope = gradient ? p->gradient : NULL;
    if (p->sorted) {
      status = fk_grid_evaluate_sorted(p->grid, p->sorted, p->value, slope, count, err);
    } else {
      status = fk_fast_whiten(job, p->targets.points, at, count, p->targets.u, count, err);
      if (!status) status = fk_grid_evaluate(p->grid, &points, p->value, slope, count, err);
    }
    if (!status) use(p, at, count, p->targets.u, data);
  }
  return status;
}

struct term {
  double scale;
  bool first, gradient;
};

/* One term of the factor joins the sums; where there are coordinates it is the last that brings gradients. */
static void take(struct pass *p, int64_t at, int64_t count, const double *u, void *data) {
  const struct term *term = data;
  fk_fast_add(p->job, at, count, term->scale, term->first, p->value);
  if (term->gradient) fk_fast_set_coordinates(p->job, at, count, term->scale, p->gradient, count, u);
}

static enum fk_status make_grid(struct pass *p, unsigned use, const struct fk_window *window, bool single,
                                struct fk_error *err) {
  struct fk_fast_job *job = p->job;
  struct fk_grid_spec spec = {.d = (int)job->d, .columns = job->columns, .use = use, .single = single};
  spec.window = *window;
  spec.threads = job->opts->threads;
  spec.poll = job->opts->poll;
  enum fk_status status = fk_grid_create(&spec, &p->grid, err);
  bool to_sort = p->once && !p->sorted;
  for (int64_t at = 0; at < job->n && to_sort && !status; at += p->sources.size) {
    int64_t count = fk_smaller(p->sources.size, job->n - at);
    struct fk_grid_points points = {p->sources.u, count, count};
    status = fk_fast_whiten(job, p->sources.points, at, count, p->sources.u, count, err);
    if (!status) status = fk_grid_sort(p->grid, &points, &p->sorted, err);
  }
  if (!status) status = expect_targets(p, err);
  if (!status) status = add_sources(p, err);
  return status;
}

static enum fk_status filter(struct pass *p, const struct fk_grid_work *work, struct fk_error *err) {
  if (work->kernels < 2) return fk_grid_convolve(p->grid, 1, err);
  return fk_grid_convolve_sum(p->grid, work->scales, work->weights, work->kernels, err);
}

/* All terms with one window. */
static enum fk_status run(struct pass *p, const struct fk_grid_work *work, const struct fk_window *window,
                          bool single, struct fk_error *err) {
  struct fk_fast_job *job = p->job;
  enum fk_status status = FK_STATUS_OK;
  bool last_is_laplace = job->laplace != 0;
  if (job->plain != 0 || !last_is_laplace) {
    struct term plain = {job->plain, true, job->gradient && !last_is_laplace};
    status = make_grid(p, plain.gradient ? FK_WINDOW_GRADIENT : FK_WINDOW_VALUE, window, single, err);
    if (!status) status = filter(p, work, err);
    if (!status) status = evaluate(p, plain.gradient, take, &plain, err);
    fk_grid_free(p->grid);
    p->grid = NULL;
  }
  if (!status && last_is_laplace) {
    struct term laplace = {job->laplace, job->plain == 0, job->gradient};
    unsigned use = FK_WINDOW_LAPLACE | (job->gradient ? FK_WINDOW_GRADIENT : 0);
    status = make_grid(p, use, window, single, err);
    if (!status) status = fk_grid_convolve(p->grid, 1, err);
    if (!status) status = evaluate(p, job->gradient, take, &laplace, err);
    fk_grid_free(p->grid);
    p->grid = NULL;
  }
  return status;
}

static enum fk_status prepare(struct pass *p, struct fk_fast_job *job, struct fk_error *err) {
  p->once = job->same && job->n <= SORTED_ONCE;
  /* those who take gradients look at the points again */
  int64_t size = p->once && job->gradient ? job->n : FK_FAST_CHUNK;
  enum fk_status status = side_init(&p->sources, job, &job->task->sources, size, err);
  if (status) return status;
  p->targets = p->sources;
  if (!job->same) status = side_init(&p->targets, job, &job->task->targets, size, err);
  bool in_place = p->once && job->columns == 1 && job->plain == 1 && job->laplace == 0;
  int64_t rows = p->once ? job->m : p->targets.size, values = in_place ? 0 : rows * job->columns;
  int64_t slopes = job->gradient ? rows * job->d : 0;
  p->memory = fk_aligned_alloc(sizeof(double) * (size_t)(values + slopes));
  p->value = in_place ? job->task->mass : p->memory;
  p->gradient = p->memory + values;
  if (!status && !p->memory)
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for values", 8e-6 * (double)(values + slopes));
  return status;
}

static void finish(struct pass *p) {
  if (p->targets.u != p->sources.u) fk_aligned_free(p->targets.u);
  fk_aligned_free(p->sources.u);
  fk_aligned_free(p->memory);
  fk_sorted_free(p->sorted);
  fk_grid_free(p->grid);
}

enum fk_status fk_fast_terms_cpu(struct fk_fast_job *job, const struct fk_grid_work *work,
                                 const struct fk_window *window, bool single, struct fk_error *err) {
  struct pass p = {.job = job};
  enum fk_status status = prepare(&p, job, err);
  if (!status) status = run(&p, work, window, single, err);
  finish(&p);
  job->used_single = single;
  return status;
}

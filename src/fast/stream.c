#include "stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/plan.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"
#include "../cpu/direct/direct.h"
#include "guess.h"
#include "stream_state.h"

static const double plain[3] = {1, 0, 0};

static int poll_call(void *data, double fraction) {
  struct fk_stream *s = data;
  s->furthest = fmax(s->furthest, s->done + s->share * fraction);
  return s->poll && s->poll->fn ? s->poll->fn(s->poll->data, s->furthest) : 0;
}

static enum fk_status no_memory(struct fk_error *err, const char *what) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for %s of a stream of points", what);
}

/* ---- which way -------------------------------------------------------------------------------- */

/* The number of columns as struct fk_work counts it, without the mass. */
static double n_values(const struct fk_stream *s) { return s->columns > 1 ? (double)s->columns : 0; }

/* Seconds of the same sums part by part, by the engine that would take them. Methods differ in their last bits,
 * which are not to depend on the threads: on the CPU all is for one. */
static enum fk_status seconds_by_parts(const struct fk_stream *s, const struct fk_stream_spec *spec,
                                       const struct fk_matrix *x, const struct fk_matrix *y,
                                       const struct fk_engine *engine, double *seconds, struct fk_error *err) {
  struct fk_opts alone = s->opts;
  double n = fmax(1, spec->n / spec->chunks), m = fmax(1, spec->m / spec->pieces);
  double calls = spec->chunks * spec->pieces;
  struct fk_work work = {n, m, (double)s->d, n_values(s), {.id = FK_KERNEL_GAUSSIAN}, FK_OP_SUMS};
  alone.threads = 1;
  if (engine->backend == FK_BACKEND_CUDA) {
    *seconds = calls * engine->seconds(&work, &s->opts);
    return FK_STATUS_OK;
  }
  bool single = fk_fast_may_be_single(&s->opts, spec->part_tol);
  struct fk_direct_options options = {single, 1, s->opts.poll};
  struct fk_direct_cost direct = {0, INFINITY};
  struct fk_direct_question question = {*x, *y, n, m, s->columns, .tol = spec->part_tol};
  enum fk_status status = FK_STATUS_OK;
  *seconds = s->opts.engine == FK_ENGINE_FAST ? INFINITY : calls * fk_engine_exact_cpu.seconds(&work, &alone);
  if (n < 0x1p32 && calls * fk_direct_least_seconds(n, m, 1) < *seconds)
    status = fk_direct_guess(&question, &options, &direct, err);
  *seconds = fmin(*seconds, calls * direct.seconds);
  return status;
}

static enum fk_status envelope_of(const struct fk_stream *s, double points, struct fk_envelope **envelope,
                                  struct fk_error *err) {
  struct fk_envelope_spec spec = {.d = (int)s->d, .threads = s->opts.threads, .plain = 1, .points = points};
  return fk_envelope_create(&spec, envelope, err);
}

/* The largest error of a window and, where sum is not NULL, a bound of the largest sum. */
static enum fk_status error_of(struct fk_envelope *e, const struct fk_window *window, bool single, double *error,
                               double *sum, struct fk_error *err) {
  const struct fk_envelope_cell *cells;
  enum fk_status status = fk_envelope_bound(e, window, fk_fast_rounding(single, 0, true), err);
  if (status) return status;
  double most[2] = {0, 0};
  int64_t n = fk_envelope_cells(e, &cells);
  for (int64_t i = 0; i < n; i++) {
    most[0] = fmax(most[0], cells[i].error);
    most[1] = fmax(most[1], cells[i].sum);
  }
  *error = most[0];
  if (sum) *sum = most[1];
  return FK_STATUS_OK;
}

/* The cheapest window that keeps the tolerance on samples, with something to spare. */
static enum fk_status choose_window(struct fk_stream *s, const struct fk_grid_points *x,
                                    const struct fk_grid_points *y, const struct fk_grid_work *work,
                                    struct fk_grid_spec *grid, double *seconds, struct fk_error *err) {
  double tol = s->opts.tol / 3, error = INFINITY, sum = 0;
  bool may = fk_fast_may_be_single(&s->opts, s->opts.tol);
  struct fk_envelope *e = NULL;
  enum fk_status status = envelope_of(s, (double)x->n, &e, err);
  struct fk_envelope_points sources = {.whitened = x}, targets = {.whitened = y};
  if (!status) status = fk_envelope_add(e, &sources, false, err);
  if (!status) status = fk_envelope_expect(e, &targets, err);
  for (int trial = 0; trial < 4 && !status && error > s->opts.tol / 1.5; trial++) {
    grid->single = may;
    status = fk_grid_choose(work, tol, fk_grid_seconds_alone, &grid->single, &grid->window, seconds, err);
    if (!status) status = error_of(e, &grid->window, grid->single, &error, &sum, err);
    error = sum > 0 ? error / (0.5 * sum) : INFINITY; /* the largest sum is hardly less than half of its bound */
    tol *= fmin(0.5, 0.5 * s->opts.tol / error);
  }
  if (error > s->opts.tol) *seconds = INFINITY; /* too far out, too: no window keeps it */
  if (!status) fk_stream_find_anchors(s, e);
  fk_envelope_free(e);
  return status;
}

/* The window, unless other engines are to be preferred. */
static enum fk_status choose_grid(struct fk_stream *s, const struct fk_stream_spec *spec,
                                  struct fk_grid_spec *grid, bool *wanted, struct fk_error *err) {
  const struct fk_opts *opts = &s->opts;
  bool forced = !fk_fast_may_be(&s->opts, FK_METHOD_DIRECT);
  int64_t n = spec->sources.n, m = spec->targets.n, d = s->d;
  struct fk_work size = {spec->n, spec->m, (double)d, n_values(s), {.id = FK_KERNEL_GAUSSIAN}, FK_OP_SUMS};
  struct fk_grid_work work = {.n = spec->n, .m = spec->m, .d = (int)d, .columns = s->columns};
  struct fk_plan_choice choice;
  double seconds, by_parts = INFINITY;
  *wanted = false;
  if (!fk_fast_may_be(&s->opts, FK_METHOD_GRID)) return FK_STATUS_OK;
  double *u = malloc(sizeof(double) * (size_t)((n + m) * d));
  if (!u) return no_memory(err, "a sample");
  struct fk_matrix x = fk_doubles(u, n, d), y = fk_doubles(u + n * d, m, d);
  struct fk_grid_points points = {u, n, n}, aims = {u + n * d, m, m};
  enum fk_status status = fk_whiten_points(&s->whitening, opts->threads, &spec->sources, 0, n, u, n, err);
  if (!status) status = fk_whiten_points(&s->whitening, opts->threads, &spec->targets, 0, m, u + n * d, m, err);
  if (!status) status = fk_grid_survey(&points, spec->n, (int)d, &work, err);
  if (!status) status = choose_window(s, &points, &aims, &work, grid, &seconds, err);
  if (!status) status = fk_plan_choose(opts, &size, &choice, &s->stats, err);
  if (!status && choice.engine->backend == FK_BACKEND_CUDA)
    seconds = fk_grid_seconds(&work, &grid->window, grid->single, opts->threads);
  if (!status && !forced) status = seconds_by_parts(s, spec, &x, &y, choice.engine, &by_parts, err);
  free(u);
  if (!status)
    fk_plan_say_seconds(&s->stats, 0, 2, (const char *[]){"one grid", "chunks by themselves"},
                        (const double[]){seconds, by_parts});
  *wanted = !status && seconds < by_parts && fk_grid_bytes(&work, &grid->window, grid->single) < grid->most_bytes;
  return status;
}

/* ---- opening and closing ---------------------------------------------------------------------- */

static enum fk_status prepare_stream(struct fk_stream *s, const struct fk_stream_spec *spec,
                                     struct fk_error *err) {
  int64_t d = s->d;
  s->chol = malloc(sizeof(double) * (size_t)(d * d));
  s->exponent = calloc((size_t)s->columns, sizeof *s->exponent);
  s->scaled = calloc((size_t)s->columns, sizeof *s->scaled);
  if (!s->chol || !s->exponent || !s->scaled) return no_memory(err, "the checks");
  memcpy(s->chol, spec->chol, sizeof(double) * (size_t)(d * d));
  return fk_whitening_init(&s->whitening, s->chol, &spec->sources, NULL, s->opts.threads, err);
}

enum fk_status fk_stream_start(struct fk_stream *s, double points, struct fk_error *err) {
  s->expected = points;
  s->spec.poll = (struct fk_poll){poll_call, s};
  enum fk_status status = fk_grid_create(&s->spec, &s->grid, err);
  return status ? status : envelope_of(s, points, &s->envelope, err);
}

static enum fk_status start(struct fk_stream *s, const struct fk_stream_spec *spec,
                            const struct fk_grid_spec *grid, struct fk_error *err) {
  s->window = grid->window;
  s->single = grid->single;
  s->spec = *grid;
  enum fk_status status = fk_stream_start(s, spec->n, err);
  if (!status) status = fk_stream_start_checks(s, spec, err);
  fk_engine_exact_cpu.describe(&s->opts, &s->stats);
  s->stats.engine = "fast";
  s->stats.method = "grid";
  s->stats.precision = grid->single ? "single" : "double";
  return status;
}

enum fk_status fk_stream_open(const struct fk_stream_spec *spec, const struct fk_opts *opts,
                              struct fk_stream **stream, struct fk_error *err) {
  struct fk_grid_spec grid = {.d = (int)spec->sources.d, .columns = spec->columns, .threads = opts->threads};
  double began = fk_seconds();
  bool wanted = false;
  *stream = NULL;
  struct fk_stream *s = calloc(1, sizeof *s);
  if (!s) return no_memory(err, "the plan");
  s->opts = *opts;
  s->d = spec->sources.d;
  s->columns = spec->columns;
  s->m = (int64_t)spec->m;
  grid.poll = (struct fk_poll){poll_call, s};
  grid.most_bytes = fmin(spec->most_bytes, fk_grid_cpu.costs->most_bytes);
  enum fk_status status = prepare_stream(s, spec, err);
  if (!status) status = choose_grid(s, spec, &grid, &wanted, err);
  if (!status && wanted) status = start(s, spec, &grid, err);
  s->opts.poll = (struct fk_poll){NULL, NULL};
  s->stats.seconds = fk_seconds() - began;
  if (!status && wanted) {
    *stream = s;
    return FK_STATUS_OK;
  }
  fk_stream_free(s);
  if (status != FK_STATUS_UNSUPPORTED) return status;
  *err = (struct fk_error){FK_STATUS_OK, ""};
  return FK_STATUS_OK;
}

void fk_stream_free(struct fk_stream *s) {
  if (!s) return;
  fk_grid_free(s->grid);
  fk_envelope_free(s->envelope);
  fk_check_free(&s->check);
  fk_whitening_free(&s->whitening);
  fk_aligned_free(s->u);
  fk_aligned_free(s->b);
  free(s->exponent);
  free(s->scaled);
  free(s->chol);
  free(s->got);
  free(s);
}

int64_t fk_stream_d(const struct fk_stream *stream) { return stream->d; }
int64_t fk_stream_columns(const struct fk_stream *stream) { return stream->columns; }

/* ---- points ----------------------------------------------------------------------------------- */

/* A step of a call, on its whitened points first .. first + u->n - 1. */
typedef enum fk_status step_fn(struct fk_stream *s, const struct fk_grid_points *u, int64_t first, void *data,
                               struct fk_error *err);

static enum fk_status each_step(struct fk_stream *s, const struct fk_matrix *points, step_fn *step, void *data,
                                struct fk_error *err) {
  int64_t size = fk_smaller(points->n, FK_GRID_CHUNK);
  enum fk_status status = FK_STATUS_OK;
  if (size > s->u_rows) {
    fk_aligned_free(s->u);
    s->u_rows = size;
    s->u = fk_aligned_alloc(sizeof(double) * (size_t)(size * s->d));
    if (!s->u) s->u_rows = 0;
    if (!s->u) return no_memory(err, "a chunk");
  }
  for (int64_t first = 0; first < points->n && !status; first += size) {
    struct fk_grid_points u = {s->u, fk_smaller(size, points->n - first), 0};
    u.ld = u.n;
    s->done = (double)first / (double)points->n;
    s->share = (double)u.n / (double)points->n;
    status = fk_whiten_points(&s->whitening, s->opts.threads, points, first, u.n, s->u, u.n, err);
    if (!status) status = step(s, &u, first, data, err);
  }
  return status;
}

/* A call as a whole: with its poll, its seconds, and no other after one that failed. */
static enum fk_status run_call(struct fk_stream *s, const struct fk_matrix *points, const struct fk_poll *poll,
                               step_fn *step, void *data, struct fk_error *err) {
  double began = fk_seconds();
  if (s->failed) return fk_fail(err, FK_STATUS_INVALID, "the stream cannot be used after a failure");
  s->poll = poll;
  s->furthest = 0;
  enum fk_status status = each_step(s, points, step, data, err);
  if (!status && poll_call(s, 1)) status = fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  s->poll = NULL;
  s->failed = status != FK_STATUS_OK;
  s->stats.seconds += fk_seconds() - began;
  return status;
}

static enum fk_status expect(struct fk_stream *s, const struct fk_grid_points *u, FK_UNUSED int64_t first,
                             FK_UNUSED void *data, struct fk_error *err) {
  return fk_grid_expect(s->grid, u, err);
}

enum fk_status fk_stream_expect(struct fk_stream *s, const struct fk_matrix *targets, const struct fk_poll *poll,
                                struct fk_error *err) {
  return run_call(s, targets, poll, expect, NULL, err);
}

struct stream_sources {
  const double *b;
  int64_t ld;
};

/* A step's columns on their scales, and of each source the largest |b|. */
struct stream_scaled {
  const struct fk_stream *s;
  const double *b;
  double *to, *mass;
  int64_t ld, n;
};

static void scale_rows(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct stream_scaled *a = data;
  for (int64_t i = first; i < end; i++) {
    a->mass[i] = 0;
    for (int64_t c = 0; c < a->s->columns; c++) {
      double b = ldexp(a->b[c * a->ld + i], -a->s->exponent[c]);
      a->to[c * a->n + i] = b;
      a->mass[i] = fmax(a->mass[i], fabs(b));
    }
  }
}

static void masses_of(const void *data, int64_t first, int64_t count, double *mass) {
  memcpy(mass, (const double *)data + first, sizeof(double) * (size_t)count);
}

/* Sums in float are no good for numbers far beyond those that came first. */
enum { MOST_GROWTH = 40 };

static enum fk_status find_scales(struct fk_stream *s, const struct stream_sources *sources, int64_t first,
                                  int64_t n, struct fk_error *err) {
  for (int64_t c = 0; c < s->columns; c++) {
    double largest = fk_largest(sources->b + c * sources->ld + first, n, s->opts.threads);
    if (largest == 0) continue;
    if (!s->scaled[c]) s->exponent[c] = ilogb(largest);
    s->scaled[c] = true;
    if (ilogb(largest) - s->exponent[c] > MOST_GROWTH)
      return fk_fail(err, FK_STATUS_UNSUPPORTED,
                     "`b` of a later chunk is more than 2^%d times as large as that of the first chunk",
                     MOST_GROWTH);
  }
  return FK_STATUS_OK;
}

static enum fk_status add(struct fk_stream *s, const struct fk_grid_points *u, int64_t first, void *data,
                          struct fk_error *err) {
  const struct stream_sources *sources = data;
  struct fk_envelope_points points = {.whitened = u};
  int64_t numbers = u->n * (s->columns + 1);
  if (!sources->b) {
    enum fk_status status = fk_envelope_add(s->envelope, &points, false, err);
    return status ? status : fk_grid_add(s->grid, u, NULL, 0, err);
  }
  if (numbers > s->b_numbers) {
    fk_aligned_free(s->b);
    s->b = fk_aligned_alloc(sizeof(double) * (size_t)numbers);
    s->b_numbers = s->b ? numbers : 0;
    if (!s->b) return no_memory(err, "the columns");
  }
  struct stream_scaled a = {s, sources->b + first, s->b, s->b + u->n * s->columns, sources->ld, u->n};
  enum fk_status status = find_scales(s, sources, first, u->n, err);
  if (status) return status;
  int threads = fk_threads_for_bytes(s->opts.threads, 16.0 * (double)numbers);
  fk_parallel_for(threads, u->n, fk_step_for_bytes(16.0 * (double)(s->columns + 1)), scale_rows, &a);
  points.mass = masses_of;
  points.data = a.mass;
  status = fk_envelope_add(s->envelope, &points, false, err);
  return status ? status : fk_grid_add(s->grid, u, s->b, u->n, err);
}

enum fk_status fk_stream_add(struct fk_stream *s, const struct fk_matrix *points, const double *b,
                             const struct fk_poll *poll, struct fk_error *err) {
  struct stream_sources sources = {b, points->n};
  s->filtered = false;
  enum fk_status status = run_call(s, points, poll, add, &sources, err);
  if (status) return status;
  double began = fk_seconds();
  s->n += (double)points->n;
  status = fk_check_add(&s->check, &s->whitening, plain, points, b, s->opts.threads, err);
  s->failed = status != FK_STATUS_OK;
  s->stats.seconds += fk_seconds() - began;
  return status;
}

/* ---- sums ------------------------------------------------------------------------------------- */

struct stream_sums {
  double *value;
  int64_t ld;
};

static enum fk_status bound_error(struct fk_stream *s, const struct fk_grid_points *u, struct fk_error *err) {
  double error = 0;
  struct fk_envelope_points targets = {.whitened = u};
  enum fk_status status = fk_envelope_expect(s->envelope, &targets, err);
  if (!status) status = error_of(s->envelope, &s->window, s->single, &error, NULL, err);
  s->error = fmax(s->error, error);
  return status;
}

static enum fk_status sums_at(struct fk_stream *s, const struct fk_grid_points *u, double *value, int64_t ld,
                              struct fk_error *err) {
  enum fk_status status = fk_grid_evaluate(s->grid, u, value, NULL, ld, err);
  for (int64_t c = 0; c < s->columns && !status; c++)
    for (int64_t i = 0; i < u->n && s->exponent[c] != 0; i++)
      value[c * ld + i] = ldexp(value[c * ld + i], s->exponent[c]);
  return status;
}

static enum fk_status filter(struct fk_stream *s, struct fk_error *err) {
  struct fk_grid_points anchors = {s->anchor_at, s->anchors, FK_ANCHORS};
  s->share /= 2;
  enum fk_status status = fk_grid_convolve(s->grid, 1, err);
  s->done += s->share;
  s->filtered = true;
  return status ? status : sums_at(s, &anchors, s->got + s->check.rows - s->anchors, s->check.rows, err);
}

static enum fk_status evaluate(struct fk_stream *s, const struct fk_grid_points *u, int64_t first, void *data,
                               struct fk_error *err) {
  const struct stream_sums *sums = data;
  enum fk_status status = bound_error(s, u, err);
  if (!status && !s->filtered) status = filter(s, err);
  return status ? status : sums_at(s, u, sums->value + first, sums->ld, err);
}

void fk_stream_seek(struct fk_stream *s, int64_t row) {
  s->evaluated = row;
  s->sought = true;
  s->stats.pairs = 0;
  s->stats.seconds = 0;
}

enum fk_status fk_stream_evaluate(struct fk_stream *s, const struct fk_matrix *targets, const struct fk_poll *poll,
                                  double *value, struct fk_stats *stats, struct fk_error *err) {
  struct stream_sums sums = {value, targets->n};
  enum fk_status status = run_call(s, targets, poll, evaluate, &sums, err);
  if (status) return status;
  fk_stream_look_at(s, value, targets->n);
  status = fk_stream_prove(s, err);
  if (status) return status;
  s->stats.pairs += s->n * (double)targets->n;
  *stats = s->stats;
  return FK_STATUS_OK;
}

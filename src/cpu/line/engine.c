/* Gaussian sums in one dimension by boxes, and sums of Markov kernels by states (markov_sums.c), as exact as those
 * of all pairs: what the planner takes where no tolerance was asked for and pairs would take longer. Columns may
 * have charges of any sign: what is promised of each sum is an error beside that of |b| k of the same target, its
 * guard. Where a guard is so small beside the charges in reach that the boxes' errors would show, the sum is taken
 * again over the points themselves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/method.h"
#include "../../core/plan.h"
#include "../../core/scan.h"
#include "../../core/threads.h"
#include "boxes.h"
#include "line.h"
#include "markov.h"

/* Interpolation and rounding, relative to a guard (boxes.h); what tests find is a tenth of it. */
#define BOUND 1e-13
/* If a sum without the point's own term is below this share of that term, it has lost digits. */
static const double LEAST_SHARE = 0.1;
/* Charges of other sizes might underflow, times kernels. */
static const double SMALLEST = 1e-200, LARGEST = 1e200;

/* Kinds of values: the kernel, times the factor, times u. */
enum { PLAIN, VALUE, VALUE_U };

struct sums {
  const struct fk_task *task;
  struct fk_line_spec spec;
  int64_t n, m;
  bool plain;       /* the factor is 1 */
  double *u, *at;   /* of sources, and of other targets, by boxes */
  int64_t *order;   /* of targets: which row each is */
  double *charges;  /* n x columns: |b| of the mass and of each column, then b where it has another sign */
  int64_t results;  /* the mass, and columns or the coordinate: the first terms */
  int64_t *guarded; /* [guard]: its term */
  double *most;     /* [guard]: the largest charge times n */
  struct fk_line_term *terms;
};

static double factor_at(const struct sums *s, double u) {
  const double *f = s->task->factor, half = u * u / 2;
  return s->plain ? 1 : f[0] + half * (f[1] + half * f[2]);
}

static void kinds(const double *k, const double *u, int count, const void *of, double (*values)[FK_LINE_NODES]) {
  const struct sums *s = of;
  for (int j = 0; j < count; j++) {
    values[PLAIN][j] = k[j];
    values[VALUE][j] = k[j] * factor_at(s, u[j]);
    values[VALUE_U][j] = values[VALUE][j] * u[j];
  }
}

/* Which guard a result has: coordinates that of the mass. */
static int64_t guard_of(const struct sums *s, int64_t result) { return s->spec.n_guards == 1 ? 0 : result; }

/* ---- results ---------------------------------------------------------------------------------- */

static void write_result(const struct sums *s, int64_t j, int64_t result, double value) {
  int64_t row = s->order[j];
  if (result == 0)
    s->task->mass[row] = value;
  else
    s->task->sums[row + (result - 1) * s->m] = value;
}

/* Boxes by their distance from a place. */
struct walk {
  const struct fk_line_boxes *boxes;
  double place;
  int64_t left, right;
};

static struct walk walk_from(const struct fk_line_boxes *boxes, double place) {
  int64_t right = fk_line_box_from(boxes, fk_line_number_at(boxes, place));
  return (struct walk){boxes, place, right - 1, right};
}

/* The next box, and how far it begins from the place; -1: there is none. */
static int64_t next_box(struct walk *w, double *away) {
  double left = w->left < 0 ? INFINITY : w->place - (fk_line_number_of(w->boxes, w->left) + 1);
  double right = w->right >= w->boxes->count ? INFINITY : fk_line_number_of(w->boxes, w->right) - w->place;
  *away = fmax(0, fmin(left, right));
  if (!isfinite(*away)) return -1;
  return left < right ? w->left-- : w->right++;
}

/* How far the nearest source is that has a charge; INFINITY: there is none. */
static double nearest_to(const struct sums *s, double place, int64_t self, const double *charges) {
  const struct fk_line_boxes *boxes = &s->spec.sources;
  struct walk walk = walk_from(boxes, place);
  double nearest = INFINITY, away;
  for (int64_t box; (box = next_box(&walk, &away)) >= 0 && away < nearest;)
    for (int64_t i = boxes->first[box]; i < boxes->first[box + 1]; i++)
      if (i != self && charges[i] != 0) nearest = fmin(nearest, fabs(boxes->x[i] - place));
  return nearest;
}

/* Result after result under one guard, relative to the kernel at `near`, by the sources from the nearest boxes
 * on. */
static void sum_alone(const struct sums *s, double place, int64_t self, int64_t guard, double near, double *sums) {
  const struct fk_line_boxes *boxes = &s->spec.sources;
  const double *charges = s->charges + guard * s->n;
  struct walk walk = walk_from(boxes, place);
  double sum = 0, away, most = s->most[guard];
  for (int64_t r = 0; r < s->results; r++)
    if (guard_of(s, r) == guard) sums[r] = 0;
  for (int64_t box; (box = next_box(&walk, &away)) >= 0;) {
    if (away > near && most * exp(-(away - near) * (away + near) / 2) < 1e-18 * sum) break;
    for (int64_t i = boxes->first[box]; i < boxes->first[box + 1]; i++) {
      double u = boxes->x[i] - place, far = fabs(u), k = exp(-(far - near) * (far + near) / 2);
      if (i == self) continue;
      sum += k * charges[i];
      for (int64_t r = 0; r < s->results; r++) {
        const struct fk_line_term *term = s->terms + r;
        if (guard_of(s, r) != guard) continue;
        double value = term->kind == PLAIN ? k : k * factor_at(s, u) * (term->kind == VALUE_U ? u : 1);
        sums[r] += value * s->charges[i + term->column * s->n];
      }
    }
  }
}

/* The results under one guard; the mass's, and with it all, where they have a scale. */
static void do_again(const struct sums *s, int64_t j, int64_t self, int64_t guard, double *sums) {
  const struct fk_task *task = s->task;
  double place = s->spec.targets.x[j], near = nearest_to(s, place, self, s->charges + guard * s->n);
  double root = 1;
  if (!isfinite(near)) near = 0;
  for (int64_t g = 0; g < s->spec.n_guards; g++)
    if (task->tail_pass || g == guard) sum_alone(s, place, self, g, near, sums);
  if (!task->tail_pass)
    root = exp(-near * near / 4); /* twice, as the kernel may be no number */
  else if (task->shift)
    task->shift[s->order[j]] = -near * near / 2;
  for (int64_t r = 0; r < s->results; r++)
    if (task->tail_pass || guard_of(s, r) == guard) write_result(s, j, r, sums[r] * root * root);
}

/* A place's own part, of u = 0. */
static double own_part(const struct sums *s, int64_t i, int64_t term) {
  const struct fk_line_term *t = s->terms + term;
  if (i < 0 || t->kind == VALUE_U) return 0;
  return s->charges[i + t->column * s->n] * (t->kind == VALUE ? factor_at(s, 0) : 1);
}

static void finish(const void *of, const struct fk_line_place *place) {
  const struct sums *s = of;
  const struct fk_task *task = s->task;
  int64_t j = place->j, self = task->exclude_self ? j : -1;
  for (int64_t r = 0; r < s->results; r++) write_result(s, j, r, place->sums[r] - own_part(s, self, r));
  if (task->shift) task->shift[s->order[j]] = 0;
  for (int64_t g = 0; g < s->spec.n_guards; g++) {
    double own = own_part(s, self, s->guarded[g]), left = place->sums[s->guarded[g]] - own;
    if (left >= fmax(place->least[g], LEAST_SHARE * own)) continue;
    do_again(s, j, self, task->tail_pass ? 0 : g, place->room);
    if (task->tail_pass) break;
  }
  if (task->values == FK_VALUES_COORDINATES && !task->relative)
    task->sums[s->order[j]] += s->spec.targets.x[j] * task->mass[s->order[j]];
}

/* ---- points ----------------------------------------------------------------------------------- */

/* Whitened, in the order of their boxes, unless they reach too far. */
static enum fk_status place_points(const struct sums *s, const struct fk_matrix *x, double *u, int64_t *order,
                                   int threads, bool *far, struct fk_error *err) {
  double low, high;
  enum fk_status status = fk_whiten_points(s->task->whitening, threads, x, 0, x->n, u, x->n, err);
  if (status) return status;
  fk_range(u, x->n, threads, &low, &high);
  *far = *far || !(fmax(-low, high) <= fk_costs.as_exact.reach);
  if (*far || fk_line_sort(u, order, x->n)) return FK_STATUS_OK;
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the boxes of %.0f points", (double)x->n);
}

/* Columns in the sources' order. False: of sizes that might underflow, times kernels. */
static bool set_charges(struct sums *s, const int64_t *order) {
  const struct fk_task *task = s->task;
  struct fk_line_spec *spec = &s->spec;
  int64_t n = s->n;
  spec->n_columns = spec->n_guards;
  for (int64_t g = 0; g < spec->n_guards; g++) {
    double *to = s->charges + g * n, *own = s->charges + spec->n_columns * n, most = 0;
    const double *column = g > 0 ? task->columns + (g - 1) * n : NULL;
    bool negative = false;
    for (int64_t i = 0; i < n; i++) {
      double b = (task->weights ? task->weights[order[i]] : 1) * (column ? column[order[i]] : 1);
      negative = negative || b < 0;
      to[i] = fabs(b);
      own[i] = b;
      most = fmax(most, to[i]);
    }
    s->most[g] = (double)n * most;
    if (most != 0 && !(most >= SMALLEST && most <= LARGEST)) return false;
    s->terms[g] = (struct fk_line_term){s->plain ? PLAIN : VALUE, negative ? spec->n_columns++ : g};
  }
  return true;
}

static void set_terms(struct sums *s) {
  struct fk_line_spec *spec = &s->spec;
  s->results = spec->n_guards;
  if (s->task->values == FK_VALUES_COORDINATES)
    s->terms[s->results++] = (struct fk_line_term){VALUE_U, s->terms[0].column};
  spec->n_terms = s->results;
  for (int64_t g = 0; g < spec->n_guards; g++) {
    bool own = s->terms[g].kind != PLAIN || s->terms[g].column != g;
    s->guarded[g] = own ? spec->n_terms++ : g;
    if (own) s->terms[s->guarded[g]] = (struct fk_line_term){PLAIN, g};
  }
}

/* ---- the engine ------------------------------------------------------------------------------- */

static bool make_room(struct sums *s, int64_t **source_order) {
  int64_t n = s->n, guards = s->spec.n_guards;
  s->u = malloc(sizeof *s->u * (size_t)n);
  *source_order = malloc(sizeof **source_order * (size_t)n);
  if (s->task->targets.data) {
    s->at = malloc(sizeof *s->at * (size_t)s->m);
    s->order = malloc(sizeof *s->order * (size_t)s->m);
  } else {
    s->at = s->u;
    s->order = *source_order;
  }
  s->charges = malloc(sizeof *s->charges * (size_t)(n * (2 * guards + 1)));
  s->guarded = malloc(sizeof *s->guarded * (size_t)guards);
  s->most = malloc(sizeof *s->most * (size_t)guards);
  s->terms = malloc(sizeof *s->terms * (size_t)(2 * guards + 1));
  return s->most && s->u && *source_order && s->at && s->order && s->charges && s->guarded && s->terms;
}

static void free_room(struct sums *s, int64_t *source_order) {
  bool apart = s->task->targets.data != NULL;
  free(apart ? s->at : NULL);
  free(apart ? s->order : NULL);
  free(s->u);
  free(source_order);
  free(s->charges);
  free(s->guarded);
  free(s->most);
  free(s->terms);
}

/* *may: false where these are for pairs. */
static enum fk_status by_boxes(struct sums *s, const struct fk_opts *opts, bool *may, struct fk_error *err) {
  const struct fk_task *task = s->task;
  struct fk_line_spec *spec = &s->spec;
  int threads = fk_threads_for_bytes(opts->threads, 16.0 * (double)(s->n + s->m));
  int64_t *order = NULL;
  bool far = false;
  enum fk_status status = FK_STATUS_OK;
  if (!make_room(s, &order))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for the boxes of %.0f points", (double)s->n);
  if (!status) status = place_points(s, &task->sources, s->u, order, threads, &far, err);
  if (!status && task->targets.data) status = place_points(s, &task->targets, s->at, s->order, threads, &far, err);
  *may = !status && !far && set_charges(s, order);
  if (*may) {
    set_terms(s);
    spec->charges = s->charges;
    spec->terms = s->terms;
    spec->sources = (struct fk_line_boxes){.x = s->u, .n = s->n, .width = 1};
    spec->targets = (struct fk_line_boxes){.x = s->at, .n = s->m, .width = 1};
    status = fk_line_run(spec, opts, err);
  }
  free_room(s, order);
  return status;
}

static void describe(const struct fk_opts *opts, struct fk_stats *stats) {
  fk_engine_exact_cpu.describe(opts, stats);
  stats->engine = "fast";
  stats->method = "line";
}

static enum fk_status sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err) {
  double started = fk_seconds();
  const double *f = task->factor;
  struct sums s = {.task = task, .n = task->sources.n, .m = fk_n_targets(task)};
  bool may;
  s.plain = f[0] == 1 && f[1] == 0 && f[2] == 0;
  s.spec = (struct fk_line_spec){.kernel = fk_line_gaussian, .kinds = kinds, .finish = finish, .of = &s};
  s.spec.n_guards = 1 + (task->values == FK_VALUES_COLUMNS ? task->n_columns : 0);
  enum fk_status status =
      fk_kernel_is_gaussian(&task->kernel) ? by_boxes(&s, opts, &may, err) : fk_markov_sums(task, opts, &may, err);
  if (status) return status;
  if (!may) {
    fk_plan_say(stats, "points too far apart, or coefficients too small or large, for boxes");
    return fk_engine_exact_cpu.sums(task, opts, stats, err);
  }
  if (task->values == FK_VALUES_COORDINATES && task->relative) *task->relative = true;
  describe(opts, stats);
  if (!fk_kernel_is_gaussian(&task->kernel))
    status = fk_redo_lost_sums(task, &fk_engine_exact_cpu, opts, stats, err);
  stats->tol_bound = fmax(stats->tol_bound, BOUND);
  stats->pairs += (double)s.n * (double)s.m;
  stats->seconds += fk_seconds() - started;
  return status;
}

static double exact_seconds(const struct fk_work *work, const struct fk_opts *opts, int threads) {
  struct fk_opts own = *opts;
  own.threads = threads;
  return fk_engine_exact_cpu.seconds(work, &own);
}

/* Sums in double, from so many pairs on that they take long; to a tolerance only of Markov kernels, which no other
 * fast engine has. The choice is for one thread, as it decides on the last bits. */
static bool supports(const struct fk_work *work, const struct fk_opts *opts) {
  bool is_double = opts->precision == FK_PRECISION_AUTO || opts->precision == FK_PRECISION_DOUBLE;
  bool others = opts->methods & (FK_METHOD_GRID | FK_METHOD_DIRECT), asked = opts->methods & FK_METHOD_LINE;
  struct fk_markov markov;
  bool has_columns = work->operation == FK_OP_SUMS || work->operation == FK_OP_NORMAL;
  bool has_sums = fk_kernel_is_gaussian(&work->kernel) ? opts->tol <= FK_PLAN_AS_EXACT
                                                       : has_columns && fk_markov_of(&work->kernel, &markov);
  return work->d == 1 && is_double && has_sums && !others &&
         (asked || exact_seconds(work, opts, 1) >= fk_costs.line.exact);
}

static double seconds(const struct fk_work *work, const struct fk_opts *opts) {
  const struct fk_line_costs *c = &fk_costs.line;
  if (opts->methods & FK_METHOD_LINE) return 0;
  double alone = c->start + (work->n + work->m) * c->point * (1 + c->value * work->n_values);
  return alone * (exact_seconds(work, opts, opts->threads) / exact_seconds(work, opts, 1));
}

const struct fk_engine fk_engine_line = {
    .name = "line",
    .backend = FK_BACKEND_CPU,
    .kind = FK_ENGINE_FAST,
    .operations = FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES) | FK_CAN(FK_OP_NORMAL),
    .supports = supports,
    .seconds = seconds,
    .describe = describe,
    .sums = sums,
};

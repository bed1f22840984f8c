/* Rows in the tails as sums of their largest terms.
 *
 * So far out a sum is its largest term and few others. Each row looks for them in a tree, near points first: with
 * e the largest exponent so far (base 2, of k and of w), what is at an exponent of -t in k and beyond adds at most
 * W |f|(t) 2^-t, W the sum of all |w|, and that is 2^-60 of 2^e at a t which falls as e grows. A row whose sum
 * turns out to be far below 2^e, as terms cancel, or whose terms are many, is left to all pairs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/costs.h"
#include "../core/method.h"
#include "../core/scan.h"
#include "near.h"
#include "walk.h"

/* Below 2^-SLACK of its largest term a sum is not proven to 2^-54. Terms that a row may have; targets of a piece
 * of the loop. */
enum { BITS = 60, SLACK = 6, ROOM = 1024, PIECE = 8 * FK_NEAR_TARGETS };

struct tails {
  const struct fk_sweep *sweep;
  const int64_t *rows; /* m */
  int64_t m;
  double *x, *y;         /* whitened sources and rows, one after the other */
  double *x_low, *y_low; /* of double-doubles; NULL: 0 */
  double log2_total;
  bool *done;
};

struct tails_term {
  double exponent, of_kernel; /* the first with the weight's own, of a mantissa */
  int64_t source;
};

/* The terms found for the targets of a group, and the number of rows that are done. */
struct tails_room {
  int64_t done, n[FK_NEAR_TARGETS];
  double largest[FK_NEAR_TARGETS], cut[FK_NEAR_TARGETS]; /* exponents; cut: t, as above */
  double *sums;                                          /* d numbers to work in */
  struct tails_term terms[FK_NEAR_TARGETS * ROOM];       /* [target][ROOM] */
};

/* ---- the largest terms ------------------------------------------------------------------------ */

/* From the square of the distance, or from the sum of absolute differences. */
static double exponent_at(const struct fk_kernel_form *form, double square, double absolute) {
  if (form->type == FK_FORM_ABSOLUTE) return -form->scale * absolute;
  if (form->type == FK_FORM_STRETCHED) return -FK_LOG2E * pow(square, form->power);
  return form->type == FK_FORM_ROOT ? -form->scale * sqrt(square) : -form->scale * form->scale * square;
}

static void set_bound(const struct tails *s, struct fk_walk_group *g, struct tails_room *f, int t) {
  const struct fk_kernel_mode *mode = &s->sweep->mode;
  bool coordinates = s->sweep->task->values == FK_VALUES_COORDINATES;
  double cut = fk_near_exponent(mode, coordinates, BITS + s->log2_total - f->largest[t], INFINITY);
  double root = sqrt(fk_near_square(&mode->form, cut)) + mode->slack;
  f->cut[t] = cut;
  g->bound[t] = root / mode->form.scale * (root / mode->form.scale);
}

/* Without those that have turned out too small; false: they are too many. */
static bool make_room(struct tails_room *f, int t) {
  struct tails_term *terms = f->terms + t * ROOM;
  int64_t left = 0;
  for (int64_t i = 0; i < f->n[t]; i++)
    if (-terms[i].of_kernel < f->cut[t]) terms[left++] = terms[i];
  f->n[t] = left;
  return left <= ROOM / 2;
}

/* Mantissa, and the exponent added: a logarithm would have fewer digits. */
static double mantissa_of(const struct fk_task *task, int64_t source, double *exponent) {
  int own = 0;
  double mantissa = task->weights ? frexp(task->weights[source], &own) : 1;
  *exponent += own;
  return mantissa;
}

/* Coordinate k of a source less that of a row. */
static double gap_of(const struct tails *s, int64_t source, int64_t target, int64_t k) {
  int64_t d = s->sweep->task->sources.d, at = source * d + k, to = target * d + k;
  double gap = s->x[at] - s->y[to];
  return s->x_low ? gap + (s->x_low[at] - s->y_low[to]) : gap;
}

static void look_for(struct fk_walk_group *g, int64_t panel, int t) {
  const struct fk_walk *w = g->walk;
  const struct tails *s = w->of;
  const struct fk_task *task = s->sweep->task;
  struct tails_room *f = g->room;
  int64_t target = w->targets[g->first + t], self = task->exclude_self ? s->rows[target] : -1;
  for (int i = 0; i < fk_walk_size(w, panel); i++) {
    int64_t source = w->order[panel * FK_NEAR_POINTS + i];
    double square = 0, absolute = 0;
    for (int64_t k = 0; k < w->d; k++) {
      double gap = gap_of(s, source, target, k);
      square += gap * gap;
      absolute += fabs(gap);
    }
    if (source == self || !(square < g->bound[t])) continue;
    double of_kernel = exponent_at(&s->sweep->mode.form, square, absolute), exponent = of_kernel;
    if (mantissa_of(task, source, &exponent) == 0) continue;
    f->terms[t * ROOM + f->n[t]++] = (struct tails_term){exponent, of_kernel, source};
    if (exponent > f->largest[t]) {
      f->largest[t] = exponent;
      set_bound(s, g, f, t);
    }
    if (f->n[t] == ROOM && !make_room(f, t)) {
      f->largest[t] = INFINITY; /* given up */
      g->bound[t] = 0;
      return;
    }
  }
}

static void tails_panel(struct fk_walk_group *g, int64_t panel, const double *gaps) {
  const struct fk_walk *w = g->walk;
  const double *points = fk_walk_panel(w, panel);
  double unused[FK_NEAR_POINTS];
  for (int t = 0; t < g->count; t++)
    if (gaps[t] < g->bound[t] && w->ops->near_points(points, NULL, w->d, g->y + t, NULL, g->bound[t], unused))
      look_for(g, panel, t);
}

/* ---- their sums ------------------------------------------------------------------------------- */

/* False: it is left. */
static bool sum_row(const struct tails *s, const struct tails_room *f, int t, int64_t target) {
  const struct fk_task *task = s->sweep->task;
  const double *factor = s->sweep->mode.form.factor;
  int64_t row = s->rows[target], m = fk_n_targets(task), d = task->sources.d;
  bool coordinates = task->values == FK_VALUES_COORDINATES;
  double mass = 0, largest = f->largest[t], *sums = f->sums;
  if (!isfinite(largest)) return false;
  memset(sums, 0, sizeof *sums * (size_t)d);
  for (const struct tails_term *term = f->terms + t * ROOM, *end = term + f->n[t]; term < end; term++) {
    double at = term->of_kernel, unused = 0;
    double value = mantissa_of(task, term->source, &unused) * exp2(term->exponent - largest);
    value *= factor[0] + at * (factor[1] + at * factor[2]);
    mass += value;
    for (int64_t k = 0; k < d && coordinates; k++)
      sums[k] += value * (s->x_low ? gap_of(s, term->source, target, k) : s->x[term->source * d + k]);
  }
  if (!(fabs(mass) >= 1.0 / (1 << SLACK)) || isinf(mass)) return false;
  task->mass[row] = mass;
  if (task->shift) task->shift[row] = largest * FK_LN2;
  for (int64_t k = 0; k < d && coordinates; k++) task->sums[k * m + row] = sums[k];
  return s->done[target] = true;
}

/* Rows close to each other have as many terms: where none of the first group is done, the piece is left. */
static bool tails_group(struct fk_walk_group *g) {
  static const struct fk_walk_look look = {fk_walk_near_gap, fk_walk_near_opens, tails_panel};
  const struct fk_walk *w = g->walk;
  const struct tails *s = w->of;
  struct tails_room *f = g->room;
  f->sums = (double *)(f + 1);
  if (g->first % PIECE == 0) f->done = 0;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    g->bound[t] = INFINITY;
    f->n[t] = 0;
    f->largest[t] = -INFINITY;
  }
  fk_walk_through(g, &look);
  for (int t = 0; t < g->count; t++) f->done += sum_row(s, f, t, w->targets[g->first + t]);
  return f->done > 0;
}

/* ---- all of them ------------------------------------------------------------------------------ */

static double log2_total(const struct fk_task *task, int threads) {
  int64_t n = task->sources.n;
  double largest = task->weights ? fk_largest_absolute(task->weights, n, threads) : 1, total = 0;
  for (int64_t i = 0; i < n; i++) total += task->weights ? fabs(task->weights[i]) / largest : 1;
  return log2(total) + log2(largest);
}

static enum fk_status whiten_tails(struct tails *s, struct fk_error *err) {
  const struct fk_task *task = s->sweep->task;
  int64_t n = task->sources.n, d = task->sources.d;
  int threads = s->sweep->threads;
  struct fk_picked sources = {&task->sources, task->whitening, NULL, 0, n};
  struct fk_picked rows = {fk_task_targets(task), task->whitening, s->rows, 0, s->m};
  bool doubled = s->sweep->mode.doubled;
  int64_t numbers = (n + s->m) * d;
  s->x = malloc(sizeof(double) * (size_t)(doubled ? 2 * numbers : numbers));
  s->done = calloc((size_t)s->m, sizeof *s->done);
  if (!s->x || !s->done) return fk_no_memory(err, 8.0 * (double)numbers, "rows that underflow");
  s->y = s->x + n * d;
  if (doubled) {
    s->x_low = s->x + numbers;
    s->y_low = s->x_low + n * d;
  }
  s->log2_total = log2_total(task, threads);
  enum fk_status status = fk_whitened_rows(&sources, threads, s->x, s->x_low, err);
  return status ? status : fk_whitened_rows(&rows, threads, s->y, s->y_low, err);
}

/* The tree is of high parts: the slack of the mode is on the bounds. */
static enum fk_status walk_tails(const struct tails *s, struct fk_error *err) {
  static const struct fk_walk_rule rule = {
      .operation = FK_OP_LOGS,
      .width = FK_NEAR_TARGETS,
      .piece = PIECE,
      .padding = INFINITY,
      .group = tails_group,
  };
  int64_t n = s->sweep->task->sources.n, d = s->sweep->task->sources.d;
  struct fk_walk walk = {.rule = &rule, .of = s, .d = d, .x = {s->x, NULL, n}, .y = {s->y, NULL, s->m}};
  walk.room = sizeof(struct tails_room) + sizeof(double) * (size_t)d;
  walk.work = 10 * (double)n;
  walk.threads = s->sweep->threads;
  return fk_walk_run(&walk, s->sweep->opts, NULL, err);
}

enum fk_status fk_near_tails(const struct fk_sweep *sweep, int64_t *rows, int64_t *found, struct fk_error *err) {
  struct tails s = {.sweep = sweep, .rows = rows, .m = *found};
  int64_t left = 0;
  if (!fk_near_decays(&sweep->mode) || (sweep->opts->methods & FK_METHOD_PAIRS)) return FK_STATUS_OK;
  if (s.m < fk_costs.cpu_cuts.tails && !(sweep->opts->methods & FK_METHOD_NEAR)) return FK_STATUS_OK;
  enum fk_status status = whiten_tails(&s, err);
  if (!status) status = walk_tails(&s, err);
  for (int64_t i = 0; i < s.m && !status; i++)
    if (!s.done[i]) rows[left++] = rows[i];
  if (!status) *found = left;
  free(s.done);
  free(s.x);
  return status;
}

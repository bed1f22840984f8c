/* Rows in the tails as sums of their largest terms.
 *
 * So far out a sum is its largest term and few others. Each row looks for them in a tree, near points first: with
 * e the largest exponent so far (base 2, of k and of w), what is at an exponent of -t in k and beyond adds at most
 * W |f|(t) 2^-t, W the sum of all |w|, and that is 2^-60 of 2^e at a t which falls as e grows. A row whose sum
 * turns out to be far below 2^e, as terms cancel, or whose terms are many, is left to all pairs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/count.h"
#include "../core/method.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"
#include "near.h"
#include "near_tree.h"

/* Below 2^-SLACK of its largest term a sum is not proven to 2^-54. Terms that a row may have; targets of a piece
 * of the loop; rows that are worth a tree. */
enum { BITS = 60, SLACK = 6, ROOM = 1024, PIECE = 8 * FK_NEAR_TARGETS, MANY = 1024 };

struct tails {
  const struct fk_sweep *sweep;
  const int64_t *rows; /* m */
  int64_t m;
  const struct fk_tile_ops *ops;
  struct fk_panels panels; /* of the sources */
  double *x, *y;           /* whitened sources and rows, one after the other */
  double *x_low, *y_low;   /* of double-doubles; NULL: 0 */
  double log2_total;
  int64_t *targets; /* an order of the rows */
  bool *done;
  struct fk_scratch scratch;
};

struct term {
  double exponent, of_kernel; /* the first with the weight's own, of a mantissa */
  int64_t source;
};

/* What the targets of a group have found. */
struct found {
  const struct tails *tails;
  struct term *terms; /* [target][ROOM] */
  int64_t n[FK_NEAR_TARGETS];
  double largest[FK_NEAR_TARGETS], cut[FK_NEAR_TARGETS]; /* exponents; cut: t, as above */
};

/* ---- the largest terms ------------------------------------------------------------------------ */

static double exponent_at(const struct fk_kernel_form *form, double square) {
  return form->type == FK_FORM_ROOT ? -form->scale * sqrt(square) : -form->scale * form->scale * square;
}

static void set_bound(const struct tails *s, struct fk_near_group *g, struct found *f, int t) {
  const struct fk_kernel_mode *mode = &s->sweep->mode;
  bool coordinates = s->sweep->task->values == FK_VALUES_COORDINATES;
  double cut = fk_near_exponent(mode, coordinates, BITS + s->log2_total - f->largest[t], INFINITY);
  double root = (mode->form.type == FK_FORM_ROOT ? cut : sqrt(cut)) + mode->slack;
  f->cut[t] = cut;
  g->bound[t] = root / mode->form.scale * (root / mode->form.scale);
}

/* Without those that have turned out too small; false: they are too many. */
static bool make_room(struct found *f, int t) {
  struct term *terms = f->terms + t * ROOM;
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
  int64_t at = source * s->panels.d + k, to = target * s->panels.d + k;
  double gap = s->x[at] - s->y[to];
  return s->x_low ? gap + (s->x_low[at] - s->y_low[to]) : gap;
}

static void look_for(const struct tails *s, struct fk_near_group *g, int64_t panel, struct found *f, int t) {
  const struct fk_task *task = s->sweep->task;
  const struct fk_panels *p = &s->panels;
  int64_t target = s->targets[g->first + t], self = task->exclude_self ? s->rows[target] : -1;
  for (int i = 0; i < fk_panel_size(p, panel); i++) {
    int64_t source = p->order[panel * FK_NEAR_POINTS + i];
    double square = 0;
    for (int64_t k = 0; k < p->d; k++) {
      double gap = gap_of(s, source, target, k);
      square += gap * gap;
    }
    if (source == self || !(square < g->bound[t])) continue;
    double of_kernel = exponent_at(&s->sweep->mode.form, square), exponent = of_kernel;
    if (mantissa_of(task, source, &exponent) == 0) continue;
    f->terms[t * ROOM + f->n[t]++] = (struct term){exponent, of_kernel, source};
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

static void look_at_panel(void *data, struct fk_near_group *g, int64_t panel, const double *squares) {
  struct found *f = data;
  const struct tails *s = f->tails;
  double unused[FK_NEAR_POINTS];
  for (int t = 0; t < g->count; t++)
    if (squares[t] < g->bound[t] && s->ops->near_points(fk_panel_at(&s->panels, panel), NULL, s->panels.d,
                                                        g->y + t, NULL, g->bound[t], unused))
      look_for(s, g, panel, f, t);
}

/* ---- their sums ------------------------------------------------------------------------------- */

/* False: it is left. sums: d numbers to work in. */
static bool sum_row(const struct tails *s, const struct found *f, int t, int64_t target, double *sums) {
  const struct fk_task *task = s->sweep->task;
  const double *factor = s->sweep->mode.form.factor;
  int64_t row = s->rows[target], m = fk_n_targets(task), d = s->panels.d;
  bool coordinates = task->values == FK_VALUES_COORDINATES;
  double mass = 0, largest = f->largest[t];
  if (!isfinite(largest)) return false;
  memset(sums, 0, sizeof *sums * (size_t)d);
  for (const struct term *term = f->terms + t * ROOM, *end = term + f->n[t]; term < end; term++) {
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
static void do_piece(const struct tails *s, int64_t piece, struct fk_near_group *g, struct found *f,
                     double *sums) {
  int64_t last = fk_smaller(s->m, (piece + 1) * PIECE), done = 0;
  for (int64_t at = piece * PIECE; at < last; at += FK_NEAR_TARGETS) {
    fk_near_group_start(g, s->y, s->panels.d, s->targets, at, last);
    for (int t = 0; t < FK_NEAR_TARGETS; t++) {
      f->n[t] = 0;
      f->largest[t] = -INFINITY;
    }
    fk_near_tree_visit(s->ops, &s->panels, g, look_at_panel, f);
    for (int t = 0; t < g->count; t++) done += sum_row(s, f, t, s->targets[at + t], sums);
    if (done == 0) return;
  }
}

static void do_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct tails *s = data;
  int64_t d = s->panels.d;
  struct fk_near_group g = {.y = fk_scratch_at(&s->scratch, slot)};
  double *sums = g.y + FK_NEAR_TARGETS * d;
  struct found f = {.tails = s, .terms = (struct term *)(sums + d)};
  for (int64_t piece = first; piece < end; piece++) do_piece(s, piece, &g, &f, sums);
}

/* ---- all of them ------------------------------------------------------------------------------ */

static double log2_total(const struct fk_task *task, int threads) {
  int64_t n = task->sources.n;
  double largest = task->weights ? fk_largest_absolute(task->weights, n, threads) : 1, total = 0;
  for (int64_t i = 0; i < n; i++) total += task->weights ? fabs(task->weights[i]) / largest : 1;
  return log2(total) + log2(largest);
}

static enum fk_status prepare(struct tails *s, struct fk_error *err) {
  const struct fk_task *task = s->sweep->task;
  int64_t n = task->sources.n, d = task->sources.d;
  int threads = s->sweep->threads;
  struct fk_picked sources = {&task->sources, task->whitening, NULL, 0, n};
  struct fk_picked rows = {fk_task_targets(task), task->whitening, s->rows, 0, s->m};
  bool doubled = s->sweep->mode.doubled;
  int64_t numbers = (n + s->m) * d;
  s->x = malloc(sizeof(double) * (size_t)(doubled ? 2 * numbers : numbers));
  s->done = calloc((size_t)s->m, sizeof *s->done);
  size_t bytes =
      sizeof(double) * (size_t)((FK_NEAR_TARGETS + 1) * d) + sizeof(struct term) * FK_NEAR_TARGETS * ROOM;
  if (!s->x || !s->done || !fk_scratch_init(&s->scratch, threads, bytes))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the rows in the tails",
                   8e-6 * (double)numbers);
  s->y = s->x + n * d;
  if (doubled) {
    s->x_low = s->x + numbers;
    s->y_low = s->x_low + n * d;
  }
  s->log2_total = log2_total(task, threads);
  enum fk_status status = fk_whitened_rows(&sources, threads, s->x, s->x_low, err);
  if (!status) status = fk_whitened_rows(&rows, threads, s->y, s->y_low, err);
  if (status) return status;
  s->ops = fk_isa()->f64;
  bool ready = fk_panels_init(&s->panels, s->x, NULL, n, d, true, INFINITY, threads);
  s->targets = fk_panels_order(s->y, s->m, d, true, threads);
  return ready && s->targets ? status : fk_fail(err, FK_STATUS_ALLOC, "out of memory for the rows in the tails");
}

static enum fk_status run(struct tails *s, struct fk_error *err) {
  struct fk_loop loop = {s->sweep->threads, fk_pieces(s->m, PIECE), 1, (double)PIECE * (double)s->panels.n};
  return fk_loop_run(&loop, &s->sweep->opts->poll, do_pieces, s, err);
}

enum fk_status fk_near_tails(const struct fk_sweep *sweep, int64_t *rows, int64_t *found, struct fk_error *err) {
  struct tails s = {.sweep = sweep, .rows = rows, .m = *found};
  int64_t left = 0;
  if (!fk_near_decays(&sweep->mode) || (sweep->opts->methods & FK_METHOD_PAIRS)) return FK_STATUS_OK;
  if (s.m < MANY && !(sweep->opts->methods & FK_METHOD_NEAR)) return FK_STATUS_OK;
  enum fk_status status = prepare(&s, err);
  if (!status) status = run(&s, err);
  for (int64_t i = 0; i < s.m && !status; i++)
    if (!s.done[i]) rows[left++] = rows[i];
  if (!status) *found = left;
  fk_panels_free(&s.panels);
  fk_scratch_free(&s.scratch);
  free(s.targets);
  free(s.done);
  free(s.x);
  return status;
}

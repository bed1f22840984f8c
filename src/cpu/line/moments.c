/* Moments of local fits: sums of w k u^j and of w k u^j y by boxes, or point by point where a place is alone,
 * about the nearest point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/plan.h"
#include "boxes.h"
#include "line.h"

/* If a sum without the point's own term is below this share of that term, it has lost digits. */
static const double LEAST_SHARE = 1e-3;

struct line {
  const struct fk_line *of;
  struct fk_line_spec spec;
  int masses, slopes;   /* sums of w k u^j; and of w k u^j y for each y */
  double *charges;      /* n x (1 + t): weights, weights times y */
  double weights;       /* of all */
  double *all, *others; /* m x width */
  int64_t m;
};

/* k u^j */
static void powers(const double *k, const double *u, int count, const void *of, double (*values)[FK_LINE_NODES]) {
  const struct line *s = of;
  memcpy(values[0], k, sizeof *k * (size_t)count);
  for (int power = 1; power < s->masses; power++)
    for (int j = 0; j < count; j++) values[power][j] = values[power - 1][j] * u[j];
}

/* Which point place j is, -1 for none. */
static int64_t point_of(const struct line *s, int64_t j) {
  if (!s->others) return -1;
  return s->of->own ? s->of->own[j] - 1 : j;
}

/* Writes the moments at target j from `sums`: for the powers 0, 1, 2 of u, each a column for w and, but for the
 * last power, one for each y; times e^log_unit. They are relative to a point at `place` with responses y[r n],
 * NULL: 0. */
static void write_moments(const struct line *s, double *to, int64_t j, const double *sums, double log_unit,
                          double place, const double *y) {
  int64_t t = s->of->t, m = s->m;
  double S = sums[0], mean = s->masses > 1 ? sums[1 + t] / S : 0;
  to += j;
  *to = log(S) + log_unit;
  for (int64_t r = 0; r < t; r++) to[(1 + r) * m] = sums[1 + r] / S + (y ? y[r * s->of->n] : 0);
  if (s->masses == 1) return;
  to[(1 + t) * m] = mean + place;
  for (int64_t r = 0; r < t; r++) to[(2 + t + r) * m] = sums[2 + t + r] / S - mean * (sums[1 + r] / S);
  if (s->masses > 2) to[(2 + 2 * t) * m] = sums[2 + 2 * t] / S - mean * mean;
}

/* Sums by the points one after the other from the nearest on, to the left and to the right, without `left_out` (or
 * -1), relative to the nearest, about its place and responses. */
static void sum_alone(const struct line *s, double *to, int64_t j, int64_t left_out, double *sums) {
  const struct fk_line *of = s->of;
  const struct fk_line_boxes *from = &s->spec.sources;
  double place = s->spec.targets.x[j], low = s->spec.targets.low && from->low ? s->spec.targets.low[j] : 0;
  int64_t right = fk_line_point_from(of->x, of->n, place), left = right - 1, nearest = -1;
  memset(sums, 0, sizeof *sums * (size_t)s->spec.n_terms);
  while (left >= 0 || right < of->n) {
    bool go_left = right >= of->n ||
                   (left >= 0 && -fk_line_gap(from, left, place, low) <= fk_line_gap(from, right, place, low));
    int64_t i = go_left ? left-- : right++;
    if (i == left_out || of->weights[i] == 0) continue;
    if (nearest < 0) nearest = i;
    /* of squares of distances from the place; the products have the digits that the squares lose */
    double near = fabs(fk_line_gap(from, nearest, place, low)), far = fabs(fk_line_gap(from, i, place, low));
    double v = fk_line_gap(from, i, of->x[nearest], from->low ? from->low[nearest] : 0);
    double k = exp(-(far - near) * (far + near) / 2);
    if (s->weights * k < 1e-18 * sums[0]) break;
    double *sum = sums;
    k *= of->weights[i];
    for (int power = 0; power < s->masses; power++, k *= v)
      for (int64_t column = 0; column <= (power < s->slopes ? of->t : 0); column++) {
        int64_t r = (column - 1) * of->n;
        *sum++ += column == 0 ? k : k * (of->y[i + r] - of->y[nearest + r]);
      }
  }
  if (nearest < 0) {
    sums[0] = 1;
    write_moments(s, to, j, sums, -INFINITY, 0, NULL);
    return;
  }
  double away = fk_line_gap(from, nearest, place, low);
  write_moments(s, to, j, sums, -away * away / 2, away, of->t > 0 ? of->y + nearest : NULL);
}

static void finish(const struct line *s, double *to, int64_t j, const double *sums, double least, int64_t left_out,
                   double *room) {
  if (sums[0] > least)
    write_moments(s, to, j, sums, 0, 0, NULL);
  else
    sum_alone(s, to, j, left_out, room);
}

static void finish_place(const void *data, const struct fk_line_place *place) {
  const struct line *s = data;
  double least = place->least[0], *sums = place->sums, *room = place->room;
  int64_t j = place->j, i = point_of(s, j);
  bool without = place->without;
  if (!s->others) {
    finish(s, s->all, j, sums, least, -1, room);
    return;
  }
  double sign = without ? 1 : -1;
  finish(s, without ? s->others : s->all, j, sums, least, without ? i : -1, room);
  for (int64_t column = 0; column <= s->of->t; column++) sums[column] += sign * s->charges[i + column * s->of->n];
  if (!without) least = fmax(least, LEAST_SHARE * s->of->weights[i]);
  finish(s, without ? s->all : s->others, j, sums, least, without ? -1 : i, room);
}

static void set_charges(struct line *s) {
  const struct fk_line *of = s->of;
  for (int64_t i = 0; i < of->n; i++) s->charges[i] = of->weights[i];
  for (int64_t r = 0; r < of->t; r++)
    for (int64_t i = 0; i < of->n; i++) s->charges[i + (r + 1) * of->n] = of->weights[i] * of->y[i + r * of->n];
  for (int64_t i = 0; i < of->n; i++) s->weights += of->weights[i];
}

/* Powers one after the other, each with a column for w and, but the last, one for each y. */
static void set_terms(const struct line *s, struct fk_line_term *terms) {
  for (int power = 0; power < s->masses; power++)
    for (int64_t column = 0; column <= (power < s->slopes ? s->of->t : 0); column++)
      *terms++ = (struct fk_line_term){power, column};
}

static enum fk_status sum(struct line *s, const double *at, const struct fk_opts *opts, struct fk_error *err) {
  const struct fk_line *of = s->of;
  struct fk_line_spec *spec = &s->spec;
  double range = of->x[of->n - 1] - of->x[0];
  bool narrow = range > 0 && range < 1;
  *spec = (struct fk_line_spec){.kernel = fk_line_gaussian, .kinds = powers, .finish = finish_place, .of = s};
  spec->sources = (struct fk_line_boxes){
      .x = of->x, .low = of->low, .n = of->n, .origin = narrow ? of->x[0] : 0, .width = narrow ? range : 1};
  spec->targets = spec->sources;
  spec->targets.n = s->m;
  if (at) spec->targets.x = at, spec->targets.low = of->at_low;
  spec->n_columns = 1 + of->t;
  spec->n_guards = 1;
  spec->n_terms = s->masses + s->slopes * of->t;
  spec->drops_self = s->others && !of->own;
  struct fk_line_term *terms = malloc(sizeof *terms * (size_t)spec->n_terms);
  s->charges = malloc(sizeof *s->charges * (size_t)(of->n * spec->n_columns));
  enum fk_status status = FK_STATUS_OK;
  if (!terms || !s->charges)
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for the boxes of %.0f points", (double)of->n);
  if (!status) {
    set_charges(s);
    set_terms(s, terms);
    spec->charges = s->charges;
    spec->terms = terms;
    status = fk_line_run(spec, opts, err);
  }
  free(s->charges);
  free(terms);
  return status;
}

enum fk_status fk_line_moments(const struct fk_line *of, const double *at, int64_t m, const struct fk_opts *opts,
                               double *all, double *others, struct fk_stats *stats, struct fk_error *err) {
  double started = fk_seconds();
  struct line s = {.of = of, .all = all, .others = others, .m = m, .masses = of->order + 1};
  s.slopes = of->order > 0 ? 2 : 1;
  enum fk_status status = sum(&s, at, opts, err);
  fk_plan_describe(opts, FK_OP_LINE_MOMENTS, (double)of->n * (double)m, started, stats->threads, stats);
  return status;
}

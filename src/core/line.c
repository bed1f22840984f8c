/* Points are in boxes a bandwidth wide, or one that is as wide as all of them, for variances of narrow ones have
 * to have digits, too. The points of a box that has many are replaced by charges at NODES Chebyshev nodes, and
 * sums at many places by those at its nodes: Gaussians and u, u^2 times them are polynomials between these to what
 * doubles hold. By (D / 4)^20 / 20! an interpolated kernel at the distance D is wrong by 1e-15 of itself at D = 6,
 * by 3e-10 at 11. So where S is more than LEAST of the weights within REACH, kernels further away than 6 hardly
 * matter to its digits, and where it is more than LEAST_OF_ALL of all weights, those beyond REACH, 5e-27, neither.
 * Where it is less, the place is alone, and its sums are taken point by point, about the nearest. */
#include "line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "plan.h"
#include "pool.h"
#include "threads.h"

enum { NODES = 20, FEW = 8, REACH = 11, OFFSETS = 2 * REACH + 1 };
static const double PI = 3.14159265358979323846, LEAST = 1e-8, LEAST_OF_ALL = 1e-12;
/* Of a point's own part: where less is left without it, that has lost digits. */
static const double LEAST_SHARE = 1e-3;

/* Runs of sorted places in the same of all boxes from `origin` on, both ways. */
struct boxes {
  const double *x, *low; /* low parts of double-doubles; NULL: 0 */
  double origin, width;
  int64_t count;
  int64_t *first; /* count + 1 */
};

struct nodes {
  double at[NODES];                     /* about the middle of a box, in its width */
  double series[NODES][NODES];          /* [degree][node] from moments by T_k, and to its coefficients */
  double kernel[OFFSETS][NODES][NODES]; /* [boxes apart][source][target] */
};

struct line {
  const struct fk_line *of;
  struct nodes nodes;
  struct boxes sources, targets;
  int masses, slopes; /* sums of w k u^j; and of w k u^j y for each y */
  int64_t numbers;    /* of these together */
  double **charges;   /* [box], of boxes with many points: [1 + t][NODES] in `memory` */
  double *memory;
  double *box_weights;  /* [box] */
  double weights;       /* of all */
  bool tabled;          /* are kernels between nodes in a table? */
  double *all, *others; /* m x width */
  int64_t m;
  struct fk_scratch scratch;
};

/* ---- boxes ------------------------------------------------------------------------------------ */

static int64_t size_of(const struct boxes *b, int64_t box) { return b->first[box + 1] - b->first[box]; }
static bool is_many(const struct boxes *b, int64_t box) { return size_of(b, box) > FEW; }
static int64_t count_many(const struct boxes *b) {
  int64_t many = 0;
  for (int64_t box = 0; box < b->count; box++) many += is_many(b, box);
  return many;
}

static double number_at(const struct boxes *b, double x) { return floor((x - b->origin) / b->width); }
static double number_of(const struct boxes *b, int64_t box) { return number_at(b, b->x[b->first[box]]); }
static double middle_of(const struct boxes *b, int64_t box) {
  return b->origin + (number_of(b, box) + 0.5) * b->width;
}

/* A place less another. */
static double gap_of(const struct boxes *b, int64_t i, double from, double from_low) {
  return b->x[i] - from + ((b->low ? b->low[i] : 0) - from_low);
}

static bool cut_boxes(struct boxes *b, const double *x, const double *low, int64_t n) {
  int64_t count = 0;
  b->x = x;
  b->low = low;
  for (int64_t i = 0; i < n; i++) count += i == 0 || number_at(b, x[i]) != number_at(b, x[i - 1]);
  b->first = malloc(sizeof *b->first * (size_t)(count + 1));
  if (!b->first) return false;
  for (int64_t i = 0; i < n; i++)
    if (i == 0 || number_at(b, x[i]) != number_at(b, x[i - 1])) b->first[b->count++] = i;
  b->first[b->count] = n;
  return true;
}

/* The first point that is not left of `place`, and the first box from a number on. */
static int64_t point_from(const double *x, int64_t n, double place) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (x[middle] >= place)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static int64_t box_from(const struct boxes *b, double number) {
  int64_t low = 0, high = b->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (number_of(b, middle) >= number)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

/* T_0 .. T_(NODES - 1) at a, from -1/2 to 1/2. */
static void chebyshev(double a, double *T) {
  T[0] = 1;
  T[1] = 2 * a;
  for (int k = 2; k < NODES; k++) T[k] = 4 * a * T[k - 1] - T[k - 2];
}

static void set_nodes(struct nodes *nodes) {
  for (int i = 0; i < NODES; i++) {
    double T[NODES];
    nodes->at[i] = -0.5 * cos(PI * (2 * i + 1) / (2 * NODES));
    chebyshev(nodes->at[i], T);
    for (int k = 0; k < NODES; k++) nodes->series[k][i] = T[k] * (k == 0 ? 1 : 2) / NODES;
  }
}

static void set_kernels(struct nodes *nodes, double width) {
  for (int o = 0; o < OFFSETS; o++)
    for (int i = 0; i < NODES; i++)
      for (int j = 0; j < NODES; j++) {
        double u = width * (nodes->at[i] - nodes->at[j] + (o - REACH));
        nodes->kernel[o][i][j] = exp(-u * u / 2);
      }
}

/* Which point place j is, -1 for none. */
static int64_t point_of(const struct line *s, int64_t j) {
  if (!s->others) return -1;
  return s->of->own ? s->of->own[j] - 1 : j;
}

static double charge_of(const struct fk_line *of, int64_t i, int64_t column) {
  return column == 0 ? of->weights[i] : of->weights[i] * of->y[i + (column - 1) * of->n];
}

static void charge_nodes(const struct line *s, int64_t box, double *charges) {
  double T[NODES], at_nodes[NODES], middle = middle_of(&s->sources, box);
  int64_t columns = 1 + s->of->t;
  memset(charges, 0, sizeof *charges * (size_t)(columns * NODES));
  for (int64_t i = s->sources.first[box]; i < s->sources.first[box + 1]; i++) {
    chebyshev(gap_of(&s->sources, i, middle, 0) / s->sources.width, T);
    for (int64_t column = 0; column < columns; column++) {
      double charge = charge_of(s->of, i, column);
      for (int k = 0; k < NODES; k++) charges[column * NODES + k] += charge * T[k];
    }
  }
  for (int64_t column = 0; column < columns; column++, charges += NODES) {
    memset(at_nodes, 0, sizeof at_nodes);
    for (int k = 0; k < NODES; k++)
      for (int j = 0; j < NODES; j++) at_nodes[j] += charges[k] * s->nodes.series[k][j];
    memcpy(charges, at_nodes, sizeof at_nodes);
  }
}

static void charge_boxes(void *data, int64_t first, int64_t end, int slot) {
  const struct line *s = data;
  (void)slot;
  for (int64_t box = first; box < end; box++) {
    double sum = 0;
    for (int64_t i = s->sources.first[box]; i < s->sources.first[box + 1]; i++) sum += s->of->weights[i];
    s->box_weights[box] = sum;
    if (s->charges[box]) charge_nodes(s, box, s->charges[box]);
  }
}

static bool make_room(struct line *s, int threads) {
  int64_t count = s->sources.count, many = count_many(&s->sources), room = (1 + s->of->t) * NODES;
  s->charges = malloc(sizeof *s->charges * (size_t)count);
  s->memory = malloc(sizeof(double) * (size_t)(many * room + 1));
  s->box_weights = malloc(sizeof(double) * (size_t)count);
  if (!s->charges || !s->memory || !s->box_weights) return false;
  double *next = s->memory;
  for (int64_t box = 0; box < count; box++) {
    bool has = is_many(&s->sources, box);
    s->charges[box] = has ? next : NULL;
    if (has) next += room;
  }
  return fk_scratch_init(&s->scratch, threads, sizeof(double) * (size_t)(s->numbers * (NODES + 2)));
}

/* ---- sums at the places of a box, or at its nodes ---------------------------------------------- */

/* What carries the sums of a box: its own places, or its nodes. */
struct carriers {
  double at[NODES], middle, number; /* places about the middle; of the box */
  int count;
  bool nodes;
};

static struct carriers carriers_of(const struct line *s, const struct boxes *b, int64_t box) {
  struct carriers c = {.middle = middle_of(b, box), .number = number_of(b, box), .nodes = is_many(b, box)};
  c.count = c.nodes ? NODES : (int)size_of(b, box);
  for (int j = 0; j < c.count; j++)
    c.at[j] = c.nodes ? b->width * s->nodes.at[j] : gap_of(b, b->first[box] + j, c.middle, 0);
  return c;
}

/* sums: [numbers][NODES]. same: are these the same points, of which none counts for itself? */
static void add_box(const struct line *s, int64_t box, const struct carriers *to, bool same, double *sums) {
  const struct carriers from = carriers_of(s, &s->sources, box);
  double apart = from.middle - to->middle, boxes_apart = from.number - to->number, k[NODES], u[NODES];
  int64_t first = s->sources.first[box], t = s->of->t;
  const double(*known)[NODES] = NULL;
  if (s->tabled && from.nodes && to->nodes && fabs(boxes_apart) <= REACH)
    known = s->nodes.kernel[(int)boxes_apart + REACH];
  for (int i = 0; i < from.count; i++) {
    for (int j = 0; j < to->count; j++) u[j] = from.at[i] - to->at[j] + apart;
    for (int j = 0; j < to->count; j++) k[j] = known ? known[i][j] : exp(-u[j] * u[j] / 2);
    if (same) k[i] = 0;
    double *sum = sums;
    for (int power = 0; power < s->masses; power++) {
      for (int64_t column = 0; column <= (power < s->slopes ? t : 0); column++, sum += NODES) {
        double charge = from.nodes ? s->charges[box][column * NODES + i] : charge_of(s->of, first + i, column);
        for (int j = 0; j < to->count; j++) sum[j] += charge * k[j];
      }
      for (int j = 0; j < to->count; j++) k[j] *= u[j];
    }
  }
}

/* Values at nodes to coefficients of T_k. */
static void expand(const struct line *s, double *sums) {
  for (int64_t v = 0; v < s->numbers; v++, sums += NODES) {
    double c[NODES];
    for (int k = 0; k < NODES; k++) {
      c[k] = 0;
      for (int j = 0; j < NODES; j++) c[k] += sums[j] * s->nodes.series[k][j];
    }
    memcpy(sums, c, sizeof c);
  }
}

/* ---- moments ---------------------------------------------------------------------------------- */

/* Of `sums`: the powers 0, 1, 2 of u, each with a column for w and, but the last, one for each y; times
 * e^log_unit. They are about a point at `place` that has the responses y[r n], or NULL for 0. */
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
  const struct boxes *from = &s->sources;
  double place = s->targets.x[j], low = s->targets.low && from->low ? s->targets.low[j] : 0;
  int64_t right = point_from(of->x, of->n, place), left = right - 1, nearest = -1;
  memset(sums, 0, sizeof *sums * (size_t)s->numbers);
  while (left >= 0 || right < of->n) {
    bool go_left =
        right >= of->n || (left >= 0 && -gap_of(from, left, place, low) <= gap_of(from, right, place, low));
    int64_t i = go_left ? left-- : right++;
    if (i == left_out || of->weights[i] == 0) continue;
    if (nearest < 0) nearest = i;
    /* of squares of distances from the place; the products have the digits that the squares lose */
    double near = fabs(gap_of(from, nearest, place, low)), far = fabs(gap_of(from, i, place, low));
    double v = gap_of(from, i, of->x[nearest], from->low ? from->low[nearest] : 0);
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
  double away = gap_of(from, nearest, place, low);
  write_moments(s, to, j, sums, -away * away / 2, away, of->t > 0 ? of->y + nearest : NULL);
}

static void finish(const struct line *s, double *to, int64_t j, const double *sums, double least, int64_t left_out,
                   double *room) {
  if (sums[0] > least)
    write_moments(s, to, j, sums, 0, 0, NULL);
  else
    sum_alone(s, to, j, left_out, room);
}

/* Of the sums at place j; `without`: its own part is not among them. */
static void finish_place(const struct line *s, int64_t j, double *sums, double least, bool without, double *room) {
  if (!s->others) {
    finish(s, s->all, j, sums, least, -1, room);
    return;
  }
  double sign = without ? 1 : -1;
  int64_t i = point_of(s, j);
  finish(s, without ? s->others : s->all, j, sums, least, without ? i : -1, room);
  for (int64_t column = 0; column <= s->of->t; column++) sums[column] += sign * charge_of(s->of, i, column);
  if (!without) least = fmax(least, LEAST_SHARE * s->of->weights[i]);
  finish(s, without ? s->all : s->others, j, sums, least, without ? -1 : i, room);
}

static void fill_boxes(void *data, int64_t begin, int64_t end, int slot) {
  const struct line *s = data;
  double *sums = fk_scratch_at(&s->scratch, slot), *at_place = sums + s->numbers * NODES;
  double *room = at_place + s->numbers;
  for (int64_t box = begin; box < end; box++) {
    const struct carriers to = carriers_of(s, &s->targets, box);
    /* with the same boxes on both sides, points of a box of few do not meet themselves */
    bool without = s->others && !s->of->own && !to.nodes;
    double reach = REACH / s->sources.width, weights = 0;
    memset(sums, 0, sizeof *sums * (size_t)(s->numbers * NODES));
    for (int64_t b = box_from(&s->sources, to.number - reach); b < s->sources.count; b++) {
      if (number_of(&s->sources, b) > to.number + reach) break;
      weights += s->box_weights[b];
      add_box(s, b, &to, without && b == box, sums);
    }
    double least = fmax(LEAST * weights, LEAST_OF_ALL * s->weights);
    if (to.nodes) expand(s, sums);
    for (int64_t j = s->targets.first[box]; j < s->targets.first[box + 1]; j++) {
      double T[NODES];
      if (to.nodes) chebyshev(gap_of(&s->targets, j, to.middle, 0) / s->targets.width, T);
      for (int64_t v = 0; v < s->numbers; v++) {
        const double *of = sums + v * NODES;
        at_place[v] = to.nodes ? 0 : of[j - s->targets.first[box]];
        for (int k = 0; to.nodes && k < NODES; k++) at_place[v] += of[k] * T[k];
      }
      finish_place(s, j, at_place, least, without, room);
    }
  }
}

static enum fk_status fill(struct line *s, const struct fk_opts *opts, struct fk_error *err) {
  double work = (double)s->numbers * NODES * NODES * OFFSETS;
  int threads = fk_threads_for_work(opts->threads, work * (double)s->targets.count);
  struct fk_loop loop = {threads, s->targets.count, fk_step_for_work(work), work / 8};
  if (!make_room(s, threads))
    return fk_fail(err, FK_STATUS_ALLOC, "no memory for the moments of %.0f points", (double)s->of->n);
  set_nodes(&s->nodes);
  s->tabled = (double)count_many(&s->sources) * (double)count_many(&s->targets) > OFFSETS;
  if (s->tabled) set_kernels(&s->nodes, s->sources.width);
  fk_parallel_for(threads, s->sources.count, fk_step_for_work(work), charge_boxes, s);
  for (int64_t box = 0; box < s->sources.count; box++) s->weights += s->box_weights[box];
  return fk_loop_run(&loop, &opts->poll, fill_boxes, s, err);
}

enum fk_status fk_line_moments(const struct fk_line *of, const double *at, int64_t m, const struct fk_opts *opts,
                               double *all, double *others, struct fk_stats *stats, struct fk_error *err) {
  double started = fk_seconds();
  struct line *s = calloc(1, sizeof *s);
  enum fk_status status = FK_STATUS_OK;
  if (s) {
    *s = (struct line){.of = of, .all = all, .others = others, .m = m, .masses = of->order + 1};
    s->slopes = of->order > 0 ? 2 : 1;
    double range = of->x[of->n - 1] - of->x[0];
    bool narrow = range > 0 && range < 1;
    s->sources.origin = narrow ? of->x[0] : 0;
    s->sources.width = narrow ? range : 1;
    s->targets = s->sources;
    s->numbers = s->masses + s->slopes * of->t;
  }
  if (!s || !cut_boxes(&s->sources, of->x, of->low, of->n) ||
      !cut_boxes(&s->targets, at ? at : of->x, at ? of->at_low : of->low, m))
    status = fk_fail(err, FK_STATUS_ALLOC, "no memory for the boxes of %.0f points", (double)of->n);
  if (!status) status = fill(s, opts, err);
  if (s) {
    fk_scratch_free(&s->scratch);
    free(s->sources.first);
    free(s->targets.first);
    free(s->charges);
    free(s->memory);
    free(s->box_weights);
  }
  free(s);
  fk_plan_describe(opts, "boxes", (double)of->n * (double)m, started, stats);
  return status;
}

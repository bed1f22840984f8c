#include "boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/pool.h"
#include "../../core/threads.h"

enum { NODES = FK_LINE_NODES, REACH = FK_LINE_REACH, OFFSETS = FK_LINE_OFFSETS };
static const double PI = 3.14159265358979323846, LEAST = 1e-8, LEAST_OF_ALL = 1e-12;

struct nodes {
  double at[NODES];                     /* about the middle of a box, in its width */
  double series[NODES][NODES];          /* [degree][node] from moments by T_k, and to its coefficients */
  double kernel[OFFSETS][NODES][NODES]; /* [boxes apart][source][target] */
};

struct line {
  const struct fk_line_spec *spec;
  struct nodes nodes;
  double **charges; /* [box], of boxes with many points: [column][NODES] in `memory` */
  double *memory;
  double *box_weights; /* [box][guard] */
  double *weights;     /* [guard], of all */
  bool tabled;         /* are kernels between nodes in a table? */
  struct fk_scratch scratch;
};

/* ---- boxes ------------------------------------------------------------------------------------ */

static int64_t size_of(const struct fk_line_boxes *b, int64_t box) { return b->first[box + 1] - b->first[box]; }
static bool is_many(const struct fk_line_boxes *b, int64_t box) { return size_of(b, box) > FK_LINE_FEW; }
static int64_t count_many(const struct fk_line_boxes *b) {
  int64_t many = 0;
  for (int64_t box = 0; box < b->count; box++) many += is_many(b, box);
  return many;
}

double fk_line_gaussian(FK_UNUSED const void *of, double u) { return exp(-u * u / 2); }

double fk_line_number_at(const struct fk_line_boxes *b, double x) { return floor((x - b->origin) / b->width); }
double fk_line_number_of(const struct fk_line_boxes *b, int64_t box) {
  return fk_line_number_at(b, b->x[b->first[box]]);
}
static double middle_of(const struct fk_line_boxes *b, int64_t box) {
  return b->origin + (fk_line_number_of(b, box) + 0.5) * b->width;
}

/* Fills in `first` and `count`. */
static bool cut(struct fk_line_boxes *b) {
  const double *x = b->x;
  int64_t n = b->n, count = 0;
  for (int64_t i = 0; i < n; i++) count += i == 0 || fk_line_number_at(b, x[i]) != fk_line_number_at(b, x[i - 1]);
  b->first = malloc(sizeof *b->first * (size_t)(count + 1));
  if (!b->first) return false;
  for (int64_t i = 0; i < n; i++)
    if (i == 0 || fk_line_number_at(b, x[i]) != fk_line_number_at(b, x[i - 1])) b->first[b->count++] = i;
  b->first[b->count] = n;
  return true;
}

bool fk_line_sort(double *x, int64_t *order, int64_t n) {
  double least = INFINITY;
  int64_t *end = calloc(FK_LINE_BOXES + 1, sizeof *end);
  double *sorted = malloc(sizeof *sorted * (size_t)n);
  for (int64_t i = 0; i < n; i++) least = fmin(least, floor(x[i]));
  for (int64_t i = 0; i < n && end && sorted; i++) end[(int64_t)(floor(x[i]) - least) + 1]++;
  for (int64_t box = 0; box < FK_LINE_BOXES && end && sorted; box++) end[box + 1] += end[box];
  for (int64_t i = 0; i < n && end && sorted; i++) {
    int64_t to = end[(int64_t)(floor(x[i]) - least)]++;
    sorted[to] = x[i];
    order[to] = i;
  }
  bool done = end && sorted;
  if (done) memcpy(x, sorted, sizeof *x * (size_t)n);
  free(end);
  free(sorted);
  return done;
}

int64_t fk_line_point_from(const double *x, int64_t n, double place) {
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

int64_t fk_line_box_from(const struct fk_line_boxes *b, double number) {
  int64_t low = 0, high = b->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (fk_line_number_of(b, middle) >= number)
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

static void set_kernels(struct line *s) {
  struct nodes *nodes = &s->nodes;
  for (int o = 0; o < OFFSETS; o++)
    for (int i = 0; i < NODES; i++)
      for (int j = 0; j < NODES; j++) {
        double u = s->spec->sources.width * (nodes->at[i] - nodes->at[j] + (o - REACH));
        nodes->kernel[o][i][j] = s->spec->kernel(s->spec->of, u);
      }
}

static double charge_of(const struct fk_line_spec *spec, int64_t i, int64_t column) {
  return spec->charges[i + column * spec->sources.n];
}

static void charge_nodes(const struct line *s, int64_t box, double *charges) {
  const struct fk_line_spec *spec = s->spec;
  double T[NODES], at_nodes[NODES], middle = middle_of(&spec->sources, box);
  int64_t columns = spec->n_columns;
  memset(charges, 0, sizeof *charges * (size_t)(columns * NODES));
  for (int64_t i = spec->sources.first[box]; i < spec->sources.first[box + 1]; i++) {
    chebyshev(fk_line_gap(&spec->sources, i, middle, 0) / spec->sources.width, T);
    for (int64_t column = 0; column < columns; column++) {
      double charge = charge_of(spec, i, column);
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

static void charge_boxes(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct line *s = data;
  const struct fk_line_spec *spec = s->spec;
  for (int64_t box = first; box < end; box++) {
    for (int64_t g = 0; g < spec->n_guards; g++) {
      double sum = 0;
      for (int64_t i = spec->sources.first[box]; i < spec->sources.first[box + 1]; i++)
        sum += charge_of(spec, i, g);
      s->box_weights[box * spec->n_guards + g] = sum;
    }
    if (s->charges[box]) charge_nodes(s, box, s->charges[box]);
  }
}

static bool make_room(struct line *s, int threads) {
  const struct fk_line_spec *spec = s->spec;
  int64_t count = spec->sources.count, many = count_many(&spec->sources), room = spec->n_columns * NODES;
  s->charges = malloc(sizeof *s->charges * (size_t)count);
  s->memory = malloc(sizeof(double) * (size_t)(many * room + 1));
  s->box_weights = malloc(sizeof(double) * (size_t)(count * spec->n_guards));
  s->weights = calloc((size_t)spec->n_guards, sizeof *s->weights);
  if (!s->charges || !s->memory || !s->box_weights || !s->weights) return false;
  double *next = s->memory;
  for (int64_t box = 0; box < count; box++) {
    bool has = is_many(&spec->sources, box);
    s->charges[box] = has ? next : NULL;
    if (has) next += room;
  }
  int64_t numbers = spec->n_terms * (NODES + 2) + 2 * spec->n_guards;
  return fk_scratch_init(&s->scratch, threads, sizeof(double) * (size_t)numbers);
}

/* ---- sums at the places of a box, or at its nodes ---------------------------------------------- */

/* The points at which the sums of a box are made: its targets, or its nodes. */
struct carriers {
  double at[NODES], middle, number; /* places about the middle; of the box */
  int count;
  bool nodes;
};

static struct carriers carriers_of(const struct line *s, const struct fk_line_boxes *b, int64_t box) {
  struct carriers c = {.middle = middle_of(b, box), .number = fk_line_number_of(b, box), .nodes = is_many(b, box)};
  c.count = c.nodes ? NODES : (int)size_of(b, box);
  for (int j = 0; j < c.count; j++)
    c.at[j] = c.nodes ? b->width * s->nodes.at[j] : fk_line_gap(b, b->first[box] + j, c.middle, 0);
  return c;
}

/* sums: [term][NODES]. same: are these the same points, of which none counts for itself? */
static void add_box(const struct line *s, int64_t box, const struct carriers *to, bool same, double *sums) {
  const struct fk_line_spec *spec = s->spec;
  const struct carriers from = carriers_of(s, &spec->sources, box);
  double apart = from.middle - to->middle, boxes_apart = from.number - to->number;
  double k[NODES], u[NODES], values[FK_LINE_KINDS][NODES];
  int64_t first = spec->sources.first[box];
  const double(*known)[NODES] = NULL;
  if (s->tabled && from.nodes && to->nodes && fabs(boxes_apart) <= REACH)
    known = s->nodes.kernel[(int)boxes_apart + REACH];
  for (int i = 0; i < from.count; i++) {
    for (int j = 0; j < to->count; j++) u[j] = from.at[i] - to->at[j] + apart;
    for (int j = 0; j < to->count; j++) k[j] = known ? known[i][j] : spec->kernel(spec->of, u[j]);
    if (same) k[i] = 0;
    spec->kinds(k, u, to->count, spec->of, values);
    double *sum = sums;
    for (int64_t t = 0; t < spec->n_terms; t++, sum += NODES) {
      int64_t column = spec->terms[t].column;
      const double *value = values[spec->terms[t].kind];
      double charge = from.nodes ? s->charges[box][column * NODES + i] : charge_of(spec, first + i, column);
      for (int j = 0; j < to->count; j++) sum[j] += charge * value[j];
    }
  }
}

/* Values at nodes to coefficients of T_k. */
static void expand(const struct line *s, double *sums) {
  for (int64_t v = 0; v < s->spec->n_terms; v++, sums += NODES) {
    double c[NODES];
    for (int k = 0; k < NODES; k++) {
      c[k] = 0;
      for (int j = 0; j < NODES; j++) c[k] += sums[j] * s->nodes.series[k][j];
    }
    memcpy(sums, c, sizeof c);
  }
}

static void finish_places(const struct line *s, int64_t box, const struct carriers *to, const double *sums,
                          struct fk_line_place *place) {
  const struct fk_line_spec *spec = s->spec;
  for (int64_t j = spec->targets.first[box]; j < spec->targets.first[box + 1]; j++) {
    double T[NODES];
    if (to->nodes) chebyshev(fk_line_gap(&spec->targets, j, to->middle, 0) / spec->targets.width, T);
    for (int64_t v = 0; v < spec->n_terms; v++) {
      const double *of = sums + v * NODES;
      place->sums[v] = to->nodes ? 0 : of[j - spec->targets.first[box]];
      for (int k = 0; to->nodes && k < NODES; k++) place->sums[v] += of[k] * T[k];
    }
    place->j = j;
    spec->finish(spec->of, place);
  }
}

static void fill_boxes(void *data, int64_t begin, int64_t end, int slot) {
  const struct line *s = data;
  const struct fk_line_spec *spec = s->spec;
  int64_t guards = spec->n_guards, terms = spec->n_terms;
  double *sums = fk_scratch_at(&s->scratch, slot), *least = sums + terms * (NODES + 2), *weights = least + guards;
  struct fk_line_place place = {.sums = sums + terms * NODES, .room = sums + terms * (NODES + 1), .least = least};
  double reach = REACH / spec->sources.width;
  for (int64_t box = begin; box < end; box++) {
    const struct carriers to = carriers_of(s, &spec->targets, box);
    /* with the same boxes on both sides, points of a box of few do not meet themselves */
    place.without = spec->drops_self && !to.nodes;
    int64_t first_box = fk_line_box_from(&spec->sources, to.number - reach);
    place.first = spec->sources.first[first_box];
    memset(sums, 0, sizeof *sums * (size_t)(terms * NODES));
    memset(weights, 0, sizeof *weights * (size_t)guards);
    for (int64_t b = first_box; b < spec->sources.count; b++) {
      if (fk_line_number_of(&spec->sources, b) > to.number + reach) break;
      for (int64_t g = 0; g < guards; g++) weights[g] += s->box_weights[b * guards + g];
      add_box(s, b, &to, place.without && b == box, sums);
    }
    for (int64_t g = 0; g < guards; g++) least[g] = fmax(LEAST * weights[g], LEAST_OF_ALL * s->weights[g]);
    if (to.nodes) expand(s, sums);
    finish_places(s, box, &to, sums, &place);
  }
}

static enum fk_status fill(struct line *s, const struct fk_opts *opts, struct fk_error *err) {
  const struct fk_line_spec *spec = s->spec;
  int64_t count = spec->sources.count, guards = spec->n_guards;
  double work = (double)spec->n_terms * NODES * NODES * OFFSETS;
  int threads = fk_threads_for_work(opts->threads, work * (double)spec->targets.count);
  struct fk_loop loop = {threads, spec->targets.count, fk_step_for_work(work), work / 8};
  if (!make_room(s, threads))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for sums over %.0f points", (double)spec->sources.n);
  set_nodes(&s->nodes);
  s->tabled = (double)count_many(&spec->sources) * (double)count_many(&spec->targets) > OFFSETS;
  if (s->tabled) set_kernels(s);
  fk_parallel_for(threads, count, fk_step_for_work(work), charge_boxes, s);
  for (int64_t box = 0; box < count; box++)
    for (int64_t g = 0; g < guards; g++) s->weights[g] += s->box_weights[box * guards + g];
  return fk_loop_run(&loop, &opts->poll, fill_boxes, s, err);
}

enum fk_status fk_line_run(struct fk_line_spec *spec, const struct fk_opts *opts, struct fk_error *err) {
  struct line *s = calloc(1, sizeof *s);
  if (!s) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the nodes of boxes");
  s->spec = spec;
  enum fk_status status =
      cut(&spec->sources) && cut(&spec->targets)
          ? fill(s, opts, err)
          : fk_fail(err, FK_STATUS_ALLOC, "out of memory for the boxes of %.0f points", (double)spec->sources.n);
  fk_scratch_free(&s->scratch);
  free(s->charges);
  free(s->memory);
  free(s->box_weights);
  free(s->weights);
  free(s);
  free(spec->sources.first);
  free(spec->targets.first);
  return status;
}

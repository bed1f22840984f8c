/* Sums of Markov kernels (markov.h) in O(n + m) after a sort: the sum over the points on one side of a place is
 * the first coordinate of a state that moves from place to place, to which each point adds. */
#include <stdlib.h>

#include "../../core/costs.h"
#include "../../core/scan.h"
#include "../../core/threads.h"
#include "markov.h"

enum { LOOK_UP = 1 << 16 };

struct place {
  double u;
  int64_t row;
};
struct sides {
  const struct fk_task *task;
  struct fk_markov markov;
  struct place *sources, *targets; /* sorted; the same if the targets are the sources */
  int64_t n, m, values;            /* of each place: the mass, and columns */
  double *states;                  /* [value][order], and then what was rounded off of each */
};

static int compare(const void *a, const void *b) {
  const struct place *p = a, *q = b;
  if (p->u != q->u) return p->u < q->u ? -1 : 1;
  return p->row < q->row ? -1 : p->row > q->row;
}

/* Whitened and sorted; the caller frees *places. */
static enum fk_status place_points(const struct fk_task *task, const struct fk_matrix *x, int threads,
                                   struct place **places, bool *far, struct fk_error *err) {
  double *u = malloc(sizeof *u * (size_t)x->n), low, high;
  *places = malloc(sizeof **places * (size_t)x->n);
  enum fk_status status = u && *places
                              ? fk_whiten_points(task->whitening, threads, x, 0, x->n, u, x->n, err)
                              : fk_no_memory(err, (double)sizeof **places * (double)x->n, "places on a line");
  if (!status) {
    for (int64_t i = 0; i < x->n; i++) (*places)[i] = (struct place){u[i], i};
    fk_range(u, x->n, threads, &low, &high);
    *far = *far || !(fmax(-low, high) <= fk_costs.as_exact.reach);
    qsort(*places, (size_t)x->n, sizeof **places, compare);
  }
  free(u);
  return status;
}

/* Is source i passed before target j is reached? A point at a place is on its left; of points at themselves, those
 * at the same place are on either side by their order. */
static bool is_first(const struct sides *s, bool left, int64_t i, int64_t j, double source, double target) {
  if (s->targets == s->sources) return i < j || (i == j && left && !s->task->exclude_self);
  return left ? source <= target : source > target;
}

/* What is rounded off is kept: of a million equal weights it would always be the same. */
static void add_point(const struct sides *s, int64_t row) {
  const struct fk_task *task = s->task;
  double weight = task->weights ? task->weights[row] : 1;
  double *state = s->states, *rounded = state + s->values * s->markov.order;
  for (int64_t v = 0; v < s->values; v++) {
    double b = v > 0 ? weight * task->columns[row + (v - 1) * s->n] : weight;
    for (int k = 0; k < s->markov.order; k++, state++, rounded++) {
      double more = b * s->markov.start[k] + *rounded, sum = *state + more;
      *rounded = more - (sum - *state);
      *state = sum;
    }
  }
}

static enum fk_status sum_side(const struct sides *s, bool left, const struct fk_poll *poll,
                               struct fk_error *err) {
  const struct fk_task *task = s->task;
  const int order = s->markov.order;
  enum fk_status status = FK_STATUS_OK;
  double at = 0;
  for (int64_t v = 0; v < 2 * s->values * order; v++) s->states[v] = 0;
  for (int64_t i = 0, j = 0; j < s->m && !status;) {
    const struct place *target = s->targets + (left ? j : s->m - 1 - j);
    const struct place *source = i < s->n ? s->sources + (left ? i : s->n - 1 - i) : NULL;
    bool adds = source && is_first(s, left, i, j, source->u, target->u);
    double u = adds ? source->u : target->u;
    const struct fk_markov_step step = fk_markov_step_of(s->markov.rate * fabs(u - at));
    for (int64_t v = 0; v < 2 * s->values && u != at; v++) fk_markov_move(&step, order, s->states + v * order);
    at = u;
    if (adds) {
      add_point(s, source->row);
      i++;
      continue;
    }
    for (int64_t v = 0; v < s->values; v++) {
      double *to = v == 0 ? task->mass + target->row : task->sums + target->row + (v - 1) * s->m;
      *to = s->states[v * order] + (left ? 0 : *to);
    }
    if (++j % LOOK_UP == 0) status = fk_look_up(poll, ((double)j / (double)s->m + !left) / 2, err);
  }
  return status;
}

enum fk_status fk_markov_sums(const struct fk_task *task, const struct fk_opts *opts, bool *may,
                              struct fk_error *err) {
  struct sides s = {.task = task, .n = task->sources.n, .m = fk_n_targets(task)};
  int threads = fk_threads_for_bytes(opts->threads, 16.0 * (double)(s.n + s.m));
  bool far = false;
  *may = fk_markov_of(&task->kernel, &s.markov) && !task->tail_pass;
  if (!*may) return FK_STATUS_OK;
  s.values = 1 + (task->values == FK_VALUES_COLUMNS ? task->n_columns : 0);
  s.states = malloc(sizeof *s.states * (size_t)(2 * s.values * s.markov.order));
  enum fk_status status = s.states ? place_points(task, &task->sources, threads, &s.sources, &far, err)
                                   : fk_no_memory(err, 0, "states of sums");
  if (!task->targets.data)
    s.targets = s.sources;
  else if (!status)
    status = place_points(task, &task->targets, threads, &s.targets, &far, err);
  *may = !far;
  if (!status && *may) status = sum_side(&s, true, &opts->poll, err);
  if (!status && *may) status = sum_side(&s, false, &opts->poll, err);
  if (task->targets.data) free(s.targets);
  free(s.sources);
  free(s.states);
  return status;
}

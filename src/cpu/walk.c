#include "walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/plan.h"
#include "../core/threads.h"
#include "order.h"

/* Multiply-adds that take as long as a kernel, roughly: it decides when to look for an interrupt. */
#define KERNEL_WORK 10

/* ---- groups of targets ------------------------------------------------------------------------ */

/* Memory of a thread: a group, the coordinates of its targets on separate cache lines, and the rule's memory. */
enum { GROUP_BYTES = 128 };
_Static_assert(sizeof(struct fk_walk_group) <= GROUP_BYTES, "the coordinates would lie in the group");

static struct fk_walk_group *group_of(const struct fk_walk *w, int slot) {
  return fk_scratch_at(&w->scratch, slot);
}
static size_t coordinates_bytes(const struct fk_walk *w) {
  return w->rule->width == 1 ? 0 : sizeof(double) * (size_t)(2 * FK_NEAR_TARGETS * w->d);
}

static void take_one(struct fk_walk_group *g, int64_t place) {
  const struct fk_walk *w = g->walk;
  int64_t target = fk_walk_target(w, place);
  g->first = place;
  g->count = 1;
  g->y = w->y.x + target * w->d;
  g->low = w->y.low ? w->y.low + target * w->d : NULL;
}

static void take_several(struct fk_walk_group *g, int64_t first, int64_t end) {
  const struct fk_walk *w = g->walk;
  double *y = (double *)((char *)g + GROUP_BYTES), *low = y + FK_NEAR_TARGETS * w->d;
  g->first = first;
  g->count = (int)fk_smaller(FK_NEAR_TARGETS, end - first);
  g->y = y;
  g->low = low;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) {
    int64_t from = fk_walk_target(w, first + (t < g->count ? t : 0)) * w->d;
    for (int64_t k = 0; k < w->d; k++) {
      y[k * FK_NEAR_TARGETS + t] = w->y.x[from + k];
      if (w->y.low) low[k * FK_NEAR_TARGETS + t] = w->y.low[from + k];
    }
  }
}

static void walk_pieces(void *data, int64_t first, int64_t end, int slot) {
  const struct fk_walk *w = data;
  const int width = w->rule->width, piece = w->rule->piece;
  struct fk_walk_group *g = group_of(w, slot);
  for (int64_t i = first; i < end; i++) {
    bool goes_on = true;
    for (int64_t at = i * piece, last = fk_smaller(w->y.n, at + piece); at < last && goes_on; at += width) {
      if (width == 1)
        take_one(g, at);
      else
        take_several(g, at, last);
      goes_on = w->rule->group(g);
    }
  }
}

/* ---- the tree --------------------------------------------------------------------------------- */

static int64_t *order_of(const struct fk_walk *w, const struct fk_walk_points *p, bool ordered) {
  const int64_t units[2] = {FK_NEAR_POINTS, FK_NEAR_TARGETS};
  int64_t *index = malloc(sizeof *index * (size_t)p->n);
  if (!index) return NULL;
  for (int64_t i = 0; i < p->n; i++) index[i] = i;
  if (ordered) fk_order_points(p->x, w->d, units, w->threads, index, p->n);
  return index;
}

static void fill_panels(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct fk_walk *w = data;
  for (int64_t i = first * FK_NEAR_POINTS; i < end * FK_NEAR_POINTS; i++)
    for (int64_t k = 0; k < w->d; k++) {
      int64_t to = (i / FK_NEAR_POINTS * w->d + k) * FK_NEAR_POINTS + i % FK_NEAR_POINTS;
      w->points[to] = i < w->x.n ? w->x.x[w->order[i] * w->d + k] : w->rule->padding;
      if (w->low) w->low[to] = i < w->x.n ? w->x.low[w->order[i] * w->d + k] : 0;
    }
}

static void fill_values(const struct fk_walk *w) {
  int64_t places = fk_walk_padded(w->x.n);
  double own[8];
  for (int64_t i = 0; i < places && w->rule->values > 0; i++) {
    w->rule->point(w->of, i < w->x.n ? w->order[i] : -1, own);
    for (int v = 0; v < w->rule->values; v++) w->values[v * places + i] = own[v];
  }
}

static void add_number(enum fk_walk_summary is, double value, double *to) {
  *to = is == FK_WALK_LEAST ? fmin(*to, value) : is == FK_WALK_LARGEST ? fmax(*to, value) : *to + value;
}

/* Low parts of points, and of targets that are near, are no larger than half of it. */
static double room_for_low(const struct fk_walk *w, double x) { return w->low ? 0x1p-51 * fabs(x) : 0; }

static void fill_leaf(const struct fk_walk *w, int64_t panel, double *box, double *numbers) {
  int size = fk_walk_size(w, panel);
  for (int64_t k = 0; k < w->d; k++) {
    const double *x = fk_walk_panel(w, panel) + k * FK_NEAR_POINTS;
    double low = x[0], high = x[0];
    for (int i = 1; i < size; i++) {
      low = fmin(low, x[i]);
      high = fmax(high, x[i]);
    }
    box[k] = low - room_for_low(w, low);
    box[w->d + k] = high + room_for_low(w, high);
  }
  for (int v = 0; v < FK_WALK_NUMBERS && w->rule->numbers[v].is; v++)
    for (int i = 0; i < size; i++)
      add_number(w->rule->numbers[v].is, fk_walk_values(w, w->rule->numbers[v].of, panel)[i], numbers + v);
}

/* Boxes and numbers of a node and all nodes in it. */
static void fill_nodes(const struct fk_walk *w, struct fk_walk_span at) {
  const struct fk_walk_number *number = w->rule->numbers;
  double *box = w->boxes + 2 * w->d * at.node, *own = w->nodes + FK_WALK_NUMBERS * at.node;
  struct fk_walk_span halves[2];
  for (int v = 0; v < FK_WALK_NUMBERS; v++)
    own[v] = number[v].is == FK_WALK_LEAST ? INFINITY : number[v].is == FK_WALK_LARGEST ? -INFINITY : 0;
  if (at.end - at.first == 1) {
    fill_leaf(w, at.first, box, own);
    return;
  }
  fk_walk_halves(at, halves);
  for (int half = 0; half < 2; half++) {
    fill_nodes(w, halves[half]);
    const double *part = fk_walk_box(w, halves[half].node);
    for (int64_t k = 0; k < w->d; k++) {
      box[k] = half ? fmin(box[k], part[k]) : part[k];
      box[w->d + k] = half ? fmax(box[w->d + k], part[w->d + k]) : part[w->d + k];
    }
    for (int v = 0; v < FK_WALK_NUMBERS; v++)
      add_number(number[v].is, fk_walk_node(w, halves[half].node)[v], own + v);
  }
}

static enum fk_status plant(struct fk_walk *w, struct fk_error *err) {
  size_t numbers = (size_t)(fk_walk_padded(w->x.n) * w->d), bytes = GROUP_BYTES + coordinates_bytes(w) + w->room;
  bool ordered = w->y.n > w->rule->few, in_turn = w->rule->piece == 1;
  w->count = fk_pieces(w->x.n, FK_NEAR_POINTS);
  w->order = order_of(w, &w->x, ordered);
  if (!in_turn) w->targets = w->own ? w->order : order_of(w, &w->y, ordered);
  w->points = fk_aligned_alloc(sizeof(double) * numbers);
  if (w->x.low) w->low = fk_aligned_alloc(sizeof(double) * numbers);
  w->values = malloc(sizeof(double) * (size_t)(w->rule->values * w->count * FK_NEAR_POINTS + 1));
  w->boxes = malloc(sizeof(double) * (size_t)(2 * w->count * (2 * w->d + FK_WALK_NUMBERS)));
  if (!w->order || (!in_turn && !w->targets) || !w->points || (w->x.low && !w->low) || !w->values || !w->boxes ||
      !fk_scratch_init(&w->scratch, w->threads, bytes))
    return fk_no_memory(err, 0, fk_operation_words(w->rule->operation));
  w->nodes = w->boxes + 4 * w->count * w->d;
  for (int slot = 0; slot < w->threads; slot++) {
    struct fk_walk_group *g = memset(group_of(w, slot), 0, GROUP_BYTES + coordinates_bytes(w));
    *g = (struct fk_walk_group){.walk = w, .room = (char *)g + GROUP_BYTES + coordinates_bytes(w)};
  }
  fk_parallel_for(w->threads, w->count, fk_step_for_bytes(16.0 * FK_NEAR_POINTS * (double)w->d), fill_panels, w);
  fill_values(w);
  fill_nodes(w, (struct fk_walk_span){0, 0, w->count});
  return FK_STATUS_OK;
}

static void describe(const struct fk_walk *w, const struct fk_opts *opts, double started, struct fk_stats *stats) {
  double looked = 0;
  for (int slot = 0; slot < w->threads && w->scratch.memory; slot++) looked += group_of(w, slot)->looked;
  fk_plan_describe(opts, w->rule->operation, (double)w->x.n * (double)w->y.n, started, w->threads, stats);
  stats->skipped = fmax(stats->pairs - looked, 0);
}

enum fk_status fk_walk_run(struct fk_walk *w, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err) {
  double started = fk_seconds(), work = w->work * w->rule->piece;
  w->ops = fk_isa()->f64;
  w->own = !w->y.x;
  if (w->own) w->y = w->x;
  if (w->threads == 0) w->threads = fk_threads_for_work(opts->threads, w->work * (double)w->y.n);
  struct fk_loop loop = {w->threads, fk_pieces(w->y.n, w->rule->piece), fk_step_for_work(work),
                         work / KERNEL_WORK};
  enum fk_status status = plant(w, err);
  if (!status) status = fk_loop_run(&loop, &opts->poll, walk_pieces, w, err);
  if (stats) describe(w, opts, started, stats);
  fk_scratch_free(&w->scratch);
  free(w->boxes);
  free(w->values);
  fk_aligned_free(w->low);
  fk_aligned_free(w->points);
  if (!w->own) free(w->targets);
  free(w->order);
  return status;
}

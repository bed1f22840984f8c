#include "near.h"
#include "../core/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/count.h"
#include "../core/pool.h"

/* Sources may be left out if they add at most 2^-BITS of a sum. Kernels are 0 below an exponent of -ZERO, with
 * room for the rounding of exponents. */
enum { BITS_DOUBLE = 54, BITS_SINGLE = 26, ZERO_DOUBLE = 1030, ZERO_SINGLE = 130 };

/* ---- from a bound to a reach ------------------------------------------------------------------ */

/* It is larger than what multiplies, which grows slowly, so that steps converge from below. */
double fk_near_exponent(const struct fk_kernel_mode *mode, bool coordinates, double bits, double most) {
  const double *f = mode->form.factor;
  double t = bits;
  for (int step = 0; step < 12 && t < most; step++) {
    double factor = fabs(f[0]) + t * (fabs(f[1]) + t * fabs(f[2])), before = t;
    t = bits + fmax(0, log2(factor * (coordinates ? 0.5 + t * FK_LN2 : 1)));
    if (t == before) break;
  }
  return fmin(t * (1 + 1e-6), most); /* NaN: most */
}

double fk_near_square(const struct fk_kernel_form *form, double t) {
  if (form->type == FK_FORM_ROOT || form->type == FK_FORM_ABSOLUTE) return t * t;
  return form->type == FK_FORM_STRETCHED ? pow(t * FK_LN2, 1 / form->power) : t;
}

static double reach2_of(const struct fk_kernel_mode *mode, bool coordinates, double log2_ratio) {
  double bits = (mode->single ? BITS_SINGLE : BITS_DOUBLE) + (log2_ratio <= 0 ? 0 : log2_ratio);
  double t = fk_near_exponent(mode, coordinates, bits, mode->single ? ZERO_SINGLE : ZERO_DOUBLE);
  return fk_mode_is_gram(mode) ? 2 * t : fk_near_square(&mode->form, t);
}

double fk_near_usual_reach2(const struct fk_kernel_mode *mode, bool coordinates, double n) {
  return reach2_of(mode, coordinates, log2(n));
}

/* ---- the bound of each row -------------------------------------------------------------------- */

struct bound {
  struct fk_near_pairs *near;
  const struct fk_sweep *sweep;
  struct fk_sources sources; /* with their |weights| */
  bool loo;
  int64_t n_columns;
  double *totals;         /* of the weights, and of each column times them */
  double *log2_ratio;     /* of each block of targets: of the total to a row's bound, the largest of all */
  struct fk_scratch room; /* a tile of kernels, and a block's sums */
};

static double middle_apart2(const double *a, const double *b, int64_t d) {
  double sum = 0;
  for (int64_t k = 0; k < d; k++) {
    double gap = (a[k] + a[d + k] - b[k] - b[d + k]) / 2;
    sum += gap * gap;
  }
  return sum;
}

static int64_t nearest_box(const double *boxes, int64_t first, int64_t end, int64_t d, const double *box) {
  int64_t best = first;
  double least = INFINITY;
  for (int64_t i = first; i < end; i++) {
    double apart2 = middle_apart2(boxes + 2 * d * i, box, d);
    if (apart2 < least) {
      least = apart2;
      best = i;
    }
  }
  return best;
}

/* A block of sources near a block of targets: its own, where they are the same. */
static int64_t block_near(const struct fk_near_pairs *near, int64_t target) {
  const struct fk_near_blocks *x = near->sources;
  const double *box = fk_near_box(near->targets, target);
  if (near->same) return target;
  int64_t region = nearest_box(x->regions_boxes, 0, x->regions, x->d, box), first = region * x->per_region;
  return nearest_box(x->boxes, first, fk_smaller(x->blocks, first + x->per_region), x->d, box);
}

static void make_absolute(const struct fk_kernel_mode *mode, void *kernel, int n_rows) {
  for (int64_t i = 0; i < (int64_t)n_rows * FK_TILE_COLS; i += FK_TILE_COLS)
    for (int64_t c = i; c < i + FK_NEAR_BLOCK; c++)
      if (mode->single)
        ((float *)kernel)[c] = fabsf(((float *)kernel)[c]);
      else
        ((double *)kernel)[c] = fabs(((double *)kernel)[c]);
}

/* sums: of |weights| and of each column, at each of the block's targets. */
static void sum_block(const struct bound *b, int64_t target, void *kernel, double *sums) {
  const struct fk_sweep *s = b->sweep;
  const struct fk_kernel_mode *mode = &s->mode;
  const struct fk_packed *y = &b->near->targets->points;
  int64_t source = block_near(b->near, target), at = target * FK_NEAR_BLOCK;
  double unused[FK_TILE_COLS] = {0};
  struct fk_tile tile = {.kernel = kernel, .col_mass = unused};
  fk_tile_takes_form(&tile, &mode->form);
  fk_packed_rows(&b->sources.points, mode, source * FK_NEAR_BLOCK, fk_near_points(b->near->sources, source),
                 &tile);
  fk_packed_columns(y, mode, at, FK_NEAR_BLOCK, &tile);
  mode->ops->sums(&tile, fk_sweep_flags(s, true, false));
  for (int i = 0; i < tile.n_rows && b->loo; i++) fk_real_set(mode, kernel, i * (FK_TILE_COLS + 1), 0);
  if (mode->form.factor[1] != 0 || mode->form.factor[2] != 0) make_absolute(mode, kernel, tile.n_rows);

  struct fk_tile_values values = {.n_rows = tile.n_rows, .n_cols = FK_NEAR_BLOCK, .kernel = kernel};
  values.weight = tile.row_weight;
  values.values = b->sources.points.ones;
  values.n_values = 1;
  values.out = sums;
  values.ld = FK_NEAR_BLOCK;
  mode->ops->col_values(&values);
  if (b->n_columns == 0) return;
  values.values = fk_values_at(s, &b->sources, source * FK_NEAR_BLOCK);
  values.n_values = b->n_columns;
  values.out = sums + FK_NEAR_BLOCK;
  mode->ops->col_values(&values);
}

/* Or NaN, if one is. */
static double larger(double a, double b) { return b <= a ? a : b; }

static void bound_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct bound *b = data;
  const struct fk_near_pairs *near = b->near;
  double *sums = fk_scratch_at(&b->room, slot);
  void *kernel = sums + (1 + b->n_columns) * FK_NEAR_BLOCK;
  for (int64_t target = first; target < end; target++) {
    double worst = 0;
    memset(sums, 0, sizeof(double) * (size_t)((1 + b->n_columns) * FK_NEAR_BLOCK));
    sum_block(b, target, kernel, sums);
    for (int64_t v = 0; v <= b->n_columns; v++)
      for (int i = 0; i < fk_near_points(near->targets, target) && b->totals[v] > 0; i++)
        worst = larger(worst, b->totals[v] / sums[v * FK_NEAR_BLOCK + i]);
    b->log2_ratio[target] = log2(worst);
  }
}

/* In the units of packed weights and columns. */
static void find_totals(const struct bound *b) {
  const struct fk_task *task = b->sweep->task;
  int64_t n = task->sources.n;
  for (int64_t v = 0; v <= b->n_columns; v++) {
    const double *column = v > 0 ? task->columns + (v - 1) * n : NULL;
    double total = 0, scale = v > 0 ? b->sweep->value_scale[v - 1] : 1;
    for (int64_t i = 0; i < n; i++)
      total += (task->weights ? task->weights[i] / b->sweep->weight_scale : 1) * (column ? column[i] / scale : 1);
    b->totals[v] = total;
  }
}

/* ---- the reach of each block ------------------------------------------------------------------ */

/* Boxes are of high parts, which are off by the slack. */
static double reach2_of_boxes(const struct fk_kernel_mode *mode, double reach2) {
  double reach = sqrt(reach2) + mode->slack;
  return mode->slack > 0 ? reach * reach : reach2;
}

static void set_reach(const struct bound *b, bool coordinates) {
  struct fk_near_pairs *near = b->near;
  const struct fk_near_blocks *y = near->targets;
  for (int64_t target = 0; target < y->blocks; target++) {
    double reach2 = reach2_of_boxes(&b->sweep->mode, reach2_of(&y->mode, coordinates, b->log2_ratio[target]));
    double *region = near->regions_reach2 + target / y->per_region;
    near->reach2[target] = reach2;
    *region = fmax(*region, reach2);
  }
}

static enum fk_status bound_init(struct bound *b, struct fk_error *err) {
  const struct fk_sweep *s = b->sweep;
  const struct fk_near_blocks *y = b->near->targets;
  size_t room = sizeof(double) * (size_t)((1 + b->n_columns) * FK_NEAR_BLOCK + FK_TILE_ROWS * FK_TILE_COLS);
  b->totals = malloc(sizeof(double) * (size_t)(1 + b->n_columns));
  b->log2_ratio = malloc(sizeof(double) * (size_t)y->blocks);
  if (!b->totals || !b->log2_ratio || !fk_scratch_init(&b->room, s->threads, room))
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory for bounds of %.0f sums", (double)y->n);
  enum fk_status status = fk_sources_init(&b->sources, s, s->task->sources.n, err);
  return status ? status : fk_sources_pack(&b->sources, s, 0, s->task->sources.n, s->threads, err);
}

enum fk_status fk_near_init(struct fk_near_pairs *near, const struct fk_sweep *sweep,
                            const struct fk_near_blocks *targets, bool loo, struct fk_error *err) {
  bool coordinates = sweep->task->values == FK_VALUES_COORDINATES;
  struct bound b = {.near = near, .sweep = sweep, .loo = loo};
  b.n_columns = coordinates ? 0 : sweep->n_values;
  near->targets = targets;
  near->same = near->sources == targets;
  near->reach2 = malloc(sizeof(double) * (size_t)targets->blocks);
  near->regions_reach2 = calloc((size_t)targets->regions, sizeof(double));
  enum fk_status status = FK_STATUS_OK;
  if (!near->reach2 || !near->regions_reach2)
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for bounds of %.0f sums", (double)targets->n);
  if (!status) status = bound_init(&b, err);
  if (!status) {
    find_totals(&b);
    fk_parallel_for(sweep->threads, targets->blocks, 8, bound_blocks, &b);
    set_reach(&b, coordinates);
  }
  fk_sources_free(&b.sources);
  fk_scratch_free(&b.room);
  free(b.totals);
  free(b.log2_ratio);
  return status;
}

void fk_near_free(struct fk_near_pairs *near) {
  free(near->reach2);
  free(near->regions_reach2);
}

double fk_near_share(const struct fk_near_pairs *near) {
  int64_t blocks = near->sources->blocks, of = near->targets->blocks,
          sampled = fk_smaller(of, fk_costs.near.sample_blocks), found = 0;
  for (int64_t i = 0; i < sampled; i++)
    for (int64_t at = -1; (at = fk_near_next(near, at + 1, blocks, i * of / sampled)) < blocks;) found++;
  return (double)found / ((double)sampled * (double)blocks);
}

/* Factors and the product of a tiled matrix. A sweep takes block columns in order; when one is final, it is the
 * panel that all later ones take what they need of. Its owner finishes the next one first and sends it to the
 * others, who are busy with this one. Of a streamed matrix a group of columns is on the devices, and panels before
 * the group come from the host. */
#include <math.h>
#include <stdlib.h>

#include "blocked.h"
#include "threads.h"
#include "tiled_parts.h"

struct factor_sweep {
  struct fk_tiled *t;
  const struct fk_poll *poll;
  int64_t begin, end;    /* the group */
  struct fk_dense *held; /* its columns, where they are computed on */
  struct fk_tiled_buffers buffers;
  struct fk_dense roots[FK_MAX_DEVICES], zeros[FK_MAX_DEVICES]; /* of the product */
  double *diagonal;                                             /* of a block, on the host */
  unsigned halves;                                              /* FK_HALVES: products for U are of these; or 0 */
  int64_t pivot;
  double done, total; /* multiply-adds */
};

/* The operations of a sweep. finish: turns block column k, which has taken all panels before it, into a panel;
 * NULL: it is one already. prepare: turns a block column that arrives on a device into a panel, on each device
 * that will use it. take: updates block column j by panel k. */
struct factor_phase {
  bool upper; /* columns and panels are of U */
  enum fk_status (*finish)(struct factor_sweep *s, int64_t k, struct fk_error *err);
  enum fk_status (*prepare)(struct factor_sweep *s, int64_t k, int place, struct fk_error *err);
  enum fk_status (*take)(struct factor_sweep *s, int64_t j, int64_t k, const struct fk_dense *panel,
                         struct fk_error *err);
};

static bool is_inside(const struct factor_sweep *s, int64_t k) { return k >= s->begin && k < s->end; }
static struct fk_dense column(const struct factor_sweep *s, int64_t j, bool upper) {
  return fk_tiled_half(&s->held[j - s->begin], upper);
}
static struct fk_dense buffer(const struct factor_sweep *s, int place, int64_t k) {
  return fk_tiled_buffer(s->t, &s->buffers, place, k, k);
}
static bool is_here(const struct factor_sweep *s, int64_t k, int place) {
  return is_inside(s, k) && fk_tiled_place(s->t, k) == place;
}

/* Panel k as it came: rows are those of the whole. */
static struct fk_dense raw_panel(const struct factor_sweep *s, bool upper, int64_t k, int place) {
  return is_here(s, k, place) ? column(s, k, upper) : buffer(s, place, k);
}

/* The first column that takes panel k, of a device or of all. */
static int64_t first_taker(const struct factor_sweep *s, int64_t k) { return fk_larger(k + 1, s->begin); }
static int64_t first_taker_at(const struct factor_sweep *s, int64_t k, int place) {
  const int64_t j = first_taker(s, k), G = s->t->n_devices;
  return j + (place - j % G + G) % G;
}
/* A view of the rows of panel k that later block columns need. */
static struct fk_dense needed(const struct factor_sweep *s, bool upper, int64_t k, const struct fk_dense *panel) {
  return upper ? fk_tiled_rows(s->t, panel, 0, k + 1) : fk_tiled_rows(s->t, panel, first_taker(s, k), s->t->count);
}

static double fraction(const struct factor_sweep *s) { return fmin(1, s->done / s->total); }

static enum fk_status look_up(const struct factor_sweep *s, struct fk_error *err) {
  return fk_look_up(s->poll, fraction(s), err);
}

/* So many multiply-adds are a step, which looks up by itself. */
static struct fk_step next_step(struct factor_sweep *s, double work) {
  const double from = fraction(s);
  s->done += work;
  return (struct fk_step){s->poll, from, fraction(s)};
}
/* Work of the factor of a block on the diagonal, or of its product. */
static double corner_work(const struct fk_dense *corner) { return pow((double)corner->n, 3) / 6; }

static enum fk_status factor_corner(struct factor_sweep *s, int64_t k, unsigned flags,
                                    const struct fk_dense *corner, struct fk_error *err) {
  struct fk_step step = next_step(s, corner_work(corner));
  const struct fk_blocked how = {s->t->ops, fk_tiled_device(s->t, k), 0, fk_poll_of_step(&step)};
  enum fk_status status = fk_blocked_potrf(&how, flags, corner, &s->pivot, err);
  if (s->pivot) s->pivot += fk_tiled_first(s->t, k);
  return status;
}

/* ---- panels ----------------------------------------------------------------------------------- */

/* To those devices that need it and do not have it. */
static enum fk_status send_panel(struct factor_sweep *s, const struct factor_phase *phase, int64_t k,
                                 struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const bool inside = is_inside(s, k);
  struct fk_dense all = inside ? column(s, k, phase->upper) : fk_tiled_half(&t->columns[k], phase->upper),
                  from = needed(s, phase->upper, k, &all);
  enum fk_status status = FK_STATUS_OK;
  for (int g = 0; g < t->n_devices && !status; g++) {
    if (is_here(s, k, g) || first_taker_at(s, k, g) >= s->end) continue;
    struct fk_dense there = buffer(s, g, k), to = needed(s, phase->upper, k, &there);
    status = t->ops->copy(t->devices[g], inside ? fk_tiled_device(t, k) : -1, &from, &to, err);
  }
  return status;
}

static enum fk_status write_back(const struct factor_sweep *s, bool upper, int64_t j, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, j);
  struct fk_dense half = column(s, j, upper), from = fk_tiled_used(t, &half, j, upper),
                  host = fk_tiled_half(&t->columns[j], upper), to = fk_tiled_used(t, &host, j, upper);
  return t->streamed ? t->ops->copy(device, device, &from, &to, err) : FK_STATUS_OK;
}

static enum fk_status finish_panel(struct factor_sweep *s, const struct factor_phase *phase, int64_t k,
                                   struct fk_error *err) {
  enum fk_status status = phase->finish(s, k, err);
  if (status || s->pivot) return status;
  status = write_back(s, phase->upper, k, err);
  return status ? status : send_panel(s, phase, k, err);
}

/* Updates a device's block columns from j on by panel k. */
static enum fk_status take_panel(struct factor_sweep *s, const struct factor_phase *phase, int64_t k, int64_t j,
                                 int64_t end, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int place = fk_tiled_place(t, j);
  struct fk_dense panel = phase->prepare ? buffer(s, place, k) : raw_panel(s, phase->upper, k, place);
  enum fk_status status = FK_STATUS_OK;
  for (; j < end && !status; j += t->n_devices) status = phase->take(s, j, k, &panel, err);
  return status;
}

static enum fk_status prepare_panel(struct factor_sweep *s, const struct factor_phase *phase, int64_t k,
                                    struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  for (int g = 0; g < s->t->n_devices && !status && phase->prepare; g++)
    if (is_here(s, k, g) || first_taker_at(s, k, g) < s->end) status = phase->prepare(s, k, g, err);
  return status;
}

/* Panel k is on its way or there; k + 1 is sent as soon as it can be. */
static enum fk_status pass(struct factor_sweep *s, const struct factor_phase *phase, int64_t k,
                           struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int64_t next = k + 1;
  const bool finishes = phase->finish && is_inside(s, next);
  const int owner = finishes ? fk_tiled_place(t, next) : -1;
  enum fk_status status = fk_tiled_turn(t, err);
  if (!status && next < s->end && !finishes) status = send_panel(s, phase, next, err);
  if (!status) status = prepare_panel(s, phase, k, err);
  if (!status && finishes) status = take_panel(s, phase, k, next, next + 1, err);
  for (int g = 0; g < t->n_devices && !status; g++)
    if (g != owner) status = take_panel(s, phase, k, first_taker_at(s, k, g), s->end, err);
  if (!status && finishes) status = finish_panel(s, phase, next, err);
  if (!status && finishes && !s->pivot) status = take_panel(s, phase, k, next + t->n_devices, s->end, err);
  return status ? status : look_up(s, err);
}

static enum fk_status sweep(struct factor_sweep *s, const struct factor_phase *phase, struct fk_error *err) {
  const bool finishes = phase->finish && s->begin == 0;
  enum fk_status status = fk_tiled_turn(s->t, err);
  if (!status) status = finishes ? finish_panel(s, phase, 0, err) : send_panel(s, phase, 0, err);
  for (int64_t k = 0; k < s->end && !status && !s->pivot; k++) status = pass(s, phase, k, err);
  return status ? status : fk_tiled_wait(s->t, err);
}

/* ---- K = L L' --------------------------------------------------------------------------------- */

static enum fk_status finish_L(struct factor_sweep *s, int64_t k, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, k);
  struct fk_dense L = column(s, k, false), corner = fk_tiled_rows(t, &L, k, k + 1),
                  below = fk_tiled_rows(t, &L, k + 1, t->count);
  enum fk_status status = factor_corner(s, k, 0, &corner, err);
  if (status || s->pivot || below.n == 0) return status;
  return t->ops->trsm(device, FK_RIGHT | FK_TRANSPOSED, 1, &corner, &below, err);
}

static enum fk_status take_L(struct factor_sweep *s, int64_t j, FK_UNUSED int64_t k, const struct fk_dense *panel,
                             struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, j);
  struct fk_dense L = column(s, j, false), corner = fk_tiled_rows(t, &L, j, j + 1),
                  below = fk_tiled_rows(t, &L, j + 1, t->count), beside = fk_tiled_rows(t, panel, j, j + 1),
                  beside_below = fk_tiled_rows(t, panel, j + 1, t->count);
  s->done += (double)(corner.n + below.n) * (double)corner.n * (double)panel->d;
  enum fk_status status = t->ops->syrk(device, 0, -1, &beside, 1, &corner, err);
  if (status || below.n == 0) return status;
  return t->ops->gemm(device, FK_TRANSPOSED_B, -1, &beside_below, &beside, 1, &below, err);
}

/* ---- C = L'WL --------------------------------------------------------------------------------- */

/* The corner of U, L_kk'W L_kk and what is below, and W L below, which panel k is to the others. */
static enum fk_status prepare_product(struct factor_sweep *s, int64_t k, int place, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const struct fk_dense_ops *ops = t->ops;
  const int device = t->devices[place];
  const bool here = is_here(s, k, place);
  struct fk_dense raw = raw_panel(s, false, k, place), L = fk_tiled_rows(t, &raw, first_taker(s, k), t->count);
  enum fk_status status = FK_STATUS_OK;
  struct fk_dense U, corner, roots;
  if (here) {
    struct fk_dense all = column(s, k, true), L_kk = fk_tiled_rows(t, &raw, k, k + 1);
    U = fk_tiled_rows(t, &all, k, k + 1);
    corner = U;
    roots = fk_tiled_rows(t, &s->roots[place], k, k + 1);
    status = ops->transpose(device, 0, &L_kk, &roots, &corner, err);
    struct fk_step step = next_step(s, corner_work(&corner));
    const struct fk_blocked how = {ops, device, 0, fk_poll_of_step(&step)};
    if (!status) status = fk_blocked_lauum(&how, FK_UPPER, &corner, err);
  }
  if (status || L.n == 0) return status;
  struct fk_dense scaled = buffer(s, place, k), P = fk_tiled_rows(t, &scaled, first_taker(s, k), t->count);
  roots = fk_tiled_rows(t, &s->roots[place], first_taker(s, k), t->count);
  status = ops->scale(device, &L, &roots, &P, err);
  if (!status && here) status = ops->syrk(device, FK_UPPER | FK_TRANSPOSED, 1, &P, 1, &corner, err);
  return status ? status : ops->scale(device, &P, &roots, &P, err);
}

/* Above the diagonal of L_jj, where U_jj will be, is 0: see load(). */
static enum fk_status take_product(struct factor_sweep *s, int64_t j, int64_t k, const struct fk_dense *panel,
                                   struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  struct fk_dense L = column(s, j, false), below = fk_tiled_rows(t, &L, j, t->count),
                  beside = fk_tiled_rows(t, panel, j, t->count), U = column(s, j, true),
                  block = fk_tiled_rows(t, &U, k, k + 1);
  s->done += (double)below.n * (double)block.n * (double)block.d;
  return t->ops->gemm(fk_tiled_device(t, j), FK_TRANSPOSED | s->halves, 1, &beside, &below, 0, &block, err);
}

/* ---- C = U'U ---------------------------------------------------------------------------------- */

static enum fk_status finish_U(struct factor_sweep *s, int64_t k, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, k);
  struct fk_dense U = column(s, k, true), corner = fk_tiled_rows(t, &U, k, k + 1),
                  above = fk_tiled_rows(t, &U, 0, k);
  enum fk_status status = FK_STATUS_OK;
  if (k > 0) status = t->ops->syrk(device, FK_UPPER | FK_TRANSPOSED, -1, &above, 1, &corner, err);
  return status ? status : factor_corner(s, k, FK_UPPER, &corner, err);
}

static enum fk_status take_U(struct factor_sweep *s, int64_t j, int64_t k, const struct fk_dense *panel,
                             struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, j);
  struct fk_dense U = column(s, j, true), block = fk_tiled_rows(t, &U, k, k + 1),
                  corner = fk_tiled_rows(t, panel, k, k + 1), above = fk_tiled_rows(t, &U, 0, k),
                  beside = fk_tiled_rows(t, panel, 0, k);
  enum fk_status status = FK_STATUS_OK;
  s->done += (double)(above.n + block.n) * (double)block.n * (double)block.d;
  if (k > 0) status = t->ops->gemm(device, FK_TRANSPOSED | s->halves, -1, &beside, &above, 1, &block, err);
  return status ? status : t->ops->trsm(device, FK_UPPER | FK_TRANSPOSED, 1, &corner, &block, err);
}

static const struct factor_phase factor_L = {false, finish_L, NULL, take_L},
                                 product = {false, NULL, prepare_product, take_product},
                                 factor_U = {true, finish_U, NULL, take_U};

/* ---- groups ----------------------------------------------------------------------------------- */

static enum fk_status add_diagonal(struct factor_sweep *s, bool upper, int64_t j, const double *each, double all,
                                   struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int device = fk_tiled_device(t, j);
  struct fk_dense half = column(s, j, upper), corner = fk_tiled_rows(t, &half, j, j + 1),
                  there = fk_dense_diagonal(&corner), here = fk_dense_of(s->diagonal, 1, corner.n);
  enum fk_status status = t->ops->fetch(device, &there, &here, err);
  for (int64_t i = 0; i < corner.n; i++) s->diagonal[i] += each ? each[fk_tiled_first(t, j) + i] : all;
  return status ? status : t->ops->send(device, &here, &there, err);
}

/* The group's columns of a streamed matrix come into the places of those before. */
static void begin_group(struct factor_sweep *s, const struct fk_dense *places, int64_t begin) {
  const struct fk_tiled *t = s->t;
  s->begin = begin;
  s->end = fk_smaller(t->count, begin + t->held);
  for (int64_t j = begin; j < s->end; j++)
    s->held[j - begin] =
        t->streamed ? fk_dense_part(&places[j - begin], 0, 0, t->m, fk_tiled_width(t, j) + 1) : t->columns[j];
}

/* L from the host, with zeros above its diagonal: their columns are those of U. */
static enum fk_status load(struct factor_sweep *s, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  enum fk_status status = fk_tiled_turn(t, err);
  for (int64_t j = s->begin; j < s->end && !status && t->streamed; j++) {
    struct fk_dense host = fk_tiled_half(&t->columns[j], false), from = fk_tiled_used(t, &host, j, false),
                    there = column(s, j, false), to = fk_tiled_used(t, &there, j, false);
    status = t->ops->copy(fk_tiled_device(t, j), -1, &from, &to, err);
  }
  if (!status) status = fk_tiled_turn(t, err);
  for (int64_t j = s->begin; j < s->end && !status && t->count > 1; j++) {
    struct fk_dense L = column(s, j, false), U = column(s, j, true), L_jj = fk_tiled_rows(t, &L, j, j + 1),
                    U_jj = fk_tiled_rows(t, &U, j, j + 1),
                    zeros = fk_dense_part(&s->zeros[fk_tiled_place(t, j)], 0, 0, U_jj.n, 1);
    status = t->ops->transpose(fk_tiled_device(t, j), 0, &L_jj, &zeros, &U_jj, err);
  }
  return status;
}

/* Share of the time of L that computing K takes: a guess, for progress only. */
#define FILLED 0.1

static enum fk_status factor_group(struct factor_sweep *s, const struct fk_tiled_source *source,
                                   struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  enum fk_status status = FK_STATUS_OK;
  for (int64_t j = s->begin; j < s->end && !status; j++) {
    struct fk_dense half = column(s, j, t->rough), K = fk_tiled_used(t, &half, j, t->rough);
    struct fk_step step = next_step(s, FILLED * s->total * (double)K.d / (double)t->m);
    const struct fk_poll poll = fk_poll_of_step(&step);
    const int64_t first = fk_tiled_first(t, j);
    status = source->fill(source->data, fk_tiled_device(t, j), t->rough ? 0 : first, first, &K, &poll, err);
    if (!status && source->diagonal) status = add_diagonal(s, t->rough, j, source->diagonal, 0, err);
    if (!status) status = look_up(s, err);
  }
  return status ? status : sweep(s, t->rough ? &factor_U : &factor_L, err);
}

static enum fk_status weigh_group(struct factor_sweep *s, double lambda, struct fk_error *err) {
  enum fk_status status = load(s, err);
  if (!status) status = sweep(s, &product, err);
  for (int64_t j = s->begin; j < s->end && !status; j++) status = add_diagonal(s, true, j, NULL, lambda, err);
  return status ? status : sweep(s, &factor_U, err);
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* Room to work in; panels that nobody sends need none, unless they are scaled. */
static enum fk_status open_sweep(struct factor_sweep *s, struct fk_dense *places, bool scales,
                                 struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  const int buffers = fk_tiled_has_copies(t) || (scales && t->count > 1) ? FK_TILED_BUFFERS : 0;
  enum fk_status status = fk_tiled_take_buffers(t, buffers, &s->buffers, err);
  s->held = calloc((size_t)t->held, sizeof *s->held);
  s->diagonal = malloc((size_t)t->block * sizeof *s->diagonal);
  if (!status && (!s->held || !s->diagonal)) status = fk_no_memory(err, 0, "a matrix in block columns");
  for (int64_t i = 0; i < t->held && !status && t->streamed; i++) {
    places[i] = (struct fk_dense){.type = FK_DOUBLE, .n = t->m, .d = t->block + 1};
    status = t->ops->alloc(fk_tiled_device(t, i), &places[i], err);
  }
  return status;
}

static void close_sweep(struct factor_sweep *s, struct fk_dense *places) {
  struct fk_tiled *t = s->t;
  for (int64_t i = 0; i < t->held && places && t->streamed; i++) t->ops->free(fk_tiled_device(t, i), &places[i]);
  fk_tiled_give_buffers(t, &s->buffers);
  fk_tiled_free_all(t, s->roots);
  fk_tiled_free_all(t, s->zeros);
  free(s->held);
  free(s->diagonal);
  free(places);
}

/* Group after group by what makes L, or by roots and lambda what makes U. */
static enum fk_status for_groups(struct factor_sweep *s, const struct fk_tiled_source *source, double lambda,
                                 struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  struct fk_dense *places = calloc((size_t)t->held, sizeof *places);
  enum fk_status status =
      places ? open_sweep(s, places, !source, err) : fk_no_memory(err, 0, "a matrix in block columns");
  s->total = pow((double)t->m, 3) / (source ? 6 * (1 - FILLED) : 3);
  for (int64_t begin = 0; begin < t->count && !status && !s->pivot; begin += t->held) {
    begin_group(s, places, begin);
    status = source ? factor_group(s, source, err) : weigh_group(s, lambda, err);
  }
  if (status || s->pivot) fk_tiled_wait(t, err);
  if (!status && !s->pivot) {
    s->done = s->total; /* of the steps between, a little is not counted */
    status = look_up(s, err);
  }
  close_sweep(s, places);
  return status;
}

enum fk_status fk_tiled_factor(struct fk_tiled *t, const struct fk_tiled_source *source,
                               const struct fk_poll *poll, int64_t *pivot, struct fk_error *err) {
  struct factor_sweep s = {.t = t, .poll = poll, .halves = t->rough && t->halves ? FK_HALVES : 0};
  enum fk_status status = for_groups(&s, source, 0, err);
  *pivot = s.pivot;
  return status;
}

static enum fk_status send_vectors(struct factor_sweep *s, const double *roots, struct fk_error *err) {
  const struct fk_tiled *t = s->t;
  double *zeros = calloc((size_t)t->block, sizeof *zeros);
  struct fk_dense roots_here = fk_dense_of(roots, t->m, 1), zeros_here = fk_dense_of(zeros, t->block, 1);
  enum fk_status status = zeros ? FK_STATUS_OK : fk_no_memory(err, 0, "a matrix in block columns");
  if (!status) status = fk_tiled_alloc_all(t, t->m, 1, s->roots, err);
  if (!status) status = fk_tiled_alloc_all(t, t->block, 1, s->zeros, err);
  for (int g = 0; g < t->n_devices && !status; g++) {
    status = t->ops->send(t->devices[g], &roots_here, &s->roots[g], err);
    if (!status) status = t->ops->send(t->devices[g], &zeros_here, &s->zeros[g], err);
  }
  free(zeros);
  return status;
}

static enum fk_status weigh(struct factor_sweep *s, const double *roots, double lambda, struct fk_error *err) {
  enum fk_status status = send_vectors(s, roots, err);
  if (!status) return for_groups(s, NULL, lambda, err);
  close_sweep(s, NULL);
  return status;
}

enum fk_status fk_tiled_weigh(struct fk_tiled *t, const double *roots, double lambda, const struct fk_poll *poll,
                              int64_t *pivot, struct fk_error *err) {
  struct factor_sweep s = {.t = t, .poll = poll, .halves = t->halves ? FK_HALVES : 0};
  enum fk_status status = weigh(&s, roots, lambda, err);
  if (!status && s.pivot && s.halves) {
    struct fk_step rest = {poll, fraction(&s), 1};
    const struct fk_poll poll_rest = fk_poll_of_step(&rest);
    s = (struct factor_sweep){.t = t, .poll = &poll_rest};
    status = weigh(&s, roots, lambda, err);
  }
  *pivot = s.pivot;
  return status;
}

/* Products with the factors of a tiled matrix, and solves: a block column after the other, each where it lies or
 * where it comes to. The vectors go along from device to device. */
#include <stddef.h>

#include "tiled_parts.h"

struct apply {
  const struct fk_tiled *t;
  struct fk_tiled_buffers buffers;
  struct fk_dense v[FK_MAX_DEVICES]; /* m x t on each device */
  int at;                            /* the place where they are up to date */
};

/* Does the triangle of a block column come before what is beside it? */
static bool triangle_first(const struct fk_tiled_step *step) {
  return step->solve != (bool)(step->flags & FK_TRANSPOSED);
}
static bool is_ascending(const struct fk_tiled_step *step) {
  return ((bool)(step->flags & FK_UPPER) == (bool)(step->flags & FK_TRANSPOSED)) == step->solve;
}

static enum fk_status do_triangle(const struct apply *a, const struct fk_tiled_step *step, int64_t j,
                                  const struct fk_dense *half, struct fk_error *err) {
  const struct fk_tiled *t = a->t;
  struct fk_dense corner = fk_tiled_rows(t, half, j, j + 1), v = fk_tiled_rows(t, &a->v[a->at], j, j + 1);
  return step->solve ? t->ops->trsm(t->devices[a->at], step->flags, 1, &corner, &v, err)
                     : t->ops->trmm(t->devices[a->at], step->flags, 1, &corner, &v, err);
}

static enum fk_status do_beside(const struct apply *a, const struct fk_tiled_step *step, int64_t j,
                                const struct fk_dense *half, struct fk_error *err) {
  const struct fk_tiled *t = a->t;
  const bool upper = step->flags & FK_UPPER, transposed = step->flags & FK_TRANSPOSED;
  const int64_t first = upper ? 0 : j + 1, end = upper ? j : t->count;
  struct fk_dense beside = fk_tiled_rows(t, half, first, end), v = fk_tiled_rows(t, &a->v[a->at], j, j + 1),
                  others = fk_tiled_rows(t, &a->v[a->at], first, end);
  if (first >= end) return FK_STATUS_OK;
  return t->ops->gemm(t->devices[a->at], transposed ? FK_TRANSPOSED : 0, step->solve ? -1 : 1, &beside,
                      transposed ? &others : &v, 1, transposed ? &v : &others, err);
}

/* Block columns are visited in order, and those of a device use its buffers in turns. */
static int64_t visited(const struct apply *a, const struct fk_tiled_step *step, int64_t visit) {
  return is_ascending(step) ? visit : a->t->count - 1 - visit;
}
static struct fk_dense half_at(const struct apply *a, const struct fk_tiled_step *step, int64_t j) {
  const struct fk_tiled *t = a->t;
  if (t->streamed) return fk_tiled_buffer(t, &a->buffers, fk_tiled_place(t, j), j / t->n_devices, j);
  return fk_tiled_half(&t->columns[j], step->flags & FK_UPPER);
}

static enum fk_status bring(const struct apply *a, const struct fk_tiled_step *step, int64_t visit,
                            struct fk_error *err) {
  const struct fk_tiled *t = a->t;
  if (!t->streamed || visit >= t->count) return FK_STATUS_OK;
  const int64_t j = visited(a, step, visit);
  const bool upper = step->flags & FK_UPPER;
  struct fk_dense half = fk_tiled_half(&t->columns[j], upper), from = fk_tiled_used(t, &half, j, upper),
                  buffer = half_at(a, step, j), to = fk_tiled_used(t, &buffer, j, upper);
  return t->ops->copy(fk_tiled_device(t, j), -1, &from, &to, err);
}

static enum fk_status go_to(struct apply *a, int place, struct fk_error *err) {
  const struct fk_tiled *t = a->t;
  enum fk_status status = FK_STATUS_OK;
  if (place != a->at) status = t->ops->copy(t->devices[place], t->devices[a->at], &a->v[a->at], &a->v[place], err);
  a->at = place;
  if (!status && fk_tiled_has_copies(t)) status = t->ops->turn(t->devices[place], err);
  return status;
}

static enum fk_status do_step(struct apply *a, const struct fk_tiled_step *step, struct fk_error *err) {
  const struct fk_tiled *t = a->t;
  enum fk_status status = fk_tiled_turn(t, err);
  for (int64_t visit = 0; visit < t->n_devices && !status; visit++) status = bring(a, step, visit, err);
  for (int64_t visit = 0; visit < t->count && !status; visit++) {
    const int64_t j = visited(a, step, visit);
    const struct fk_dense half = half_at(a, step, j);
    status = go_to(a, fk_tiled_place(t, j), err);
    if (!status) status = bring(a, step, visit + t->n_devices, err);
    if (!status && triangle_first(step)) status = do_triangle(a, step, j, &half, err);
    if (!status) status = do_beside(a, step, j, &half, err);
    if (!status && !triangle_first(step)) status = do_triangle(a, step, j, &half, err);
  }
  return status;
}

enum fk_status fk_tiled_apply(const struct fk_tiled *t, const struct fk_tiled_step *steps, int n_steps,
                              const struct fk_dense *v, struct fk_error *err) {
  struct apply a = {.t = t};
  enum fk_status status = fk_tiled_alloc_all(t, v->n, v->d, a.v, err);
  if (!status) status = t->ops->send(t->devices[0], v, &a.v[0], err);
  if (!status) status = fk_tiled_take_buffers(t, t->streamed ? FK_TILED_BUFFERS : 0, &a.buffers, err);
  for (int i = 0; i < n_steps && !status; i++) status = do_step(&a, &steps[i], err);
  if (!status) status = t->ops->fetch(t->devices[a.at], &a.v[a.at], v, err);
  if (fk_tiled_has_copies(t)) fk_tiled_wait(t, err);
  fk_tiled_give_buffers(t, &a.buffers);
  fk_tiled_free_all(t, a.v);
  return status;
}

/* Each work item copies the lower triangle of K to C, factors it in place, and inverts the factor in place. */
#include "ridge_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "blocked.h"
#include "costs.h"
#include "count.h"
#include "dense_kernels.h"
#include "threads.h"

/* Memory in which one noise at a time is fitted. */
struct ridge_room {
  struct fk_dense C, solution, squares; /* m x m, m x t, m x 1, where ops compute */
  double *diagonal;                     /* of C or its factor, on the host */
};

struct ridge_path {
  const struct fk_ridge_path_spec *spec;
  const struct fk_opts *opts;
  struct fk_ridge_path *out;
  const struct fk_dense_ops *ops;
  int device;
  struct fk_dense K; /* its lower triangle */
  double *kernels;   /* the diagonal of K, on the host */
  int n_rooms;       /* noises that are fitted at a time */
  struct ridge_room *rooms;
  struct fk_error *errors; /* of each room, the first */
};

static enum fk_status alloc(const struct ridge_path *p, struct fk_dense *A, int64_t n, int64_t d,
                            struct fk_error *err) {
  *A = (struct fk_dense){.type = FK_DOUBLE, .n = n, .d = d};
  return p->ops->alloc(p->device, A, err);
}

static enum fk_status start_room(const struct ridge_path *p, struct ridge_room *room, struct fk_error *err) {
  const int64_t m = p->spec->m;
  enum fk_status status = alloc(p, &room->C, m, m, err);
  if (!status) status = alloc(p, &room->solution, m, p->spec->t, err);
  if (!status) status = alloc(p, &room->squares, m, 1, err);
  room->diagonal = malloc(sizeof *room->diagonal * (size_t)m);
  return status || room->diagonal ? status : fk_no_memory(err, 0, "a diagonal");
}

static enum fk_status start(struct ridge_path *p, struct fk_error *err) {
  p->kernels = malloc(sizeof *p->kernels * (size_t)p->spec->m);
  p->rooms = calloc((size_t)p->n_rooms, sizeof *p->rooms);
  p->errors = calloc((size_t)p->n_rooms, sizeof *p->errors);
  if (!p->kernels || !p->rooms || !p->errors) return fk_no_memory(err, 0, "a diagonal");
  enum fk_status status = FK_STATUS_OK;
  for (int i = 0; i < p->n_rooms && !status; i++) status = start_room(p, &p->rooms[i], err);
  return status;
}

static void end(struct ridge_path *p) {
  for (int i = 0; i < p->n_rooms && p->rooms; i++) {
    p->ops->free(p->device, &p->rooms[i].C);
    p->ops->free(p->device, &p->rooms[i].solution);
    p->ops->free(p->device, &p->rooms[i].squares);
    free(p->rooms[i].diagonal);
  }
  if (p->K.data != p->spec->matrix) p->ops->free(p->device, &p->K);
  free(p->kernels);
  free(p->rooms);
  free(p->errors);
}

/* On the host a matrix that is given is read where it is. */
static enum fk_status find_K(struct ridge_path *p, const struct fk_engine *engine, struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  struct fk_dense given = fk_dense_of(spec->matrix, spec->m, spec->m), to = fk_dense_of(p->kernels, 1, spec->m);
  enum fk_status status = FK_STATUS_OK;
  if (spec->matrix && p->ops == &fk_dense_host)
    p->K = given;
  else {
    status = alloc(p, &p->K, spec->m, spec->m, err);
    if (!status)
      status = spec->kernels.n
                   ? fk_dense_kernels(engine, &spec->kernels, p->opts, p->device, 0, 0, true, &p->K, err)
                   : p->ops->send(p->device, &given, &p->K, err);
  }
  struct fk_dense from = fk_dense_diagonal(&p->K);
  return status ? status : p->ops->fetch(p->device, &from, &to, err);
}

/* Copies the lower triangle, with some numbers above it, and adds the noise. */
static enum fk_status find_C(const struct ridge_path *p, struct ridge_room *room, int64_t i, int device,
                             struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  const int64_t m = spec->m, strip = 512;
  struct fk_dense here = fk_dense_of(room->diagonal, 1, m), there = fk_dense_diagonal(&room->C);
  enum fk_status status = FK_STATUS_OK;
  for (int64_t row = 0; row < m; row++)
    room->diagonal[row] = p->kernels[row] + spec->noises[spec->by_row ? i * m + row : i];
  for (int64_t j = 0; j < m && !status; j += strip) {
    const int64_t columns = fk_smaller(strip, m - j);
    struct fk_dense from = fk_dense_part(&p->K, j, j, m - j, columns),
                    to = fk_dense_part(&room->C, j, j, m - j, columns);
    status = p->ops->send(device, &from, &to, err);
  }
  return status ? status : p->ops->send(device, &here, &there, err);
}

/* a = L^-T L^-1 y, and log det C, from L. */
static enum fk_status solve(const struct ridge_path *p, struct ridge_room *room, int64_t i, int device,
                            struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  const int64_t m = spec->m, t = spec->t;
  double *a = p->out->coefficients + i * m * t, log_det = 0;
  struct fk_dense y = fk_dense_of(spec->y, m, t), here = fk_dense_of(a, m, t);
  struct fk_dense diagonal = fk_dense_diagonal(&room->C), numbers = fk_dense_of(room->diagonal, 1, m);
  enum fk_status status = p->ops->send(device, &y, &room->solution, err);
  if (!status) status = p->ops->trsm(device, 0, 1, &room->C, &room->solution, err);
  if (!status) status = p->ops->trsm(device, FK_TRANSPOSED, 1, &room->C, &room->solution, err);
  if (!status) status = p->ops->fetch(device, &room->solution, &here, err);
  if (!status) status = p->ops->fetch(device, &diagonal, &numbers, err);
  if (status) return status;
  for (int64_t row = 0; row < m; row++) log_det += log(room->diagonal[row]);
  p->out->log_det[i] = 2 * log_det;
  for (int64_t column = 0; column < t; column++) {
    double sum = 0;
    for (int64_t row = column * m; row < (column + 1) * m; row++) sum += spec->y[row] * a[row];
    p->out->energy[i * t + column] = sum;
  }
  return status;
}

static void no_fit(const struct fk_ridge_path_spec *spec, int64_t i, const struct fk_ridge_path *out) {
  const int64_t m = spec->m, t = spec->t;
  for (int64_t row = 0; row < m * t; row++) out->coefficients[i * m * t + row] = NAN;
  for (int64_t row = 0; row < m && out->own; row++) out->own[i * m + row] = NAN;
  for (int64_t column = 0; column < t; column++) out->energy[i * t + column] = NAN;
  out->log_det[i] = NAN;
}

/* Fits noise i; the diagonal of C^-1 is that of L^-T L^-1. `poll` is looked up on the way. */
static enum fk_status fit(const struct ridge_path *p, struct ridge_room *room, int64_t i, int device,
                          const struct fk_poll *poll, struct fk_error *err) {
  const double k = (double)p->spec->k, from = (double)i / k, middle = ((double)i + 0.5) / k;
  struct fk_step factoring = {poll, from, middle}, inverting = {poll, middle, from + 1 / k};
  const struct fk_blocked first = {p->ops, device, 0, fk_poll_of_step(&factoring)},
                          second = {p->ops, device, 0, fk_poll_of_step(&inverting)};
  int64_t pivot = 0;
  enum fk_status status = find_C(p, room, i, device, err);
  if (!status) status = fk_blocked_potrf(&first, 0, &room->C, &pivot, err);
  if (pivot) no_fit(p->spec, i, p->out);
  if (status || pivot) return status;
  status = solve(p, room, i, device, err);
  if (status || !p->out->own) return status;
  struct fk_dense here = fk_dense_of(p->out->own + i * p->spec->m, p->spec->m, 1);
  status = fk_blocked_trtri(&second, 0, &room->C, err);
  if (!status) status = p->ops->squares(device, 0, &room->C, &room->squares, err);
  return status ? status : p->ops->fetch(device, &room->squares, &here, err);
}

/* ---- several noises at a time ----------------------------------------------------------------- */

static void fit_some(void *data, int64_t first, int64_t last, int slot) {
  const struct ridge_path *p = data;
  const struct fk_poll none = {NULL, NULL};
  for (int64_t i = first; i < last && !p->errors[slot].status; i++)
    fit(p, &p->rooms[slot], i, 1, &none, &p->errors[slot]);
}

/* The first `count` noises. Threads with a noise of their own need not wait for each other at every step. */
static enum fk_status fit_together(struct ridge_path *p, int64_t count, struct fk_error *err) {
  struct fk_chunks progress;
  fk_chunks_start(&progress, &p->opts->poll, p->n_rooms, (double)p->spec->k, pow((double)p->spec->m, 3) / 30);
  enum fk_status status = fk_chunks_run(&progress, p->n_rooms, count, 1, fit_some, p, err);
  for (int i = 0; i < p->n_rooms && !status; i++)
    if (p->errors[i].status) {
      *err = p->errors[i];
      status = err->status;
    }
  return status;
}

/* On the host, one noise for each thread if all their matrices take little memory and keep most threads busy; the
 * threads of a tuned BLAS are its own. */
static int rooms_of(const struct fk_ridge_path_spec *spec, const struct fk_opts *opts, bool on_host) {
  const double m = (double)spec->m, bytes = 8 * m * m;
  const int threads = fk_threads_for_work(opts->threads, (double)spec->k * m * m * m / 3);
  const int64_t rooms = fk_smaller(fk_smaller(threads, spec->k), (int64_t)(fk_costs.dense.together / bytes));
  return on_host && !fk_blas_is_tuned() && 2 * rooms > threads ? (int)fk_larger(1, rooms) : 1;
}

enum fk_status fk_ridge_path(const struct fk_ridge_path_spec *spec, const struct fk_opts *opts,
                             struct fk_ridge_path *out, struct fk_error *err) {
  struct fk_dense_place place;
  enum fk_status status = fk_dense_place_choose(opts, spec->m, &place, err);
  if (status) return status;
  const bool on_host = place.ops == &fk_dense_host;
  struct ridge_path p = {spec, opts, out, place.ops, place.devices[0], .n_rooms = rooms_of(spec, opts, on_host)};
  status = fk_kernel_terms_here(&spec->kernels, opts->threads, err);
  if (!status) status = start(&p, err);
  if (!status) status = find_K(&p, place.engine, err);
  /* last noises that would leave half of the threads idle are fitted by all of them, one after the other */
  const int64_t rest = spec->k % p.n_rooms,
                together = p.n_rooms == 1 ? 0 : spec->k - (2 * rest > p.n_rooms ? 0 : rest);
  if (!status && together > 0) status = fit_together(&p, together, err);
  for (int64_t i = together; i < spec->k && !status; i++)
    status = fit(&p, &p.rooms[0], i, p.device, &opts->poll, err);
  end(&p);
  out->backend = on_host ? "cpu" : "cuda";
  return status;
}

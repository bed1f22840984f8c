/* Each fit copies the lower triangle of K to C, factors it in place, and inverts the factor in place. */
#include "ridge_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blocked.h"
#include "costs.h"
#include "count.h"
#include "dense_kernels.h"
#include "pool.h"
#include "threads.h"

/* Memory in which one noise at a time is fitted. */
struct ridge_room {
  struct fk_dense C, solution, squares; /* m x m, m x t, m x 1, where ops compute */
  double *diagonal;                     /* of C or its factor, on the host */
};

/* A task, with what its noises share. */
struct ridge_path {
  const struct fk_ridge_path_spec *spec;
  const struct fk_dense_place *place;
  struct fk_ridge_path *out;
  struct fk_dense K; /* its lower triangle */
  double *kernels;   /* the diagonal of K, on the host */
};

/* Who fits, and whom it asks whether to go on. */
struct ridge_fitter {
  const struct fk_dense_ops *ops;
  int device; /* of the host: threads */
  struct fk_poll poll;
};

static enum fk_status alloc(const struct ridge_fitter *by, struct fk_dense *A, int64_t n, int64_t d,
                            struct fk_error *err) {
  *A = (struct fk_dense){.type = FK_DOUBLE, .n = n, .d = d};
  return by->ops->alloc(by->device, A, err);
}

/* For tasks of at most m rows and t columns, where C has memory. */
static enum fk_status open_room(const struct ridge_fitter *by, int64_t m, int64_t t, struct ridge_room *room,
                                struct fk_error *err) {
  enum fk_status status = alloc(by, &room->solution, m, t, err);
  if (!status) status = alloc(by, &room->squares, m, 1, err);
  room->diagonal = malloc(sizeof *room->diagonal * (size_t)m);
  return status || room->diagonal ? status : fk_no_memory(err, 0, "a diagonal");
}

static void close_room(const struct ridge_fitter *by, struct ridge_room *room) {
  by->ops->free(by->device, &room->solution);
  by->ops->free(by->device, &room->squares);
  free(room->diagonal);
}

/* ---- what the noises of a task share ----------------------------------------------------------- */

static bool is_read_in_place(const struct ridge_path *p) {
  return p->spec->matrix && p->place->ops == &fk_dense_host;
}

/* `memory`: for K where it is not read in place. */
static enum fk_status open_path(struct ridge_path *p, const struct fk_dense *memory, struct fk_error *err) {
  p->kernels = malloc(sizeof *p->kernels * (size_t)p->spec->m);
  p->K = is_read_in_place(p) ? fk_dense_of(p->spec->matrix, p->spec->m, p->spec->m) : *memory;
  return p->kernels ? FK_STATUS_OK : fk_no_memory(err, 0, "a diagonal");
}

static enum fk_status find_K(const struct ridge_fitter *by, struct ridge_path *p, const struct fk_opts *opts,
                             struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  struct fk_dense given = fk_dense_of(spec->matrix, spec->m, spec->m), to = fk_dense_of(p->kernels, 1, spec->m);
  struct fk_dense from = fk_dense_diagonal(&p->K);
  enum fk_status status = FK_STATUS_OK;
  if (spec->kernels.n)
    status = fk_dense_kernels(p->place->engine, &spec->kernels, opts, by->device, 0, 0, true, &p->K, err);
  else if (!is_read_in_place(p))
    status = by->ops->send(by->device, &given, &p->K, err);
  return status ? status : by->ops->fetch(by->device, &from, &to, err);
}

/* ---- one noise --------------------------------------------------------------------------------- */

/* Copies the lower triangle, with some numbers above it, and adds the noise. */
static enum fk_status find_C(const struct ridge_fitter *by, const struct ridge_path *p, struct ridge_room *room,
                             const struct fk_dense *C, int64_t i, struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  const int64_t m = spec->m, strip = 512;
  struct fk_dense here = fk_dense_of(room->diagonal, 1, m), there = fk_dense_diagonal(C);
  enum fk_status status = FK_STATUS_OK;
  for (int64_t row = 0; row < m; row++)
    room->diagonal[row] = p->kernels[row] + spec->noises[spec->by_row ? i * m + row : i];
  for (int64_t j = 0; j < m && !status; j += strip) {
    const int64_t columns = fk_smaller(strip, m - j);
    struct fk_dense from = fk_dense_part(&p->K, j, j, m - j, columns), to = fk_dense_part(C, j, j, m - j, columns);
    status = by->ops->send(by->device, &from, &to, err);
  }
  return status ? status : by->ops->send(by->device, &here, &there, err);
}

/* a = L^-T L^-1 y, and log det C, from L. */
static enum fk_status solve(const struct ridge_fitter *by, const struct ridge_path *p, struct ridge_room *room,
                            const struct fk_dense *L, int64_t i, struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  const int64_t m = spec->m, t = spec->t;
  const double *given = spec->y + (spec->y_by_noise ? i * m * t : 0);
  double *a = p->out->coefficients + i * m * t, log_det = 0;
  struct fk_dense y = fk_dense_of(given, m, t), here = fk_dense_of(a, m, t);
  struct fk_dense x = fk_dense_part(&room->solution, 0, 0, m, t);
  struct fk_dense diagonal = fk_dense_diagonal(L), numbers = fk_dense_of(room->diagonal, 1, m);
  enum fk_status status = by->ops->send(by->device, &y, &x, err);
  if (!status) status = by->ops->trsm(by->device, 0, 1, L, &x, err);
  if (!status) status = by->ops->trsm(by->device, FK_TRANSPOSED, 1, L, &x, err);
  if (!status) status = by->ops->fetch(by->device, &x, &here, err);
  if (!status) status = by->ops->fetch(by->device, &diagonal, &numbers, err);
  if (status) return status;
  for (int64_t row = 0; row < m; row++) log_det += log(room->diagonal[row]);
  p->out->log_det[i] = 2 * log_det;
  for (int64_t column = 0; column < t; column++) {
    double sum = 0;
    for (int64_t row = column * m; row < (column + 1) * m; row++) sum += given[row] * a[row];
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

/* Fits noise i; the diagonal of C^-1 is that of L^-T L^-1. */
static enum fk_status fit(const struct ridge_fitter *by, const struct ridge_path *p, struct ridge_room *room,
                          int64_t i, struct fk_error *err) {
  const int64_t m = p->spec->m;
  struct fk_step factoring = {&by->poll, 0, 0.5}, inverting = {&by->poll, 0.5, 1};
  const struct fk_blocked first = {by->ops, by->device, 0, fk_poll_of_step(&factoring)},
                          second = {by->ops, by->device, 0, fk_poll_of_step(&inverting)};
  const struct fk_dense C = fk_dense_part(&room->C, 0, 0, m, m);
  int64_t pivot = 0;
  enum fk_status status = find_C(by, p, room, &C, i, err);
  if (!status) status = fk_blocked_potrf(&first, 0, &C, &pivot, err);
  if (pivot) no_fit(p->spec, i, p->out);
  if (status || pivot) return status;
  status = solve(by, p, room, &C, i, err);
  if (status || !p->out->own) return status;
  struct fk_dense here = fk_dense_of(p->out->own + i * m, m, 1),
                  squares = fk_dense_part(&room->squares, 0, 0, m, 1);
  status = fk_blocked_trtri(&second, 0, &C, err);
  if (!status) status = by->ops->squares(by->device, 0, &C, &squares, err);
  return status ? status : by->ops->fetch(by->device, &squares, &here, err);
}

/* ---- on a device, or alone: one noise after the other ------------------------------------------ */

static enum fk_status fit_each(struct ridge_fitter by, const struct ridge_path *p, struct ridge_room *room,
                               const struct fk_poll *poll, struct fk_error *err) {
  const double k = (double)p->spec->k;
  enum fk_status status = FK_STATUS_OK;
  for (int64_t i = 0; i < p->spec->k && !status; i++) {
    struct fk_step step = {poll, (double)i / k, (double)(i + 1) / k};
    by.poll = fk_poll_of_step(&step);
    status = fit(&by, p, room, i, err);
  }
  return status;
}

static enum fk_status fit_there(struct ridge_path *p, const struct fk_opts *opts, const struct fk_poll *poll,
                                struct fk_error *err) {
  const int64_t m = p->spec->m;
  struct ridge_fitter by = {p->place->ops, p->place->devices[0], *poll};
  struct ridge_room room = {{0}};
  struct fk_dense K = {0};
  enum fk_status status = fk_kernel_terms_here(&p->spec->kernels, opts->threads, err);
  if (!status) status = alloc(&by, &K, m, m, err);
  if (!status) status = alloc(&by, &room.C, m, m, err);
  if (!status) status = open_path(p, &K, err);
  if (!status) status = open_room(&by, m, p->spec->t, &room, err);
  if (!status) status = find_K(&by, p, opts, err);
  if (!status) status = fit_each(by, p, &room, poll, err);
  close_room(&by, &room);
  by.ops->free(by.device, &room.C);
  by.ops->free(by.device, &K);
  free(p->kernels);
  p->out->backend = "cuda";
  return status;
}

/* ---- on the host: several at a time ------------------------------------------------------------ */

struct ridge_unit {
  struct ridge_path *path;
  int64_t noise;
};

/* Threads with a fit of their own need not wait for each other at every step. */
struct ridge_batch {
  struct ridge_path *paths;
  struct ridge_unit *units;
  int64_t n_paths, n_units, m, t; /* most rows and columns */
  int64_t done, first;            /* units before those of a part, and items before those of a loop */
  struct fk_opts opts;            /* of a thread that computes kernels: it asks nobody beside others */
  struct ridge_fitter each;       /* fits in its room */
  int threads, n_rooms;
  struct ridge_room *rooms;
  struct fk_dense K, C;    /* memory of all paths and rooms, in large pages */
  struct fk_error *errors; /* of each room, the first */
};

static void find_kernels(void *data, int64_t first, int64_t last, int slot) {
  const struct ridge_batch *b = data;
  for (int64_t i = first; i < last && !b->errors[slot].status; i++)
    find_K(&b->each, &b->paths[b->first + i], &b->opts, &b->errors[slot]);
}

static void fit_some(void *data, int64_t first, int64_t last, int slot) {
  const struct ridge_batch *b = data;
  for (int64_t i = first; i < last && !b->errors[slot].status; i++) {
    const struct ridge_unit *unit = &b->units[b->done + b->first + i];
    fit(&b->each, unit->path, &b->rooms[slot], unit->noise, &b->errors[slot]);
  }
}

/* n items on so many threads, and `each` between two looks at the poll: as many for each thread. */
static enum fk_status run(struct ridge_batch *b, fk_body body, int64_t n, int threads, const struct fk_poll *poll,
                          struct fk_error *err) {
  const double work = pow((double)b->m, 3) / 30; /* in kernels */
  const int64_t each = threads * fk_larger(1, (int64_t)(fk_costs.threads.chunk_pairs / work));
  enum fk_status status = FK_STATUS_OK;
  for (int64_t first = 0; first < n && !status; first += each) {
    b->first = first;
    fk_parallel_for(threads, fk_smaller(each, n - first), 1, body, b);
    for (int i = 0; i < threads && !status; i++)
      if (b->errors[i].status) {
        *err = b->errors[i];
        status = err->status;
      }
    if (!status) status = fk_look_up(poll, (double)fk_smaller(n, first + each) / (double)n, err);
  }
  return status;
}

/* A room for each thread that has enough work, if all their matrices take little memory. */
static enum fk_status open_batch(struct ridge_batch *b, const struct fk_opts *opts, struct fk_error *err) {
  double work = 0;
  int64_t columns = 0;
  for (int64_t i = 0; i < b->n_paths; i++) {
    const struct fk_ridge_path_spec *spec = b->paths[i].spec;
    b->n_units += spec->k;
    b->m = fk_larger(b->m, spec->m);
    b->t = fk_larger(b->t, spec->t);
    work += (double)spec->k * pow((double)spec->m, 3) / 3;
    if (!is_read_in_place(&b->paths[i])) columns += spec->m;
  }
  b->threads = fk_threads_for_work(opts->threads, work);
  const int64_t most = (int64_t)(fk_costs.dense.together / (8 * (double)b->m * (double)b->m));
  b->n_rooms = (int)fk_smaller(fk_smaller(b->threads, b->n_units), fk_larger(1, most));
  b->each = (struct ridge_fitter){.ops = &fk_dense_own};
  b->opts = *opts;
  if (b->n_rooms > 1) b->opts.poll = b->each.poll;
  b->opts.threads = b->threads / (int)fk_smaller(b->n_paths, b->n_rooms);
  b->units = malloc(sizeof *b->units * (size_t)b->n_units);
  b->rooms = calloc((size_t)b->n_rooms, sizeof *b->rooms);
  b->errors = calloc((size_t)b->n_rooms, sizeof *b->errors);
  if (!b->units || !b->rooms || !b->errors) return fk_no_memory(err, 0, "exact fits");
  enum fk_status status = alloc(&b->each, &b->C, b->m, b->m * b->n_rooms, err);
  if (!status) status = alloc(&b->each, &b->K, b->m, columns, err);
  for (int i = 0; i < b->n_rooms && !status; i++) {
    b->rooms[i].C = fk_dense_part(&b->C, 0, i * b->m, b->m, b->m);
    status = open_room(&b->each, b->m, b->t, &b->rooms[i], err);
  }
  int64_t unit = 0, column = 0;
  for (int64_t i = 0; i < b->n_paths && !status; i++) {
    struct ridge_path *p = &b->paths[i];
    const struct fk_dense K = fk_dense_part(&b->K, 0, column, p->spec->m, p->spec->m);
    if (!is_read_in_place(p)) column += p->spec->m;
    for (int64_t k = 0; k < p->spec->k; k++) b->units[unit++] = (struct ridge_unit){p, k};
    status = fk_kernel_terms_here(&p->spec->kernels, opts->threads, err);
    if (!status) status = open_path(p, &K, err);
  }
  return status;
}

static void close_batch(struct ridge_batch *b) {
  for (int i = 0; i < b->n_rooms && b->rooms; i++) close_room(&b->each, &b->rooms[i]);
  for (int64_t i = 0; i < b->n_paths; i++) {
    free(b->paths[i].kernels);
    b->paths[i].out->backend = "cpu";
  }
  fk_dense_own.free(0, &b->C);
  fk_dense_own.free(0, &b->K);
  free(b->units);
  free(b->rooms);
  free(b->errors);
}

/* As many units at a time as there are rooms, and then the rest, with all threads. */
static enum fk_status fit_units(struct ridge_batch *b, const struct fk_poll *poll, struct fk_error *err) {
  const int64_t rest = b->n_units % b->n_rooms, parts[] = {b->n_units - rest, rest};
  enum fk_status status = FK_STATUS_OK;
  for (int i = 0; i < 2 && !status; i++) {
    const double all = (double)b->n_units, done = (double)b->done;
    struct fk_step step = {poll, done / all, (done + (double)parts[i]) / all};
    const struct fk_poll of_part = fk_poll_of_step(&step);
    const int rooms = (int)fk_smaller(b->n_rooms, parts[i]);
    if (rooms == 0) continue;
    b->each.device = b->threads / rooms;
    status = run(b, fit_some, parts[i], rooms, &of_part, err);
    b->done += parts[i];
  }
  return status;
}

static enum fk_status fit_here(struct ridge_batch *b, const struct fk_opts *opts, const struct fk_poll *poll,
                               struct fk_error *err) {
  const int rooms = (int)fk_smaller(b->n_paths, b->n_rooms);
  enum fk_status status = run(b, find_kernels, b->n_paths, rooms, &b->each.poll, err);
  if (status || b->n_rooms > 1) return status ? status : fit_units(b, poll, err);
  const struct ridge_fitter alone = {.ops = &fk_dense_own, .device = opts->threads};
  for (int64_t i = 0; i < b->n_paths && !status; i++) {
    struct fk_step step = {poll, (double)i / (double)b->n_paths, (double)(i + 1) / (double)b->n_paths};
    const struct fk_poll of_path = fk_poll_of_step(&step);
    status = fit_each(alone, &b->paths[i], &b->rooms[0], &of_path, err);
  }
  return status;
}

enum fk_status fk_ridge_paths(const struct fk_ridge_path_spec *specs, int64_t n, const struct fk_opts *opts,
                              struct fk_ridge_path *outs, struct fk_error *err) {
  struct fk_dense_place *places = calloc((size_t)n, sizeof *places);
  struct ridge_batch here = {.paths = calloc((size_t)n, sizeof *here.paths)};
  enum fk_status status = places && here.paths ? FK_STATUS_OK : fk_no_memory(err, 0, "exact fits");
  for (int64_t i = 0; i < n && !status; i++) {
    struct ridge_path path = {.spec = &specs[i], .place = &places[i], .out = &outs[i]};
    struct fk_step step = {&opts->poll, (double)i / (double)n, (double)(i + 1) / (double)n};
    const struct fk_poll poll = fk_poll_of_step(&step);
    status = fk_dense_place_choose(opts, specs[i].m, &places[i], err);
    if (status) break;
    if (places[i].ops == &fk_dense_host)
      here.paths[here.n_paths++] = path;
    else
      status = fit_there(&path, opts, &poll, err);
  }
  if (!status && here.n_paths > 0) {
    struct fk_step step = {&opts->poll, 1 - (double)here.n_paths / (double)n, 1};
    const struct fk_poll poll = fk_poll_of_step(&step);
    status = open_batch(&here, opts, err);
    if (!status) status = fit_here(&here, opts, &poll, err);
    close_batch(&here);
  }
  free(here.paths);
  free(places);
  return status;
}

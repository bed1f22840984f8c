/* K is stored above the diagonal of an m x (m + 1) matrix, from its second column on; C, its factor and the
 * inverse of that are below it. */
#include "ridge_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blocked.h"
#include "costs.h"
#include "count.h"
#include "dense_kernels.h"
#include "threads.h"

struct ridge_path {
  const struct fk_ridge_path_spec *spec;
  const struct fk_opts *opts;
  const struct fk_dense_ops *ops;
  int device;
  struct fk_dense both, C, K;        /* memory, and its views */
  struct fk_dense solution, squares; /* m x t, m x 1 */
  double *kernels, *diagonal;        /* on the host: the diagonal of K, that of C or its factor */
};

static enum fk_status start(struct ridge_path *p, struct fk_error *err) {
  const int64_t m = p->spec->m;
  p->both = (struct fk_dense){.type = FK_DOUBLE, .n = m, .d = m + 1};
  p->solution = (struct fk_dense){.type = FK_DOUBLE, .n = m, .d = p->spec->t};
  p->squares = (struct fk_dense){.type = FK_DOUBLE, .n = m, .d = 1};
  enum fk_status status = p->ops->alloc(p->device, &p->both, err);
  if (!status) status = p->ops->alloc(p->device, &p->solution, err);
  if (!status) status = p->ops->alloc(p->device, &p->squares, err);
  p->kernels = malloc(2 * sizeof *p->kernels * (size_t)m);
  p->diagonal = p->kernels + m;
  if (!status && !p->kernels) status = fk_no_memory(err, 0, "a diagonal");
  if (status) return status;
  p->C = fk_dense_part(&p->both, 0, 0, m, m);
  p->K = fk_dense_part(&p->both, 0, 1, m, m);
  return status;
}

static void end(struct ridge_path *p) {
  p->ops->free(p->device, &p->both);
  p->ops->free(p->device, &p->solution);
  p->ops->free(p->device, &p->squares);
  free(p->kernels);
}

/* Moves the diagonal of C to the host or back. */
static enum fk_status move_diagonal(struct ridge_path *p, bool back, struct fk_error *err) {
  struct fk_dense here = fk_dense_of(p->diagonal, 1, p->spec->m), there = fk_dense_diagonal(&p->C);
  return back ? p->ops->send(p->device, &here, &there, err) : p->ops->fetch(p->device, &there, &here, err);
}

static enum fk_status find_K(struct ridge_path *p, const struct fk_engine *engine, struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  struct fk_dense given = fk_dense_of(spec->matrix, spec->m, spec->m);
  enum fk_status status = spec->op ? fk_dense_kernels(engine, spec->op, p->opts, p->device, 0, &p->C, err)
                                   : p->ops->send(p->device, &given, &p->C, err);
  if (!status) status = move_diagonal(p, false, err);
  if (!status) memcpy(p->kernels, p->diagonal, sizeof *p->kernels * (size_t)spec->m);
  return status ? status : p->ops->transpose(p->device, 0, &p->C, NULL, &p->K, err);
}

/* L of C = K + noise. */
static enum fk_status factor(struct ridge_path *p, int64_t i, const struct fk_blocked *how, int64_t *pivot,
                             struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  for (int64_t row = 0; row < spec->m; row++)
    p->diagonal[row] = p->kernels[row] + spec->noises[spec->by_row ? i * spec->m + row : i];
  enum fk_status status = p->ops->transpose(p->device, FK_UPPER, &p->K, NULL, &p->C, err);
  if (!status) status = move_diagonal(p, true, err);
  return status ? status : fk_blocked_potrf(how, 0, &p->C, pivot, err);
}

/* a = L^-T L^-1 y, and log det C, from L. */
static enum fk_status solve(struct ridge_path *p, int64_t i, struct fk_ridge_path *out, struct fk_error *err) {
  const struct fk_ridge_path_spec *spec = p->spec;
  const int64_t m = spec->m, t = spec->t;
  double *a = out->coefficients + i * m * t, log_det = 0;
  struct fk_dense y = fk_dense_of(spec->y, m, t), here = fk_dense_of(a, m, t);
  enum fk_status status = p->ops->send(p->device, &y, &p->solution, err);
  if (!status) status = p->ops->trsm(p->device, 0, 1, &p->C, &p->solution, err);
  if (!status) status = p->ops->trsm(p->device, FK_TRANSPOSED, 1, &p->C, &p->solution, err);
  if (!status) status = p->ops->fetch(p->device, &p->solution, &here, err);
  if (!status) status = move_diagonal(p, false, err);
  if (status) return status;
  for (int64_t row = 0; row < m; row++) log_det += log(p->diagonal[row]);
  out->log_det[i] = 2 * log_det;
  for (int64_t column = 0; column < t; column++) {
    double sum = 0;
    for (int64_t row = column * m; row < (column + 1) * m; row++) sum += spec->y[row] * a[row];
    out->energy[i * t + column] = sum;
  }
  return status;
}

/* The diagonal of C^-1 = L^-T L^-1. */
static enum fk_status invert(struct ridge_path *p, int64_t i, const struct fk_blocked *how,
                             struct fk_ridge_path *out, struct fk_error *err) {
  struct fk_dense here = fk_dense_of(out->own + i * p->spec->m, p->spec->m, 1);
  enum fk_status status = fk_blocked_trtri(how, 0, &p->C, err);
  if (!status) status = p->ops->squares(p->device, 0, &p->C, &p->squares, err);
  return status ? status : p->ops->fetch(p->device, &p->squares, &here, err);
}

static void no_fit(const struct fk_ridge_path_spec *spec, int64_t i, const struct fk_ridge_path *out) {
  const int64_t m = spec->m, t = spec->t;
  for (int64_t row = 0; row < m * t; row++) out->coefficients[i * m * t + row] = NAN;
  for (int64_t row = 0; row < m; row++) out->own[i * m + row] = NAN;
  for (int64_t column = 0; column < t; column++) out->energy[i * t + column] = NAN;
  out->log_det[i] = NAN;
}

static enum fk_status fit(struct ridge_path *p, int64_t i, struct fk_ridge_path *out, struct fk_error *err) {
  const double k = (double)p->spec->k, from = (double)i / k, middle = ((double)i + 0.5) / k;
  struct fk_step factoring = {&p->opts->poll, from, middle}, inverting = {&p->opts->poll, middle, from + 1 / k};
  const struct fk_blocked first = {p->ops, p->device, 0, fk_poll_of_step(&factoring)},
                          second = {p->ops, p->device, 0, fk_poll_of_step(&inverting)};
  int64_t pivot = 0;
  enum fk_status status = factor(p, i, &first, &pivot, err);
  if (pivot) no_fit(p->spec, i, out);
  if (!status && !pivot) status = solve(p, i, out, err);
  return status || pivot ? status : invert(p, i, &second, out, err);
}

enum fk_status fk_ridge_path(const struct fk_ridge_path_spec *spec, const struct fk_opts *opts,
                             struct fk_ridge_path *out, struct fk_error *err) {
  struct fk_dense_place place;
  struct ridge_path p = {.spec = spec, .opts = opts};
  enum fk_status status = fk_dense_place_choose(opts, (double)spec->m >= fk_costs.dense.device, &place, err);
  if (status) return status;
  p.ops = place.ops;
  p.device = place.devices[0];
  if (spec->op) status = fk_operator_here(spec->op, opts->threads, NULL, err);
  if (!status) status = start(&p, err);
  if (!status) status = find_K(&p, place.engine, err);
  for (int64_t i = 0; i < spec->k && !status; i++) status = fit(&p, i, out, err);
  end(&p);
  out->backend = place.ops == &fk_dense_host ? "cpu" : "cuda";
  return status;
}

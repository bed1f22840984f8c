/* T is the transpose of the lower triangle of a tiled matrix, A the upper one; T alone is the upper one, too. K
 * itself is needed no longer than until it is factored; where that fails it is computed again. */
#include "preconditioner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "count.h"
#include "dense_kernels.h"
#include "tiled.h"

struct fk_preconditioner {
  struct fk_tiled *factors;
  int64_t m;
  bool has_A, rough;
  struct fk_preconditioner *next; /* of all on devices */
};

static struct fk_preconditioner *on_devices;

int64_t fk_preconditioner_order(const struct fk_preconditioner *P) { return P->m; }

static enum fk_status out_of_memory(struct fk_error *err, int64_t numbers) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)numbers);
}

/* ---- T ---------------------------------------------------------------------------------------- */

struct preconditioner_build {
  const struct fk_preconditioner_spec *spec;
  const struct fk_opts *opts;
  struct fk_dense_place place;
  double *diagonal, *added; /* of K with the spec's; what is added to K's */
};

static enum fk_status kernels(const struct preconditioner_build *b, const struct fk_engine *engine, int device,
                              int64_t row, int64_t first, const struct fk_dense *K, const struct fk_poll *poll,
                              struct fk_error *err) {
  const bool lower = row == first && K->n == K->d && !b->spec->rough;
  struct fk_opts opts = *b->opts;
  opts.poll = *poll;
  return fk_dense_kernels(engine, &b->spec->kernels, &opts, device, row, first, lower, K, err);
}

static enum fk_status fill(void *data, int device, int64_t row, int64_t first, const struct fk_dense *K,
                           const struct fk_poll *poll, struct fk_error *err) {
  const struct preconditioner_build *b = data;
  if (b->spec->kernels.n) return kernels(b, b->place.engine, device, row, first, K, poll, err);
  struct fk_dense all = fk_dense_of(b->spec->matrix, b->spec->m, b->spec->m),
                  from = fk_dense_part(&all, row, first, K->n, K->d);
  return b->place.ops->send(device, &from, K, err);
}

/* By small blocks, on the host: the mean is needed before K is anywhere. */
static enum fk_status find_diagonal(const struct preconditioner_build *b, struct fk_error *err) {
  enum { BLOCK = 64 };
  double block[BLOCK * BLOCK];
  const struct fk_poll none = {NULL, NULL};
  const struct fk_preconditioner_spec *spec = b->spec;
  enum fk_status status = FK_STATUS_OK;
  for (int64_t first = 0; first < spec->m && !status; first += BLOCK) {
    const int64_t count = fk_smaller(BLOCK, spec->m - first);
    struct fk_dense K = fk_dense_of(block, count, count);
    if (spec->kernels.n) status = kernels(b, fk_dense_engine(FK_BACKEND_CPU), 0, first, first, &K, &none, err);
    for (int64_t i = first; i < first + count; i++)
      b->diagonal[i] = (spec->kernels.n ? block[(i - first) * (count + 1)] : spec->matrix[i * (spec->m + 1)]) +
                       (spec->diagonal ? spec->diagonal[i] : 0);
  }
  return status;
}

static enum fk_status factor_K(const struct preconditioner_build *b, struct fk_tiled *factors, double jitter,
                               int64_t *pivot, struct fk_error *err) {
  const struct fk_preconditioner_spec *spec = b->spec;
  const bool adds = jitter != 0 || spec->diagonal;
  double sum = 0;
  for (int64_t i = 0; i < spec->m; i++) sum += b->diagonal[i];
  for (int64_t i = 0; i < spec->m; i++)
    b->added[i] = (spec->diagonal ? spec->diagonal[i] : 0) + jitter * sum; /* m times the mean */
  const struct fk_tiled_source source = {fill, (void *)b, adds ? b->added : NULL};
  return fk_tiled_factor(factors, &source, &b->opts->poll, pivot, err);
}

/* Rounding alone may make a matrix indefinite that is not. */
#define LEAST_JITTER 1e-16

static enum fk_status factor_with_jitter(const struct preconditioner_build *b, struct fk_tiled *factors,
                                         struct fk_preconditioner_facts *facts, struct fk_error *err) {
  const struct fk_preconditioner_spec *spec = b->spec;
  double jitter = spec->jitter;
  for (facts->steps = 1;; facts->steps++) {
    int64_t pivot = 0;
    enum fk_status status = factor_K(b, factors, jitter, &pivot, err);
    facts->jitter = jitter;
    if (status || pivot == 0) return status;
    if (spec->fixed || jitter >= spec->most)
      return fk_fail(err, FK_STATUS_SINGULAR,
                     "the kernel matrix of %.0f centres is singular to working precision%s: are there duplicates "
                     "among them, or is `bandwidth` too large, or `lambda` too small?",
                     (double)spec->m, spec->fixed ? "" : ", even with jitter on its diagonal");
    jitter = fmin(spec->most, jitter > 0 ? 100 * jitter : LEAST_JITTER);
  }
}

enum fk_status fk_preconditioner_create(const struct fk_preconditioner_spec *spec, const struct fk_opts *opts,
                                        struct fk_preconditioner **out, struct fk_preconditioner_facts *facts,
                                        struct fk_error *err) {
  struct fk_preconditioner *P = calloc(1, sizeof *P);
  double *numbers = malloc(2 * sizeof *numbers * (size_t)spec->m);
  struct preconditioner_build b = {.spec = spec, .opts = opts, .diagonal = numbers};
  /* K from the points is in double whatever is asked for; A, or what is rough, only says how fast iterations
   * converge */
  struct fk_tiled_spec where = {
      .m = spec->m,
      .rough = spec->rough,
      .host = spec->host,
      .halves = opts->precision == FK_PRECISION_SINGLE || opts->precision == FK_PRECISION_FAST};
  enum fk_status status = P && numbers ? FK_STATUS_OK : out_of_memory(err, spec->m);
  *facts = (struct fk_preconditioner_facts){.backend = ""};
  if (!status) {
    P->m = spec->m;
    P->rough = spec->rough;
    b.added = numbers + spec->m;
    status = fk_dense_place_choose(opts, spec->m, &b.place, err);
  }
  const bool on_host = b.place.ops == &fk_dense_host;
  where.ops = b.place.ops;
  where.n_devices = b.place.n_devices;
  memcpy(where.devices, b.place.devices, sizeof where.devices);
  /* points of rows and columns, as they are and whitened */
  for (int i = 0; i < spec->kernels.n; i++) {
    const double bytes = 4.0 * (double)sizeof(double) * (double)spec->m * (double)spec->kernels.ops[i]->x.d;
    where.beside = fmax(where.beside, bytes);
  }
  if (!status) status = fk_kernel_terms_here(&spec->kernels, opts->threads, err);
  if (!status) status = find_diagonal(&b, err);
  if (!status) status = fk_tiled_create(&where, &P->factors, err);
  if (!status) status = factor_with_jitter(&b, P->factors, facts, err);
  free(numbers);
  if (status) {
    fk_preconditioner_free(P);
    return status;
  }
  facts->backend = on_host ? "cpu" : "cuda";
  facts->bytes = fk_tiled_bytes(P->factors);
  facts->devices = on_host ? 0 : where.n_devices;
  facts->streamed = fk_tiled_is_streamed(P->factors);
  if (!on_host) {
    P->next = on_devices;
    on_devices = P;
  }
  *out = P;
  return FK_STATUS_OK;
}

void fk_preconditioner_free(struct fk_preconditioner *P) {
  if (!P) return;
  for (struct fk_preconditioner **at = &on_devices; *at; at = &(*at)->next)
    if (*at == P) {
      *at = P->next;
      break;
    }
  fk_tiled_free(P->factors);
  free(P);
}

void fk_preconditioners_release(void) {
  for (struct fk_preconditioner *P = on_devices; P; P = P->next) fk_tiled_release(P->factors);
}

/* ---- A ---------------------------------------------------------------------------------------- */

enum fk_status fk_preconditioner_weigh(struct fk_preconditioner *P, const struct fk_preconditioner_weights *w,
                                       const struct fk_poll *poll, struct fk_error *err) {
  int64_t pivot = 0;
  if (P->rough) return fk_fail(err, FK_STATUS_INTERNAL, "a rough preconditioner has T alone");
  enum fk_status status = fk_tiled_ready(P->factors, err);
  double *roots = malloc(sizeof *roots * (size_t)P->m);
  if (!status && !roots) status = out_of_memory(err, P->m);
  P->has_A = false;
  for (int64_t i = 0; i < P->m && !status; i++) roots[i] = sqrt(w->scale * (w->weights ? w->weights[i] : 1));
  if (!status) status = fk_tiled_weigh(P->factors, roots, w->lambda, poll, &pivot, err);
  free(roots);
  P->has_A = status == FK_STATUS_OK && pivot == 0;
  if (status || pivot == 0) return status;
  return fk_fail(err, FK_STATUS_SINGULAR,
                 "`lambda` is too small: with %.3g the matrix of %.0f centres is singular to working precision",
                 w->lambda, (double)P->m);
}

/* ---- with both -------------------------------------------------------------------------------- */

static enum fk_status is_there(const struct fk_preconditioner *P, int step, struct fk_error *err) {
  if (step & FK_STEP_A && !P->has_A)
    return fk_fail(err, FK_STATUS_INTERNAL,
                   "the preconditioner has no factor A yet: call fk_preconditioner_weigh() first");
  return fk_tiled_ready(P->factors, err);
}

/* What is stored in the lower triangle is the transpose of T. */
static struct fk_tiled_step step_of(const struct fk_preconditioner *P, int step) {
  const bool transposed = step & FK_STEP_TRANSPOSED, upper = P->rough || step & FK_STEP_A;
  return (struct fk_tiled_step){(upper ? FK_UPPER : 0) | (transposed == upper ? FK_TRANSPOSED : 0),
                                step & FK_STEP_SOLVE};
}

enum fk_status fk_preconditioner_apply(const struct fk_preconditioner *P, const int *steps, int n_steps, double *v,
                                       int64_t t, struct fk_error *err) {
  struct fk_dense vectors = fk_dense_of(v, P->m, t);
  struct fk_tiled_step *all = malloc(sizeof *all * (size_t)(n_steps + 1));
  enum fk_status status = all ? is_there(P, 0, err) : out_of_memory(err, n_steps);
  for (int i = 0; i < n_steps && !status; i++) {
    status = is_there(P, steps[i], err);
    all[i] = step_of(P, steps[i]);
  }
  if (!status) status = fk_tiled_apply(P->factors, all, n_steps, &vectors, err);
  free(all);
  return status;
}

enum fk_status fk_preconditioner_factor(const struct fk_preconditioner *P, int step, double *factor,
                                        struct fk_error *err) {
  const int64_t m = P->m;
  const bool lower = !(P->rough || step & FK_STEP_A);
  struct fk_dense here = fk_dense_of(factor, m, m);
  enum fk_status status = is_there(P, step, err);
  if (!status) status = fk_tiled_triangle(P->factors, !lower, &here, err);
  if (!status && lower) status = fk_dense_host.transpose(0, 0, &here, NULL, &here, err);
  for (int64_t k = 0; k < m && !status; k++)
    memset(factor + k * m + k + 1, 0, sizeof *factor * (size_t)(m - k - 1));
  return status;
}

enum fk_status fk_preconditioner_diagonal(const struct fk_preconditioner *P, int step, double *diagonal,
                                          struct fk_error *err) {
  enum fk_status status = is_there(P, step, err);
  return status ? status : fk_tiled_diagonal(P->factors, P->rough || step & FK_STEP_A, diagonal, err);
}

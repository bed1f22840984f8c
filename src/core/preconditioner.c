/* T' lies below the diagonal of the matrix and on it, A above: from the second column on, so that both have a
 * diagonal of their own. K itself is needed no longer than until it is factored; where that fails it is computed
 * again. */
#include "preconditioner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blocked.h"
#include "costs.h"
#include "count.h"
#include "plan.h"
#include "threads.h"

struct fk_preconditioner {
  const struct fk_dense_ops *ops;
  int device;
  int64_t m;
  struct fk_dense both; /* m x (m + 1) */
  bool has_A;
  struct fk_preconditioner *next; /* of all on devices */
};

static struct fk_preconditioner *on_devices;

static struct fk_dense T_transposed(const struct fk_preconditioner *P) {
  return fk_dense_part(&P->both, 0, 0, P->m, P->m);
}
static struct fk_dense A_of(const struct fk_preconditioner *P) {
  return fk_dense_part(&P->both, 0, 1, P->m, P->m);
}

int64_t fk_preconditioner_order(const struct fk_preconditioner *P) { return P->m; }

static enum fk_status out_of_memory(struct fk_error *err, int64_t numbers) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)numbers);
}

/* ---- where ------------------------------------------------------------------------------------ */

static const struct fk_engine *exact_engine(enum fk_backend backend) {
  for (int i = 0; i < fk_engine_count(); i++)
    if (fk_engine_at(i)->matrix && fk_engine_at(i)->backend == backend) return fk_engine_at(i);
  return NULL;
}

/* Sets ops and device where a device does it all. */
static enum fk_status try_device(struct fk_preconditioner *P, const struct fk_opts *opts,
                                 const struct fk_engine **engine, struct fk_error *err) {
  const struct fk_dense_ops *ops = fk_dense_ops(FK_BACKEND_CUDA, err);
  int device = opts->n_devices > 0 ? (int)fk_larger(0, opts->devices[0]) : 0;
  if (!ops) return err->status;
  *engine = exact_engine(FK_BACKEND_CUDA);
  enum fk_status status = (*engine)->available(opts, err);
  if (!status) status = ops->ready(device, NULL, err);
  if (status) return status;
  P->ops = ops;
  P->device = device;
  return status;
}

static enum fk_status choose(struct fk_preconditioner *P, const struct fk_opts *opts,
                             const struct fk_engine **engine, struct fk_error *err) {
  struct fk_error why = {FK_STATUS_OK, ""};
  if (opts->backend == FK_BACKEND_CUDA) return try_device(P, opts, engine, err);
  if (opts->backend == FK_BACKEND_AUTO && (double)P->m >= fk_costs.dense.device &&
      try_device(P, opts, engine, &why) == FK_STATUS_OK)
    return FK_STATUS_OK;
  P->ops = &fk_dense_host;
  *engine = exact_engine(FK_BACKEND_CPU);
  return FK_STATUS_OK;
}

/* ---- T ---------------------------------------------------------------------------------------- */

struct build {
  struct fk_preconditioner *P;
  const struct fk_preconditioner_spec *spec;
  const struct fk_opts *opts;
  const struct fk_engine *engine;
  double *diagonal; /* to work in */
};

/* Of the work, K and not its factor; a guess. */
#define FILLED 0.1

static enum fk_status fill(const struct build *b, const struct fk_dense *K, struct fk_error *err) {
  const struct fk_preconditioner *P = b->P;
  struct fk_operator *op = b->spec->op;
  if (!op) {
    struct fk_dense here = fk_dense_of(b->spec->matrix, P->m, P->m);
    return P->ops->send(P->device, &here, K, err);
  }
  struct fk_task task = {.op = op, .sources = op->x, .whitening = &op->whitening, .kernel = op->kernel};
  struct fk_step step = {&b->opts->poll, 0, FILLED};
  struct fk_opts opts = *b->opts;
  opts.poll = fk_poll_of_step(&step);
  task.factor[0] = 1;
  return b->engine->matrix(&task, &opts, K, err);
}

static enum fk_status add_diagonal(const struct build *b, const struct fk_dense *K, double jitter,
                                   struct fk_error *err) {
  const struct fk_preconditioner *P = b->P;
  struct fk_dense there = fk_dense_diagonal(K), here = fk_dense_of(b->diagonal, 1, P->m);
  double sum = 0;
  if (jitter == 0 && !b->spec->diagonal) return FK_STATUS_OK;
  enum fk_status status = P->ops->fetch(P->device, &there, &here, err);
  if (status) return status;
  for (int64_t i = 0; i < P->m && b->spec->diagonal; i++) b->diagonal[i] += b->spec->diagonal[i];
  for (int64_t i = 0; i < P->m; i++) sum += b->diagonal[i];
  for (int64_t i = 0; i < P->m; i++) b->diagonal[i] += jitter * sum; /* m times the mean */
  return P->ops->send(P->device, &here, &there, err);
}

static enum fk_status factor_K(const struct build *b, double jitter, int64_t *pivot, struct fk_error *err) {
  const struct fk_preconditioner *P = b->P;
  struct fk_step step = {&b->opts->poll, FILLED, 1};
  const struct fk_blocked how = {P->ops, P->device, 0, fk_poll_of_step(&step)};
  struct fk_dense K = T_transposed(P);
  enum fk_status status = fill(b, &K, err);
  if (!status) status = add_diagonal(b, &K, jitter, err);
  return status ? status : fk_blocked_potrf(&how, 0, &K, pivot, err);
}

/* Rounding alone may make a matrix indefinite that is not. */
#define LEAST_JITTER 1e-16

static enum fk_status factor_with_jitter(const struct build *b, struct fk_preconditioner_facts *facts,
                                         struct fk_error *err) {
  const struct fk_preconditioner_spec *spec = b->spec;
  double jitter = spec->jitter;
  for (facts->steps = 1;; facts->steps++) {
    int64_t pivot = 0;
    enum fk_status status = factor_K(b, jitter, &pivot, err);
    facts->jitter = jitter;
    if (status || pivot == 0) return status;
    if (spec->fixed || jitter >= spec->most)
      return fk_fail(err, FK_STATUS_SINGULAR,
                     "the kernel matrix of %.0f centres is singular to working precision%s: are there duplicates "
                     "among them, or is `bandwidth` too large, or `lambda` too small?",
                     (double)b->P->m, spec->fixed ? "" : ", whatever is added to its diagonal");
    jitter = fmin(spec->most, jitter > 0 ? 100 * jitter : LEAST_JITTER);
  }
}

enum fk_status fk_preconditioner_create(const struct fk_preconditioner_spec *spec, const struct fk_opts *opts,
                                        struct fk_preconditioner **out, struct fk_preconditioner_facts *facts,
                                        struct fk_error *err) {
  struct fk_preconditioner *P = calloc(1, sizeof *P);
  struct build b = {P, spec, opts, NULL, malloc(sizeof(double) * (size_t)spec->m)};
  enum fk_status status = P && b.diagonal ? FK_STATUS_OK : out_of_memory(err, spec->m);
  *facts = (struct fk_preconditioner_facts){.backend = ""};
  if (!status) {
    P->m = spec->m;
    P->both = (struct fk_dense){.type = FK_DOUBLE, .n = P->m, .d = P->m + 1};
    status = choose(P, opts, &b.engine, err);
  }
  if (!status && spec->op) status = fk_operator_here(spec->op, opts->threads, NULL, err);
  if (!status) status = P->ops->alloc(P->device, &P->both, err);
  if (!status) status = factor_with_jitter(&b, facts, err);
  free(b.diagonal);
  if (status) {
    fk_preconditioner_free(P);
    return status;
  }
  facts->backend = P->ops == &fk_dense_host ? "cpu" : "cuda";
  facts->bytes = (double)sizeof(double) * (double)P->both.ld * (double)P->both.d;
  if (P->ops != &fk_dense_host) {
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
  if (P->ops) P->ops->free(P->device, &P->both);
  free(P);
}

void fk_preconditioners_release(void) {
  for (struct fk_preconditioner *P = on_devices; P; P = P->next) P->ops->free(P->device, &P->both);
}

/* ---- A ---------------------------------------------------------------------------------------- */

/* T W^1/2 scale^1/2 to A's place. */
static enum fk_status weigh_T(const struct fk_preconditioner *P, const double *roots, struct fk_error *err) {
  struct fk_dense L = T_transposed(P), A = A_of(P), here = fk_dense_of(roots, P->m, 1),
                  there = {.type = FK_DOUBLE, .n = P->m, .d = 1};
  enum fk_status status = P->ops->alloc(P->device, &there, err);
  if (!status) status = P->ops->send(P->device, &here, &there, err);
  if (!status) status = P->ops->transpose(P->device, 0, &L, &there, &A, err);
  P->ops->free(P->device, &there);
  return status;
}

static enum fk_status add_lambda(const struct fk_preconditioner *P, double lambda, double *work,
                                 struct fk_error *err) {
  struct fk_dense A = A_of(P), there = fk_dense_diagonal(&A), here = fk_dense_of(work, 1, P->m);
  enum fk_status status = P->ops->fetch(P->device, &there, &here, err);
  if (status) return status;
  for (int64_t i = 0; i < P->m; i++) work[i] += lambda;
  return P->ops->send(P->device, &here, &there, err);
}

static enum fk_status factor_A(const struct fk_preconditioner *P, const struct fk_preconditioner_weights *w,
                               const struct fk_poll *poll, double *work, struct fk_error *err) {
  struct fk_step steps[] = {{poll, 0, 0.5}, {poll, 0.5, 1}};
  const struct fk_blocked product = {P->ops, P->device, 0, fk_poll_of_step(&steps[0])},
                          factor = {P->ops, P->device, 0, fk_poll_of_step(&steps[1])};
  struct fk_dense A = A_of(P);
  int64_t pivot = 0;
  for (int64_t i = 0; i < P->m; i++) work[i] = sqrt(w->scale * (w->weights ? w->weights[i] : 1));
  enum fk_status status = weigh_T(P, work, err);
  if (!status) status = fk_blocked_lauum(&product, FK_UPPER, &A, err);
  if (!status) status = add_lambda(P, w->lambda, work, err);
  if (!status) status = fk_blocked_potrf(&factor, FK_UPPER, &A, &pivot, err);
  if (status || pivot == 0) return status;
  return fk_fail(err, FK_STATUS_SINGULAR,
                 "`lambda` is too small: with %.3g the matrix of %.0f centres is singular to working precision",
                 w->lambda, (double)P->m);
}

enum fk_status fk_preconditioner_weigh(struct fk_preconditioner *P, const struct fk_preconditioner_weights *w,
                                       const struct fk_poll *poll, struct fk_error *err) {
  enum fk_status status = P->ops->ready(P->device, &P->both, err);
  if (status) return status;
  double *work = malloc(sizeof *work * (size_t)P->m);
  if (!work) return out_of_memory(err, P->m);
  P->has_A = false;
  status = factor_A(P, w, poll, work, err);
  P->has_A = status == FK_STATUS_OK;
  free(work);
  return status;
}

/* ---- with both -------------------------------------------------------------------------------- */

static enum fk_status is_there(const struct fk_preconditioner *P, int step, struct fk_error *err) {
  if (step & FK_STEP_A && !P->has_A)
    return fk_fail(err, FK_STATUS_INTERNAL, "the preconditioner has no factor A yet");
  return P->ops->ready(P->device, &P->both, err);
}

/* T is the transpose of what is stored. */
static enum fk_status take_step(const struct fk_preconditioner *P, int step, const struct fk_dense *v,
                                struct fk_error *err) {
  struct fk_dense factor = step & FK_STEP_A ? A_of(P) : T_transposed(P);
  bool transposed = step & FK_STEP_TRANSPOSED;
  unsigned flags = step & FK_STEP_A ? FK_UPPER | (transposed ? FK_TRANSPOSED : 0) : transposed ? 0 : FK_TRANSPOSED;
  return step & FK_STEP_SOLVE ? P->ops->trsm(P->device, flags, 1, &factor, v, err)
                              : P->ops->trmm(P->device, flags, 1, &factor, v, err);
}

enum fk_status fk_preconditioner_apply(const struct fk_preconditioner *P, const int *steps, int n_steps, double *v,
                                       int64_t t, struct fk_error *err) {
  struct fk_dense here = fk_dense_of(v, P->m, t), there = {.type = FK_DOUBLE, .n = P->m, .d = t};
  enum fk_status status = is_there(P, 0, err);
  for (int i = 0; i < n_steps && !status; i++) status = is_there(P, steps[i], err);
  if (!status) status = P->ops->alloc(P->device, &there, err);
  if (!status) status = P->ops->send(P->device, &here, &there, err);
  for (int i = 0; i < n_steps && !status; i++) status = take_step(P, steps[i], &there, err);
  if (!status) status = P->ops->fetch(P->device, &there, &here, err);
  P->ops->free(P->device, &there);
  return status;
}

enum fk_status fk_preconditioner_factor(const struct fk_preconditioner *P, int step, double *factor,
                                        struct fk_error *err) {
  const int64_t m = P->m;
  const bool is_T = !(step & FK_STEP_A);
  struct fk_dense there = is_T ? T_transposed(P) : A_of(P), here = fk_dense_of(factor, m, m);
  enum fk_status status = is_there(P, step, err);
  if (!status) status = P->ops->fetch(P->device, &there, &here, err);
  if (!status && is_T) status = fk_dense_host.transpose(0, 0, &here, NULL, &here, err);
  for (int64_t k = 0; k < m && !status; k++)
    memset(factor + k * m + k + 1, 0, sizeof *factor * (size_t)(m - k - 1));
  return status;
}

enum fk_status fk_preconditioner_diagonal(const struct fk_preconditioner *P, int step, double *diagonal,
                                          struct fk_error *err) {
  struct fk_dense factor = step & FK_STEP_A ? A_of(P) : T_transposed(P), there = fk_dense_diagonal(&factor),
                  here = fk_dense_of(diagonal, 1, P->m);
  enum fk_status status = is_there(P, step, err);
  return status ? status : P->ops->fetch(P->device, &there, &here, err);
}

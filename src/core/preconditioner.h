/* The preconditioner of Falkon: T'T = K + jitter and A'A = scale T W T' + lambda I, in one tiled matrix
 * (tiled.h) on the host, on a device or on several, or streamed through them. Products with the factors, and
 * solves.
 *
 *   fk_preconditioner_create (T) -> fk_preconditioner_weigh (A, again for other numbers) -> _apply, ... -> _free
 */
#pragma once

#include "../fk.h"

struct fk_preconditioner;

/* K + diag(diagonal) + a I, where a is `jitter` times m times the mean of the diagonal. */
struct fk_preconditioner_spec {
  struct fk_operator *op; /* K is that of its points at themselves; NULL: */
  const double *matrix;   /* K, m x m, of which the lower triangle is read */
  int64_t m;
  const double *diagonal; /* m; NULL: 0 */
  double jitter, most;    /* where the factor does not exist 100 times the jitter, up to most; */
  bool fixed;             /* none but this one */
};
/* What came out: the jitter, and the factorisations that it took. */
struct fk_preconditioner_facts {
  double jitter, bytes;
  int steps, devices; /* devices: 0 on the host */
  bool streamed;      /* through the devices: they do not hold it */
  const char *backend;
};
enum fk_status fk_preconditioner_create(const struct fk_preconditioner_spec *spec, const struct fk_opts *opts,
                                        struct fk_preconditioner **out, struct fk_preconditioner_facts *facts,
                                        struct fk_error *err);
void fk_preconditioner_free(struct fk_preconditioner *P); /* NULL is fine */
int64_t fk_preconditioner_order(const struct fk_preconditioner *P);

/* A, from weights (m, not negative; NULL: ones). After a failure there is none. */
struct fk_preconditioner_weights {
  const double *weights;
  double scale, lambda;
};
enum fk_status fk_preconditioner_weigh(struct fk_preconditioner *P, const struct fk_preconditioner_weights *w,
                                       const struct fk_poll *poll, struct fk_error *err);

/* 0: times T. Added to it: solve, with the factor's transpose, with A. */
enum fk_factor_step { FK_STEP_SOLVE = 1, FK_STEP_TRANSPOSED = 2, FK_STEP_A = 4, FK_STEPS = 8 };
/* v, m x t, := the product with all of them, the first step done first. */
enum fk_status fk_preconditioner_apply(const struct fk_preconditioner *P, const int *steps, int n_steps, double *v,
                                       int64_t t, struct fk_error *err);
/* step 0 or FK_STEP_A. To m x m numbers, whose other triangle is 0, or m on the diagonal. */
enum fk_status fk_preconditioner_factor(const struct fk_preconditioner *P, int step, double *factor,
                                        struct fk_error *err);
enum fk_status fk_preconditioner_diagonal(const struct fk_preconditioner *P, int step, double *diagonal,
                                          struct fk_error *err);

/* Those on devices give their memory back, and are lost. */
void fk_preconditioners_release(void);

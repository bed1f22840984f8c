/* The preconditioner of Falkon: factors T'T = K + jitter and A'A = scale T W T' + lambda I, products and solves
 * with them. Both are stored in one tiled matrix (tiled.h): on the host, on one or several devices, or on the host
 * and streamed through the devices.
 *
 *   fk_preconditioner_create (T) -> fk_preconditioner_weigh (A, again for other numbers) -> _apply, ... -> _free
 */
#pragma once

#include "../fk.h"

struct fk_preconditioner;

/* The matrix to factor, K + diag(diagonal) + a I, where a is `jitter` times m times the mean of the diagonal. */
struct fk_preconditioner_spec {
  struct fk_kernel_terms kernels; /* K is the kernel matrix of their m points; n = 0: K is `matrix` */
  const double *matrix;           /* m x m, of which the lower triangle is read */
  int64_t m;
  const double *diagonal; /* m numbers; NULL: 0 */
  double jitter, most;    /* if K cannot be factored, the jitter is multiplied by 100, up to `most` */
  bool fixed;             /* try only `jitter` */
  bool rough;             /* for solves that are refined: T alone, in half of the memory */
  double host;            /* bytes of the host for factors that are streamed through devices, 0: all */
};
/* Facts about the result: the jitter that was added, the bytes of both factors, the number of factorisations
 * tried. */
struct fk_preconditioner_facts {
  double jitter, bytes;
  int steps, devices; /* devices: 0 on the host */
  bool streamed;      /* the factors lie on the host and are streamed through the devices */
  const char *backend;
};
/* Computes T. The caller frees *out. Fails with FK_STATUS_SINGULAR if no jitter that is allowed makes K positive
 * definite, with FK_STATUS_ALLOC, or with the failures of a device. */
enum fk_status fk_preconditioner_create(const struct fk_preconditioner_spec *spec, const struct fk_opts *opts,
                                        struct fk_preconditioner **out, struct fk_preconditioner_facts *facts,
                                        struct fk_error *err);
void fk_preconditioner_free(struct fk_preconditioner *P); /* P may be NULL */
int64_t fk_preconditioner_order(const struct fk_preconditioner *P);

/* Computes A from m weights >= 0 (NULL: ones), in place of an earlier A. After a failure there is no A. Fails with
 * FK_STATUS_SINGULAR if lambda is too small. */
struct fk_preconditioner_weights {
  const double *weights;
  double scale, lambda;
};
enum fk_status fk_preconditioner_weigh(struct fk_preconditioner *P, const struct fk_preconditioner_weights *w,
                                       const struct fk_poll *poll, struct fk_error *err);

/* A step of fk_preconditioner_apply(), a sum of flags. 0: multiply by T. Flags: solve instead of multiply; use the
 * transpose of the factor; use A instead of T. */
enum fk_factor_step { FK_STEP_SOLVE = 1, FK_STEP_TRANSPOSED = 2, FK_STEP_A = 4, FK_STEPS = 8 };
/* Applies the steps to v (m x t) in place, steps[0] first. Fails with FK_STATUS_LOST if the factors were lost with
 * their device. */
enum fk_status fk_preconditioner_apply(const struct fk_preconditioner *P, const int *steps, int n_steps, double *v,
                                       int64_t t, struct fk_error *err);
/* Copy the factor T (step 0) or A (FK_STEP_A) to m x m numbers, upper triangular, or its diagonal to m numbers. */
enum fk_status fk_preconditioner_factor(const struct fk_preconditioner *P, int step, double *factor,
                                        struct fk_error *err);
enum fk_status fk_preconditioner_diagonal(const struct fk_preconditioner *P, int step, double *diagonal,
                                          struct fk_error *err);

/* Frees the device memory of all preconditioners; those on devices are lost. */
void fk_preconditioners_release(void);

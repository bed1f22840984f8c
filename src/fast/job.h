/* A job of the fast engine: one sum, with the state that its files share.
 *
 * All methods sum columns b, with weights multiplied in: the columns of the task and, last, the mass (the
 * weights).
 *
 * The contract, with A_j = sum_i |b_i| k(y_j, x_i) for the targets of the task (without their own kernels if the
 * task excludes them): |error_j| <= tol max_j A_j (FK_TOL_GLOBAL) or tol A_j (FK_TOL_POINTWISE). For sums of
 * coordinates the error is that of the gradient.
 */
#pragma once

#include "../core/method.h"
#include "../cpu/grid/envelope.h"
#include "../grid/backend.h"

struct fk_fast_sample;

struct fk_fast_job {
  const struct fk_task *task;
  const struct fk_opts *opts;
  int64_t n, m, d;
  bool same; /* targets are the sources */
  double tol;

  const double *b; /* n x columns, multiplied by 2^-exponent[column]; NULL: one column of ones */
  double *own_b;   /* the memory of b, if the job allocated it; else NULL */
  int64_t columns;
  int *exponent;
  double *size;  /* the largest |b| of each column */
  double share;  /* the least mean |b| / size of a column, relative to the mean of the masses; at most 1 */
  bool negative; /* is any b negative? */
  bool wide;     /* the range of b exceeds that of floats at any scale */

  /* f = laplace (1 + d/2 - q/2) + plain; engine.c lists the supported polynomials */
  double laplace, plain;
  bool gradient; /* sums of coordinates, computed as gradients: sum w f k (u_i - u_j) */

  const struct fk_grid_backend *grid;
  struct fk_opts exact_opts; /* options with which the exact engine of the device keeps the tolerance */
  uint64_t session;          /* number under which a device keeps the points during the job */
  struct fk_stats *stats;
  bool single;    /* is single precision allowed? */
  double largest; /* the largest mass */
  double least;   /* lower bound of max_j A_j, relative to each column's size */
  double reach;   /* largest coordinate that matters, in bandwidths (box.h); 0: not known yet */
  struct fk_fast_sample *sample;
  double bound; /* proven bound of the error, relative as tol_type says */
  bool used_single;
  int64_t tail_rows;
};

/* The task's array for the sums of column c, m numbers. */
static inline double *fk_fast_out(const struct fk_fast_job *job, int64_t c) {
  return c == job->columns - 1 ? job->task->mass : job->task->sums + c * job->m;
}
static inline bool fk_fast_pointwise(const struct fk_fast_job *job) {
  return job->opts->tol_type == FK_TOL_POINTWISE;
}

/* Do the options force the grid or direct sums? May this method be chosen? */
static inline bool fk_fast_is_asked(const struct fk_opts *opts) {
  return opts->methods & (FK_METHOD_GRID | FK_METHOD_DIRECT);
}
static inline bool fk_fast_may_be(const struct fk_opts *opts, enum fk_method method) {
  return !fk_fast_is_asked(opts) || (opts->methods & method);
}

/* Is single precision allowed, and accurate enough for the tolerance? */
static inline bool fk_fast_may_be_single(const struct fk_opts *opts, double tol) {
  return opts->precision != FK_PRECISION_DOUBLE && tol >= 4e-6;
}

/* Rounding errors relative to the sums near a row. Sums in float have 24 bits, four of which are spent on the
 * position within a block; sums in double have up to FK_CHUNK terms. Errors of values spread onto the grid are
 * smoothed with the points. Errors of a node's own value, from filter and interpolation, are magnified by slopes;
 * in double these are short sums. */
#define FK_FAST_ROUNDING(single) ((single) ? FK_GRID_ROUNDING : 2e-14)
#define FK_FAST_NODE_ROUNDING(single) ((single) ? FK_GRID_ROUNDING : 2e-15)
/* placed: include the rounding of coordinates. Jobs with a tolerance check it by fk_fast_keeps_places()
 * instead. */
static inline struct fk_envelope_rounding fk_fast_rounding(bool single, double unit, bool placed) {
  double place = placed ? 0x1p-53 : 0;
  return (struct fk_envelope_rounding){FK_FAST_ROUNDING(single), FK_FAST_NODE_ROUNDING(single), unit, place};
}

/* Do whitened coordinates up to job->reach have enough digits for the tolerance? */
bool fk_fast_keeps_places(const struct fk_fast_job *job);

/* Rows with error > FK_FAST_LOG_SHARE |sum| are recomputed if logarithms or quotients of sums are needed. */
#define FK_FAST_LOG_SHARE 0.01
static inline bool fk_fast_has_quotient(const struct fk_fast_job *job) {
  return job->task->tail_pass || job->gradient;
}

/* The job as a task for the back end of its grid. */
struct fk_grid_task fk_fast_grid_task(const struct fk_fast_job *job);
/* Computes all terms of the polynomial f on the grid and writes the task's results, with the rows' own kernels. */
enum fk_status fk_fast_terms(struct fk_fast_job *job, const struct fk_grid_work *work,
                             const struct fk_window *window, bool single, struct fk_error *err);
/* Whitens rows first .. first + count - 1 of points into u[k * ld + r]. */
enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_matrix *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err);
/* Sets job->largest from the masses. */
void fk_fast_find_largest(struct fk_fast_job *job);

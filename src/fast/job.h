/* One sum of the fast engine, as all of its files see it.
 *
 * All methods sum columns b, weights included: those of the task, and the mass (the weights alone) last.
 *
 * The contract, with A_j = sum_i |b_i| k(y_j, x_i) of the targets asked for (their own kernels left out where the
 * task says so): |error_j| <= tol max_j A_j, or tol A_j. Of coordinates, the gradient's error is meant.
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

  const double *b; /* n x columns, times 2^-exponent[column]; NULL: one column of ones */
  double *own_b;   /* the same, where it had to be made */
  int64_t columns;
  int *exponent;
  double *size;  /* of each column, the largest |b| */
  bool negative; /* is one of b? */
  bool wide;     /* b have no scale that suits a float */

  /* f = laplace (1 + d/2 - q/2) + plain; engine.c says which there are */
  double laplace, plain;
  bool gradient; /* coordinates are summed, as gradients: sum w f k (u_i - u_j) */

  const struct fk_grid_backend *grid;
  struct fk_opts exact_opts; /* how the exact engine of its device keeps the tolerance */
  uint64_t session;          /* of its points on a device */
  struct fk_stats *stats;
  bool single;    /* may be */
  double largest; /* of the masses */
  double least;   /* max_j A_j is no less, in each column's size */
  double reach;   /* how far out places matter, in bandwidths (box.h); 0: not known yet */
  struct fk_fast_sample *sample;
  double bound; /* of the error, relative as the options ask */
  bool used_single;
  int64_t tail_rows;
};

/* Where column c of the sums goes. */
static inline double *fk_fast_out(const struct fk_fast_job *job, int64_t c) {
  return c == job->columns - 1 ? job->task->mass : job->task->sums + c * job->m;
}
static inline bool fk_fast_pointwise(const struct fk_fast_job *job) {
  return job->opts->tol_type == FK_TOL_POINTWISE;
}

/* Has one of these methods been asked for, and may this one be chosen? */
static inline bool fk_fast_is_asked(const struct fk_opts *opts) {
  return opts->methods & (FK_METHOD_GRID | FK_METHOD_DIRECT);
}
static inline bool fk_fast_may_be(const struct fk_opts *opts, enum fk_method method) {
  return !fk_fast_is_asked(opts) || (opts->methods & method);
}

/* What floats keep of a sum. */
static inline bool fk_fast_may_be_single(const struct fk_opts *opts, double tol) {
  return opts->precision != FK_PRECISION_DOUBLE && tol >= 4e-6;
}

/* Rounding relative to what is near a row: sums in float have 24 bits, of which a place within a block takes four;
 * those in double are of up to FK_CHUNK terms. Of what goes onto the grid it is smoothed as the points are; what a
 * node's value has of its own, from the filter and the reading, slopes magnify: in double these are short sums. */
#define FK_FAST_ROUNDING(single) ((single) ? FK_GRID_ROUNDING : 2e-14)
#define FK_FAST_NODE_ROUNDING(single) ((single) ? FK_GRID_ROUNDING : 2e-15)
/* placed: with what rounding does to coordinates. Jobs with a tolerance leave that to fk_fast_keeps_places(). */
static inline struct fk_envelope_rounding fk_fast_rounding(bool single, double unit, bool placed) {
  double place = placed ? 0x1p-53 : 0;
  return (struct fk_envelope_rounding){FK_FAST_ROUNDING(single), FK_FAST_NODE_ROUNDING(single), unit, place};
}

/* Whether whitened coordinates of up to job->reach keep the digits of kernels that the tolerance asks for. */
bool fk_fast_keeps_places(const struct fk_fast_job *job);

/* Where error > FK_FAST_LOG_SHARE |sum| a logarithm or a quotient of sums would be no good, and the row is done
 * again. */
#define FK_FAST_LOG_SHARE 0.01
static inline bool fk_fast_has_quotient(const struct fk_fast_job *job) {
  return job->task->tail_pass || job->gradient;
}

/* The job as its grid's back end takes it. */
struct fk_grid_task fk_fast_grid_task(const struct fk_fast_job *job);
/* All terms of the factor by the grid, to the task's results (own kernels included). */
enum fk_status fk_fast_terms(struct fk_fast_job *job, const struct fk_grid_work *work,
                             const struct fk_window *window, bool single, struct fk_error *err);
/* Rows first .. first + count - 1, whitened, to u[k * ld + r]. */
enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_matrix *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err);
/* Sets job->largest from the masses. */
void fk_fast_find_largest(struct fk_fast_job *job);

/* One sum of the fast engine, between its files: engine.c (the table's entries), columns.c (what is summed),
 * choose.c (which method), tolerance.c (by a grid, to a tolerance that is proven), by_grid.c and by_cuda.c (the
 * grid's sums on the CPU and on GPUs), by_direct.c and rows.c (all rows directly, or some), by_mixture.c (kernels
 * that are sums of Gaussians), check.c (sums of a sample of rows).
 *
 * All methods sum columns b, weights included: those of the task, and the mass (the weights alone) last.
 *
 * The contract, with A_j = sum_i |b_i| k(y_j, x_i) of the targets asked for (their own kernels left out where the
 * task says so): |error_j| <= tol max_j A_j, or tol A_j. Of coordinates, the gradient's error is meant.
 */
#ifndef FK_FAST_ENGINE_H
#define FK_FAST_ENGINE_H

#include <math.h>

#include "../core/count.h"
#include "check.h"
#include "../cpu/direct/direct.h"
#include "../cpu/direct/direct_tile.h"
#include "../cpu/grid/grid.h"

struct fk_fast_job;
struct fk_fast_sample;

/* All terms of the factor by the grid, to the task's results (own kernels included). Where the work has several
 * kernels, as only on the CPU, they take the Gaussian's place. */
typedef enum fk_status fk_fast_terms(struct fk_fast_job *job, const struct fk_grid_work *work,
                                     const struct fk_window *window, bool single, struct fk_error *err);

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

  fk_fast_terms *terms;
  const struct fk_engine *exact; /* of the same device, and how it keeps the tolerance */
  struct fk_opts exact_opts;
  uint64_t session; /* of its points on a GPU */
  struct fk_stats *stats;
  bool single;    /* may be */
  double largest; /* of the masses */
  double least;   /* max_j A_j is no less, in each column's size */
  struct fk_fast_sample *sample;
  double bound; /* of the error, relative as the options ask */
  bool used_single;
  int64_t tail_rows;
};

static inline const struct fk_points *fk_fast_targets(const struct fk_fast_job *job) {
  return job->same ? &job->task->sources : &job->task->targets;
}
/* Where column c of the sums goes. */
static inline double *fk_fast_out(const struct fk_fast_job *job, int64_t c) {
  return c == job->columns - 1 ? job->task->mass : job->task->sums + c * job->m;
}
static inline bool fk_fast_pointwise(const struct fk_fast_job *job) {
  return job->opts->tol_type == FK_TOL_POINTWISE;
}

/* What floats keep of a sum. */
static inline bool fk_fast_may_be_single(const struct fk_opts *opts, double tol) {
  return opts->precision != FK_PRECISION_DOUBLE && tol >= 4e-6;
}

/* Rounding relative to what is near a row: sums in float have 24 bits, of which a place within a block takes four;
 * those in double are of up to FK_CHUNK terms. */
#define FK_FAST_ROUNDING(single) ((single) ? FK_GRID_ROUNDING : 2e-14)

/* ---- columns ---------------------------------------------------------------------------------- */

enum fk_status fk_fast_columns_init(struct fk_fast_job *job, struct fk_error *err);
void fk_fast_columns_free(struct fk_fast_job *job);
/* Of a job's sources first .. first + count - 1: the largest |b| of all columns, relative to the column's largest.
 */
void fk_fast_masses(const void *job, int64_t first, int64_t count, double *mass);
/* Values of the rows at .. at + count - 1, value[c * count], join the sums, times scale. */
void fk_fast_add(const struct fk_fast_job *job, int64_t at, int64_t count, double scale, bool first,
                 const double *value);
/* Sums of coordinates there, from the gradient, slope[k * ld], and the targets' own times the mass. */
void fk_fast_set_coordinates(const struct fk_fast_job *job, int64_t at, int64_t count, double scale,
                             const double *slope, int64_t ld, const double *u);
/* A row's own kernel goes out of its sums. */
void fk_fast_leave_out(struct fk_fast_job *job);
/* Sums of b in place of those of its scaled columns. */
void fk_fast_scale_back(struct fk_fast_job *job);

/* ---- points ----------------------------------------------------------------------------------- */

enum { FK_FAST_CHUNK = 1 << 20 }; /* points whitened at a time */
/* Rows first .. first + count - 1, whitened, to u[k * ld + r]. */
enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_points *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err);
enum fk_status fk_fast_whiten_points(const struct fk_whitening *w, int threads, const struct fk_points *points,
                                     int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err);

/* ---- a sample of rows --------------------------------------------------------------------------- */

/* Rows with the sums of all pairs. */
struct fk_fast_sample {
  struct fk_check check;
  int64_t row[FK_DIRECT_GROUP];
  bool scaled[FK_DIRECT_GROUP]; /* the task's sums are on a scale of the row's own */
};
/* The rows `first`, as far as half of them, and random ones. */
enum fk_status fk_fast_check_init(struct fk_fast_job *job, const int64_t *first, int64_t n_first,
                                  struct fk_fast_sample *sample, struct fk_error *err);
/* max_j A_j is no less, in every column's size. */
double fk_fast_check_least(const struct fk_fast_job *job, const struct fk_fast_sample *sample);
/* The error of the task's sums, relative as the options ask. */
double fk_fast_check_achieved(const struct fk_fast_job *job, const struct fk_fast_sample *sample);

/* ---- which method ----------------------------------------------------------------------------- */

/* Grids beyond it are left to other methods. */
#define FK_FAST_MOST_BYTES 16e9
/* Does FLASHKERNEL_FAST_METHOD leave a method to be chosen? */
bool fk_fast_may_be(const char *method);

/* What the choice goes by: samples of both sides, whitened. */
struct fk_fast_samples {
  double *u;
  struct fk_points x, y;
};

/* The cheapest window with an error of at most tol sum |b|, on one thread or on GPUs: infinite seconds where there
 * is none. *single: whether floats may do on entry, and whether they shall. */
void fk_fast_choose_window(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                           bool *single, struct fk_window *window, double *seconds);
/* By direct sums, looked for only where it could be less than `least`. */
enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err);

/* ---- methods ---------------------------------------------------------------------------------- */

fk_fast_terms fk_fast_terms_cpu, fk_fast_terms_cuda;
/* Sums on GPUs of a check's rows, all pairs in double. */
enum fk_status fk_fast_sample_cuda(struct fk_fast_job *job, const struct fk_points *rows, struct fk_check *check,
                                   struct fk_error *err);
/* All of the envelope's points on GPUs, in one box. FK_STATUS_UNSUPPORTED where that is too large. */
struct fk_envelope;
enum fk_status fk_fast_envelope_cuda(const struct fk_fast_job *job, bool counted, double most_nodes,
                                     struct fk_envelope *envelope, struct fk_error *err);
/* Of the cheapest window on GPUs. */
void fk_fast_window_cuda(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol, bool *single,
                         struct fk_window *window, double *seconds);

/* A sum of Gaussians in place of the task's kernel: what they are and how each is summed. */
struct fk_fast_mixture;
/* work: of a bandwidth of 1. *seconds: infinite where the kernel has no such sum, and *mixture is NULL. */
enum fk_status fk_fast_mixture_init(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    const struct fk_grid_work *work, struct fk_fast_mixture **mixture,
                                    double *seconds, struct fk_error *err);
void fk_fast_mixture_free(struct fk_fast_mixture *mixture);
enum fk_status fk_fast_by_mixture(struct fk_fast_job *job, const struct fk_fast_mixture *mixture,
                                  struct fk_error *err);

/* By a grid: which window, proven to do but for some rows, and what these take. */
struct fk_fast_plan;
/* *seconds: by the samples on entry; infinite where no window does. Sets job->least and takes the job's sample of
 * rows. */
enum fk_status fk_fast_plan_grid(struct fk_fast_job *job, const struct fk_fast_samples *samples,
                                 const struct fk_grid_work *work, struct fk_fast_sample *sample,
                                 struct fk_fast_plan **plan, double *seconds, struct fk_error *err);
void fk_fast_plan_free(struct fk_fast_plan *plan);
enum fk_status fk_fast_by_plan(struct fk_fast_job *job, struct fk_fast_plan *plan, struct fk_error *err);

enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err);
/* Some rows again, each to the tolerance of its own sums, or to `floor` where that is more, and with a shift of
 * its own. */
enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, double floor,
                            struct fk_error *err);
/* The row whose own kernel is more than half of all that there is to leave out. */
enum fk_status fk_fast_redo_heavy(struct fk_fast_job *job, struct fk_error *err);
/* Where error > FK_FAST_LOG_SHARE |sum| a logarithm or a
 * quotient of sums would be no good, and the row is done again. */
#define FK_FAST_LOG_SHARE 0.01
static inline bool fk_fast_has_quotient(const struct fk_fast_job *job) {
  return job->task->tail_pass || job->gradient;
}
/* Sets job->largest from the masses. */
void fk_fast_find_largest(struct fk_fast_job *job);

#endif

/* One sum of the fast engine, between its files: engine.c (the table's entries, and which method), tolerance.c (by
 * a grid), by_grid.c and by_cuda.c (its sums on the CPU and on GPUs), by_direct.c (all rows, or those in the
 * tails), by_mixture.c (kernels that are sums of Gaussians), check.c (the error achieved).
 *
 * All methods sum columns b, weights included: those of the task, and the mass (the weights alone) last.
 */
#ifndef FK_FAST_ENGINE_H
#define FK_FAST_ENGINE_H

#include <math.h>

#include "../core/count.h"
#include "direct.h"
#include "grid.h"

struct fk_fast_job;

/* All terms of the factor by the grid, to the task's results (own kernels included), with the cheapest window that
 * keeps tol. around, or NULL: sum w exp(-q / (2 FK_FAST_ERROR_WIDTH^2)) of each row.
 * Where the work has several kernels, as only on the CPU, they take the Gaussian's place. */
typedef enum fk_status fk_fast_terms(struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                                     double *around, struct fk_window *window, struct fk_error *err);

/* A window's error fades as a Gaussian of this width does, times at most 1.3 (measured for all windows whose
 * filter reaches 8 bandwidths at most, as struct fk_grid_work's `local` asks). */
#define FK_FAST_ERROR_WIDTH 3.0

struct fk_fast_job {
  const struct fk_task *task;
  const struct fk_opts *opts;
  int64_t n, m, d;
  bool same; /* targets are the sources */
  double tol;

  const double *b; /* n x columns; NULL: one column of ones */
  double *own_b;   /* the same, where it had to be made */
  int64_t columns;
  bool negative; /* is one of b? */

  /* f = laplace (1 + d/2 - q/2) + plain; engine.c says which there are */
  double laplace, plain;
  bool gradient; /* coordinates are summed, as gradients: sum w f k (u_i - u_j) */

  fk_fast_terms *terms;
  uint64_t session; /* of its points on a GPU */
  struct fk_stats *stats;
  bool single;     /* may be */
  double largest;  /* of the masses: what the tolerance is relative to, where no b is negative */
  double rounding; /* of the method's arithmetic, relative to what is around a row */
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

/* Of row i: sums with the wider kernel, wide[c * ld], scaled to the mass by the column that they are largest
 * beside, for the error is to be small beside each column's own sum. */
static inline double fk_fast_around(const struct fk_fast_job *job, int64_t i, const double *wide, int64_t ld) {
  if (job->columns == 1) return wide[0];
  double worst = 0;
  for (int64_t c = 0; c < job->columns; c++) {
    double own = fk_fast_out(job, c)[i], ratio = own > 0 ? wide[c * ld] / own : (double)INFINITY;
    if (wide[c * ld] > 0 && ratio > worst) worst = ratio;
  }
  return isfinite(worst) ? worst * job->task->mass[i] : worst;
}

/* What floats keep of a sum. */
static inline bool fk_fast_may_be_single(const struct fk_opts *opts, double tol) {
  return opts->precision != FK_PRECISION_DOUBLE && tol >= 4e-6;
}

/* Values of the rows at .. at + count - 1, value[c * count], join the sums, times scale. */
void fk_fast_add(const struct fk_fast_job *job, int64_t at, int64_t count, double scale, bool first,
                 const double *value);
/* Sums of coordinates there, from the gradient, slope[k * ld], and the targets' own times the mass. */
void fk_fast_set_coordinates(const struct fk_fast_job *job, int64_t at, int64_t count, double scale,
                             const double *slope, int64_t ld, const double *u);

enum { FK_FAST_CHUNK = 1 << 20 }; /* points whitened at a time */
/* Rows first .. first + count - 1, whitened, to u[k * ld + r]. */
enum fk_status fk_fast_whiten(const struct fk_fast_job *job, const struct fk_points *points, int64_t first,
                              int64_t count, double *u, int64_t ld, struct fk_error *err);
enum fk_status fk_fast_whiten_points(const struct fk_whitening *w, int threads, const struct fk_points *points,
                                     int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err);

/* Grids beyond it are left to other methods. */
#define FK_FAST_MOST_BYTES 16e9
/* Does FLASHKERNEL_FAST_METHOD leave a method to be chosen? */
bool fk_fast_may_be(const char *method);

fk_fast_terms fk_fast_terms_cpu, fk_fast_terms_cuda;
/* Rows' sums of all pairs in double, row r of column c to sums[c * ld + r], and where some b are negative those of
 * |b| after all columns. */
enum fk_status fk_fast_sample_cuda(struct fk_fast_job *job, const struct fk_points *rows, double *sums, int64_t ld,
                                   struct fk_error *err);
/* Of the cheapest window on GPUs; infinite where there is none. */
double fk_fast_seconds_cuda(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol);

/* What the choice of a method goes by: samples of both sides, whitened. */
struct fk_fast_samples {
  double *u;
  struct fk_points x, y;
};
/* Seconds by the grid on one thread, or on GPUs; infinite where it cannot. */
double fk_fast_grid_seconds(const struct fk_fast_job *job, const struct fk_grid_work *work);
/* By direct sums, looked for only where it could be less than `least`. */
enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err);
/* FLASHKERNEL_FAST_METHOD lets this one. */
bool fk_fast_may_be(const char *method);

/* A sum of Gaussians in place of the task's kernel: what they are and how each is summed. */
struct fk_fast_mixture;
/* work: of a bandwidth of 1. *seconds: infinite where the kernel has no such sum, and *mixture is NULL. */
enum fk_status fk_fast_mixture_init(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    const struct fk_grid_work *work, struct fk_fast_mixture **mixture,
                                    double *seconds, struct fk_error *err);
void fk_fast_mixture_free(struct fk_fast_mixture *mixture);
enum fk_status fk_fast_by_mixture(struct fk_fast_job *job, const struct fk_fast_mixture *mixture,
                                  struct fk_error *err);

/* The sums by a method, to the task's results. */
enum fk_status fk_fast_by_grid(struct fk_fast_job *job, const struct fk_grid_work *work, struct fk_error *err);
enum fk_status fk_fast_by_direct(struct fk_fast_job *job, struct fk_error *err);
/* Some rows again, each to the tolerance of its own sums and with its own shift. */
enum fk_status fk_fast_rows(struct fk_fast_job *job, const int64_t *rows, int64_t n_rows, struct fk_error *err);
/* Sets job->largest from the masses. */
void fk_fast_find_largest(struct fk_fast_job *job);
/* A row's own kernel goes out of its sums. */
void fk_fast_leave_out(struct fk_fast_job *job);
/* The error on a sample of rows, relative as the options ask. */
enum fk_status fk_fast_check(struct fk_fast_job *job, double *achieved, struct fk_error *err);

#endif

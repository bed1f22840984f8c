/* Direct sums of Gaussian kernels that leave out what is too far away to matter: for narrow kernels (few points
 * within a few bandwidths), for d = 4..7, and for single rows in the tails. CPU only.
 *
 *   V[i, c] = sum_j b[j, c] f(q_ij / 2) exp(-q_ij / 2),   G[i, k] = sum_j b[j, 0] f exp(-q_ij / 2) (x_jk - y_ik)
 *
 * with q_ij = |y_i - x_j|^2: points come whitened, so that the bandwidth is 1. Weights are part of b (a density's
 * mass is one more column). Sources are put in spatial order once and serve any number of chunks of targets:
 *
 *   fk_direct_create() -> fk_direct_sums() for each chunk, fk_direct_rows() for rows in the tails -> destroy
 *
 * b may be any finite numbers, from the least to the largest in one column: columns are scaled by powers of two,
 * and rows are summed in the log domain. Results are the same to the last bit for any number of threads.
 * Coordinates must be finite.
 */
#pragma once

#include "../../fk.h"

enum { FK_DIRECT_MAX_DIM = 7 }; /* of the points */

struct fk_direct; /* sources, their columns and the boxes around them */

struct fk_direct_options {
  bool single; /* kernels in float, summed in double, but for groups of targets too far apart for it: errors of a
                  few 1e-7 of the sum of |b| k, for tol >= 1e-5 */
  int threads; /* 0: the default */
  struct fk_poll poll; /* asked on the calling thread between pieces of work */
};

/* x: n x d, whitened, 1 <= d <= FK_DIRECT_MAX_DIM, n < 2^32; copied, as b (n x n_columns; NULL: one column of
 * ones). n = 0 is fine. */
enum fk_status fk_direct_create(const struct fk_matrix *x, const double *b, int64_t n_columns,
                                const struct fk_direct_options *options, struct fk_direct **direct,
                                struct fk_error *err);
/* Other columns for the same points, as a solver needs for every product. */
enum fk_status fk_direct_set_columns(struct fk_direct *direct, const double *b, int64_t n_columns,
                                     struct fk_error *err);
/* fk_direct_rest() frees all but what depends on the points only, and returns the bytes that are left.
 * fk_direct_restart() sets other columns and options after it. */
enum fk_status fk_direct_restart(struct fk_direct *direct, const double *b, int64_t n_columns,
                                 const struct fk_direct_options *options, struct fk_error *err);
double fk_direct_rest(struct fk_direct *direct);
void fk_direct_destroy(struct fk_direct *direct); /* may be NULL */

/* Targets, polynomial, tolerance and results of a call. */
struct fk_direct_job {
  struct fk_matrix targets; /* m x d, whitened; data NULL: the sources */
  int64_t self_first; /* target i is source self_first + i and leaves that pair out; -1: no pair is left out */
  double factor[3];   /* f(q/2) = factor[0] + factor[1] q/2 + factor[2] (q/2)^2; {1, 0, 0}: the kernel alone */
  double tol;
  double floor; /* rows: what may be left out of any of them, in units of b k; 0: none */
  const double
      *known;       /* sums: for each column a sum of |b| k that the largest reaches, as the caller knows; NULL */
  double *sums;     /* V, m x n_columns, at [i + c * ld] */
  double *gradient; /* G, m x d, at [i + k * ld]; NULL: not wanted */
  int64_t ld;       /* at least m: a chunk may write into the rows of a larger matrix */
  double pairs;     /* out: kernels computed, added to */
  double left_out;  /* out: a bound on any target's error but for the rounding of doubles, relative to what the
                       tolerance is */
  bool used_single; /* out */
};

/* All targets, global tolerance: for each column, what is left out is at most tol times the largest sum_j |b[j,
 * c]| k(y_i, x_j), own terms not counted where they are left out, over the targets that the structure has seen so
 * far (in this call or earlier ones, as found on a sample or known to the caller, which is a lower bound). For the
 * gradient: in units of one bandwidth. */
enum fk_status fk_direct_sums(struct fk_direct *direct, struct fk_direct_job *job, struct fk_error *err);

/* The targets rows[0 .. n_rows) only (NULL: all), for a structure with one column: of each is left out at most tol
 * times its own sum_j |b[j]| k, or `floor` where that is more. Its sums and gradient are to be multiplied by
 * exp(shift[i]), which is 1 unless they could leave the range of doubles (and not the log of the largest term):
 * they are 0 only where all terms are, where terms of both signs cancel, or where `floor` lets them be. Results go
 * to the rows' own places; others are not touched. */
enum fk_status fk_direct_rows(struct fk_direct *direct, struct fk_direct_job *job, const int64_t *rows,
                              int64_t n_rows, double *shift, struct fk_error *err);

/* ---- cost, by which a caller chooses among the engines ----------------------------------------- */

struct fk_direct_cost {
  double pairs;   /* kernels that fk_direct_sums() would compute */
  double seconds; /* for these, and for ordering sources and targets */
};
/* A lower bound of the time of direct sums, for no near pairs. If another method takes less, skip
 * fk_direct_guess(). */
double fk_direct_least_seconds(double n, double m, int threads);
/* Input of fk_direct_guess(). n, m: numbers of all sources and targets, of which x and targets may be samples
 * (rows drawn at random or evenly); targets.data NULL: the sources. */
struct fk_direct_question {
  struct fk_matrix x, targets;
  double n, m;
  int64_t n_columns;
  bool gradient;
  bool by_rows; /* fk_direct_rows() for each column, else fk_direct_sums() of all */
  double tol;
  double floor; /* by rows: with every b 1 */
};
/* From a sample of both sides, without fk_direct_create(): takes milliseconds. */
enum fk_status fk_direct_guess(const struct fk_direct_question *question, const struct fk_direct_options *options,
                               struct fk_direct_cost *cost, struct fk_error *err);

/* Leave-one-out sums of SD-KDE (score-debiased points): the task of an engine. */
#pragma once

#include "../fk.h"

/* Local bandwidths: term j has the kernel of bandwidth matrix f_j^2 H, and its score at x_j has that of f_j^2
 * H_score. */
struct fk_widths {
  const double *factors;  /* n numbers, the local bandwidth factors f_j */
  const double *means;    /* n x d, a_j: kernel-weighted mean of all points around x_j, in the points' units */
  const double *log_mass; /* n numbers, log S_j, S_j = sum_i v_i k_ij under the score bandwidth */
  const double *weights;  /* n weights w_j of the terms; NULL: ones. The operator's weights are v_i, of scores */
  /* 1 - eps_ij (below) loses its digits by cancellation if point i contributes nearly all of S_j. At most one
   * point does, dominant[j]. The caller computes term j for that point in another way: engines leave the pair out,
   * and fk_sdkde_loo() adds log_term[j]. */
  const double *dominant; /* n numbers of points among all points, from 1; 0: none. NULL: none for any j */
  const double *log_term; /* n logs of terms; NULL if `dominant` is NULL */
};

/* The points x_i at which sums are made, each leaving itself out, with their weights v_i in the score. They are
 * among the points of the score; the sources of a task may be a part of those points. */
struct fk_held_out {
  struct fk_matrix points;
  const double *weights; /* m numbers; NULL: ones */
  int64_t first;         /* point i is source first + i; it is no source if that is out of range */
  double number;         /* number of the first held-out point among all points, from 1, as in `dominant` */
};

/* The task: for each held-out point i, with eps_ij = v_i k_ij / S_j,
 *   log sum_{j != i} w_j f_j^-d exp(-|v_ij / f_j|^2 / 2),
 *   v_ij = (1 - lambda/2) (x_i - x_j) + lambda/2 (x_i - a_j)/(1 - eps_ij)
 * elementwise in whitened, rotated coordinates in which H H_score^-1 is diag(lambda). Term j depends on other
 * sources only through a_j and S_j, so that sums over parts of the sources add up to the sum over all. */
struct fk_loo_task {
  struct fk_matrix points; /* n, the sources */
  struct fk_held_out held_out;
  struct fk_widths widths; /* factors may be NULL: ones */
  double log_scale;        /* the largest log w_j f_j^-d; engines scale by it, so that no sum overflows */
  const double *lambda;    /* d numbers */
  const struct fk_whitening *whitening;
  double *log_sum; /* output, m numbers */
};

/* Are the held-out points the sources? */
static inline bool fk_loo_is_own(const struct fk_loo_task *task) {
  const struct fk_matrix *x = &task->points, *y = &task->held_out.points;
  return y->data == x->data && y->n == x->n && task->held_out.first == 0;
}

/* Index, from 0, of the held-out point that dominates source j; -1: none. */
static inline int64_t fk_loo_dominant(const struct fk_widths *widths, const struct fk_held_out *held_out,
                                      int64_t j) {
  double i = widths->dominant ? widths->dominant[j] - held_out->number : -1;
  return i >= 0 && i < (double)held_out->points.n ? (int64_t)i : -1;
}

/* The means (n x d) and log_mass (n) of struct fk_widths for the operator's points, with factors of 1. */
enum fk_status fk_score_means(struct fk_operator *op, const struct fk_opts *opts, double *means, double *log_mass,
                              struct fk_stats *stats, struct fk_error *err);

/* Input of fk_dominants(): x, n x d whitened sources, sorted by decreasing log_v (n logs of weights); at, m x d
 * whitened targets y; least, m thresholds. */
struct fk_dominants {
  const double *x, *log_v, *at, *least;
  int64_t n, m, d;
};
/* by[j]: the first source i, from 1, with v_i exp(-|x_i - y_j|^2 / 2) > exp(least[j]), or 0 if there is none.
 * Fails only by an interrupt. */
enum fk_status fk_dominants(const struct fk_dominants *of, const struct fk_opts *opts, int32_t *by,
                            struct fk_error *err);

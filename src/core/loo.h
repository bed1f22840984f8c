/* Leave-one-out of score-debiased points: what an engine is asked for. */
#pragma once

#include "../fk.h"

/* Points whose kernels have several widths, when they are left out: term j has the kernel of f_j^2 H, and its
 * score is that of f_j^2 H_score at x_j. */
struct fk_widths {
  const double *factors;  /* n, f_j */
  const double *means;    /* n x d, a_j: kernel-weighted mean of all points around x_j, in the points' units */
  const double *log_mass; /* n, log S_j, S_j = sum_i v_i k_ij under the score bandwidth */
  const double *weights;  /* n, w_j of the terms, NULL: ones; the operator's are v_i, of the scores */
  /* 1 - eps_ij below cancels where point i has nearly all of S_j. At most one point has, dominant[j], and the
   * caller has computed the term of j there in another way: engines leave the pair out, fk_sdkde_loo() adds the
   * term. */
  const double *dominant; /* n, number of that point among all points, from 1 on; 0: none; NULL: none for any j */
  const double *log_term; /* n, log of the term; NULL where `dominant` is */
};

/* Points that are left out, each of its own sum: x_i, with the weights v_i that they had in the score. They are
 * among all the points that the score was of; the sources of a task may be a part of these. */
struct fk_held_out {
  struct fk_matrix points;
  const double *weights; /* m; NULL: ones */
  int64_t first;         /* point i is source first + i, or none where there are no more */
  double number;         /* of the first of them among all points, from 1 on: as in `dominant` */
};

/* Leave-one-out of score-debiased points: for each i, with every eps_ij = v_i k_ij / S_j,
 *   log sum_{j != i} w_j f_j^-d exp(-|v_ij / f_j|^2 / 2),
 *   v_ij = (1 - lambda/2) (x_i - x_j) + lambda/2 (x_i - a_j)/(1 - eps_ij)
 * elementwise in whitened, rotated coordinates in which H H_score^-1 is diag(lambda). What the term of j takes of
 * other sources is a_j and S_j: so sums over parts of them add up to that over all. */
struct fk_loo_task {
  struct fk_matrix points; /* n, the sources */
  struct fk_held_out held_out;
  struct fk_widths widths; /* factors NULL: ones */
  double log_scale;        /* the largest of log w_j f_j^-d, without which no sum overflows */
  const double *lambda;    /* d */
  const struct fk_whitening *whitening;
  double *log_sum; /* m */
};

/* Are the sources left out themselves? */
static inline bool fk_loo_is_own(const struct fk_loo_task *task) {
  const struct fk_matrix *x = &task->points, *y = &task->held_out.points;
  return y->data == x->data && y->n == x->n && task->held_out.first == 0;
}

/* Which of the held-out points dominates source j, -1: none. */
static inline int64_t fk_loo_dominant(const struct fk_widths *widths, const struct fk_held_out *held_out,
                                      int64_t j) {
  double i = widths->dominant ? widths->dominant[j] - held_out->number : -1;
  return i >= 0 && i < (double)held_out->points.n ? (int64_t)i : -1;
}

/* At each of the operator's points the log of the sum of the kernels, n, and their mean, n x d: what
 * fk_sdkde_loo() takes where widths are given. */
enum fk_status fk_score_means(struct fk_operator *op, const struct fk_opts *opts, double *means, double *log_mass,
                              struct fk_stats *stats, struct fk_error *err);

/* At each of m whitened targets y, m x d, the first source with v_i exp(-|x_i - y|^2 / 2) > exp(least), counted
 * from 1, or 0. The sources, whitened, n x d, are in the order of falling log_v. */
struct fk_dominants {
  const double *x, *log_v, *at, *least;
  int64_t n, m, d;
};
enum fk_status fk_dominants(const struct fk_dominants *of, const struct fk_opts *opts, int32_t *by,
                            struct fk_error *err);

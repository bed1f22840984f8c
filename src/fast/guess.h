/* What the methods would take, by samples of the points. */
#pragma once

#include "job.h"

/* What the choice goes by: samples of both sides, whitened. An operator keeps those of its points, and what a
 * survey of them tells. */
struct fk_fast_kept;
struct fk_fast_samples {
  double *u; /* the caller frees: those that are not kept */
  struct fk_matrix x, y;
  struct fk_fast_kept *kept; /* NULL: nothing is */
};
enum fk_status fk_fast_take_samples(const struct fk_fast_job *job, struct fk_fast_samples *samples,
                                    struct fk_error *err);
enum fk_status fk_fast_survey(const struct fk_fast_job *job, const struct fk_fast_samples *samples,
                              struct fk_grid_work *work, struct fk_error *err);

/* The window of the operator's last sum on a grid; NULL: there was none, or nothing is kept. */
struct fk_fast_last {
  struct fk_window window;
  bool single;
};
const struct fk_fast_last *fk_fast_last_of(const struct fk_fast_samples *samples);
void fk_fast_remember(const struct fk_fast_samples *samples, const struct fk_window *window, bool single);

/* The cheapest window with an error of at most tol sum |b|: infinite seconds where there is none. *single: whether
 * floats may do on entry, and whether they shall. */
void fk_fast_choose_window(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                           bool *single, struct fk_window *window, double *seconds);
/* By direct sums, looked for only where it could be less than `least`. */
enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err);
/* By the exact engine of the same device. Where this one is to be as exact: what it may take to be worth while. */
double fk_fast_exact_seconds(const struct fk_fast_job *job);

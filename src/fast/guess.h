/* Estimated run times of the methods, from samples of the points. */
#pragma once

#include "job.h"

/* Whitened samples of sources (x) and targets (y). An operator caches the sample of its points and the results of
 * a survey of them. */
struct fk_fast_kept;
struct fk_fast_samples {
  double *u; /* memory of the samples that are not cached; the caller frees it */
  struct fk_matrix x, y;
  struct fk_fast_kept *kept; /* the operator's cache; NULL: nothing is cached */
};
enum fk_status fk_fast_take_samples(const struct fk_fast_job *job, struct fk_fast_samples *samples,
                                    struct fk_error *err);
/* Fills in *work: sizes, extent of the points, and how many boxes of each size hold points. */
enum fk_status fk_fast_survey(const struct fk_fast_job *job, const struct fk_fast_samples *samples,
                              struct fk_grid_work *work, struct fk_error *err);

/* The window of the operator's last sum on a grid; NULL: there was none, or nothing is cached. */
struct fk_fast_last {
  struct fk_window window;
  bool single;
};
const struct fk_fast_last *fk_fast_last_of(const struct fk_fast_samples *samples);
void fk_fast_remember(const struct fk_fast_samples *samples, const struct fk_window *window, bool single);

/* The window with the least estimated time among those with an error of at most tol sum |b|; *seconds is infinite
 * if there is none. *single: on entry, whether single precision is allowed; on return, whether it is chosen. */
void fk_fast_choose_window(const struct fk_fast_job *job, const struct fk_grid_work *work, double tol,
                           bool *single, struct fk_window *window, double *seconds);
/* The estimated time of the bound of a grid's error on the CPU. */
enum fk_status fk_fast_bound_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s,
                                     const struct fk_grid_work *work, double *seconds, struct fk_error *err);
/* *seconds: the estimated time of direct sums, which is worked out only if it could be below `least`. */
enum fk_status fk_fast_direct_seconds(const struct fk_fast_job *job, const struct fk_fast_samples *s, double least,
                                      double *seconds, struct fk_error *err);
/* The estimated time of the exact engine on the same device. If the fast engine replaces exact sums
 * (opts->as_exact), the time that it may take to be worthwhile. */
double fk_fast_exact_seconds(const struct fk_fast_job *job);

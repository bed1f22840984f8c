/* Sums of kernels that are approximated by sums of Gaussians. Each Gaussian is summed by its own fastest
 * method. */
#pragma once

#include "guess.h"

/* The Gaussians that replace the task's kernel, and the method of each. */
struct fk_fast_mixture;
/* Chooses the Gaussians and their methods, from samples and from the survey `work` in units of the task's
 * bandwidth. *seconds: the estimated time; infinite, with *mixture = NULL, if the kernel has no such
 * approximation. Sets job->reach. The caller frees *mixture. */
enum fk_status fk_fast_mixture_init(struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    const struct fk_grid_work *work, struct fk_fast_mixture **mixture,
                                    double *seconds, struct fk_error *err);
void fk_fast_mixture_free(struct fk_fast_mixture *mixture);
enum fk_status fk_fast_by_mixture(struct fk_fast_job *job, const struct fk_fast_mixture *mixture,
                                  struct fk_error *err);

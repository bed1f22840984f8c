/* Kernels that are sums of Gaussians, each summed by a method of its own. */
#pragma once

#include "guess.h"

/* A sum of Gaussians in place of the task's kernel: what they are and how each is summed. */
struct fk_fast_mixture;
/* work: of a bandwidth of 1. *seconds: infinite where the kernel has no such sum, and *mixture is NULL. Sets
 * job->reach. */
enum fk_status fk_fast_mixture_init(struct fk_fast_job *job, const struct fk_fast_samples *s,
                                    const struct fk_grid_work *work, struct fk_fast_mixture **mixture,
                                    double *seconds, struct fk_error *err);
void fk_fast_mixture_free(struct fk_fast_mixture *mixture);
enum fk_status fk_fast_by_mixture(struct fk_fast_job *job, const struct fk_fast_mixture *mixture,
                                  struct fk_error *err);

/* What the parts of the exact CPU engine share. */
#ifndef FK_CPU_EXACT_CPU_H
#define FK_CPU_EXACT_CPU_H

#include "sweep.h"

/* Largest exponents of rows in the tails: a distance that overflows has none to take off, and its sum is 0. */
void fk_cpu_drop_overflow(double *shift2, int64_t m);

void fk_cpu_describe(struct fk_stats *stats, const struct fk_kernel_mode *mode, int threads);
enum fk_status fk_cpu_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                   struct fk_stats *stats, struct fk_error *err);

#endif

/* What the parts of the exact CPU engine share. */
#ifndef FK_CPU_EXACT_CPU_H
#define FK_CPU_EXACT_CPU_H

#include "sweep.h"

/* For each term, a sum in double below this may have lost some to underflow: each is under 2^-1021, the smallest
 * number that counts, and 2^60 of them would be needed to matter. */
#define FK_CPU_LOST (0x1p-1021 * 0x1p60)
/* Largest exponents of rows in the tails: a distance that overflows has none to take off, and its sum is 0. */
void fk_cpu_drop_overflow(double *shift2, int64_t m);

void fk_cpu_describe(struct fk_stats *stats, const struct fk_kernel_mode *mode, int threads);
enum fk_status fk_cpu_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                   struct fk_stats *stats, struct fk_error *err);

#endif

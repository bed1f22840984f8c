/* What the parts of the exact CPU engine share. */
#ifndef FK_CPU_EXACT_CPU_H
#define FK_CPU_EXACT_CPU_H

#include "sums.h"

void fk_choose_mode(enum fk_precision precision, double radius2, int64_t d, struct fk_kernel_mode *mode);
void fk_cpu_describe(struct fk_stats *stats, const struct fk_kernel_mode *mode, int threads);
const char *fk_cpu_name(void);
enum fk_status fk_cpu_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                   struct fk_stats *stats, struct fk_error *err);

#endif

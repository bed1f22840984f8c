/* Declarations that the files of the exact CPU engine share. */
#pragma once

#include "sweep.h"

/* Sets exponents of rows in the tails to 0 where the distance overflowed: the sum of such a row is 0. */
void fk_cpu_drop_overflow(double *shift2, int64_t m);

/* Fills in backend, engine, device, precision, instruction set and threads of *stats. */
void fk_cpu_describe(struct fk_stats *stats, const struct fk_kernel_mode *mode, int threads);
/* Chooses precision and distances, expanded or direct, for sources whose largest |u|^2 is radius2. */
void fk_cpu_choose_mode(enum fk_precision precision, const struct fk_kernel_form *form, double radius2, int64_t d,
                        struct fk_kernel_mode *mode);
/* *radius2: the largest |u|^2 of the task's sources, cached by their operator. */
enum fk_status fk_cpu_radius2(const struct fk_task *task, int threads, double *radius2, struct fk_error *err);
/* The functions `matrix` and `debiased_loo` of struct fk_engine. */
enum fk_status fk_cpu_matrix(const struct fk_task *task, const struct fk_matrix_term *term,
                             const struct fk_opts *opts, const struct fk_dense *K, struct fk_error *err);
enum fk_status fk_cpu_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                   struct fk_stats *stats, struct fk_error *err);

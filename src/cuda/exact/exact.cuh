/* Functions of this folder that the exact engine's table uses. */
#ifndef FK_CUDA_EXACT_CUH
#define FK_CUDA_EXACT_CUH

#include "../device/common.cuh"

/* Sums, points moved by their sums, and points sent (send.cu), as struct fk_engine describes them. */
enum fk_status fk_cuda_exact_sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                                  struct fk_error *err);
enum fk_status fk_cuda_exact_shift(const struct fk_task *task, const double *A, const struct fk_opts *opts,
                                   struct fk_resident **moved, struct fk_stats *stats, struct fk_error *err);
enum fk_status fk_cuda_exact_send(const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent,
                                  bool *finite, struct fk_error *err);
const char *fk_cuda_precision_name(enum fk_precision precision);
/* Leave-one-out sums of debiased points (debiased_loo.cu). */
enum fk_status fk_cuda_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                    struct fk_stats *stats, struct fk_error *err);
/* The kernel matrix (matrix.cu). Sources and targets are on the host. */
enum fk_status fk_cuda_matrix(const struct fk_task *task, const struct fk_matrix_term *term,
                              const struct fk_opts *opts, const struct fk_dense *K, struct fk_error *err);

#endif

/* Points against themselves, in double and by differences: what loops over all pairs do before and after them. */
#pragma once

#include "../core/pool.h"
#include "pack.h"

struct fk_pairs {
  enum fk_operation operation;
  const struct fk_matrix *x;
  const double *chol, *weights; /* weights NULL: ones */
  double work;                  /* multiply-adds of an ordered pair */
  size_t room;                  /* bytes of memory for each thread */
  struct fk_kernel_mode mode;   /* whose scale is given */
  /* fk_pairs_run() sets the following fields and then calls the body. */
  struct fk_packed points;
  double weight_scale; /* packed weights are relative to it */
  int threads;
  struct fk_scratch scratch;
};
typedef enum fk_status (*fk_pairs_body)(void *data, const struct fk_poll *poll, struct fk_error *err);
enum fk_status fk_pairs_run(struct fk_pairs *p, fk_pairs_body body, void *data, const struct fk_opts *opts,
                            struct fk_stats *stats, struct fk_error *err);

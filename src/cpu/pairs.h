/* Points against themselves in double and by differences: what loops over all pairs share, from whitening to
 * stats. */
#ifndef FK_CPU_PAIRS_H
#define FK_CPU_PAIRS_H

#include "../core/pool.h"
#include "pack.h"

struct fk_pairs {
  struct fk_kernel_mode mode;
  struct fk_packed points;
  double weight_scale; /* packed weights are relative to it */
  int threads;
  struct fk_scratch scratch;
};

struct fk_pairs_job {
  enum fk_operation operation;
  const struct fk_matrix *x;
  const double *chol, *weights; /* weights NULL: ones */
  double scale;                 /* of whitened coordinates, so that the exponent is in base 2 */
  double work;                  /* multiply-adds of an ordered pair */
  size_t room;                  /* bytes of memory for each thread */
  /* What is done with the packed points. */
  enum fk_status (*body)(const struct fk_pairs *p, void *data, const struct fk_opts *opts, struct fk_error *err);
  void *data;
};
enum fk_status fk_pairs_run(const struct fk_pairs_job *job, const struct fk_opts *opts, struct fk_stats *stats,
                            struct fk_error *err);

/* Points first .. first + count - 1 as the columns of a tile, and as its rows. */
void fk_pairs_columns(const struct fk_pairs *p, struct fk_tile *tile, int64_t first, int64_t count);
void fk_pairs_rows(const struct fk_pairs *p, struct fk_tile *tile, int64_t first, int64_t count);

#endif

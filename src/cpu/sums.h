/* One sweep of packed sources over targets or over themselves. */
#ifndef FK_CPU_SUMS_H
#define FK_CPU_SUMS_H

#include "pack.h"

struct fk_sweep {
  const struct fk_task *task;
  const struct fk_opts *opts;
  struct fk_kernel_mode mode;
  int threads;
  struct fk_packed sources; /* empty until fk_sweep_pack() */
  double weight_scale;      /* packed weights are relative to it */
  void *columns; /* packed columns; NULL: values are coordinates, if any */
  int64_t n_values;
  double *value_scale; /* n_values: sums are in units of it */
  bool weighted;
  double factor[3]; /* polynomial of the exponent in base 2 */
};

enum fk_status fk_sweep_init(struct fk_sweep *s, const struct fk_task *task, const struct fk_opts *opts,
                             const struct fk_kernel_mode *mode, int threads, struct fk_error *err);
void fk_sweep_free(struct fk_sweep *s);
/* The parts of a packed array of sources. */
unsigned fk_sweep_parts(const struct fk_sweep *s);
/* Packs the sources, which fk_sweep_targets() needs. */
enum fk_status fk_sweep_pack(struct fk_sweep *s, struct fk_error *err);
/* The values of source i on, for sums with weights of `block`, whose first point is `first`. */
const void *fk_sweep_values_at(const struct fk_sweep *s, const struct fk_packed *block, int64_t first, int64_t i);
unsigned fk_sweep_flags(const struct fk_sweep *s, bool store, bool symmetric);

/* Targets rows[0 .. m) (NULL: all) against all sources. shift2 is NULL, or holds for each target the exponent
 * (base 2) to take off; with find_max it receives the largest exponent instead and nothing is summed. */
enum fk_status fk_sweep_targets(const struct fk_sweep *s, const int64_t *rows, int64_t m, double *shift2,
                                bool find_max, struct fk_error *err);
/* All sources against each other, every pair once. */
enum fk_status fk_sweep_symmetric(struct fk_sweep *s, struct fk_error *err);

/* A stored tile whose pairs (first_row + i, self[j]) with equal index are struck out; mass follows. */
void fk_tile_drop_self(const struct fk_sweep *s, const struct fk_tile *tile, int64_t first_row,
                       const int64_t *self);

#endif

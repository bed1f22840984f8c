/* One sweep of packed sources over targets or over themselves. */
#pragma once

#include "pack.h"

struct fk_near_pairs;

struct fk_sweep {
  const struct fk_task *task;
  const struct fk_opts *opts;
  struct fk_kernel_mode mode;
  int threads;
  double weight_scale; /* packed weights are relative to it */
  void *columns;       /* packed columns; NULL: values are coordinates, if any */
  int64_t n_values;
  double *value_scale;  /* n_values: sums are in units of it */
  bool weighted, tails; /* tails: targets with an exponent of their own taken off, weights with one of theirs */
  const struct fk_packed *kept; /* all sources, of this mode; NULL: they are packed as they are used */
  struct fk_near_pairs *near;   /* sources, and targets, are in its order; NULL: every pair is computed */
};

enum fk_status fk_sweep_init(struct fk_sweep *s, const struct fk_task *task, const struct fk_opts *opts,
                             const struct fk_kernel_mode *mode, bool tails, int threads, struct fk_error *err);
void fk_sweep_free(struct fk_sweep *s);
/* The packed sources that the operator caches, because packing takes a share of the time if targets are few. NULL:
 * none are cached, or there are too many. */
const struct fk_packed *fk_sweep_kept(const struct fk_sweep *s);
/* Sources first .. end - 1, whitened and with their weights; all of them where they are kept. Else no copy of all
 * is held when there are many: they are packed in the order in which they are used, which costs little beside
 * their sums. */
struct fk_sources {
  struct fk_packed points;
  int64_t first, end;
};
enum fk_status fk_sources_init(struct fk_sources *p, const struct fk_sweep *s, int64_t capacity,
                               struct fk_error *err);
enum fk_status fk_sources_pack(struct fk_sources *p, const struct fk_sweep *s, int64_t first, int64_t end,
                               int threads, struct fk_error *err);
void fk_sources_free(struct fk_sources *p);
/* Are sums of coordinates made from differences to the target, or from their signs? */
static inline bool fk_sweep_is_relative(const struct fk_sweep *s) {
  bool signs = fk_form_metric(s->mode.form.type) == FK_METRIC_ABSOLUTE;
  return (s->mode.doubled || signs) && s->task->values == FK_VALUES_COORDINATES;
}
const void *fk_values_at(const struct fk_sweep *s, const struct fk_sources *p, int64_t i);
unsigned fk_sweep_flags(const struct fk_sweep *s, bool store, bool symmetric);

/* Targets rows[0 .. m) (NULL: all) against all sources. shift2 is NULL, or holds for each target the exponent
 * (base 2) to take off; with find_max it receives the largest exponent instead and nothing is summed. */
enum fk_status fk_sweep_targets(const struct fk_sweep *s, const int64_t *rows, int64_t m, double *shift2,
                                bool find_max, struct fk_error *err);
/* All sources against each other, every pair once. Not for fk_sweep_is_relative(). */
enum fk_status fk_sweep_symmetric(const struct fk_sweep *s, struct fk_error *err);

/* All targets, or all sources against each other, without the pairs that cannot matter. *done: false, and nothing
 * was computed, if that does not pay. *skipped: the number of pairs left out. */
enum fk_status fk_sweep_near(const struct fk_sweep *s, bool *done, double *skipped, struct fk_error *err);

/* The share of pairs that fk_sweep_near() would compute, estimated from a sample; 1 if it does not pay. Uses only
 * the task and mode of the sweep. */
double fk_sweep_near_share(const struct fk_sweep *s);
/* Recomputes those of the targets rows[0 .. *found) that have few terms of their largest size, in a sweep with
 * tails. The others are left in rows[] and *found. */
enum fk_status fk_near_tails(const struct fk_sweep *s, int64_t *rows, int64_t *found, struct fk_error *err);

/* K'(W (K v + w)), the task's columns being v, without weights. */
enum fk_status fk_sweep_normal(const struct fk_sweep *s, const struct fk_normal *normal, double *product,
                               struct fk_error *err);
/* Rows whose kernels at n sources stay in the cache meanwhile; 0: too few to be worth it. */
int64_t fk_sweep_kept_rows(int64_t n, bool single);

/* Is one of self[0 .. n_cols) among the rows from first_row on? */
bool fk_tile_meets_self(const int64_t *self, int n_cols, int64_t first_row, int n_rows);
/* A stored tile whose pairs (first_row + i, self[j]) with equal index are struck out; mass follows. */
void fk_tile_drop_self(const struct fk_sweep *s, const struct fk_tile *tile, int64_t first_row,
                       const int64_t *self);

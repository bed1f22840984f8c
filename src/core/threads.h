/* Threads, and work cut into chunks between which the caller may look for an interrupt. */
#pragma once

#include "../fk.h"
#include "pool.h"

FK_BEGIN_C

/* As fk_threads(), but no more than the work (in multiply-adds) is worth waking. */
int fk_threads_for_work(int requested, double work);
int fk_threads_for_bytes(int requested, double bytes);
void fk_threads_init(void); /* at load: remembers the process */
bool fk_forked(void);       /* a child of the process that loaded the library: it has one thread */

/* FK_STATUS_INTERRUPTED where the caller asks to stop, with that fraction done. */
enum fk_status fk_look_up(const struct fk_poll *poll, double fraction, struct fk_error *err);

/* Items are done `size` at a time; the size adapts to the time they take. It decides when to look up from
 * the work, never what is computed. */
struct fk_chunks {
  const struct fk_poll *poll;
  double total, done, started;
  int64_t size;
};
void fk_chunks_start(struct fk_chunks *c, const struct fk_poll *poll, int threads, double total,
                     double pairs_per_item);
enum fk_status fk_chunks_done(struct fk_chunks *c, int64_t items, struct fk_error *err);
/* The next n of them by fk_parallel_for(), until they are done or interrupted. */
enum fk_status fk_chunks_run(struct fk_chunks *c, int threads, int64_t n, int64_t step, fk_body body, void *data,
                             struct fk_error *err);

/* A loop over items 0 .. n - 1 that looks up in between: as fk_parallel_for(), until it is done or interrupted.
 * pairs: kernels that an item takes as long as. */
struct fk_loop {
  int threads;
  int64_t n, step;
  double pairs;
};
/* On as many threads as n items of so many multiply-adds are worth. */
struct fk_loop fk_loop_of(int requested, int64_t n, double work);
enum fk_status fk_loop_run(const struct fk_loop *loop, const struct fk_poll *poll, fk_body body, void *data,
                           struct fk_error *err);

/* Of a step from one fraction of the work to another, which counts its own from 0 to 1; `step` has to last. */
struct fk_step {
  const struct fk_poll *whole;
  double from, to;
};
struct fk_poll fk_poll_of_step(struct fk_step *step);

/* For a copy of so many numbers in memory, of many that follow each other: the threads are awake. */
int fk_threads_to_copy(int requested, int64_t numbers);

FK_END_C

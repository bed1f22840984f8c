/* The number of threads, and loops in chunks between which the caller's poll is called. */
#pragma once

#include "../fk.h"
#include "pool.h"

FK_BEGIN_C

/* fk_threads(requested), but no more threads than are worth waking for this work: multiply-adds in all, or bytes
 * of one pass through memory. */
int fk_threads_for_work(int requested, double work);
int fk_threads_for_bytes(int requested, double bytes);
/* The threads for a pass through memory if they are awake, and how many may be woken for it. */
int fk_threads_of_pass(int requested, double bytes, int *woken);
void fk_threads_init(void); /* to be called when the library is loaded: remembers the process */
bool fk_forked(void);       /* is this a forked child of the process that loaded the library? It has one thread */

/* Calls the poll with the fraction of the work that is done. Fails with FK_STATUS_INTERRUPTED if it asks to
 * stop. */
enum fk_status fk_look_up(const struct fk_poll *poll, double fraction, struct fk_error *err);

/* Progress of a loop in chunks of `size` items. The size adapts to the time that chunks take; it decides when the
 * poll is called and has no influence on results. */
struct fk_chunks {
  const struct fk_poll *poll;
  double total, done, started;
  int64_t size;
};
/* total: items in all. pairs_per_item: the work of an item, in pairs of points. */
void fk_chunks_start(struct fk_chunks *c, const struct fk_poll *poll, int threads, double total,
                     double pairs_per_item);
/* To be called after `items` more items: adapts the size and calls the poll. */
enum fk_status fk_chunks_done(struct fk_chunks *c, int64_t items, struct fk_error *err);
/* Does the next n items by fk_parallel_for(), in chunks, until they are done or interrupted. */
enum fk_status fk_chunks_run(struct fk_chunks *c, int threads, int64_t n, int64_t step, fk_body body, void *data,
                             struct fk_error *err);

/* A parallel loop over items 0 .. n - 1 that calls the poll between chunks. pairs: the work of an item, in kernels
 * of a pair of points. */
struct fk_loop {
  int threads;
  int64_t n, step;
  double pairs;
};
/* The loop over n items of `work` multiply-adds each, on as many threads as are worth waking. */
struct fk_loop fk_loop_of(int requested, int64_t n, double work);
/* Runs the loop until it is done or interrupted. */
enum fk_status fk_loop_run(const struct fk_loop *loop, const struct fk_poll *poll, fk_body body, void *data,
                           struct fk_error *err);

/* A poll for one step of a longer task: it maps the step's fractions 0 .. 1 to from .. to of the whole. The poll
 * refers to *step and *step->whole, which must outlive it. */
struct fk_step {
  const struct fk_poll *whole;
  double from, to;
};
struct fk_poll fk_poll_of_step(struct fk_step *step);

/* The number of threads for a copy of so many numbers in memory, one of many in a row, so that threads are
 * awake. */
int fk_threads_to_copy(int requested, int64_t numbers);

FK_END_C

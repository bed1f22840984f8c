/* Parallel loops on the package's own threads. Threads sleep while there is nothing to do and take one small work
 * item at a time, so that on a busy machine a late thread delays a loop by one work item at most. OpenMP threads
 * spin at barriers and compete for cores. */
#pragma once

#ifndef __cplusplus
#include <stdatomic.h>
#endif

#include "../fk.h"

FK_BEGIN_C

/* Does items first .. end - 1 of a loop. slot: index of the thread, 0 .. threads - 1, with 0 for the caller. No
 * two threads have the same index at a time, so that it can select scratch memory. */
typedef void (*fk_body)(void *data, int64_t first, int64_t end, int slot);

/* Does items 0 .. n - 1 in work items of `step`, on the calling thread and up to threads - 1 others, and returns
 * when all are done. Work items are taken in ascending order and do not depend on the number of threads: results
 * for each work item, added up by the caller, have the same bits. A body may call this function again. A body must
 * not fail, jump or call R. */
void fk_parallel_for(int threads, int64_t n, int64_t step, fk_body body, void *data);
/* fk_parallel_for() for one pass through memory, with `bytes` as for fk_threads_for_bytes(), which says how many
 * threads are woken. Of those that are awake, more take part, each for less. */
void fk_parallel_pass(int threads, double bytes, int64_t n, int64_t step, fk_body body, void *data);
/* The number of items for `step`, for about 0.1 ms of work: long beside the time to take a work item, short beside
 * the time that a thread may wait for a processor. work: multiply-adds of an item; bytes: bytes that it moves. */
int64_t fk_step_for_work(double work);
int64_t fk_step_for_bytes(double bytes);

#ifndef __cplusplus
/* Orders parts of work items that write to the same memory. fk_turn_wait() waits until *now == turn; fk_turn_end()
 * lets the next turn begin. A work item may only wait for turns of earlier work items. */
void fk_turn_wait(atomic_uint *now, unsigned turn);
static inline void fk_turn_end(atomic_uint *now, unsigned turn) {
  atomic_store_explicit(now, turn + 1, memory_order_release);
}
#endif

/* Scratch memory for each thread index of a loop, on separate cache lines. fk_scratch_init() allocates `bytes` for
 * each and returns false if memory runs out; the caller frees it by fk_scratch_free(). */
struct fk_scratch {
  char *memory;
  size_t stride;
};
bool fk_scratch_init(struct fk_scratch *scratch, int threads, size_t bytes);
void fk_scratch_free(struct fk_scratch *scratch);
static inline void *fk_scratch_at(const struct fk_scratch *scratch, int slot) {
  return scratch->memory + (size_t)slot * scratch->stride;
}

/* Ends the threads, before the library is unloaded. A later loop would start new ones. */
void fk_pool_stop(void);

FK_END_C

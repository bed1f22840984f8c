/* Loops shared with threads of our own. They sleep while there is nothing to do and take a piece at a time, so
 * that on a machine with other work one that is late costs no more than its piece; an OpenMP runtime's spin at
 * barriers and take the processor from one another. */
#pragma once

#ifndef __cplusplus
#include <stdatomic.h>
#endif

#include "../fk.h"

FK_BEGIN_C

/* Does items first .. end - 1 of a loop. slot: of the thread that does it, 0 .. threads - 1, 0 the caller's; no
 * two threads have the same at a time, so that it names memory to work in. */
typedef void (*fk_body)(void *data, int64_t first, int64_t end, int slot);

/* Items 0 .. n - 1, `step` at a time, on the calling thread and up to threads - 1 others; back when all are done.
 * Pieces are taken in ascending order, and are the same for any number of threads: a result for each piece, added
 * up by the caller, has the same bits. A body may call it again. It must not fail, jump, or call R. */
void fk_parallel_for(int threads, int64_t n, int64_t step, fk_body body, void *data);
/* Items of a piece: a tenth of a millisecond, long beside the taking of a piece and short beside the time for
 * which a thread may have to wait for its processor. work: multiply-adds of an item; bytes: that it moves. */
int64_t fk_step_for_work(double work);
int64_t fk_step_for_bytes(double bytes);

#ifndef __cplusplus
/* Pieces that have to come one after the other where they meet: each waits until it is its turn. What it waits for
 * must be in a piece before it. */
void fk_turn_wait(atomic_uint *now, unsigned turn);
static inline void fk_turn_end(atomic_uint *now, unsigned turn) {
  atomic_store_explicit(now, turn + 1, memory_order_release);
}
#endif

/* Memory for each slot of a loop, on cache lines of its own; false: there is none. */
struct fk_scratch {
  char *memory;
  size_t stride;
};
bool fk_scratch_init(struct fk_scratch *scratch, int threads, size_t bytes);
void fk_scratch_free(struct fk_scratch *scratch);
static inline void *fk_scratch_at(const struct fk_scratch *scratch, int slot) {
  return scratch->memory + (size_t)slot * scratch->stride;
}

/* Before the library is unloaded: ends the threads. The next loop would start others. */
void fk_pool_stop(void);

FK_END_C

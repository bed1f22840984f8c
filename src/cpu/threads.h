/* Threads, and work cut into chunks between which the caller may look for an interrupt. */
#ifndef FK_CPU_THREADS_H
#define FK_CPU_THREADS_H

#include "../fk.h"

void fk_threads_init(void); /* at load: remembers the process */

/* Items are done `size` at a time; the size adapts to the time they take. It decides when to look up from
 * the work, never what is computed. */
struct fk_chunks {
  const struct fk_poll *poll;
  double total, done, started;
  int64_t size;
};
void fk_chunks_start(struct fk_chunks *c, const struct fk_poll *poll, double total, double pairs_per_item);
enum fk_status fk_chunks_done(struct fk_chunks *c, int64_t items, struct fk_error *err);

#endif

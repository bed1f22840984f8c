/* The cache of what engines prepare for operators in the host's memory. Its total size has a limit, beyond which
 * the least recently used items are evicted. Main thread only. */
#pragma once

#include "../fk.h"

/* The limit in bytes: opts->host_memory, or the default of core/costs.c. */
double fk_kept_limit(const struct fk_opts *opts);

/* The cached item, marked as most recently used; NULL: none. The cache owns it. */
void *fk_kept_use(struct fk_operator *op, enum fk_keeper keeper);
/* Hands item `what` to the cache, which evicts others to make room. If it is the cached item already, only its
 * size is updated. Returns false, and frees the item, if it exceeds the limit by itself. Do not call this
 * function, directly or indirectly, while a cached item is in use: it may be evicted. */
bool fk_keep(struct fk_operator *op, enum fk_keeper keeper, struct fk_kept what, const struct fk_opts *opts);
/* Removes an item from the cache and returns it; the caller frees it or hands it back. NULL: none. */
void *fk_kept_take(struct fk_operator *op, enum fk_keeper keeper);
void fk_kept_drop(struct fk_operator *op, enum fk_keeper keeper); /* frees an item, if there is one */
double fk_kept_bytes(void);                                       /* size of all operators' items */

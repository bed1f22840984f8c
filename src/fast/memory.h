/* Memory for large arrays: in huge pages where the system has them to give, as faults on small ones cost as much
 * as the filter itself. */
#ifndef FK_FAST_MEMORY_H
#define FK_FAST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *fk_large_alloc(size_t bytes, bool huge); /* NULL when there is no memory; aligned to a line of the cache */
void fk_large_free(void *memory);              /* NULL is fine */

#endif

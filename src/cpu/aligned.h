#ifndef FK_CPU_ALIGNED_H
#define FK_CPU_ALIGNED_H

#include <stddef.h>

void *fk_aligned_alloc(size_t bytes); /* NULL when there is no memory */
void fk_aligned_free(void *memory);   /* NULL is fine */

#endif

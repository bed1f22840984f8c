#ifndef FK_CORE_ALIGNED_H
#define FK_CORE_ALIGNED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *fk_aligned_alloc(size_t bytes); /* NULL when there is no memory */
void fk_aligned_free(void *memory);   /* NULL is fine */
/* Asks for large pages under memory that nobody has touched yet, where that is worth it. */
void fk_large_pages(void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif

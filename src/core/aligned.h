#pragma once

#include <stddef.h>

#include "language.h"

FK_BEGIN_C

/* Allocates memory that begins on a cache line (64 bytes), uninitialised; NULL if memory runs out. The caller
 * frees it by fk_aligned_free(). */
void *fk_aligned_alloc(size_t bytes);
void fk_aligned_free(void *memory); /* memory may be NULL */
/* Asks the system for large pages (2 MB) under memory that has not been touched yet. Never fails; without effect
 * where the system has no such call or the block holds no whole large page. */
void fk_large_pages(void *memory, size_t bytes);

FK_END_C

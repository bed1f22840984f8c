#pragma once

#include <stddef.h>

#include "language.h"

FK_BEGIN_C

void *fk_aligned_alloc(size_t bytes); /* NULL when there is no memory */
void fk_aligned_free(void *memory);   /* NULL is fine */
/* Asks for large pages under memory that nobody has touched yet, where that is worth it. */
void fk_large_pages(void *memory, size_t bytes);

FK_END_C

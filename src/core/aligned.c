/* Memory on cache-line boundaries: a wide vector that straddles two lines costs two loads. Large pieces ask for
 * large pages, as the kernel takes longer to hand out small ones than most passes over them do. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include "aligned.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, LARGE_PAGE = 1 << 21 };

/* Whole large pages within the piece, which is then a mapping of its own; a refusal does no harm. */
void fk_large_pages(FK_UNUSED void *memory, FK_UNUSED size_t bytes) {
#ifdef MADV_HUGEPAGE
  uintptr_t start = (uintptr_t)memory, end = (start + bytes) / LARGE_PAGE * LARGE_PAGE;
  start = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
  if (start < end) (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
#endif
}

/* C11's aligned_alloc() is missing on Windows; the block's own address stands in front of what is given out. */
void *fk_aligned_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - LINE - sizeof(void *)) return NULL;
  char *block = malloc(bytes + LINE + sizeof block);
  if (!block) return NULL;
  uintptr_t start = ((uintptr_t)(block + sizeof block) + LINE - 1) / LINE * LINE;
  memcpy((char *)start - sizeof block, &block, sizeof block);
  fk_large_pages((void *)start, bytes);
  return (void *)start;
}

void fk_aligned_free(void *memory) {
  char *block;
  if (!memory) return;
  memcpy(&block, (char *)memory - sizeof block, sizeof block);
  free(block);
}

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

/* C11's aligned_alloc() is missing on Windows; the block's own address stands in front of what is given out. */
void *fk_aligned_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - LINE - sizeof(void *)) return NULL;
  char *block = malloc(bytes + LINE + sizeof block);
  if (!block) return NULL;
  uintptr_t start = ((uintptr_t)(block + sizeof block) + LINE - 1) / LINE * LINE;
  memcpy((char *)start - sizeof block, &block, sizeof block);
#ifdef MADV_HUGEPAGE
  /* whole large pages within the block, which is then the process's own mapping; a refusal does no harm */
  uintptr_t first = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE, end = (start + bytes) / LARGE_PAGE * LARGE_PAGE;
  if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#endif
  return (void *)start;
}

void fk_aligned_free(void *memory) {
  char *block;
  if (!memory) return;
  memcpy(&block, (char *)memory - sizeof block, sizeof block);
  free(block);
}

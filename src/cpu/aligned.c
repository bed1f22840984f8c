/* Memory on cache-line boundaries: a wide vector that straddles two lines costs two loads. */
#include "aligned.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/* C11's aligned_alloc() is missing on Windows; the block's own address stands in front of what is given out. */
void *fk_aligned_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - LINE - sizeof(void *)) return NULL;
  char *block = malloc(bytes + LINE + sizeof block);
  if (!block) return NULL;
  uintptr_t start = ((uintptr_t)(block + sizeof block) + LINE - 1) / LINE * LINE;
  memcpy((char *)start - sizeof block, &block, sizeof block);
  return (void *)start;
}

void fk_aligned_free(void *memory) {
  char *block;
  if (!memory) return;
  memcpy(&block, (char *)memory - sizeof block, sizeof block);
  free(block);
}

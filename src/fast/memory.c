#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#endif
#include "memory.h"

#ifdef __linux__
#include <stdlib.h>
#include <sys/mman.h>

void *fk_large_alloc(size_t bytes, bool huge) {
  const size_t page = (size_t)1 << 21;
  void *memory = NULL;
  huge = huge && bytes >= page;
  if (posix_memalign(&memory, huge ? page : 64, bytes)) return NULL;
#ifdef MADV_HUGEPAGE
  /* whole pages only: what lies behind belongs to others; refusal does no harm */
  if (huge) (void)madvise(memory, bytes / page * page, MADV_HUGEPAGE);
#endif
  return memory;
}

void fk_large_free(void *memory) { free(memory); }
#else
#include "../cpu/aligned.h"

void *fk_large_alloc(size_t bytes, bool huge) {
  (void)huge;
  return fk_aligned_alloc(bytes);
}

void fk_large_free(void *memory) { fk_aligned_free(memory); }
#endif

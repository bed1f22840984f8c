/* Which instruction set runs here. One readable list, best first; chosen once, when the package loads. */
#include <stdlib.h>
#include <string.h>

#include "tile.h"

#ifdef FK_X86
#include <cpuid.h>

/* The operating system must save the wide registers too (XGETBV). */
static uint64_t enabled_state(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return ((uint64_t)high << 32) | low;
}

static void detect(bool *avx2, bool *avx512) {
  uint32_t a, b, c, d;
  *avx2 = *avx512 = false;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  bool osxsave = c & (1u << 27), fma = c & (1u << 12);
  if (!osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  uint64_t state = enabled_state();
  *avx2 = fma && (b & (1u << 5)) && (state & 0x6) == 0x6;
  *avx512 = *avx2 && (b & (1u << 16)) && (b & (1u << 17)) && (state & 0xe6) == 0xe6;
}
#endif

static const struct fk_isa *usable[3], *chosen;
static int n_usable;

void fk_isa_choose(void) {
  n_usable = 0;
#ifdef FK_X86
  bool avx2, avx512;
  detect(&avx2, &avx512);
  if (avx512) usable[n_usable++] = &fk_isa_avx512;
  if (avx2) usable[n_usable++] = &fk_isa_avx2;
#endif
  usable[n_usable++] = &fk_isa_portable;

  /* A wish that cannot be met is no reason to fail: the best that runs is taken. */
  const char *wish = getenv("FLASHKERNEL_ISA");
  chosen = usable[0];
  for (int i = 0; wish && i < n_usable; i++)
    if (strcmp(wish, usable[i]->name) == 0) chosen = usable[i];
}

const struct fk_isa *fk_isa(void) { return chosen; }
int fk_isa_count(void) { return n_usable; }
const struct fk_isa *fk_isa_at(int i) { return usable[i]; }

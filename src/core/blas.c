#include "blas.h"

#include <stddef.h>
#include <stdlib.h>

#include "language.h"

#ifdef _WIN32
static void *symbol(FK_UNUSED const char *name) { return NULL; }
#else
#include <dlfcn.h>
static void *symbol(const char *name) {
  void *process = dlopen(NULL, RTLD_LAZY), *found = process ? dlsym(process, name) : NULL;
  if (process) dlclose(process);
  return found;
}
#endif

/* What only OpenBLAS, MKL, BLIS, ATLAS and Apple's Accelerate have. Not known: it is taken for the reference,
 * whose dgemm is a tenth as fast as the processor. */
static bool look(void) {
  static const char *const own[] = {"openblas_get_config", "MKL_Get_Version", "bli_info_get_version_str",
                                    "ATL_dgemm",           "appleblas_dgemm", "armpl_dgemm"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (symbol(own[i])) return true;
  return false;
}

bool fk_blas_is_tuned(void) {
  static int known; /* 0: not yet; whoever looks finds the same */
  if (!known) known = look() ? 1 : -1;
  return known > 0;
}

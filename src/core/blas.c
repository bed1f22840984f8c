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

/* Looks for symbols that only OpenBLAS, MKL, BLIS, ATLAS, Apple's Accelerate and Arm's library have. An unknown
 * library is taken for the reference BLAS, whose dgemm reaches a tenth of the processor's speed. */
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

/* The physical memory of the machine. windows.h defines macros near, far and small, so our headers come before it.
 */
#include <math.h>

#include "../fk.h"
#ifdef _WIN32
#include <windows.h>

double fk_machine_memory(void) {
  MEMORYSTATUSEX status = {.dwLength = sizeof status};
  return GlobalMemoryStatusEx(&status) ? (double)status.ullTotalPhys : HUGE_VAL;
}
#else
#include <unistd.h>

double fk_machine_memory(void) {
#ifdef _SC_PHYS_PAGES
  double pages = (double)sysconf(_SC_PHYS_PAGES), size = (double)sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0) return pages * size;
#endif
  return HUGE_VAL;
}
#endif

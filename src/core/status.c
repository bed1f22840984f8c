/* Status names and the one way to report a failure. */
#include "../fk.h"

#include <stdarg.h>
#include <stdio.h>

enum fk_status fk_fail(struct fk_error *err, enum fk_status status, const char *format, ...) {
  if (err->status == FK_STATUS_OK) {
    va_list args;
    err->status = status;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
  }
  return status;
}

enum fk_status fk_no_memory(struct fk_error *err, double bytes, const char *what) {
  if (!(bytes > 0)) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for %s", what);
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for %s", bytes / 1e6, what);
}

/* The kind in the class of the R condition, flashkernel_error_<kind>. */
const char *fk_status_name(enum fk_status status) {
  switch (status) {
    case FK_STATUS_OK: return "ok";
    case FK_STATUS_INVALID: return "argument";
    case FK_STATUS_ALLOC: return "alloc";
    case FK_STATUS_UNSUPPORTED: return "unsupported";
    case FK_STATUS_INTERRUPTED: return "interrupted";
    case FK_STATUS_FORKED: return "forked";
    case FK_STATUS_NO_DEVICE: return "no_device";
    case FK_STATUS_DEVICE: return "device";
    case FK_STATUS_SINGULAR: return "singular";
    case FK_STATUS_LOST: return "lost";
    case FK_STATUS_INTERNAL: break;
  }
  return "internal";
}

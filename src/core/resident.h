/* Matrices that were computed on a device and stay there. fk.h declares what other layers may call. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

/* The functions that a device provides for its matrices. */
struct fk_resident_ops {
  /* Copies the matrix to the host, n x d doubles. */
  enum fk_status (*download)(struct fk_resident *x, double *to, struct fk_error *err);
  void (*release)(struct fk_resident *x); /* frees the device's memory */
};

struct fk_resident {
  int64_t n, d;
  double *host;  /* copy on the host; NULL: none yet */
  bool borrowed; /* `host` belongs to somebody else, and the device has the copy */
  void *device;  /* handle of the device; NULL: no longer on the device */
  int64_t bytes; /* size on the device */
  bool busy;     /* in use on the device: must not be released */
  const struct fk_resident_ops *ops;
  struct fk_resident *next, *before; /* list of all matrices */
};

/* Makes a matrix that owns `device`. NULL, with err set, if memory runs out; `device` is then still the
 * caller's. */
struct fk_resident *fk_resident_create(int64_t n, int64_t d, void *device, const struct fk_resident_ops *ops,
                                       struct fk_error *err);
/* Makes a matrix on the host, whose n x d numbers the caller writes to *host. NULL, with err set, if memory runs
 * out. */
struct fk_resident *fk_resident_on_host(int64_t n, int64_t d, double **host, struct fk_error *err);
/* Copies the matrix to the host and frees the device's memory. If the copy fails, the matrix is lost. */
void fk_resident_leave(struct fk_resident *x);
/* The oldest matrix; `next` leads to newer ones. NULL: none. */
struct fk_resident *fk_resident_first(void);

FK_END_C

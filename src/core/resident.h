/* Matrices that were computed on a device and stay there; fk.h has what others may ask of them. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

/* What a device does for its matrices. */
struct fk_resident_ops {
  /* To the host's memory, n x d. */
  enum fk_status (*download)(struct fk_resident *x, double *to, struct fk_error *err);
  void (*release)(struct fk_resident *x); /* gives the device's memory back */
};

struct fk_resident {
  int64_t n, d;
  double *host;  /* NULL: not here yet */
  void *device;  /* the device's own; NULL: no longer there */
  int64_t bytes; /* there */
  bool busy;     /* in use there: it has to stay */
  const struct fk_resident_ops *ops;
  struct fk_resident *next, *before; /* all there are */
};

/* Takes over what is on the device. */
struct fk_resident *fk_resident_create(int64_t n, int64_t d, void *device, const struct fk_resident_ops *ops,
                                       struct fk_error *err);
/* Numbers that come here at once, to *host. */
struct fk_resident *fk_resident_on_host(int64_t n, int64_t d, double **host, struct fk_error *err);
/* Brings it here, and gives the device's memory back; where that fails it is lost. */
void fk_resident_leave(struct fk_resident *x);
/* The first of all, in the order in which they were made. */
struct fk_resident *fk_resident_first(void);

FK_END_C

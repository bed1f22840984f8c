/* What gpu_info() and gpu_release() of the package need. Both functions work in every build: without CUDA there is
 * nothing to report or release. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

struct fk_gpu {
  int index, multiprocessors;
  char name[96], capability[8];
  /* Bytes. cached: training points cached on the device; peak: the most that this process has had there. */
  double memory_total, memory_free, cached, peak;
  bool architecture_built;
};
struct fk_gpu_info {
  char driver[16], status[200]; /* "available", or why CUDA is off */
  int n_devices;
  struct fk_gpu devices[FK_MAX_DEVICES];
};
void fk_gpu_info(struct fk_gpu_info *info); /* fills *info; loads the driver; never fails, see info->status */
void fk_gpu_release(void);                  /* frees the memory that the package holds on all devices */

FK_END_C

/* GPUs, as users ask for them. Both functions work in every build: without CUDA there is nothing to report or
 * release. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

struct fk_gpu {
  int index, multiprocessors;
  char name[96], capability[8];
  double memory_total, memory_free, cached, peak; /* bytes; cached: of training points kept there; peak: the most
                                                   * that this process had there */
  bool architecture_built;
};
struct fk_gpu_info {
  char driver[16], status[200]; /* "available", or why CUDA is off */
  int n_devices;
  struct fk_gpu devices[FK_MAX_DEVICES];
};
void fk_gpu_info(struct fk_gpu_info *info); /* touches the driver */
void fk_gpu_release(void);

FK_END_C

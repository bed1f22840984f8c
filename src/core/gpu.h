/* What the package needs of GPUs. The engine is a plug-in (core/plugin.h), which may be missing. */
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
  /* The newest CUDA that the driver supports; the CUDA runtime and the architectures of the engine. */
  char driver[16], toolkit[16], architectures[96];
  char status[256]; /* "available", or why CUDA is off */
  int n_devices;
  struct fk_gpu devices[FK_MAX_DEVICES];
};
void fk_gpu_info(struct fk_gpu_info *info); /* fills *info; loads the driver; never fails, see info->status */
void fk_gpu_release(void);                  /* frees the memory that the package holds on all devices */

/* Names the file of the engine, "" for none, unless one is open already. Opens nothing. */
void fk_gpu_use(const char *path);
const char *fk_gpu_path(void); /* the file that is open or would be opened; "": none */
bool fk_gpu_is_open(void);
/* The seconds that CUDA takes to start: 0 once it has started in this process, or if the options ask for a GPU. */
double fk_gpu_start(const struct fk_opts *opts);
/* Can this package use the engine in the file? Opens and closes it, without touching a device. Fails with
 * FK_STATUS_NO_DEVICE. */
enum fk_status fk_gpu_try(const char *path, struct fk_error *err);
void fk_gpu_close(void); /* before the package is unloaded */

FK_END_C

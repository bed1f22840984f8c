/* The interface between the package and the GPU engine, a shared object of its own that is opened when a GPU is
 * first used (core/gpu.c, cuda/plugin.cu). Each side gives the other one table of functions. What crosses is
 * declared here, in grid/backend.h and in the headers that both include: FK_PLUGIN_ABI increases when any of them
 * changes (tools/check-abi.R). */
#pragma once

#include "aligned.h"
#include "dense.h"
#include "gpu.h"
#include "pool.h"
#include "resident.h"
#include "threads.h"

FK_BEGIN_C

enum { FK_PLUGIN_ABI = 7 };

/* The functions of the package that the engine calls: X(type, name, parameters, arguments). They are those with a
 * state, and those that call them; the Makevars link other functions of core/ and grid/ into the engine, too. */
#define FK_HOST_FUNCTIONS(X)                                                                                      \
  X(void *, fk_aligned_alloc, (size_t bytes), (bytes))                                                            \
  X(void, fk_aligned_free, (void *memory), (memory))                                                              \
  X(struct fk_task, fk_normal_task, (struct fk_operator * op, const struct fk_normal *normal), (op, normal))      \
  X(enum fk_status, fk_operator_here,                                                                             \
    (struct fk_operator * op, int threads, struct fk_task *task, struct fk_error *err), (op, threads, task, err)) \
  X(bool, fk_task_own, (const struct fk_task *task), (task))                                                      \
  X(void, fk_parallel_for, (int threads, int64_t n, int64_t step, fk_body body, void *data),                      \
    (threads, n, step, body, data))                                                                               \
  X(void, fk_parallel_pass, (int threads, double bytes, int64_t n, int64_t step, fk_body body, void *data),       \
    (threads, bytes, n, step, body, data))                                                                        \
  X(int64_t, fk_step_for_bytes, (double bytes), (bytes))                                                          \
  X(struct fk_resident *, fk_resident_create,                                                                     \
    (int64_t n, int64_t d, void *device, const struct fk_resident_ops *ops, struct fk_error *err),                \
    (n, d, device, ops, err))                                                                                     \
  X(struct fk_resident *, fk_resident_on_host, (int64_t n, int64_t d, double **host, struct fk_error *err),       \
    (n, d, host, err))                                                                                            \
  X(struct fk_resident *, fk_resident_first, (void), ())                                                          \
  X(const double *, fk_resident_host, (struct fk_resident * x, struct fk_error * err), (x, err))                  \
  X(void, fk_resident_leave, (struct fk_resident * x), (x))                                                       \
  X(void, fk_resident_free, (struct fk_resident * x), (x))                                                        \
  X(double, fk_seconds, (void), ())                                                                               \
  X(int, fk_threads, (int requested), (requested))                                                                \
  X(int, fk_threads_for_bytes, (int requested, double bytes), (requested, bytes))                                 \
  X(int, fk_threads_to_copy, (int requested, int64_t numbers), (requested, numbers))                              \
  X(enum fk_status, fk_whiten_points,                                                                             \
    (const struct fk_whitening *w, int threads, const struct fk_matrix *points, int64_t first, int64_t count,     \
     double *u, int64_t ld, struct fk_error *err),                                                                \
    (w, threads, points, first, count, u, ld, err))

#define FK_HOST_MEMBER(type, name, parameters, arguments) type(*name) parameters;
struct fk_host_functions {
  FK_HOST_FUNCTIONS(FK_HOST_MEMBER)
};

struct fk_grid_backend; /* grid/backend.h */

struct fk_plugin {
  int abi;     /* FK_PLUGIN_ABI of the engine; if it differs from the package's, nothing else may be read */
  int runtime; /* the CUDA runtime, as 13000 */
  const char *architectures; /* as "80 90a 90-ptx" */
  const struct fk_engine *exact;
  const struct fk_grid_backend *grid;
  const struct fk_dense_ops *dense;
  void (*info)(struct fk_gpu_info *info);
  void (*release)(void);
};

/* The only symbol of the engine. `abi` is FK_PLUGIN_ABI of the package; `host` outlives the engine. */
#define FK_PLUGIN_ENTRY "flashkernel_gpu"
typedef const struct fk_plugin *fk_plugin_entry(int abi, const struct fk_host_functions *host);

/* The engine, opened at the first call. NULL, with err set to FK_STATUS_NO_DEVICE, if it cannot be used. */
const struct fk_plugin *fk_plugin(struct fk_error *err);

FK_END_C

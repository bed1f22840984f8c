/* Opens the GPU engine, and stands for it until then. Main thread only. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

#include "costs.h"
#include "plugin.h"

/* ---- shared objects --------------------------------------------------------------------------- */

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static void *open_object(const char *path) { return LoadLibraryA(path); }
static void close_object(void *object) { FreeLibrary(object); }
static fk_plugin_entry *entry_of(void *object) {
  return (fk_plugin_entry *)(void (*)(void))GetProcAddress(object, FK_PLUGIN_ENTRY);
}
static const char *why_not(void) {
  static char text[40];
  snprintf(text, sizeof text, "Windows error %lu", GetLastError());
  return text;
}
static bool is_cut(const char *path) { return !path; } /* Windows looks by itself */

#else
#include <dlfcn.h>

static void *open_object(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void close_object(void *object) { dlclose(object); }
static fk_plugin_entry *entry_of(void *object) {
  fk_plugin_entry *entry;
  *(void **)&entry = dlsym(object, FK_PLUGIN_ENTRY);
  return entry;
}
static const char *why_not(void) {
  const char *why = dlerror();
  return why ? why : "no reason given";
}

/* Is it an ELF file without its end? The linker would read beyond it and end the process. The table of sections is
 * at the end. */
static bool is_cut(const char *path) {
  enum { HEADER = 64, TABLE = 40, SIZE = 58, COUNT = 60 }; /* bytes; places of numbers in the header */
  unsigned char header[HEADER] = {0};
  uint64_t table;
  uint16_t size, count;
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  bool is_elf = fread(header, HEADER, 1, file) == 1 && memcmp(header, "\177ELF\2", 5) == 0;
  bool fits = fseek(file, 0, SEEK_END) == 0;
  memcpy(&table, header + TABLE, sizeof table);
  memcpy(&size, header + SIZE, sizeof size);
  memcpy(&count, header + COUNT, sizeof count);
  fits = fits && (double)table + (double)size * count <= (double)ftell(file);
  fclose(file);
  return is_elf && !fits;
}
#endif

/* ---- opening ---------------------------------------------------------------------------------- */

#define HOST_FUNCTION(type, name, parameters, arguments) .name = name,
static const struct fk_host_functions host = {FK_HOST_FUNCTIONS(HOST_FUNCTION)};

static struct {
  char path[1024];
  void *object;
  const struct fk_plugin *table;
  struct fk_error why; /* of the last attempt */
  bool has_started;    /* CUDA, in this process */
} engine;

/* *object stays open if the engine can be used. */
static enum fk_status open_engine(const char *path, void **object, const struct fk_plugin **table,
                                  struct fk_error *err) {
  if (is_cut(path))
    return fk_fail(err, FK_STATUS_NO_DEVICE, "the file of the GPU engine is cut short; call install_gpu() again");
  *object = open_object(path);
  if (!*object)
    return fk_fail(err, FK_STATUS_NO_DEVICE, "the GPU engine cannot be loaded: %.150s; see ?install_gpu",
                   why_not());
  fk_plugin_entry *entry = entry_of(*object);
  *table = entry ? entry(FK_PLUGIN_ABI, &host) : NULL;
  if (*table && (*table)->abi == FK_PLUGIN_ABI) return FK_STATUS_OK;
  if (!entry)
    fk_fail(err, FK_STATUS_NO_DEVICE, "%.150s is not a GPU engine of flashkernel; see ?install_gpu", path);
  else
    fk_fail(
        err, FK_STATUS_NO_DEVICE,
        "the GPU engine is for another version of flashkernel (interface %d, not %d); call install_gpu() again",
        *table ? (*table)->abi : 0, FK_PLUGIN_ABI);
  close_object(*object);
  return err->status;
}

const struct fk_plugin *fk_plugin(struct fk_error *err) {
  if (!engine.table && !engine.path[0])
    fk_fail(err, FK_STATUS_NO_DEVICE, "no GPU engine is installed; see ?install_gpu");
  else if (!engine.table && engine.why.status)
    fk_fail(err, engine.why.status, "%s", engine.why.message);
  else if (!engine.table && open_engine(engine.path, &engine.object, &engine.table, &engine.why)) {
    engine.table = NULL;
    fk_fail(err, engine.why.status, "%s", engine.why.message);
  }
  return engine.table;
}

void fk_gpu_use(const char *path) {
  if (engine.table || strcmp(path, engine.path) == 0) return;
  snprintf(engine.path, sizeof engine.path, "%s", path);
  engine.why.status = FK_STATUS_OK;
}

const char *fk_gpu_path(void) { return engine.path; }
bool fk_gpu_is_open(void) { return engine.table != NULL; }

double fk_gpu_start(const struct fk_opts *opts) {
  return engine.has_started || opts->backend == FK_BACKEND_CUDA ? 0 : fk_costs.gpu.start;
}

enum fk_status fk_gpu_try(const char *path, struct fk_error *err) {
  void *object;
  const struct fk_plugin *table;
  enum fk_status status = open_engine(path, &object, &table, err);
  if (!status) close_object(object);
  return status;
}

/* It calls back before a fork and at the end of the process: it must not outlive the package. */
void fk_gpu_close(void) {
  fk_gpu_release();
  if (engine.table) close_object(engine.object);
  engine.table = NULL;
}

void fk_gpu_release(void) {
  if (engine.table) engine.table->release();
}

void fk_gpu_info(struct fk_gpu_info *info) {
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_plugin *gpu = fk_plugin(&err);
  memset(info, 0, sizeof *info);
  if (gpu) {
    gpu->info(info);
    engine.has_started |= info->n_devices > 0;
    snprintf(info->toolkit, sizeof info->toolkit, "%d.%d", gpu->runtime / 1000, gpu->runtime % 1000 / 10);
    snprintf(info->architectures, sizeof info->architectures, "%s", gpu->architectures);
  } else {
    snprintf(info->status, sizeof info->status, "%s", err.message);
  }
}

/* ---- dense operations ------------------------------------------------------------------------- */

const struct fk_dense_ops *fk_dense_ops(enum fk_backend backend, struct fk_error *err) {
  if (backend != FK_BACKEND_CUDA) return &fk_dense_host;
  const struct fk_plugin *gpu = fk_plugin(err);
  return gpu ? gpu->dense : NULL;
}

/* ---- the exact engine ------------------------------------------------------------------------- */

#define FORWARD(member, parameters, arguments)                                                                    \
  static enum fk_status member parameters {                                                                       \
    const struct fk_plugin *gpu = fk_plugin(err);                                                                 \
    return gpu ? gpu->exact->member arguments : err->status;                                                      \
  }

FORWARD(sums,
        (const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err),
        (task, opts, stats, err))
FORWARD(debiased_loo,
        (const struct fk_loo_task *task, const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err),
        (task, opts, stats, err))
FORWARD(shift,
        (const struct fk_task *task, const double *A, const struct fk_opts *opts, struct fk_resident **moved,
         struct fk_stats *stats, struct fk_error *err),
        (task, A, opts, moved, stats, err))
FORWARD(send,
        (const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent, bool *finite,
         struct fk_error *err),
        (x, opts, sent, finite, err))
FORWARD(normal,
        (struct fk_operator * op, const struct fk_normal *product, const struct fk_opts *opts, double *out,
         struct fk_stats *stats, struct fk_error *err),
        (op, product, opts, out, stats, err))
FORWARD(matrix,
        (const struct fk_task *task, const struct fk_matrix_term *term, const struct fk_opts *opts,
         const struct fk_dense *K, struct fk_error *err),
        (task, term, opts, K, err))

static enum fk_status available(const struct fk_opts *opts, struct fk_error *err) {
  const struct fk_plugin *gpu = fk_plugin(err);
  enum fk_status status = gpu ? gpu->exact->available(opts, err) : err->status;
  engine.has_started |= !status;
  return status;
}

/* The engine is not opened for work that the CPU does in less time than CUDA takes to start. */
static double seconds(const struct fk_work *work, const struct fk_opts *opts) {
  struct fk_error err = {FK_STATUS_OK, ""};
  double start = fk_gpu_start(opts);
  if (start > 0 && fk_costs.gpu.host * fk_engine_exact_cpu.seconds(work, opts) < start) return start;
  const struct fk_plugin *gpu = fk_plugin(&err);
  return start + (gpu ? gpu->exact->seconds(work, opts) : 0);
}

static void describe(const struct fk_opts *opts, struct fk_stats *stats) {
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_plugin *gpu = fk_plugin(&err);
  if (gpu) gpu->exact->describe(opts, stats);
}

const struct fk_engine fk_engine_exact_cuda = {
    .name = "exact",
    .backend = FK_BACKEND_CUDA,
    .kind = FK_ENGINE_EXACT,
    .operations = FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES) | FK_CAN(FK_OP_SHIFT) |
                  FK_CAN(FK_OP_DEBIASED_LOO) | FK_CAN(FK_OP_NORMAL),
    .available = available,
    .seconds = seconds,
    .describe = describe,
    .sums = sums,
    .debiased_loo = debiased_loo,
    .sends_points = true,
    .shift = shift,
    .send = send,
    .normal = normal,
    .matrix = matrix,
};

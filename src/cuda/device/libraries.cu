/* Loading cuBLAS and cuSOLVER, and the handles of a context; see libraries.cuh. */
#include "libraries.cuh"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../fk_config.h"

struct fk_cublas fk_cublas;
struct fk_cusolver fk_cusolver;

/* ---- shared objects --------------------------------------------------------------------------- */

/* Names of libraries, with and without their version; where toolkits, conda and pip put them: folders below a
 * variable's, as patterns. any_path() calls call() with the paths that match, until it returns true. */
enum { PATH_SIZE = 1024 };
struct place {
  const char *variable, *below;
};
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define NAME(library, version) library "64_" version ".dll"
#define PLAIN_NAME(library) library "64.dll"
static const struct place places[] = {
    {"CUDA_PATH", "/bin"}, {"CUDA_PATH", "/bin/x64"}, {"CONDA_PREFIX", "/Library/bin"}};

static void *open_object(const char *path) { return LoadLibraryA(path); }
static void *function_of(void *object, const char *name) { return (void *)GetProcAddress((HMODULE)object, name); }
static void open_needed(const char *) {}

template <typename F>
static bool any_path(const char *pattern, F call) {
  return call(pattern);
}

#else
#include <dlfcn.h>
#include <glob.h>

#define NAME(library, version) "lib" library ".so." version
#define PLAIN_NAME(library) "lib" library ".so"
#define PIP "/lib/python3*/*-packages/nvidia/*/lib"
static const struct place places[] = {
    {NULL, FK_CUDA_LIBDIR},   {"CUDA_HOME", "/lib*"}, {"CUDA_PATH", "/lib*"}, {NULL, "/usr/local/cuda*/lib*"},
    {"CONDA_PREFIX", "/lib"}, {"VIRTUAL_ENV", PIP},   {"CONDA_PREFIX", PIP},  {"HOME", "/.local" PIP},
    {NULL, "/usr/local" PIP}, {NULL, "/usr" PIP}};

static void *open_object(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void *function_of(void *object, const char *name) { return dlsym(object, name); }

template <typename F>
static bool any_path(const char *pattern, F call) {
  glob_t found;
  bool done = false;
  if (glob(pattern, 0, NULL, &found)) return false;
  for (size_t i = 0; i < found.gl_pathc && !done; i++) done = call(found.gl_pathv[i]);
  globfree(&found);
  return done;
}

/* Opens what a library of pip needs from the folders beside it. */
static void open_needed(const char *path) {
  static const char *const names[] = {"libnvJitLink.so.1?", "libcublasLt.so.1?", "libcublas.so.1?",
                                      "libcusparse.so.1?"};
  const int folder = (int)(strrchr(path, '/') - path);
  for (const char *name : names) {
    char pattern[PATH_SIZE];
    snprintf(pattern, sizeof pattern, "%.*s/../../*/lib/%s", folder, path, name);
    any_path(pattern, [](const char *needed) { return dlopen(needed, RTLD_NOW | RTLD_GLOBAL) != NULL; });
  }
}

#endif

/* ---- loading ---------------------------------------------------------------------------------- */

struct symbol {
  const char *name;
  size_t offset;
};

#define CUBLAS_SYMBOL(member, function, parameters) {#function, offsetof(struct fk_cublas, member)},
#define CUSOLVER_SYMBOL(member, function, parameters) {#function, offsetof(struct fk_cusolver, member)},
static const struct symbol cublas_symbols[] = {FK_CUBLAS(CUBLAS_SYMBOL)},
                           cusolver_symbols[] = {FK_CUSOLVER(CUSOLVER_SYMBOL)};

enum { NAMES = 3 };
struct library {
  const char *names[NAMES];
  const struct symbol *symbols;
  int n_symbols;
  void *functions;
  const void *own; /* our functions, where the library is missing */
  size_t bytes;
  bool loaded;
};

/* The version of the build's CUDA comes first: the driver is new enough for it. */
#if CUDART_VERSION >= 13000
#define IN_ORDER(newer, older) newer, older
#else
#define IN_ORDER(newer, older) older, newer
#endif
static struct library cublas = {{IN_ORDER(NAME("cublas", "13"), NAME("cublas", "12")), PLAIN_NAME("cublas")},
                                cublas_symbols,
                                sizeof cublas_symbols / sizeof *cublas_symbols,
                                &fk_cublas,
                                &fk_own_cublas,
                                sizeof fk_cublas,
                                false},
                      cusolver = {
                          {IN_ORDER(NAME("cusolver", "12"), NAME("cusolver", "11")), PLAIN_NAME("cusolver")},
                          cusolver_symbols,
                          sizeof cusolver_symbols / sizeof *cusolver_symbols,
                          &fk_cusolver,
                          &fk_own_cusolver,
                          sizeof fk_cusolver,
                          false};

/* Takes all functions; false: the library does not open, or is too old. It is never unloaded: its threads and
 * handlers may still run. */
static bool take_functions(const struct library *library, const char *path) {
  void *opened = open_object(path);
  if (!opened && strchr(path, '/')) {
    open_needed(path);
    opened = open_object(path);
  }
  for (int i = 0; opened && i < library->n_symbols; i++) {
    void *function = function_of(opened, library->symbols[i].name);
    if (!function) return false;
    *(void **)((char *)library->functions + library->symbols[i].offset) = function;
  }
  return opened != NULL;
}

static bool found_in(const struct library *library, const char *root, const char *below) {
  char pattern[PATH_SIZE];
  for (const char *name : library->names) {
    snprintf(pattern, sizeof pattern, "%s%s/%s", root, below, name);
    if (any_path(pattern, [&](const char *path) { return take_functions(library, path); })) return true;
  }
  return false;
}

/* FLASHKERNEL_CUBLAS is "none", or the only folder to search. */
static bool found(const struct library *library) {
  const char *chosen = getenv("FLASHKERNEL_CUBLAS");
  if (chosen && *chosen) return strcmp(chosen, "none") != 0 && found_in(library, chosen, "");
  for (const char *name : library->names)
    if (take_functions(library, name)) return true;
  for (const struct place &place : places) {
    const char *root = place.variable ? getenv(place.variable) : "";
    if (root && found_in(library, root, place.below)) return true;
  }
  return false;
}

/* Locked, since the threads of several devices may call it at once. */
static void load(struct library *library) {
  static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&loading);
  if (!library->loaded && !found(library)) memcpy(library->functions, library->own, library->bytes);
  library->loaded = true;
  pthread_mutex_unlock(&loading);
}

/* ---- failures --------------------------------------------------------------------------------- */

static enum fk_status fail(struct fk_error *err, bool is_memory, const char *library, int code, const char *call,
                           int device) {
  cudaGetLastError();
  if (is_memory) return fk_fail(err, FK_STATUS_ALLOC, "out of memory on CUDA device %d", device);
  return fk_fail(err, FK_STATUS_DEVICE, "CUDA device %d: %s's status %d, in %.100s", device, library, code, call);
}

enum fk_status fk_cublas_fail(struct fk_error *err, cublasStatus_t code, const char *call, int device) {
  return fail(err, code == CUBLAS_STATUS_ALLOC_FAILED, "cuBLAS", code, call, device);
}

enum fk_status fk_cusolver_fail(struct fk_error *err, cusolverStatus_t code, const char *call, int device) {
  return fail(err, code == CUSOLVER_STATUS_ALLOC_FAILED, "cuSOLVER", code, call, device);
}

/* ---- handles ---------------------------------------------------------------------------------- */

struct fk_cuda_libraries {
  cublasHandle_t blas;
  cusolverDnHandle_t solver;
  struct fk_cuda_buffer workspace; /* cuBLAS's own workspace may differ from call to call */
};

/* The size that NVIDIA recommends. */
static size_t workspace_bytes(const struct fk_cuda_context *context) {
  return (size_t)(context->capability >= 90 ? 32 : 4) << 20;
}

void fk_cuda_libraries_free(struct fk_cuda_context *context) {
  struct fk_cuda_libraries *libraries = context->libraries;
  if (!libraries) return;
  if (libraries->solver) fk_cusolver.destroy(libraries->solver);
  if (libraries->blas) fk_cublas.destroy(libraries->blas);
  fk_cuda_drop(context, &libraries->workspace);
  free(libraries);
  context->libraries = NULL;
}

static enum fk_status start_blas(struct fk_cuda_context *context, struct fk_cuda_libraries *libraries,
                                 struct fk_error *err) {
  load(&cublas);
  FK_TRY(fk_cuda_reserve(context, &libraries->workspace, workspace_bytes(context), err));
  if (fk_cublas.create(&libraries->blas) != CUBLAS_STATUS_SUCCESS) { /* the pool may hold all free memory */
    fk_cuda_trim(context);
    FK_CUBLAS_TRY(fk_cublas.create(&libraries->blas));
  }
  FK_CUBLAS_TRY(fk_cublas.stream(libraries->blas, context->stream)); /* cublasSetStream() resets the workspace */
  FK_CUBLAS_TRY(fk_cublas.workspace(libraries->blas, libraries->workspace.data, libraries->workspace.bytes));
  return FK_STATUS_OK;
}

static enum fk_status start_solver(struct fk_cuda_context *context, struct fk_cuda_libraries *libraries,
                                   struct fk_error *err) {
  load(&cusolver);
  if (fk_cusolver.create(&libraries->solver) != CUSOLVER_STATUS_SUCCESS) {
    fk_cuda_trim(context);
    FK_CUSOLVER_TRY(fk_cusolver.create(&libraries->solver));
  }
  FK_CUSOLVER_TRY(fk_cusolver.stream(libraries->solver, context->stream));
  return FK_STATUS_OK;
}

/* Returns a handle of the context; start() creates it at the first use. */
template <typename T, typename F>
static enum fk_status handle_of(struct fk_cuda_context *context, T fk_cuda_libraries::*which, F start, T *handle,
                                struct fk_error *err) {
  struct fk_cuda_libraries *libraries = context->libraries;
  if (!libraries) context->libraries = libraries = (struct fk_cuda_libraries *)calloc(1, sizeof *libraries);
  if (!libraries) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  enum fk_status status = libraries->*which ? FK_STATUS_OK : start(context, libraries, err);
  *handle = libraries->*which;
  if (status) fk_cuda_libraries_free(context);
  return status;
}

enum fk_status fk_cuda_blas(struct fk_cuda_context *context, cublasHandle_t *handle, struct fk_error *err) {
  return handle_of(context, &fk_cuda_libraries::blas, start_blas, handle, err);
}

enum fk_status fk_cuda_solver(struct fk_cuda_context *context, cusolverDnHandle_t *handle, struct fk_error *err) {
  return handle_of(context, &fk_cuda_libraries::solver, start_solver, handle, err);
}

/* Loading cuBLAS and cuSOLVER, and the handles of a context; see libraries.cuh. */
#include "libraries.cuh"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/costs.h"
#include "../../fk_config.h"

static struct fk_cublas fk_cublas;
static struct fk_cusolver fk_cusolver;

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

/* FLASHKERNEL_CUBLAS is "none", or "always", which gives small matrices to the libraries, too, or the only folder
 * to search. */
static bool is_chosen(const char *what) {
  const char *chosen = getenv("FLASHKERNEL_CUBLAS");
  return chosen && strcmp(chosen, what) == 0;
}

static bool found(const struct library *library) {
  const char *folder = getenv("FLASHKERNEL_CUBLAS");
  if (is_chosen("none")) return false;
  if (folder && *folder && !is_chosen("always")) return found_in(library, folder, "");
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

/* The libraries' handles, and those of our own functions. */
enum whose { LIBRARY, OWN, WHOSE };
struct fk_cuda_libraries {
  struct fk_blas blas[WHOSE];
  struct fk_solver solver[WHOSE];
  struct fk_cuda_buffer workspace; /* cuBLAS's own workspace may differ from call to call */
};

/* Does a matrix of this order go to our own functions, without the libraries? */
static bool is_small(int64_t order) { return order >= 0 && order <= fk_costs.dense.own && !is_chosen("always"); }

/* The size that NVIDIA recommends. */
static size_t workspace_bytes(const struct fk_cuda_context *context) {
  return (size_t)(context->capability >= 90 ? 32 : 4) << 20;
}

void fk_cuda_libraries_free(struct fk_cuda_context *context) {
  struct fk_cuda_libraries *libraries = context->libraries;
  if (!libraries) return;
  for (int who = 0; who < WHOSE; who++) {
    const struct fk_solver *solver = &libraries->solver[who];
    const struct fk_blas *blas = &libraries->blas[who];
    if (solver->handle) solver->f->destroy(solver->handle);
    if (blas->handle) blas->f->destroy(blas->handle);
  }
  fk_cuda_drop(context, &libraries->workspace);
  free(libraries);
  context->libraries = NULL;
}

static enum fk_status start_blas(struct fk_cuda_context *context, struct fk_blas *blas, struct fk_error *err) {
  struct fk_cuda_buffer *workspace = &context->libraries->workspace;
  if (!workspace->data) FK_TRY(fk_cuda_reserve(context, workspace, workspace_bytes(context), err));
  if (blas->f->create(&blas->handle) != CUBLAS_STATUS_SUCCESS) { /* the pool may hold all free memory */
    fk_cuda_trim(context);
    FK_CUBLAS_TRY(blas->f->create(&blas->handle));
  }
  FK_CUBLAS_TRY(blas->f->stream(blas->handle, context->stream)); /* cublasSetStream() resets the workspace */
  FK_CUBLAS_TRY(blas->f->workspace(blas->handle, workspace->data, workspace->bytes));
  return FK_STATUS_OK;
}

static enum fk_status start_solver(struct fk_cuda_context *context, struct fk_solver *solver,
                                   struct fk_error *err) {
  if (solver->f->create(&solver->handle) != CUSOLVER_STATUS_SUCCESS) {
    fk_cuda_trim(context);
    FK_CUSOLVER_TRY(solver->f->create(&solver->handle));
  }
  FK_CUSOLVER_TRY(solver->f->stream(solver->handle, context->stream));
  return FK_STATUS_OK;
}

/* start() makes a handle at its first use. */
template <typename T, typename F>
static enum fk_status handle_of(struct fk_cuda_context *context, int64_t order,
                                T (fk_cuda_libraries::*which)[WHOSE], struct library *library, F start, T *out,
                                struct fk_error *err) {
  const enum whose who = is_small(order) ? OWN : LIBRARY;
  struct fk_cuda_libraries *libraries = context->libraries;
  if (!libraries) context->libraries = libraries = (struct fk_cuda_libraries *)calloc(1, sizeof *libraries);
  if (!libraries) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  if (who == LIBRARY) load(library);
  T *of = &(libraries->*which)[who];
  of->f = (decltype(of->f))(who == OWN ? library->own : library->functions);
  enum fk_status status = of->handle ? FK_STATUS_OK : start(context, of, err);
  *out = *of;
  if (status) fk_cuda_libraries_free(context);
  return status;
}

enum fk_status fk_cuda_blas(struct fk_cuda_context *context, int64_t order, struct fk_blas *blas,
                            struct fk_error *err) {
  return handle_of(context, order, &fk_cuda_libraries::blas, &cublas, start_blas, blas, err);
}

enum fk_status fk_cuda_solver(struct fk_cuda_context *context, int64_t order, struct fk_solver *solver,
                              struct fk_error *err) {
  return handle_of(context, order, &fk_cuda_libraries::solver, &cusolver, start_solver, solver, err);
}

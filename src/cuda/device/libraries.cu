/* Loading cuBLAS and cuSOLVER, and the handles of a context; see libraries.cuh. */
#include "libraries.cuh"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../core/dense.h"
#include "../../fk_config.h"

#ifndef FK_CUDA_LIBRARIES

/* The table of a build without these libraries: no operations. */
const struct fk_dense_ops fk_dense_cuda = {.name = "cuda"};
void fk_cuda_libraries_free(struct fk_cuda_context *context) { (void)context; }

#else

struct fk_cublas fk_cublas;
struct fk_cusolver fk_cusolver;

/* ---- loading ---------------------------------------------------------------------------------- */

struct symbol {
  const char *name;
  size_t offset;
};

/* Function names are macros. */
#define TEXT(x) #x
#define CUBLAS_SYMBOL(member, function) {TEXT(function), offsetof(struct fk_cublas, member)},
#define CUSOLVER_SYMBOL(member, function) {TEXT(function), offsetof(struct fk_cusolver, member)},
static const struct symbol cublas_symbols[] = {FK_CUBLAS(CUBLAS_SYMBOL)},
                           cusolver_symbols[] = {FK_CUSOLVER(CUSOLVER_SYMBOL)};

enum { NAMES = 3 };
struct library {
  const char *title, *names[NAMES];
  const struct symbol *symbols;
  int n_symbols;
  void *functions;
  bool loaded;
};

/* The version of the build's CUDA comes first: the driver is new enough for it. */
#if CUDART_VERSION >= 13000
#define IN_ORDER(newer, older) newer, older
#else
#define IN_ORDER(newer, older) older, newer
#endif
static struct library cublas = {"cuBLAS",       {IN_ORDER("libcublas.so.13", "libcublas.so.12"), "libcublas.so"},
                                cublas_symbols, sizeof cublas_symbols / sizeof *cublas_symbols,
                                &fk_cublas,     false},
                      cusolver = {
                          "cuSOLVER",       {IN_ORDER("libcusolver.so.12", "libcusolver.so.11"), "libcusolver.so"},
                          cusolver_symbols, sizeof cusolver_symbols / sizeof *cusolver_symbols,
                          &fk_cusolver,     false};

/* Searches the linker's path, then the folder of the build's CUDA runtime. */
static void *open_library(const struct library *library) {
  void *opened = NULL;
  for (int i = 0; i < NAMES && !opened; i++) {
    char path[1024];
    opened = dlopen(library->names[i], RTLD_NOW | RTLD_LOCAL);
    if (opened || !*FK_CUDA_LIBDIR) continue;
    snprintf(path, sizeof path, "%s/%s", FK_CUDA_LIBDIR, library->names[i]);
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return opened;
}

/* The library is never unloaded: its threads and handlers may still run. */
static enum fk_status load_library(struct library *library, struct fk_error *err) {
  if (library->loaded) return FK_STATUS_OK;
  void *opened = open_library(library);
  if (!opened) {
    const char *why = dlerror();
    return fk_fail(err, FK_STATUS_UNSUPPORTED,
                   "%s could not be loaded: none of %s, %s, %s is on the library path%s%s (%s)", library->title,
                   library->names[0], library->names[1], library->names[2], *FK_CUDA_LIBDIR ? " or in " : "",
                   FK_CUDA_LIBDIR, why ? why : "no reason given");
  }
  for (int i = 0; i < library->n_symbols; i++) {
    void *function = dlsym(opened, library->symbols[i].name);
    if (!function)
      return fk_fail(err, FK_STATUS_UNSUPPORTED, "%s has no %s: CUDA 12.0 or newer is needed", library->title,
                     library->symbols[i].name);
    *(void **)((char *)library->functions + library->symbols[i].offset) = function;
  }
  library->loaded = true;
  return FK_STATUS_OK;
}

/* Locked, since the threads of several devices may call it at once. */
static enum fk_status load(struct library *library, struct fk_error *err) {
  static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&loading);
  enum fk_status status = load_library(library, err);
  pthread_mutex_unlock(&loading);
  return status;
}

/* ---- failures --------------------------------------------------------------------------------- */

static enum fk_status fail(struct fk_error *err, bool is_memory, const char *what, const char *call, int device) {
  cudaGetLastError();
  if (is_memory) return fk_fail(err, FK_STATUS_ALLOC, "out of memory on CUDA device %d", device);
  return fk_fail(err, FK_STATUS_DEVICE, "CUDA device %d: %s, in %.100s", device, what, call);
}

enum fk_status fk_cublas_fail(struct fk_error *err, cublasStatus_t code, const char *call, int device) {
  return fail(err, code == CUBLAS_STATUS_ALLOC_FAILED, fk_cublas.name(code), call, device);
}

enum fk_status fk_cusolver_fail(struct fk_error *err, cusolverStatus_t code, const char *call, int device) {
  char what[40];
  snprintf(what, sizeof what, "cuSOLVER's status %d", (int)code);
  return fail(err, code == CUSOLVER_STATUS_ALLOC_FAILED, what, call, device);
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
  FK_TRY(load(&cublas, err));
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
  FK_TRY(load(&cusolver, err));
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

#endif

/* What the shared object of this folder exports, and the functions of the package that it calls; see
 * core/plugin.h. */
#include "../core/plugin.h"

#include <cuda_runtime.h>

#include "../core/gpu.h"
#include "../fk_config.h"
#include "../grid/backend.h"

static const struct fk_host_functions *package;

#define FORWARD(type, name, parameters, arguments)                                                                \
  extern "C" type name parameters { return package->name arguments; }
FK_HOST_FUNCTIONS(FORWARD)

static const struct fk_plugin table = {
    .abi = FK_PLUGIN_ABI,
    .runtime = CUDART_VERSION,
    .architectures = FK_CUDA_ARCHS,
    .exact = &fk_engine_exact_cuda,
    .grid = &fk_grid_cuda,
    .dense = &fk_dense_cuda,
    .info = fk_gpu_info,
    .release = fk_gpu_release,
};

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* Functions of another interface are never called: their package reads table.abi and stops. */
extern "C" EXPORTED const struct fk_plugin *flashkernel_gpu(int abi, const struct fk_host_functions *functions) {
  if (abi == FK_PLUGIN_ABI) package = functions;
  return &table;
}

/* To be included before CUB's headers. */
#ifndef FK_CUDA_CUB_CUH
#define FK_CUDA_CUB_CUH

/* CUB's headers include <iostream> without using it. Its initializer would need libstdc++, which R's C linker does
 * not link. */
#define _GLIBCXX_IOSTREAM 1
/* Keep CUB from ending the process on an error, which a package must not do, and from marking ranges for
 * profilers. */
#ifndef NDEBUG
#define NDEBUG
#endif
#define NVTX_DISABLE
#if __has_include(<cuda/std/__exception/terminate.h>)
#include <cstdlib>
inline void fk_stop(int) { __builtin_trap(); }
#define exit fk_stop
#include <cuda/std/__exception/terminate.h>
#undef exit
#endif
/* Since 13.1 CUB includes headers of Thrust that throw, and exceptions are off. Nothing here calls them. */
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ > 1300
#include <sstream>
#include <stdexcept>
#include <system_error>
#define try if (true)
#define FK_NEVER(exception) if (false)
#define catch FK_NEVER
#define throw (void)
#include <thrust/system/cuda/detail/util.h>
#undef try
#undef catch
#undef throw
#endif

#endif

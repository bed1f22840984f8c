/* Comes before CUB's headers. */
#ifndef FK_CUDA_CUB_CUH
#define FK_CUDA_CUB_CUH

/* CUB's headers include <iostream> and use nothing of it; its initialiser would need libstdc++, which R's C linker
 * does not bring. */
#define _GLIBCXX_IOSTREAM 1
/* They would also end the process where they cannot go on, which a package may not, and mark ranges for profilers.
 */
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

#endif

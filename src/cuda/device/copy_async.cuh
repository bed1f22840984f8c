/* Asynchronous copies from global to shared memory. */
#ifndef FK_CUDA_COPY_ASYNC_CUH
#define FK_CUDA_COPY_ASYNC_CUH

#include <stdint.h>

/* Starts a copy of 16 bytes from global to shared memory, without a register in between. */
static __device__ __forceinline__ void copy_async(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
  uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
#endif
}
static __device__ __forceinline__ void copy_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
template <int N>
static __device__ __forceinline__ void copy_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N));
#endif
}

#endif

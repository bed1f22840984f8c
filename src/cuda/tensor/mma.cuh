/* The instructions of the mma.sync kernels, for every card since Ampere. */
#ifndef FK_CUDA_MMA_CUH
#define FK_CUDA_MMA_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#include "../device/copy_async.cuh"
#include "../device/exp2.cuh"

/* c += a b, 16 x 16 times 16 x 8, of FP16 with sums in FP32; on Turing in two halves. */
static __device__ __forceinline__ void mma_m16n8k16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  for (int i = 0; i < 2; i++)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(i ? b1 : b0));
#endif
}

/* Loads four 8 x 8 FP16 matrices; lane l gives the shared address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void load_matrices(uint32_t *to, uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

static __device__ __forceinline__ void load_matrices_transposed(uint32_t *to, uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

static __device__ __forceinline__ void load_matrices(uint32_t *to, const void *row) {
  load_matrices(to, (uint32_t)__cvta_generic_to_shared(row));
}
static __device__ __forceinline__ void load_matrices_transposed(uint32_t *to, const void *row) {
  load_matrices_transposed(to, (uint32_t)__cvta_generic_to_shared(row));
}

static __device__ __forceinline__ uint32_t pack_halves(float low, float high) {
  __half2 both = __floats2half2_rn(low, high);
  return *(const uint32_t *)&both;
}

static __device__ __forceinline__ uint32_t add_halves(uint32_t x, uint32_t y) {
  __half2 sum = __hadd2(*(const __half2 *)&x, *(const __half2 *)&y);
  return *(const uint32_t *)&sum;
}

/* The rounding errors of two numbers rounded to FP16. */
static __device__ __forceinline__ uint32_t pack_rest(float low, float high, uint32_t rounded) {
  float2 kept = __half22float2(*(const __half2 *)&rounded);
  return pack_halves(low - kept.x, high - kept.y);
}

#endif

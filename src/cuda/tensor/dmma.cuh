/* FP64 products on tensor cores. */
#ifndef FK_CUDA_DMMA_CUH
#define FK_CUDA_DMMA_CUH

#include <cuda_runtime.h>

/* c += a b, 16 x 8 times 8 x 8. Lane 4 g + t has
 *   a: rows g and g + 8, of the depths 2t (a[0], a[1]) and 2t + 1 (a[2], a[3])
 *   b: column g, of the same depths
 *   c: columns 2t and 2t + 1, of the rows g (c[0], c[1]) and g + 8 (c[2], c[3])
 * The instruction calls these depths t and t + 4, which gives the same sum. With this choice, two neighbours are
 * one load, and a c becomes an a within its lane. Before Hopper it is four instructions. */
static __device__ __forceinline__ void dmma(double (&c)[4], const double (&a)[4], double2 b) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b.x), "d"(b.y));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
  for (int i = 0; i < 4; i++)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c[2 * (i % 2)]), "+d"(c[2 * (i % 2) + 1])
        : "d"(a[i]), "d"(i < 2 ? b.x : b.y));
#endif
}

/* Turns c into an a: the same rows, with the 8 columns as depth. */
static __device__ __forceinline__ void dmma_turn(const double (&c)[4], double (&a)[4]) {
  a[0] = c[0], a[1] = c[2], a[2] = c[1], a[3] = c[3];
}

#endif

/* Double-double arithmetic; twin of core/doubled.h, which explains it. Intrinsics keep the compiler from
 * contracting two operations into one. */
#ifndef FK_CUDA_DOUBLED_CUH
#define FK_CUDA_DOUBLED_CUH

struct doubled {
  double high, low;
};

/* a + b without rounding error (Knuth's TwoSum). */
static __device__ __forceinline__ struct doubled sum_of(double a, double b) {
  double sum = __dadd_rn(a, b), of_b = __dsub_rn(sum, a);
  return {sum, __dadd_rn(__dsub_rn(a, __dsub_rn(sum, of_b)), __dsub_rn(b, of_b))};
}

/* x * a, and x - a * y, each to double-double precision. */
static __device__ __forceinline__ struct doubled product_of(struct doubled x, double a) {
  double product = __dmul_rn(x.high, a);
  return sum_of(product, __fma_rn(x.low, a, __fma_rn(x.high, a, -product)));
}
static __device__ __forceinline__ struct doubled minus_product(struct doubled x, double a, struct doubled y) {
  struct doubled product = product_of(y, a), sum = sum_of(x.high, -product.high);
  return sum_of(sum.high, __dadd_rn(sum.low, __dsub_rn(x.low, product.low)));
}

#endif

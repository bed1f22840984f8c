/* 2^t in double for sums, of t <= 0 or a little above: a table of 2^(j / 32) in shared memory and a polynomial of
 * degree 5 take nine instructions of FP64, exp2() nearly twice as many. */
#ifndef FK_CUDA_EXP2_CUH
#define FK_CUDA_EXP2_CUH

#include <math.h>

enum { EXP2_PARTS = 32, EXP2_SHIFT = 15 /* of a part in the high word */, EXP2_LEAST = -1022 };

/* Adding it rounds to a multiple n / 32, with n in the low word. */
#define EXP2_MAGIC 0x1.8p47

/* The table, by all threads of a block. Entry j is 2^(j / 32), its high word less j << 15: with n << 15 added,
 * where n = 32 k + j, it is 2^(n / 32). */
static __device__ __forceinline__ const double *exp2_table() {
  __shared__ double table[EXP2_PARTS];
  int j = threadIdx.x;
  if (j < EXP2_PARTS) {
    double power = exp2((double)j / EXP2_PARTS);
    table[j] = __hiloint2double(__double2hiint(power) - (j << EXP2_SHIFT), __double2loint(power));
  }
  __syncthreads();
  return table;
}

/* 2^(t + base), where magic is EXP2_MAGIC + base, base a multiple of 1/32 and both above -2^25; 0 below
 * EXP2_LEAST. Relative error 2^-51; the polynomial's, on [-1/64, 1/64], 8.7e-17. */
static __device__ __forceinline__ double exp2_above(const double *table, double t, double magic) {
  double rounded = t + magic, f = t - (rounded - magic);
  int n = __double2loint(rounded);
  double power = table[n & (EXP2_PARTS - 1)];
  int high = __double2hiint(power) + (n << EXP2_SHIFT), low = __double2loint(power);
  if (n < EXP2_PARTS * EXP2_LEAST) high = low = 0;
  power = __hiloint2double(high, low);
  double p = 0.00133336099933343199;
  p = p * f + 0.00961818146714666332;
  p = p * f + 0.055504108664429945;
  p = p * f + 0.240226506955145608;
  p = p * f + 0.693147180559945286;
  return power + power * (p * f);
}

/* 2^t, however small: the high words of negative numbers grow as they fall. */
static __device__ __forceinline__ double exp2_any(const double *table, double t) {
  unsigned high = min((unsigned)__double2hiint(t), (unsigned)__double2hiint(2.0 * EXP2_LEAST));
  return exp2_above(table, __hiloint2double((int)high, __double2loint(t)), EXP2_MAGIC);
}

/* In float. Relative error 2^-22; below -126 it is 0. */
static __device__ __forceinline__ float exp2_fast(float t) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(t));
  return value;
}

#endif

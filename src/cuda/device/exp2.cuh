/* 2^t in double precision, for t <= 0 or slightly above: a table of 2^(j / 32) in shared memory and a polynomial
 * of degree 5. It takes nine FP64 instructions; exp2() takes nearly twice as many. */
#ifndef FK_CUDA_EXP2_CUH
#define FK_CUDA_EXP2_CUH

#include <math.h>

enum { EXP2_PARTS = 32, EXP2_SHIFT = 15 /* position of n in the high word */, EXP2_LEAST = -1022 };

/* Adding it rounds t to a multiple n / 32 and leaves n in the low word. */
#define EXP2_MAGIC 0x1.8p47

/* Fills the table; to be called by all threads of a block. Entry j is 2^(j / 32) with j << 15 taken off its high
 * word. Adding n << 15 with n = 32 k + j gives 2^(n / 32). */
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

/* 2^(t + base), where magic is EXP2_MAGIC + base. base must be a multiple of 1/32; t and base must exceed -2^25.
 * Returns 0 below EXP2_LEAST. Relative error 2^-51; that of the polynomial on [-1/64, 1/64] is 8.7e-17. */
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

/* 2^t for any t <= 0: as integers, the high words of negative numbers grow as the numbers fall. */
static __device__ __forceinline__ double exp2_any(const double *table, double t) {
  unsigned high = min((unsigned)__double2hiint(t), (unsigned)__double2hiint(2.0 * EXP2_LEAST));
  return exp2_above(table, __hiloint2double((int)high, __double2loint(t)), EXP2_MAGIC);
}

/* 2^t in float, relative error 2^-22; 0 below t = -126. */
static __device__ __forceinline__ float exp2_fast(float t) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(t));
  return value;
}

#endif

/* The instructions of the wgmma kernels, for Hopper only (sm_90a): barriers, bulk copies, products of a warpgroup.
 */
#ifndef FK_CUDA_WGMMA_CUH
#define FK_CUDA_WGMMA_CUH

#include <stdint.h>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- Barriers, copies, arithmetic ---- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/* Arrives at the barrier, whose phase is complete when this many bytes have been copied. */
static __device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Starts a copy of the expected bytes. */
static __device__ __forceinline__ void bulk_bring(uint32_t to, const void *from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/* Starts a copy whose completion completes the barrier's phase. */
static __device__ __forceinline__ void bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier) {
  barrier_expect(barrier, bytes);
  bulk_bring(to, from, bytes, barrier);
}

static __device__ __forceinline__ float2 load_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}

/* 2^t on the FMA pipe, for a share of the exponentials when their own unit is the bound. Errors 1e-7 with degree
 * 5, 7e-5 with degree 3. Below t = -126 it is 2^-126, which does not change a sum of kernels, or 0 (TO_ZERO) if a
 * large factor would show it. */
template <int DEGREE, bool TO_ZERO>
static __device__ __forceinline__ float exp2_polynomial(float t) {
  t = fmaxf(t, -126.0f);
  float shifted = t + 12582912.0f, f = t - (shifted - 12582912.0f), p;
  if (DEGREE == 5) {
    p = fmaf(1.32764602e-3f, f, 9.67554152e-3f);
    p = fmaf(p, f, 5.55071331e-2f);
    p = fmaf(p, f, 2.40221197e-1f);
    p = fmaf(p, f, 6.93146967e-1f);
    p = fmaf(p, f, 1.0f);
  } else {
    p = fmaf(5.5171494e-2f, f, 2.42610938e-1f);
    p = fmaf(p, f, 6.93260994e-1f);
    p = fmaf(p, f, 9.99928085e-1f);
  }
  float value = __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
  return TO_ZERO ? value - 0x1p-126f : value;
}

/* 2^t for two t <= 16 as FP16 numbers, by integers: 1024 (t + 15) has the exponent in its high bits and the
 * fraction f below, where the multiplier should be 2^f / (1 + f). Error 4e-3. */
static __device__ __forceinline__ uint32_t exp2_halves(float t0, float t1) {
  const float none = 12582912.0f, bias = 12582912.0f + 15360.0f;
  float y0 = fmaxf(fmaf(t0, 1024.0f, bias), none), y1 = fmaxf(fmaf(t1, 1024.0f, bias), none);
  uint32_t bits = __byte_perm(__float_as_uint(y0), __float_as_uint(y1), 0x5410);
  uint32_t mantissa = (bits & 0x03ff03ffu) | 0x3c003c00u;
  __half2 m = *(const __half2 *)&mantissa;
  __half2 c = __hfma2(__float2half2_rn(0.23370017f), m, __float2half2_rn(-0.69420644f));
  c = __hfma2(c, m, __float2half2_rn(1.45730742f));
  __half2 value = __hmul2(*(const __half2 *)&bits, c);
  return *(const uint32_t *)&value;
}

/* ---- wgmma ---- */

static __device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Keeps the compiler from reading these registers before this point and from writing them after it. */
template <int N>
static __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int N>
static __device__ __forceinline__ void pin(uint32_t (&words)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(words[i])::"memory");
}

/* Stores four 8 x 8 FP16 matrices, transposed; lane l gives the shared address of column l % 8 of matrix l / 8. */
static __device__ __forceinline__ void store_transposed(uint32_t address, const uint32_t *from) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

/* Counts the warps that leave, `count` per turn: true for the last one, which then sees all writes of the others.
 */
static __device__ __forceinline__ bool is_last_to_leave(uint32_t counter, int count) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared::cta.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(counter), "r"(count - 1)
               : "memory");
  return before == (uint32_t)count - 1;
}

/* Waits for the running products, which change d. */
template <int N>
static __device__ __forceinline__ void wgmma_wait(float (&d)[N]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  pin(d);
}

/* Describes a matrix in shared memory by its address and two strides between core matrices, in units of 16 bytes:
 * `leading` along K, `stride` along N, for either major. */
static __device__ __forceinline__ uint64_t descriptor(uint32_t address16, int leading, int stride) {
  uint64_t d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(address16 + (uint32_t)(leading / 16 << 16)), "r"(stride / 16));
  return d;
}

#define REGS_4 "%0, %1, %2, %3"
#define REGS_8 REGS_4 ", %4, %5, %6, %7"
#define REGS_12 REGS_8 ", %8, %9, %10, %11"
#define REGS_16 REGS_12 ", %12, %13, %14, %15"
#define REGS_20 REGS_16 ", %16, %17, %18, %19"
#define REGS_24 REGS_20 ", %20, %21, %22, %23"
#define REGS_28 REGS_24 ", %24, %25, %26, %27"
#define REGS_32 REGS_28 ", %28, %29, %30, %31"
#define REGS_36 REGS_32 ", %32, %33, %34, %35"
#define REGS_64                                                                                                   \
  REGS_36                                                                                                         \
  ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "                  \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D_4 D4(0)
#define D_8 D_4, D4(4)
#define D_12 D_8, D4(8)
#define D_16 D_12, D4(12)
#define D_20 D_16, D4(16)
#define D_24 D_20, D4(20)
#define D_28 D_24, D4(24)
#define D_32 D_28, D4(28)
#define D_36 D_32, D4(32)
#define D_64 D_36, D4(36), D4(40), D4(44), D4(48), D4(52), D4(56), D4(60)

/* n columns in `regs` registers; %a0 .. %a3, %b, %t, %k: the operands after them */
#define WGMMA(n, regs, a0, a1, a2, a3, b, t, k)                                                                   \
  if constexpr (N == n)                                                                                           \
  asm volatile("{.reg .pred keep; setp.ne.b32 keep, %" #k                                                         \
               ", 0;"                                                                                             \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" REGS_##regs                             \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", keep, 1, 1, %" #t ";}"                      \
               : D_##regs                                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor), "n"(transposed), "n"(keep_d))

/* d (64 x N) = [d +] a (64 x 16, in registers) b (16 x N, in shared memory) */
template <int N, bool transposed, bool keep_d = true>
static __device__ __forceinline__ void wgmma(float *d, const uint32_t *a, uint64_t b_descriptor) {
  WGMMA(8, 4, 4, 5, 6, 7, 8, 9, 10);
  WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14);
  WGMMA(24, 12, 12, 13, 14, 15, 16, 17, 18);
  WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22);
  WGMMA(40, 20, 20, 21, 22, 23, 24, 25, 26);
  WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30);
  WGMMA(56, 28, 28, 29, 30, 31, 32, 33, 34);
  WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38);
  WGMMA(72, 36, 36, 37, 38, 39, 40, 41, 42);
  WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70);
}

/* d (64 x 128) += a (64 x 16) b (16 x 128), both in shared memory */
static __device__ __forceinline__ void wgmma_shared(float *d, uint64_t a_descriptor, uint64_t b_descriptor) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" REGS_64 "}, %64, %65, 1, 1, 1, 0, 0;"
               : D_64
               : "l"(a_descriptor), "l"(b_descriptor));
}

#endif
#endif

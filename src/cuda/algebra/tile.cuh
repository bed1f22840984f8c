/* A tile of a product: how it comes to shared memory, and how warps multiply it.
 * || Numbers are double, float, or pairs of adjacent halves. All have the layout of tensor cores' m16n8 products:
 * lane 4 g + t has rows g and g + 8 and columns 2t and 2t + 1 of the sums, and depths t and t + 4 of the factors.
 */
#ifndef FK_CUDA_ALGEBRA_TILE_CUH
#define FK_CUDA_ALGEBRA_TILE_CUH

#include "../tensor/mma.cuh"
#include "views.cuh"

enum { DEPTH = 16, WARP = 32 };

/* The type of sums, and how many numbers are copied at once. */
template <typename T>
struct number {
  using sum = T;
  enum { VECTOR = 1 };
};
template <>
struct number<__half2> {
  using sum = float;
  enum { VECTOR = 4 };
};

/* One factor as the kernel reads it. */
template <typename T>
struct factor {
  const T *at;
  int64_t along, deep, batch; /* strides of rows of A or columns of B, of depths, of matrices */
};

/* Starts copying BYTES to shared memory, those beyond `valid` as 0. */
template <int BYTES>
static __device__ __forceinline__ void copy_or_zero(void *to, const void *from, int valid) {
#if __CUDA_ARCH__ >= 800
  const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(BYTES),
                 "r"(valid));
#else
  for (int i = 0; i < BYTES / 4; i++) ((uint32_t *)to)[i] = 4 * i < valid ? ((const uint32_t *)from)[i] : 0;
#endif
}

/* SIDE x DEPTH numbers of a factor. A thread copies COUNT vectors, which lie at equal distances. */
template <typename T, int SIDE, int THREADS>
struct side {
  enum {
    VECTOR = number<T>::VECTOR,
    COUNT = (SIDE * DEPTH + VECTOR * THREADS - 1) / (VECTOR * THREADS),
    /* In shared memory; the padding keeps a warp's reads in different banks. */
    ALONG = VECTOR > 1 ? DEPTH + 4 : 1,
    DEEP = VECTOR > 1 ? 1 : SIDE + 32 / (int)sizeof(T),
    NUMBERS = VECTOR > 1 ? SIDE *ALONG : DEPTH *DEEP
  };
  const T *next; /* the vector to copy */
  int64_t step, step_tile;
  int rows, row, depth, step_row, step_depth;

  __device__ side(const struct factor<T> &f, int64_t first, int64_t end, int64_t first_depth) {
    const int i = (int)threadIdx.x;
    step_row = step_depth = 0;
    if (VECTOR > 1) {
      depth = VECTOR * (i % (DEPTH / VECTOR)), row = i / (DEPTH / VECTOR);
      step_row = THREADS / (DEPTH / VECTOR);
    } else if (f.along == 1) {
      depth = i / SIDE, row = i % SIDE;
      step_depth = THREADS / SIDE;
    } else { /* a warp has 4 depths of 8 rows: whole sectors of memory, and all banks */
      depth = i % 4 + 4 * (i / (THREADS / 4)), row = i % (THREADS / 4) / 4;
      step_row = THREADS / DEPTH;
    }
    rows = (int)(end - first < SIDE ? end - first : SIDE);
    step = step_row * f.along + step_depth * f.deep;
    step_tile = DEPTH * f.deep - COUNT * step;
    next = f.at + (first + row) * f.along + (first_depth + depth) * f.deep;
  }

  /* Copies vectors begin .. end - 1 of the next tile, which has `left` depths. */
  __device__ __forceinline__ void copy(T *to, int left, int begin, int end) {
#pragma unroll
    for (int i = begin; i < end; i++, next += step) {
      const int r = row + i * step_row, k = depth + i * step_depth, valid = r < rows ? left - k : 0;
      if (SIDE * DEPTH < VECTOR * THREADS && r >= SIDE) continue; /* more threads than vectors */
      copy_or_zero<VECTOR *(int)sizeof(T)>(to + r * ALONG + k * DEEP, next,
                                           (int)sizeof(T) * max(0, min(valid, (int)VECTOR)));
    }
    if (end == COUNT) next += step_tile;
  }
};

/* c += a b, 16 x 8 x 4 doubles or 16 x 8 x 8 pairs. */
static __device__ __forceinline__ void multiply(double (&c)[4], const double (&a)[2], const double (&b)[1]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(b[0]));
#elif __CUDA_ARCH__ >= 800
  for (int i = 0; i < 2; i++)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c[2 * i]), "+d"(c[2 * i + 1])
        : "d"(a[i]), "d"(b[0]));
#endif
}
static __device__ __forceinline__ void multiply(float (&c)[4], const __half2 (&a)[4], const __half2 (&b)[2]) {
  mma_m16n8k16(c, (const uint32_t *)a, *(const uint32_t *)&b[0], *(const uint32_t *)&b[1]);
}

/* The part of a tile that a warp has: 16 DOWN x 8 RIGHT sums. The factors of one step are loaded while those of
 * the last are multiplied. */
template <typename T, typename A, typename B, int DOWN, int RIGHT>
struct warp_tile {
  using sum = typename number<T>::sum;
  enum {
    PAIRS = number<T>::VECTOR > 1,
#if __CUDA_ARCH__ >= 800
    TENSOR = PAIRS || sizeof(T) == sizeof(double),
#else
    TENSOR = PAIRS,
#endif
    STEP = TENSOR ? PAIRS ? 8 : 4 : 1, /* depths */
    STEPS = DEPTH / STEP,
    OF_A = TENSOR ? STEP / 2 : 2,
    OF_B = TENSOR ? STEP / 4 : 2
  };
  sum c[DOWN][RIGHT][4];
  T x[2][DOWN][OF_A], y[2][RIGHT][OF_B];

  /* Loads the factors of depths k ...; a and b are the warp's first row and column. */
  __device__ __forceinline__ void load(int set, const T *a, const T *b, int k) {
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4, deep = TENSOR ? k + t : k;
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
      for (int l = 0; l < OF_A; l++)
        x[set][i][l] = a[(16 * i + 8 * (l % 2) + g) * A::ALONG + (deep + 4 * (l / 2)) * A::DEEP];
#pragma unroll
    for (int j = 0; j < RIGHT; j++)
#pragma unroll
      for (int l = 0; l < OF_B; l++)
        y[set][j][l] = TENSOR ? b[(8 * j + g) * B::ALONG + (deep + 4 * l) * B::DEEP]
                              : b[(8 * j + 2 * t + l) * B::ALONG + deep * B::DEEP];
  }

  __device__ __forceinline__ void add(int set) {
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
      for (int j = 0; j < RIGHT; j++) {
        if constexpr (TENSOR)
          multiply(c[i][j], x[set][i], y[set][j]);
        else
#pragma unroll
          for (int l = 0; l < 4; l++) c[i][j][l] = fma(x[set][i][l / 2], y[set][j][l % 2], c[i][j][l]);
      }
  }
};

#endif

/* A lower triangle of at most CORNER rows in shared memory. Strides may be negative, for an upper one. */
#ifndef FK_CUDA_ALGEBRA_CORNER_CUH
#define FK_CUDA_ALGEBRA_CORNER_CUH

#include "views.cuh"

enum { CORNER = 64, LANES = 4, HELD = CORNER / LANES, THREADS = CORNER * LANES };

/* The row and the column of number e of a corner, in the order of memory. */
template <typename T>
static __device__ __forceinline__ void place_in_corner(const fk_view<const T> &L, int e, int *i, int *j) {
  const bool by_columns = L.down == 1 || L.down == -1;
  *i = by_columns ? e % CORNER : e / CORNER, *j = by_columns ? e / CORNER : e % CORNER;
}

template <typename T>
struct fk_corner {
  T number[CORNER][CORNER + 1]; /* by columns */
  T scale[CORNER];              /* the diagonal, or its reciprocals */

  /* To be followed by __syncthreads(). */
  __device__ void load(const fk_view<const T> &L, bool reciprocal) {
    const int n = (int)L.n;
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < CORNER * CORNER; e += THREADS) {
      int i, j;
      place_in_corner(L, e, &i, &j);
      number[j][i] = i < n && j < i ? L.at[i * L.down + j * L.right] : (T)0;
    }
    if ((int)threadIdx.x < CORNER) {
      const int i = (int)threadIdx.x;
      const T x = i < n ? L.at[i * (L.down + L.right)] : (T)1;
      scale[i] = reciprocal ? 1 / x : x;
    }
  }

  /* L^-1 x or L x. Four lanes have a column: rows 4 r + lane. In each step one of them tells its number to the
   * others. */
  template <bool SOLVES>
  __device__ void apply(T (&x)[HELD], int lane) const {
#pragma unroll
    for (int s = 0; s < CORNER; s++) {
      const int j = SOLVES ? s : CORNER - 1 - s, own = j / LANES;
      const T mine = SOLVES ? x[own] * scale[j] : x[own];
      const T told = __shfl_sync(~0u, mine, j % LANES, LANES);
      if (lane == j % LANES) x[own] = SOLVES ? mine : x[own] * scale[j];
#pragma unroll
      for (int r = own; r < HELD; r++) {
        const T l = number[j][LANES * r + lane];
        if (r > own || lane > j % LANES) x[r] = fma(SOLVES ? -l : l, told, x[r]);
      }
    }
  }
};

#endif

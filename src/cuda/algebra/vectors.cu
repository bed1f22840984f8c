/* Systems with few right-hand sides, and products with a vector: their time is that of reading the matrix, and of
 * few launches. */
#include "corner.cuh"

/* ---- systems ---------------------------------------------------------------------------------- */

enum { FEW = 16, FEW_EACH = FEW / LANES, GROUPS = FK_FEW_COLUMNS / FEW };

/* Waits until so many blocks before this one are done, and reads the columns of this one. */
template <typename T>
static __device__ void read_solved(const fk_view<T> &B, int64_t first_column, int block, int columns,
                                   const int *turn, T (*x)[CORNER]) {
  if (threadIdx.x == 0)
    while (*(volatile const int *)&turn[1] <= block)
      ;
  __syncthreads();
  __threadfence();
  for (int e = (int)threadIdx.x; e < CORNER * columns; e += THREADS) {
    const int64_t i = (int64_t)block * CORNER + e % CORNER;
    x[e / CORNER][e % CORNER] = __ldcg(&B.at[i * B.down + (first_column + e / CORNER) * B.right]);
  }
  __syncthreads();
}

/* left -= tile x; a thread has a row, and every fourth column. */
template <typename T>
static __device__ __forceinline__ void subtract(const struct fk_corner<T> &tile, const T (*x)[CORNER], int columns,
                                                T (&left)[FEW_EACH]) {
  const int row = (int)threadIdx.x % CORNER, lane = (int)threadIdx.x / CORNER;
#pragma unroll
  for (int c = 0; c < FEW_EACH; c++) {
    const int column = LANES * c + lane;
    if (column < columns) {
#pragma unroll 16
      for (int j = 0; j < CORNER; j++) left[c] = fma(-tile.number[j][row], x[column][j], left[c]);
    }
  }
}

/* Solves a corner of n rows for the columns of x, and writes them to b, which is in B. */
template <typename T>
static __device__ void solve_corner(const struct fk_corner<T> &tile, const T (*x)[CORNER], const fk_view<T> &B,
                                    int n, int columns, T *b) {
  const int column = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
  T held[HELD];
#pragma unroll
  for (int r = 0; r < HELD; r++) held[r] = column < columns ? x[column][LANES * r + lane] : (T)0;
  tile.template apply<true>(held, lane);
#pragma unroll
  for (int r = 0; r < HELD; r++) {
    const int i = LANES * r + lane;
    if (i < n && column < columns) b[i * B.down + column * B.right] = held[r];
  }
}

/* A group of columns has a block for each corner on the diagonal, in the order in which they start: `turn` has the
 * number of those that started, and of those that are done. A block subtracts the products with what is done
 * before it solves its corner; it reads the next tile of L while it waits. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    solve_kernel(const fk_view<const T> L, const fk_view<T> B, T alpha, int *turns) {
  __shared__ struct fk_corner<T> tile;
  __shared__ T x[FEW][CORNER];
  __shared__ int started;
  int *const turn = turns + 2 * blockIdx.y;
  const int thread = (int)threadIdx.x, row = thread % CORNER, lane = thread / CORNER;
  const int64_t first_column = (int64_t)blockIdx.y * FEW;
  const int columns = (int)(B.d - first_column < FEW ? B.d - first_column : FEW);
  if (thread == 0) started = atomicAdd(&turn[0], 1);
  __syncthreads();
  const int own = started;
  const int64_t first = (int64_t)own * CORNER;
  const int n = (int)(L.n - first < CORNER ? L.n - first : CORNER);
  T *const b = B.at + first * B.down + first_column * B.right;
  T left[FEW_EACH] = {}, next[HELD] = {}; /* of columns lane, LANES + lane, ...; of the next tile */
#pragma unroll
  for (int c = 0; c < FEW_EACH; c++) {
    const int column = LANES * c + lane;
    if (row < n && column < columns && alpha != 0) left[c] = alpha * b[row * B.down + column * B.right];
  }
  /* the last one is the corner; the diagonal stays where it is */
  auto fetch = [&](int block) {
    const T *from = L.at + first * L.down + (int64_t)block * CORNER * L.right;
#pragma unroll
    for (int e = 0; e < HELD; e++) {
      int i, j;
      place_in_corner(L, thread + e * THREADS, &i, &j);
      next[e] = i < n && (block < own || j < i) ? from[i * L.down + j * L.right] : (T)0;
    }
  };
  auto put = [&] {
#pragma unroll
    for (int e = 0; e < HELD; e++) {
      int i, j;
      place_in_corner(L, thread + e * THREADS, &i, &j);
      tile.number[j][i] = next[e];
    }
  };
  fetch(0);
  if (thread < CORNER) tile.scale[thread] = thread < n ? 1 / L.at[(first + thread) * (L.down + L.right)] : (T)1;
  for (int block = 0; block < own; block++) {
    put();
    fetch(block + 1);
    read_solved<T>(B, first_column, block, columns, turn, x);
    subtract<T>(tile, x, columns, left);
    __syncthreads();
  }
  put();
#pragma unroll
  for (int c = 0; c < FEW_EACH; c++) x[LANES * c + lane][row] = left[c];
  __syncthreads();
  solve_corner<T>(tile, x, B, n, columns, b);
  __threadfence();
  __syncthreads();
  if (thread == 0) *(volatile int *)&turn[1] = own + 1;
}

template <typename T>
bool fk_solve_few(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B) {
  int *const turns = (int *)algebra->workspace;
  if (B.d > FK_FEW_COLUMNS || !turns) return false;
  if (B.d == 0) return true;
  cudaMemsetAsync(turns, 0, 2 * GROUPS * sizeof *turns, algebra->stream);
  const dim3 grid(fk_blocks(L.n, CORNER), fk_blocks(B.d, FEW));
  solve_kernel<<<grid, THREADS, 0, algebra->stream>>>(lower ? L : L.reversed(), lower ? B : B.upside_down(), alpha,
                                                      turns);
  return true;
}

/* ---- products --------------------------------------------------------------------------------- */

enum { ROWS = 128 };

/* A block has ROWS rows of a slice of the columns. `sums`: [slice][row]. */
template <typename T>
static __global__ void __launch_bounds__(ROWS)
    vector_kernel(const fk_view<const T> A, const T *x, int64_t slice, T *sums) {
  const int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x, first = blockIdx.y * slice;
  const int64_t end = first + slice < A.d ? first + slice : A.d;
  if (i >= A.n) return;
  T sum = 0;
#pragma unroll 8
  for (int64_t j = first; j < end; j++) sum = fma(A.at[i + j * A.right], x[j], sum);
  sums[blockIdx.y * A.n + i] = sum;
}

template <typename T>
static __global__ void add_slices_kernel(const T *sums, int64_t n, int slices, T alpha, T beta, T *y) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T sum = 0;
  for (int slice = 0; slice < slices; slice++) sum += sums[slice * n + i];
  y[i] = beta == 0 ? alpha * sum : fma(beta, y[i], alpha * sum);
}

template <typename T>
void fk_multiply_vector(const struct fk_algebra *algebra, T alpha, fk_view<const T> A, const T *x, T beta, T *y) {
  enum { LEAST = 32, BLOCKS = 8 }; /* columns of a slice, at least; blocks of a multiprocessor */
  const int64_t down = fk_pieces(A.n, ROWS),
                room = (int64_t)(algebra->workspace_bytes / sizeof(T)) / fk_larger(A.n, 1);
  int64_t slices =
      fk_smaller(fk_pieces(A.d, LEAST), fk_pieces((int64_t)BLOCKS * algebra->multiprocessors, fk_larger(down, 1)));
  slices = fk_smaller(slices, room);
  if (A.n == 0) return;
  if (slices < 1 || alpha == 0)
    return fk_product<T>(algebra, alpha, A, {x, A.d, 1, 1, A.d}, beta, {y, A.n, 1, 1, A.n});
  const int64_t slice = fk_pieces(A.d, slices);
  T *const sums = (T *)algebra->workspace;
  const dim3 grid((unsigned)down, (unsigned)fk_pieces(A.d, slice));
  vector_kernel<<<grid, ROWS, 0, algebra->stream>>>(A, x, slice, sums);
  add_slices_kernel<<<fk_blocks(A.n, ROWS), ROWS, 0, algebra->stream>>>(sums, A.n, (int)grid.y, alpha, beta, y);
}

#define FOR(T)                                                                                                    \
  template bool fk_solve_few(const struct fk_algebra *, fk_view<const T>, bool, T, fk_view<T>);                   \
  template void fk_multiply_vector(const struct fk_algebra *, T, fk_view<const T>, const T *, T, T *);
FOR(double)
FOR(float)

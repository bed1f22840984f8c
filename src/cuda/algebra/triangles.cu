/* Triangles: systems, products, Cholesky factors, inverses and L'L. A triangle is halved until a block can hold it
 * (CORNER); all else is products. */
#include "corner.cuh"

/* What happens to the numbers of B, or in place of a triangle L. */
enum task { SOLVE, MULTIPLY, INVERT, SQUARE };

/* A lower triangle of at most CORNER rows; strides may be negative, for an upper one. */
template <typename T>
struct corner {
  fk_view<const T> L;
  fk_view<T> B;
  enum task task;
  T alpha;

  /* Is a number of B read and written? In place of L one triangle is; L'L has its rows in reverse order. */
  __device__ bool has(int i, int64_t j) const {
    if (task == INVERT || task == SQUARE) return i < B.n && j <= (task == SQUARE ? B.n - 1 - i : i);
    return i < B.n && j < B.d;
  }
};

/* A block computes L^-1 B or L B, or inverts or squares L. */
template <bool SOLVES, typename T>
static __global__ void __launch_bounds__(THREADS) corner_kernel(const struct corner<T> k) {
  __shared__ struct fk_corner<T> L;
  const int lane = (int)threadIdx.x % LANES;
  const int64_t column = (int64_t)blockIdx.x * CORNER + threadIdx.x / LANES;
  L.load(k.L, SOLVES);
  T x[HELD];
#pragma unroll
  for (int r = 0; r < HELD; r++) {
    const int i = LANES * r + lane;
    x[r] = k.task == INVERT   ? (T)(i == column)
           : k.has(i, column) ? k.B.at[i * k.B.down + column * k.B.right]
                              : (T)0;
    if (k.alpha != 1) x[r] = k.alpha == 0 ? 0 : k.alpha * x[r];
  }
  __syncthreads();
  L.template apply<SOLVES>(x, lane);
#pragma unroll
  for (int r = 0; r < HELD; r++)
    if (k.has(LANES * r + lane, column)) k.B.at[(LANES * r + lane) * k.B.down + column * k.B.right] = x[r];
}

template <typename T>
static void run_corner(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, fk_view<T> B,
                       enum task task, T alpha) {
  const corner<T> k{lower ? L : L.reversed(), lower ? B : B.upside_down(), task, alpha};
  if (B.d == 0) return;
  if (task == SOLVE || task == INVERT)
    corner_kernel<true><<<fk_blocks(B.d, CORNER), THREADS, 0, algebra->stream>>>(k);
  else
    corner_kernel<false><<<fk_blocks(B.d, CORNER), THREADS, 0, algebra->stream>>>(k);
}

/* The Cholesky factor of a corner; `before` rows precede it. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) factor_kernel(fk_view<T> A, int *info, int before) {
  __shared__ T L[CORNER][CORNER + 1]; /* by columns */
  const int n = (int)A.n, row = (int)threadIdx.x % CORNER, first = (int)threadIdx.x / CORNER;
  const bool by_columns = A.down == 1;
#pragma unroll 4
  for (int k = first; k < CORNER; k += LANES) {
    const int i = by_columns ? row : k, j = by_columns ? k : row;
    L[j][i] = i < n && j <= i ? A.at[i * A.down + j * A.right] : (T)(i == j);
  }
  __syncthreads();
  for (int j = 0; j < n; j++) { /* columns stay unscaled in L, so that a step has one barrier */
    const T pivot = L[j][j], scale = rsqrt(pivot), x = L[j][row] * scale;
    if (threadIdx.x == 0 && !(pivot > 0) && *info == 0) *info = before + j + 1;
    if (first == 0 && row >= j && row < n) A.at[row * A.down + j * A.right] = x;
    for (int k = j + 1 + first; k <= row; k += LANES) L[k][row] = fma(-x, L[j][k] * scale, L[k][row]);
    __syncthreads();
  }
}

/* ---- halving ---------------------------------------------------------------------------------- */

/* The rows of the first half: whole corners. */
static int64_t half_of(int64_t n) { return fk_pieces(n, CORNER) / 2 * CORNER; }

/* A triangle in halves: its diagonal in the order in which rows of a system are solved, and what connects them. */
template <typename T>
struct halves {
  fk_view<T> first, second, between;
  int64_t at_first, at_second;

  halves(fk_view<T> L, bool lower) {
    const int64_t half = half_of(L.n);
    at_first = lower ? 0 : half, at_second = lower ? half : 0;
    const int64_t n_first = lower ? half : L.n - half, n_second = L.n - n_first;
    first = L.part(at_first, at_first, n_first, n_first);
    second = L.part(at_second, at_second, n_second, n_second);
    between = L.part(at_second, at_first, n_second, n_first);
  }
};

template <typename T>
void fk_solve(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B) {
  if (L.n <= CORNER) return run_corner(algebra, L, lower, B, SOLVE, alpha);
  if (fk_solve_few(algebra, L, lower, alpha, B)) return;
  const struct halves<const T> h(L, lower);
  const fk_view<T> first = B.part(h.at_first, 0, h.first.n, B.d), second = B.part(h.at_second, 0, h.second.n, B.d);
  fk_solve(algebra, h.first, lower, alpha, first);
  fk_product<T>(algebra, -1, h.between, first.read(), alpha, second);
  fk_solve<T>(algebra, h.second, lower, 1, second);
}

template <typename T>
void fk_multiply(const struct fk_algebra *algebra, fk_view<const T> L, bool lower, T alpha, fk_view<T> B) {
  if (L.n <= CORNER) return run_corner(algebra, L, lower, B, MULTIPLY, alpha);
  const struct halves<const T> h(L, lower);
  const fk_view<T> first = B.part(h.at_first, 0, h.first.n, B.d), second = B.part(h.at_second, 0, h.second.n, B.d);
  fk_multiply(algebra, h.second, lower, alpha, second);
  fk_product<T>(algebra, alpha, h.between, first.read(), 1, second);
  fk_multiply(algebra, h.first, lower, alpha, first);
}

template <typename T>
static void factor_from(const struct fk_algebra *algebra, fk_view<T> A, int *info, int64_t before) {
  if (A.n <= CORNER) return factor_kernel<<<1, THREADS, 0, algebra->stream>>>(A, info, (int)before);
  const struct halves<T> h(A, true);
  factor_from(algebra, h.first, info, before);
  fk_solve<T>(algebra, h.first.read(), true, 1, h.between.turned());
  fk_product<T>(algebra, -1, h.between.read(), h.between.turned().read(), 1, h.second, FK_LOWER);
  factor_from(algebra, h.second, info, before + h.first.n);
}

template <typename T>
void fk_cholesky(const struct fk_algebra *algebra, fk_view<T> A, int *info) {
  cudaMemsetAsync(info, 0, sizeof *info, algebra->stream);
  if (A.n > 0) factor_from(algebra, A, info, 0);
}

template <typename T>
void fk_invert(const struct fk_algebra *algebra, fk_view<T> L) {
  if (L.n <= CORNER) return run_corner<T>(algebra, L.read(), true, L, INVERT, 1);
  const struct halves<T> h(L, true);
  fk_solve<T>(algebra, h.second.read(), true, -1, h.between);
  fk_solve<T>(algebra, h.first.turned().read(), false, 1, h.between.turned());
  fk_invert(algebra, h.first);
  fk_invert(algebra, h.second);
}

template <typename T>
void fk_square(const struct fk_algebra *algebra, fk_view<T> L) {
  if (L.n <= CORNER) return run_corner<T>(algebra, L.turned().read(), false, L, SQUARE, 1);
  const struct halves<T> h(L, true);
  fk_square(algebra, h.first);
  fk_product<T>(algebra, 1, h.between.turned().read(), h.between.read(), 1, h.first, FK_LOWER);
  fk_multiply<T>(algebra, h.second.turned().read(), false, 1, h.between);
  fk_square(algebra, h.second);
}

#define FOR(T)                                                                                                    \
  template void fk_solve(const struct fk_algebra *, fk_view<const T>, bool, T, fk_view<T>);                       \
  template void fk_multiply(const struct fk_algebra *, fk_view<const T>, bool, T, fk_view<T>);                    \
  template void fk_cholesky(const struct fk_algebra *, fk_view<T>, int *);                                        \
  template void fk_invert(const struct fk_algebra *, fk_view<T>);                                                 \
  template void fk_square(const struct fk_algebra *, fk_view<T>);
FOR(double)
FOR(float)

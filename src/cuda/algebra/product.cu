/* Products of matrices, of all types by one kernel: see tile.cuh. A block has a tile of C. If C has few tiles, the
 * depths are cut, too: blocks write sums of their depths to the workspace, which a second kernel adds in order. */
#include "tile.cuh"

template <typename T, typename Out>
struct product {
  using sum = typename number<T>::sum;
  struct factor<T> a, b;
  fk_view<Out> C;
  int64_t batch, depth, slice; /* between matrices C; all depths; those of a block */
  int64_t down, tiles, slices; /* tiles in a column of C; tiles of C; cuts of the depths */
  sum alpha, beta, *partial;   /* partial: sums of slices, [slice][matrix][column][row]; NULL: not cut */
  enum fk_part part;
};

/* alpha x + beta C, where C is `before`. */
template <typename P>
static __device__ __forceinline__ typename P::sum finished(const P &p, typename P::sum x, typename P::sum before) {
  return p.beta == 0 ? p.alpha * x : p.alpha * x + p.beta * before;
}
template <typename P>
static __device__ __forceinline__ bool has(const P &p, int64_t row, int64_t column) {
  const bool inside = row < p.C.n && column < p.C.d;
  return inside && (p.part != FK_LOWER || row >= column) && (p.part != FK_ABOVE || row <= column);
}

/* Blocks in succession have tiles of 8 columns, row by row, so that they share factors in the cache. */
static __device__ __forceinline__ void place(int64_t tile, int64_t down, int64_t tiles, int64_t *row,
                                             int64_t *column) {
  enum { GROUP = 8 };
  const int64_t first = tile / (GROUP * down) * GROUP, right = tiles / down;
  const int64_t wide = right - first < GROUP ? right - first : GROUP, in_group = tile - first * down;
  *row = in_group / wide;
  *column = first + in_group % wide;
}

/* ROWS x COLS numbers of C, by DOWN x RIGHT warps, with STAGES tiles of factors under way. */
template <typename T, typename Out_, int ROWS_, int COLS_, int DOWN, int RIGHT, int STAGES_>
struct shape {
  using number_type = T;
  using Out = Out_;
  enum { ROWS = ROWS_, COLS = COLS_, THREADS = WARP * DOWN * RIGHT, STAGES = STAGES_ };
  enum { WARP_ROWS = ROWS / DOWN, WARP_COLS = COLS / RIGHT, WARPS_DOWN = DOWN };
  using A = side<T, ROWS, THREADS>;
  using B = side<T, COLS, THREADS>;
  using tile = warp_tile<T, A, B, WARP_ROWS / 16, WARP_COLS / 8>;
  enum { STAGE = A::NUMBERS + B::NUMBERS, BYTES = STAGES * STAGE * (int)sizeof(T) };
};

/* Sums over the depths first .. end - 1. */
template <typename S, typename P>
static __device__ __forceinline__ void sum_tile(const P &p, int64_t matrix, int64_t row, int64_t column,
                                                int64_t first, int64_t end, typename S::tile &tile) {
  using T = typename S::number_type;
  extern __shared__ __align__(16) char shared[];
  T *const stages = (T *)shared;
  typename S::A a(p.a, row, p.C.n, first);
  typename S::B b(p.b, column, p.C.d, first);
  a.next += matrix * p.a.batch, b.next += matrix * p.b.batch;
  const int warp = (int)threadIdx.x / WARP, count = (int)((end - first + DEPTH - 1) / DEPTH);
  const int warp_row = warp % S::WARPS_DOWN * S::WARP_ROWS, warp_column = warp / S::WARPS_DOWN * S::WARP_COLS;
  /* copies a part of tile i, in equal steps */
  auto copy = [&](int i, int step, int steps) {
    T *to = stages + i % S::STAGES * S::STAGE;
    const int64_t left = end - first - (int64_t)i * DEPTH;
    if (i < count) {
      const int depths = (int)(left < DEPTH ? left : DEPTH);
      a.copy(to, depths, S::A::COUNT * step / steps, S::A::COUNT * (step + 1) / steps);
      b.copy(to + S::A::NUMBERS, depths, S::B::COUNT * step / steps, S::B::COUNT * (step + 1) / steps);
    }
    if (step + 1 == steps) copy_commit();
  };
  auto load = [&](int i, int step) {
    const T *from = stages + i % S::STAGES * S::STAGE;
    tile.load(step % 2, from + warp_row * S::A::ALONG, from + S::A::NUMBERS + warp_column * S::B::ALONG,
              step * S::tile::STEP);
  };
  /* waits until the next tile is there, and all warps have loaded what they need of the one before */
  auto arrive = [&] {
    copy_wait<S::STAGES - 2>();
    __syncthreads();
  };
  for (int i = 0; i < S::STAGES - 1; i++) copy(i, 0, 1);
  arrive();
  if (count > 0) load(0, 0);
  constexpr int STEPS = S::tile::STEPS;
  for (int i = 0; i < count; i++) {
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      if (step + 1 < STEPS) {
        load(i, step + 1);
        copy(i + S::STAGES - 1, step, STEPS - 1);
      } else {
        arrive();
        load(i + 1, 0);
      }
      tile.add(step % 2);
    }
  }
}

template <typename S, typename P>
static __global__ void __launch_bounds__(S::THREADS) product_kernel(const P p) {
  const int64_t slice = blockIdx.x / p.tiles % p.slices, matrix = blockIdx.x / (p.tiles * p.slices);
  int64_t row, column;
  place(blockIdx.x % p.tiles, p.down, p.tiles, &row, &column);
  row *= S::ROWS, column *= S::COLS;
  if (p.part == FK_LOWER ? row + S::ROWS <= column : p.part == FK_ABOVE && column + S::COLS <= row) return;
  typename S::tile tile = {};
  const int64_t first = slice * p.slice;
  sum_tile<S>(p, matrix, row, column, first, first + p.slice < p.depth ? first + p.slice : p.depth, tile);

  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  row += warp % S::WARPS_DOWN * S::WARP_ROWS + lane / 4;
  column += warp / S::WARPS_DOWN * S::WARP_COLS + 2 * (lane % 4);
  typename P::sum *partial = p.partial + (blockIdx.x / p.tiles * p.C.d) * p.C.n;
  auto *C = p.C.at + matrix * p.batch;
#pragma unroll
  for (int j = 0; j < S::WARP_COLS / 8; j++) {
    typename P::sum before[S::WARP_ROWS / 8][2] = {}; /* all are read before the first is written */
    auto each = [&](auto call) {
#pragma unroll
      for (int i = 0; i < S::WARP_ROWS / 8; i++)
#pragma unroll
        for (int l = 0; l < 2; l++)
          if (has(p, row + 8 * i, column + 8 * j + l)) call(i, l, row + 8 * i, column + 8 * j + l);
    };
    if (p.beta != 0 && !p.partial)
      each([&](int i, int l, int64_t r, int64_t c) {
        before[i][l] = (typename P::sum)C[r * p.C.down + c * p.C.right];
      });
    each([&](int i, int l, int64_t r, int64_t c) {
      const auto x = tile.c[i / 2][j][2 * (i % 2) + l];
      if (p.partial)
        partial[r + c * p.C.n] = x;
      else
        C[r * p.C.down + c * p.C.right] = (typename S::Out)finished(p, x, before[i][l]);
    });
  }
}

/* Adds the slices; the order of matrices in the grid is that of `partial`. */
template <typename P>
static __global__ void add_kernel(const P p, int64_t matrices) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, size = p.C.n * p.C.d;
  const int64_t matrix = i / size, r = i % size % p.C.n, c = i % size / p.C.n;
  if (matrix >= matrices || !has(p, r, c)) return;
  typename P::sum x = 0;
  for (int64_t slice = 0; slice < p.slices; slice++) x += p.partial[(matrix * p.slices + slice) * size + i % size];
  auto *to = p.C.at + matrix * p.batch + r * p.C.down + c * p.C.right;
  *to = finished(p, x, p.beta == 0 ? 0 : (typename P::sum) * to);
}

/* Cuts the depths so that the blocks fill the device, if there are enough of them and workspace. */
template <typename P>
static void cut_depths(const struct fk_algebra *algebra, P *p, int64_t matrices) {
  enum { LEAST = 8 * DEPTH };
  const int64_t bytes = (int64_t)sizeof(typename P::sum) * p->C.n * p->C.d * matrices;
  int64_t slices = fk_smaller(2 * algebra->multiprocessors / (p->tiles * matrices), p->depth / LEAST);
  slices = fk_smaller(slices, (int64_t)algebra->workspace_bytes / bytes);
  p->slice = fk_padded(fk_pieces(p->depth, fk_larger(slices, 1)), DEPTH);
  p->slices = fk_larger(fk_pieces(p->depth, fk_larger(p->slice, 1)), 1);
  p->partial = p->slices > 1 ? (typename P::sum *)algebra->workspace : NULL;
}

template <typename S, typename P>
static void launch(const struct fk_algebra *algebra, P p, int64_t matrices) {
  enum { ADDING = 256 };
  p.down = fk_pieces(p.C.n, S::ROWS);
  p.tiles = p.down * fk_pieces(p.C.d, S::COLS);
  cut_depths(algebra, &p, matrices);
  cudaFuncSetAttribute(product_kernel<S, P>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES);
  product_kernel<S, P><<<(unsigned)(p.tiles * p.slices * matrices), S::THREADS, S::BYTES, algebra->stream>>>(p);
  if (p.partial)
    add_kernel<<<fk_blocks(p.C.n * p.C.d * matrices, ADDING), ADDING, 0, algebra->stream>>>(p, matrices);
}

/* The tile of a large product. */
template <typename T, typename Out>
struct shapes {
  using wide = shape<T, Out, 128, 128, 4, 4, 3>;
};
template <typename Out>
struct shapes<__half2, Out> {
  using wide = shape<__half2, Out, 256, 128, 4, 2, 3>;
};

/* Chooses the tiles: thin ones for few columns, small ones if wide ones are too few or do not fit. */
template <typename T, typename Out>
static void run(const struct fk_algebra *algebra, const struct product<T, Out> &p, int64_t matrices) {
  using wide = typename shapes<T, Out>::wide;
  using small = shape<T, Out, 64, 64, 2, 2, 3>;
  using thin = shape<T, Out, 128, 16, 4, 1, 3>;
  const int64_t tiles = fk_pieces(p.C.n, wide::ROWS) * fk_pieces(p.C.d, wide::COLS) * matrices;
  if (p.C.d <= thin::COLS) return launch<thin>(algebra, p, matrices);
  if (tiles < algebra->multiprocessors || wide::BYTES > algebra->shared_most)
    return launch<small>(algebra, p, matrices);
  launch<wide>(algebra, p, matrices);
}

/* A product whose C has its columns in memory, and is not thin from the wrong side. */
template <typename T, typename Out>
static void orient(const struct fk_algebra *algebra, struct product<T, Out> p, int64_t matrices) {
  enum { FEW = 16 };
  if (p.C.n == 0 || p.C.d == 0 || matrices == 0) return;
  const bool flat = p.C.n <= FEW, thin = p.C.d <= FEW, turn = flat != thin ? flat : p.C.down != 1;
  if (!turn) return run(algebra, p, matrices);
  const enum fk_part parts[] = {FK_ALL, FK_ABOVE, FK_LOWER};
  struct product<T, Out> q = p;
  q.a = p.b, q.b = p.a, q.C = p.C.turned(), q.part = parts[p.part];
  run(algebra, q, matrices);
}

template <typename T>
void fk_product(const struct fk_algebra *algebra, T alpha, fk_view<const T> A, fk_view<const T> B, T beta,
                fk_view<T> C, enum fk_part part, struct fk_batch batch) {
  struct product<T, T> p = {};
  p.a = {A.at, A.down, A.right, batch.a}, p.b = {B.at, B.right, B.down, batch.b}, p.C = C, p.batch = batch.c;
  p.depth = alpha == 0 ? 0 : A.d;
  p.alpha = alpha, p.beta = beta, p.part = part;
  orient(algebra, p, batch.count);
}
template void fk_product(const struct fk_algebra *, double, fk_view<const double>, fk_view<const double>, double,
                         fk_view<double>, enum fk_part, struct fk_batch);
template void fk_product(const struct fk_algebra *, float, fk_view<const float>, fk_view<const float>, float,
                         fk_view<float>, enum fk_part, struct fk_batch);

template <typename Out>
bool fk_product_halves(const struct fk_algebra *algebra, float alpha, fk_view<const __half> A,
                       fk_view<const __half> B, float beta, fk_view<Out> C, struct fk_batch batch) {
  const uint64_t vectors =
      (uint64_t)A.at | (uint64_t)B.at | (uint64_t)(2 * (A.right | B.right | batch.a | batch.b));
  if (vectors % 16 || A.n % 2) return false;
  struct product<__half2, Out> p = {};
  p.a = {(const __half2 *)A.at, A.right / 2, 1, batch.a / 2};
  p.b = {(const __half2 *)B.at, B.right / 2, 1, batch.b / 2};
  p.C = C, p.batch = batch.c;
  p.depth = alpha == 0 ? 0 : A.n / 2;
  p.alpha = alpha, p.beta = beta;
  orient(algebra, p, batch.count);
  return true;
}
template bool fk_product_halves(const struct fk_algebra *, float, fk_view<const __half>, fk_view<const __half>,
                                float, fk_view<float>, struct fk_batch);
template bool fk_product_halves(const struct fk_algebra *, float, fk_view<const __half>, fk_view<const __half>,
                                float, fk_view<__half>, struct fk_batch);

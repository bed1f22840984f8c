/* Kernel sums by mma.sync, for every GPU since Ampere; tensor.cuh explains the numbers.
 * || A warp holds 16 MT rows. For each 16 columns it computes the exponents of 16 x 16 tiles in its accumulators.
 * Their layout is that of the left operand of the next product, so the kernels, rounded to FP16, go straight into
 * kernel x values. Columns come through shared memory in two stages: a column's hi, lo and values side by side,
 * each row padded by 16 bytes so that eight rows of a matrix lie in different banks. */
#include "mma_block.cuh"

template <int STEPS, int VALUES, bool COORDINATES, bool PLAIN>
static __global__ void __launch_bounds__(THREADS) mma_kernel(const struct fk_tensor_task a) {
  extern __shared__ __align__(16) char shared[];
  typedef struct mma_shape<STEPS, VALUES, COORDINATES> shape;
  struct mma_block<STEPS, VALUES, COORDINATES, PLAIN> block(a, shared);
  if (block.is_none()) return;
  const int64_t begin = block.begin, end = block.end;
  const int flush = block.flush_columns();
  bool first = true;
  block.load_rows();
  block.clear();
  if (shape::near) block.clear_near();
  block.fetch_points(0, begin, 0);
  block.fetch_values(0, begin);
  copy_commit();
  for (int64_t col = begin; col < end; col += STAGE) {
    int stage = (int)((col - begin) / STAGE) & 1;
    if (col + STAGE < end) {
      block.fetch_points(stage ^ 1, col + STAGE, 0);
      block.fetch_values(stage ^ 1, col + STAGE);
    }
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    block.do_stage(stage, col);
    if (shape::near && (col + STAGE - begin) % FK_TENSOR_VALUE_FLUSH == 0) block.settle();
    if ((col + STAGE - begin) % flush == 0 || col + STAGE >= end) {
      if (shape::near) block.fetch_settled();
      block.flush(first);
      first = false;
    }
    __syncthreads();
  }
  if (!VALUES) block.store_mass();
}

/* For many dimensions: the exponents of a stage's 64 columns grow slice by slice, all high parts first and then
 * all low parts, which gives the same numbers as the kernel above. */
template <int VALUES>
static __global__ void __launch_bounds__(THREADS) mma_deep_kernel(const struct fk_tensor_task a) {
  typedef struct mma_block<0, VALUES, false, false> mma;
  typedef struct mma_shape<0, VALUES, false> shape;
  extern __shared__ __align__(16) char shared[];
  mma block(a, shared);
  const int64_t begin = block.begin, end = block.end;
  int slices = a.cols.k / SLICE, rounds = 2 * slices;
  const int flush = block.flush_columns();
  bool first = true;
  block.load_rows();
  block.clear();
  for (int64_t col = begin; col < end; col += STAGE) {
    float e[STAGE / 16][mma::MT][2][4];
    block.fetch_points(0, col, 0);
    block.fetch_values(0, col);
    copy_commit();
    for (int i = 0; i < rounds; i++) {
      int stage = i & 1;
      if (i + 1 < rounds) block.fetch_points(stage ^ 1, col, (i + 1) % slices * SLICE);
      copy_commit();
      copy_wait<1>();
      __syncthreads();
      uint32_t high[mma::MT][4], low[mma::MT][4];
      block.load_row_slice(high, low, stage);
#pragma unroll
      for (int b = 0; b < STAGE; b += 16) {
        uint32_t columns[4];
        block.load_columns(columns, block.points(stage), b, 0, 0);
#pragma unroll
        for (int m = 0; m < mma::MT; m++) {
          if (i == 0) block.start(e[b / 16][m], m, block.offsets(stage), b);
          mma::multiply(e[b / 16][m], i < slices ? high[m] : low[m], columns);
        }
        if (i < slices) continue;
        block.load_columns(columns, block.points(stage), b, 1, 0);
#pragma unroll
        for (int m = 0; m < mma::MT; m++) {
          mma::multiply(e[b / 16][m], high[m], columns);
          mma::multiply(e[b / 16][m], low[m], columns);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int b = 0; b < STAGE; b += 16) {
#pragma unroll
      for (int m = 0; m < mma::MT; m++) block.to_kernels(e[b / 16][m], m, col + b);
      block.add_up(e[b / 16], NULL, block.values(0), b);
    }
    if ((col + STAGE - begin) % flush == 0 || col + STAGE >= end) {
      block.flush(first);
      first = false;
    }
    __syncthreads();
  }
  if (!VALUES) block.store_mass();
}

/* ---- launches --------------------------------------------------------------------------------- */

template <typename Kernel>
static cudaError_t launch(Kernel kernel, int rows, int bytes, const struct fk_tensor_task *task,
                          cudaStream_t stream) {
  cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (code != cudaSuccess) return code;
  kernel<<<dim3(fk_blocks(task->n_rows, rows), (unsigned)task->slots), THREADS, (size_t)bytes, stream>>>(*task);
  return cudaGetLastError();
}

template <int STEPS, int VALUES, bool COORDINATES>
static cudaError_t launch_shape(const struct fk_tensor_task *task, cudaStream_t stream) {
  typedef struct mma_shape<STEPS, VALUES, COORDINATES> shape;
  bool plain = !task->factor0 && !task->weight && task->self == INT64_MIN;
  return plain
             ? launch(mma_kernel<STEPS, VALUES, COORDINATES, true>, shape::rows, shape::shared_bytes, task, stream)
             : launch(mma_kernel<STEPS, VALUES, COORDINATES, false>, shape::rows, shape::shared_bytes, task,
                      stream);
}

template <int VALUES>
static cudaError_t launch_deep(const struct fk_tensor_task *task, cudaStream_t stream) {
  typedef struct mma_shape<0, VALUES, false> shape;
  return launch(mma_deep_kernel<VALUES>, shape::rows, shape::shared_bytes, task, stream);
}

enum { NARROW = 3, WIDE = FK_MMA_VALUES / 8 + 1 }; /* tiles of values */

template <int STEPS>
static cudaError_t launch_values(const struct fk_tensor_task *task, cudaStream_t stream) {
  if (!task->has_values) return launch_shape<STEPS, 0, false>(task, stream);
  if (!task->values.hi) return launch_shape<STEPS, 2 * STEPS, true>(task, stream);
  if (task->values.width == 8 * NARROW) return launch_shape<STEPS, NARROW, false>(task, stream);
  return launch_shape<STEPS, WIDE, false>(task, stream);
}

/* The widths for which kernels exist; packing pads to them. */
int fk_mma_value_width(int n_values, int k) { return k <= 64 && n_values < 8 * NARROW ? 8 * NARROW : 8 * WIDE; }

cudaError_t fk_mma_launch(const struct fk_tensor_task *task, cudaStream_t stream) {
  switch (task->cols.k / 16) {
    case 1: return launch_values<1>(task, stream);
    case 2: return launch_values<2>(task, stream);
    case 3: return launch_values<3>(task, stream);
    case 4: return launch_values<4>(task, stream);
  }
  return task->has_values ? launch_deep<WIDE>(task, stream) : launch_deep<0>(task, stream);
}

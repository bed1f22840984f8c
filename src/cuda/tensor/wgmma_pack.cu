/* Columns for the wgmma kernels, packed as they lie in shared memory (wgmma_layout.cuh). */
#include "sums_wgmma.cuh"

#ifdef FK_CUDA_SM90A

#include "wgmma_layout.cuh"

namespace {

struct pack_args {
  struct layout layout;
  struct fk_tensor_points cols;
  struct fk_tensor_values values;
  const float *weight, *factor;
  char *packed;
};

__device__ __forceinline__ uint4 block_of_column(const struct pack_args &a, int block, int64_t col) {
  const struct layout &l = a.layout;
  int kb = a.cols.k / 8;
  bool present = col < a.cols.n_pad;
  const __half *from = NULL;
  if (block == l.ones) return make_uint4(0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u);
  if (block == l.offsets) return offset_features(pieces_of(present ? a.cols.offset[col] : -INFINITY), false);
  if (block >= l.hi && block < l.hi + kb) from = a.cols.hi + col * a.cols.k + 8 * (block - l.hi);
  if (block >= l.lo && block < l.lo + kb) from = a.cols.lo + col * a.cols.k + 8 * (block - l.lo);
  if (l.value_hi != NONE && block >= l.value_hi && block < l.offsets) {
    bool low = block >= l.value_lo;
    int feature = 8 * (block - (low ? l.value_lo : l.value_hi));
    if (feature < a.values.width) from = (low ? a.values.lo : a.values.hi) + col * a.values.width + feature;
  }
  return from && present ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
}

__global__ void pack_kernel(const __grid_constant__ struct pack_args a) {
  const struct layout &l = a.layout;
  char *stage = a.packed + (int64_t)blockIdx.x * l.bytes;
  int64_t first = (int64_t)blockIdx.x * l.cols;
  for (int i = threadIdx.x; i < l.n_blocks * l.cols; i += blockDim.x)
    ((uint4 *)stage)[i] = block_of_column(a, i / l.cols, first + i % l.cols);
  float *floats = (float *)(stage + l.floats_at);
  for (int i = threadIdx.x; i < (l.bytes - l.floats_at) / (int)sizeof(float); i += blockDim.x) {
    const float *from = i < l.cols ? a.weight : a.factor;
    float absent = i < l.cols ? 1.0f : 0.0f;
    int64_t col = first + i % l.cols;
    floats[i] = from && col < a.cols.n_pad ? from[col] : absent;
  }
}

/* To pack weights into columns that are packed already. */
struct weigh_args {
  struct layout layout;
  const float *weight;
  int64_t n_columns, n_pad; /* number of columns of all stages; number of columns with a weight */
  char *packed;
};

__global__ void weigh_kernel(const __grid_constant__ struct weigh_args a) {
  int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= a.n_columns) return;
  float *floats = (float *)(a.packed + col / a.layout.cols * a.layout.bytes + a.layout.floats_at);
  floats[col % a.layout.cols] = col < a.n_pad ? a.weight[col] : 0.0f;
}

struct layout layout_for(const struct fk_tensor_task *task) {
  return layout_of(task->cols.k, width_of(task), extra_of(task));
}

} // namespace

size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *task) {
  struct layout l = layout_for(task);
  return (size_t)((task->cols.n_pad + l.cols - 1) / l.cols) * l.bytes;
}

static struct fk_tensor_task rows_as_columns(const struct fk_tensor_task *task) {
  struct fk_tensor_task t = {};
  t.cols = t.rows = task->rows;
  t.short_sums = true;
  return t;
}

size_t fk_wgmma_row_bytes(const struct fk_tensor_task *task) {
  struct fk_tensor_task t = rows_as_columns(task);
  return task->rows.k > FK_TENSOR_WIDE ? fk_wgmma_pack_bytes(&t) : 0;
}

cudaError_t fk_wgmma_pack_rows(const struct fk_tensor_task *task, void *stages, cudaStream_t stream) {
  struct fk_tensor_task t = rows_as_columns(task);
  return fk_wgmma_pack(&t, stages, stream);
}

/* Packs the columns once, for launches over any rows with any slots. */
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *task, void *packed, cudaStream_t stream) {
  struct pack_args a;
  a.layout = layout_for(task);
  a.cols = task->cols, a.values = task->values;
  a.weight = task->has_values ? NULL : task->weight, a.factor = task->col_factor;
  a.packed = (char *)packed;
  pack_kernel<<<(unsigned)((task->cols.n_pad + a.layout.cols - 1) / a.layout.cols), 256, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t fk_wgmma_weigh(const struct fk_tensor_task *task, void *packed, cudaStream_t stream) {
  struct weigh_args a = {layout_for(task), task->weight};
  a.n_pad = task->cols.n_pad;
  a.n_columns = (a.n_pad + a.layout.cols - 1) / a.layout.cols * a.layout.cols;
  a.packed = (char *)packed;
  weigh_kernel<<<(unsigned)((a.n_columns + 255) / 256), 256, 0, stream>>>(a);
  return cudaGetLastError();
}

#else

size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *) { return 0; }
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *, void *, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t fk_wgmma_weigh(const struct fk_tensor_task *, void *, cudaStream_t) { return cudaErrorNotSupported; }
size_t fk_wgmma_row_bytes(const struct fk_tensor_task *) { return 0; }
cudaError_t fk_wgmma_pack_rows(const struct fk_tensor_task *, void *, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif

/* Sorts the points of a chunk by cell: keys, a stable radix sort of (key, index) on the bits in use, and the
 * points' fractions within their cells, which stay in place and are read through the index. */

#include "../device/cub.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "grid.cuh"

template <typename T, int R>
struct alignas(sizeof(T) * R < 16 ? sizeof(T) * R : 16) record {
  T f[R];
};

template <typename T, int D>
static __global__ void __launch_bounds__(FK_THREADS)
    keys_kernel(const __grid_constant__ struct fk_grid_map map, const __grid_constant__ struct fk_grid_box box,
                const double *x, int64_t ld, int count, unsigned *key, unsigned *index, T *records) {
  const int R = D == 1 ? 1 : D == 2 ? 2 : D <= 4 ? 4 : 8;
  int i = blockIdx.x * FK_THREADS + threadIdx.x;
  if (i >= count) return;
  double y[D];
  fk_grid_place<D>(map, x, ld, i, y);
  struct record<T, R> r;
  unsigned node = 0;
  bool inside = true;
#pragma unroll
  for (int k = 0; k < R; k++) r.f[k] = 0;
#pragma unroll
  for (int k = 0; k < D; k++) {
    double cell = floor(y[k]);
    int at = fabs(cell) < 9e18 ? fk_grid_node(box.axis[k], (int64_t)cell) : -1;
    inside &= at >= 0;
    node += (unsigned)at * box.axis[k].stride;
    r.f[k] = (T)(y[k] - cell);
  }
  key[i] = inside ? node : box.nodes;
  index[i] = (unsigned)i;
  ((struct record<T, R> *)records)[i] = r;
}

template <typename T>
static cudaError_t make_keys(const struct fk_cuda_grid *grid, const struct fk_grid_box *box, const double *x,
                             int64_t ld, int count, unsigned *key, unsigned *index, void *records) {
  fk_with_constant<1, FK_GRID_MAX_D>(grid->spec.map.d, [&](auto d) {
    keys_kernel<T, decltype(d)::value><<<fk_blocks(count, FK_THREADS), FK_THREADS, 0, grid->context->stream>>>(
        grid->spec.map, *box, x, ld, count, key, index, (T *)records);
  });
  return cudaGetLastError();
}

static int bits_of(unsigned most) {
  int bits = 1;
  while (bits < 32 && most >> bits) bits++;
  return bits;
}

/* CUB's own memory is less than a byte per point, for counters of its tiles. */
double fk_cuda_grid_sort_bytes(const struct fk_cuda_grid_spec *spec) {
  double number = fk_grid_is_single(spec) ? 4 : 8;
  return (double)spec->chunk * (16 + number * fk_grid_record(spec->map.d) + 1) + (1 << 20);
}

enum fk_status fk_cuda_grid_sort(struct fk_cuda_grid *grid, const struct fk_grid_box *box, const double *x,
                                 int64_t ld, int count, struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  bool single = fk_grid_is_single(&grid->spec);
  if (grid->sorted_x == x && grid->sorted.count == count &&
      (grid->sorted_box == box || (grid->same_axes && grid->sorted_box)))
    return FK_STATUS_OK;
  grid->sorted_x = NULL;
  int64_t most = fk_padded(grid->spec.chunk, 256);
  int bits = bits_of(box->nodes);
  cub::DoubleBuffer<unsigned> keys, indices;
  size_t temporary = 0, numbers = 4 * sizeof(unsigned) * (size_t)most,
         records = (size_t)most * fk_grid_record(grid->spec.map.d) * (single ? sizeof(float) : sizeof(double));
  FK_CUDA_TRY(cub::DeviceRadixSort::SortPairs(NULL, temporary, keys, indices, (int)most, 0, 32, context->stream));
  char *block;
  FK_TRY(fk_cuda_room(context, &context->grid->sort, (int64_t)(numbers + records + temporary), &block, err));
  unsigned *key = (unsigned *)block, *index = key + 2 * most;
  void *fractions = block + numbers;
  keys = cub::DoubleBuffer<unsigned>(key, key + most);
  indices = cub::DoubleBuffer<unsigned>(index, index + most);
  FK_CUDA_TRY(single ? make_keys<float>(grid, box, x, ld, count, key, index, fractions)
                     : make_keys<double>(grid, box, x, ld, count, key, index, fractions));
  FK_CUDA_TRY(cub::DeviceRadixSort::SortPairs(block + numbers + records, temporary, keys, indices, count, 0, bits,
                                              context->stream));
  grid->sorted = (struct fk_grid_sorted){keys.Current(), indices.Current(), fractions, count};
  grid->sorted_x = x;
  grid->sorted_box = box;
  return FK_STATUS_OK;
}

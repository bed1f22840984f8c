/* See sort.cuh. */
#include "cub.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "sort.cuh"

enum fk_status fk_cuda_sort(struct fk_cuda_context *context, const struct fk_cuda_sort *s, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  size_t bytes = 0;
  char *room;
  FK_CUDA_TRY(cub::DeviceRadixSort::SortPairs(NULL, bytes, s->key, s->sorted, s->value, s->order, (int)s->n, 0,
                                              s->bits, context->stream));
  FK_TRY(fk_cuda_take(context, &arena, (int64_t)bytes, &room, err));
  return FK_CUDA_STATUS(cub::DeviceRadixSort::SortPairs(room, bytes, s->key, s->sorted, s->value, s->order,
                                                        (int)s->n, 0, s->bits, context->stream));
}

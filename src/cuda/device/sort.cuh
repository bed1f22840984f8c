/* CUB's sort and running totals, of the types that all but grids want, so that they are built once. */
#ifndef FK_CUDA_SORT_CUH
#define FK_CUDA_SORT_CUH

#include "common.cuh"

/* Numbers by the lowest `bits` bits of their keys; where those are the same they stay in their order. */
struct fk_cuda_sort {
  const uint64_t *key;
  uint64_t *sorted;
  const int *value;
  int *order; /* the values, as their keys are sorted */
  int64_t n;
  int bits;
};
enum fk_status fk_cuda_sort(struct fk_cuda_context *context, const struct fk_cuda_sort *sort,
                            struct fk_error *err);

#endif

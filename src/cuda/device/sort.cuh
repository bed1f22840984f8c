/* CUB's sort and prefix sums for the types that all files but the grid's need, compiled once. */
#ifndef FK_CUDA_SORT_CUH
#define FK_CUDA_SORT_CUH

#include "common.cuh"

/* Stable sort of numbers by the lowest `bits` bits of their keys. */
struct fk_cuda_sort {
  const uint64_t *key;
  uint64_t *sorted;
  const int *value;
  int *order; /* the values, in the order of their sorted keys */
  int64_t n;
  int bits;
};
enum fk_status fk_cuda_sort(struct fk_cuda_context *context, const struct fk_cuda_sort *sort,
                            struct fk_error *err);

#endif

/* Kernels of some rows and columns as an FP64 matrix: what exact sums need from normal/tiles.cu. */
#ifndef FK_CUDA_KERNEL_TILE_CUH
#define FK_CUDA_KERNEL_TILE_CUH

#include "../device/libraries.cuh"
#include "../points/points.cuh"

struct fk_kernel_tile {
  struct fk_kernel_form form;
  struct fk_cuda_points columns, rows;      /* subsets of whitened points */
  const double *column_square, *row_square; /* |u|^2 */
  double *kernels;                          /* [row][ld]; 0 from column columns.n on */
  int64_t ld;
};
struct fk_kernel_tile_ops {
  enum fk_status (*fill)(struct fk_cuda_context *context, struct fk_blas blas, const struct fk_kernel_tile *tile,
                         struct fk_error *err);
};
extern const struct fk_kernel_tile_ops fk_kernel_tiles;

#endif

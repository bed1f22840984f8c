/* Kernels of some rows and columns as a matrix in FP64: what exact sums ask of normal products, whose tiles.cu fills
 * the table. */
#ifndef FK_CUDA_KERNEL_TILE_CUH
#define FK_CUDA_KERNEL_TILE_CUH

#include "../device/libraries.cuh"
#include "../points/points.cuh"

#ifdef FK_CUDA_LIBRARIES

struct fk_kernel_tile {
  struct fk_kernel_form form;
  struct fk_cuda_points columns, rows;      /* parts of whitened points */
  const double *column_square, *row_square; /* |u|^2 */
  double *kernels;                          /* [row][ld]; 0 from columns.n on */
  int64_t ld;
};
struct fk_kernel_tile_ops {
  enum fk_status (*fill)(struct fk_cuda_context *context, cublasHandle_t blas, const struct fk_kernel_tile *tile,
                         struct fk_error *err);
};
extern const struct fk_kernel_tile_ops fk_kernel_tiles;

#endif
#endif

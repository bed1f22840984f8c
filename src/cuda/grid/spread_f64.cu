/* Spreading in FP64. */
#include "spread.cuh"

enum fk_status fk_grid_spread_f64(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err) {
  return fk_with_constant<FK_GRID_NARROWEST, FK_GRID_WIDEST_F64>(grid->spec.window.width, [&](auto width) {
    return spread<double, decltype(width)::value>(grid, b, ld_b, err);
  });
}

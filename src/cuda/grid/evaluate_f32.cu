/* Interpolation in FP32. */
#include "evaluate.cuh"

enum fk_status fk_grid_evaluate_f32(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                                    struct fk_error *err) {
  return fk_with_constant<FK_GRID_NARROWEST, FK_GRID_WIDEST_F32>(grid->spec.window.width, [&](auto width) {
    return evaluate<float, decltype(width)::value>(grid, value, gradient, ld, err);
  });
}

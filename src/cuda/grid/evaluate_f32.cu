/* Interpolation in FP32. */
#include "evaluate.cuh"

enum fk_status fk_grid_evaluate_f32(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                                    struct fk_error *err) {
  switch (grid->spec.window.width) {
    case 3: return evaluate<float, 3>(grid, value, gradient, ld, err);
    case 4: return evaluate<float, 4>(grid, value, gradient, ld, err);
    case 5: return evaluate<float, 5>(grid, value, gradient, ld, err);
    case 6: return evaluate<float, 6>(grid, value, gradient, ld, err);
    case 7: return evaluate<float, 7>(grid, value, gradient, ld, err);
    case 8: return evaluate<float, 8>(grid, value, gradient, ld, err);
    case 9: return evaluate<float, 9>(grid, value, gradient, ld, err);
    default: return fk_fail(err, FK_STATUS_INTERNAL, "no window of width %d", grid->spec.window.width);
  }
}

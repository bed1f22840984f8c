/* Interpolation in FP64. */
#include "evaluate.cuh"

enum fk_status fk_grid_evaluate_f64(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                                    struct fk_error *err) {
  switch (grid->spec.window.width) {
    case 3: return evaluate<double, 3>(grid, value, gradient, ld, err);
    case 4: return evaluate<double, 4>(grid, value, gradient, ld, err);
    case 5: return evaluate<double, 5>(grid, value, gradient, ld, err);
    case 6: return evaluate<double, 6>(grid, value, gradient, ld, err);
    case 7: return evaluate<double, 7>(grid, value, gradient, ld, err);
    case 8: return evaluate<double, 8>(grid, value, gradient, ld, err);
    case 9: return evaluate<double, 9>(grid, value, gradient, ld, err);
    case 10: return evaluate<double, 10>(grid, value, gradient, ld, err);
    case 11: return evaluate<double, 11>(grid, value, gradient, ld, err);
    case 12: return evaluate<double, 12>(grid, value, gradient, ld, err);
    case 13: return evaluate<double, 13>(grid, value, gradient, ld, err);
    default: return fk_fail(err, FK_STATUS_INTERNAL, "no window of width %d", grid->spec.window.width);
  }
}

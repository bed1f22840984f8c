/* Spreading in FP64. */
#include "spread.cuh"

enum fk_status fk_grid_spread_f64(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err) {
  switch (grid->spec.window.width) {
    case 3: return spread<double, 3>(grid, b, ld_b, err);
    case 4: return spread<double, 4>(grid, b, ld_b, err);
    case 5: return spread<double, 5>(grid, b, ld_b, err);
    case 6: return spread<double, 6>(grid, b, ld_b, err);
    case 7: return spread<double, 7>(grid, b, ld_b, err);
    case 8: return spread<double, 8>(grid, b, ld_b, err);
    case 9: return spread<double, 9>(grid, b, ld_b, err);
    case 10: return spread<double, 10>(grid, b, ld_b, err);
    case 11: return spread<double, 11>(grid, b, ld_b, err);
    case 12: return spread<double, 12>(grid, b, ld_b, err);
    case 13: return spread<double, 13>(grid, b, ld_b, err);
    default: return fk_fail(err, FK_STATUS_INTERNAL, "no window of width %d", grid->spec.window.width);
  }
}

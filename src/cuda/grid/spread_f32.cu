/* Spreading in FP32. */
#include "spread.cuh"

enum fk_status fk_grid_spread_f32(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err) {
  switch (grid->spec.window.width) {
    case 3: return spread<float, 3>(grid, b, ld_b, err);
    case 4: return spread<float, 4>(grid, b, ld_b, err);
    case 5: return spread<float, 5>(grid, b, ld_b, err);
    case 6: return spread<float, 6>(grid, b, ld_b, err);
    case 7: return spread<float, 7>(grid, b, ld_b, err);
    case 8: return spread<float, 8>(grid, b, ld_b, err);
    case 9: return spread<float, 9>(grid, b, ld_b, err);
    default: return fk_fail(err, FK_STATUS_INTERNAL, "no window of width %d", grid->spec.window.width);
  }
}

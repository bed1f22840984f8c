/* Registers the routines and, when the library is loaded, chooses the instruction set. */
#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#include "core/gpu.h"
#include "core/pool.h"
#include "core/threads.h"
#include "cpu/tile.h"
#include "fk_config.h"
#include "r/ffi.h"
#include "r/operator.h"

#define ROUTINE(routine, arguments)                                                                               \
  { .name = #routine, .fun = (DL_FUNC)(void (*)(void)) & routine, .numArgs = arguments }

/* clang-format off */
static const R_CallMethodDef routines[] = {
    ROUTINE(ffi_plan, 1),
    ROUTINE(ffi_send_points, 2),
    ROUTINE(ffi_handles, 0),
    ROUTINE(ffi_kernel_sum, 5),
    ROUTINE(ffi_sign_sums, 4),
    ROUTINE(ffi_pairs_share, 3),
    ROUTINE(ffi_normal_product, 7),
    ROUTINE(ffi_log_sum, 5),
    ROUTINE(ffi_score, 6),
    ROUTINE(ffi_debias, 3),
    ROUTINE(ffi_dominants, 2),
    ROUTINE(ffi_score_means, 2),
    ROUTINE(ffi_sdkde_loo, 5),
    ROUTINE(ffi_cdf, 6),
    ROUTINE(ffi_conditional, 2),
    ROUTINE(ffi_window_sums, 3),
    ROUTINE(ffi_line_moments, 5),
    ROUTINE(ffi_markov, 4),
    ROUTINE(ffi_pair_moments, 3),
    ROUTINE(ffi_pair_scales, 3),
    ROUTINE(ffi_lattice_forms, 5),
    ROUTINE(ffi_level_sums, 2),
    ROUTINE(ffi_stream_rows, 2),
    ROUTINE(ffi_stream_open, 7),
    ROUTINE(ffi_stream_clone, 1),
    ROUTINE(ffi_stream_pack, 1),
    ROUTINE(ffi_stream_take, 2),
    ROUTINE(ffi_stream_expect, 3),
    ROUTINE(ffi_stream_add, 4),
    ROUTINE(ffi_stream_evaluate, 5),
    ROUTINE(ffi_stream_close, 1),
    ROUTINE(ffi_sparse_norms, 4),
    ROUTINE(ffi_sparse_kernels, 6),
    ROUTINE(ffi_row_loss, 6),
    ROUTINE(ffi_row_loss_sum, 7),
    ROUTINE(ffi_column_products, 3),
    ROUTINE(ffi_round_columns, 4),
    ROUTINE(ffi_combine_columns, 4),
    ROUTINE(ffi_stretched_slopes, 3),
    ROUTINE(ffi_matrix_product, 4),
    ROUTINE(ffi_store, 3),
    ROUTINE(ffi_store_kernels, 3),
    ROUTINE(ffi_stored_normal, 7),
    ROUTINE(ffi_kernel_matrix, 3),
    ROUTINE(ffi_ridge_paths, 2),
    ROUTINE(ffi_gradient_products, 2),
    ROUTINE(ffi_inverse, 2),
    ROUTINE(ffi_preconditioner, 6),
    ROUTINE(ffi_precondition, 5),
    ROUTINE(ffi_apply_factors, 3),
    ROUTINE(ffi_factor, 3),
    ROUTINE(ffi_free_preconditioner, 1),
    ROUTINE(ffi_all_finite, 1),
    ROUTINE(ffi_far_centre, 3),
    ROUTINE(ffi_row_keys, 2),
    ROUTINE(ffi_any_equal, 2),
    ROUTINE(ffi_neighbour_distances, 4),
    ROUTINE(ffi_polygon_masses, 5),
    ROUTINE(ffi_derivatives, 2),
    ROUTINE(ffi_whiten_doubled, 3),
    ROUTINE(ffi_rectangles, 2),
    ROUTINE(ffi_cube_sums, 2),
    ROUTINE(ffi_identity, 1),
    ROUTINE(ffi_kernels, 0),
    ROUTINE(ffi_resolve, 5),
    ROUTINE(ffi_nominal_costs, 0),
    ROUTINE(ffi_guess, 5),
    ROUTINE(ffi_can, 4),
    ROUTINE(ffi_hint, 7),
    ROUTINE(ffi_backend_info, 0),
    ROUTINE(ffi_is_diagonal, 1),
    ROUTINE(ffi_machine_memory, 0),
    ROUTINE(ffi_gpu_info, 0),
    ROUTINE(ffi_gpu_use, 1),
    ROUTINE(ffi_gpu_try, 1),
    ROUTINE(ffi_sha256, 1),
    ROUTINE(ffi_gpu_release, 0),
    ROUTINE(ffi_fma_rate, 3),
#if FK_WITH_TESTS
    ROUTINE(ffi_test, 2),
#endif
    {NULL, NULL, 0},
};
/* clang-format on */

/* Ends the threads and closes the GPU engine, which would otherwise call code that has been unloaded. */
void attribute_visible R_unload_flashkernel(FK_UNUSED DllInfo *dll) {
  fk_gpu_close();
  fk_pool_stop();
}

/* Without dynamic symbols, R finds the routine to call before unloading only if it is registered. */
static const R_CMethodDef at_unload[] = {ROUTINE(R_unload_flashkernel, 1), {.name = NULL}};

void attribute_visible R_init_flashkernel(DllInfo *dll) {
  R_registerRoutines(dll, at_unload, routines, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  fk_threads_init();
  fk_isa_choose();
  r_init_resident(dll);
}

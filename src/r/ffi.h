/* The routines that R calls by .Call(); init.c registers them. Their arguments are described with the R functions
 * that call them and with the functions of fk.h that they call. */
#pragma once

#include "glue.h"

SEXP ffi_plan(SEXP sent);
SEXP ffi_send_points(SEXP x, SEXP control);
SEXP ffi_handles(void);
SEXP ffi_pairs_share(SEXP sources, SEXP y, SEXP control);
SEXP ffi_sign_sums(SEXP sources, SEXP y, SEXP b, SEXP control);
SEXP ffi_kernel_sum(SEXP sources, SEXP y, SEXP b, SEXP as_matrix, SEXP control);
SEXP ffi_normal_product(SEXP sources, SEXP rows, SEXP v, SEXP w, SEXP weights, SEXP with_sums, SEXP control);
SEXP ffi_log_sum(SEXP sources, SEXP y, SEXP factor, SEXP loo, SEXP control);
SEXP ffi_score(SEXP sources, SEXP y, SEXP factor, SEXP loo, SEXP names, SEXP control);
SEXP ffi_debias(SEXP sources, SEXP chol, SEXP control);
SEXP ffi_dominants(SEXP job, SEXP control);
SEXP ffi_score_means(SEXP sources, SEXP control);
SEXP ffi_sdkde_loo(SEXP sources, SEXP chol, SEXP widths, SEXP held_out, SEXP control);
SEXP ffi_pair_moments(SEXP job, SEXP order, SEXP control);
SEXP ffi_pair_scales(SEXP job, SEXP powers, SEXP control);
SEXP ffi_level_sums(SEXP job, SEXP control);
SEXP ffi_cdf(SEXP x, SEXP cumulative_weights, SEXP h, SEXP y, SEXP corrected, SEXP control);
SEXP ffi_window_sums(SEXP windows, SEXP y, SEXP control);
SEXP ffi_lattice_forms(SEXP lattice, SEXP left, SEXP right, SEXP ends, SEXP control);
SEXP ffi_line_moments(SEXP line, SEXP at, SEXP own, SEXP loo, SEXP control);
SEXP ffi_stream_rows(SEXP n, SEXP m);
SEXP ffi_stream_open(SEXP x, SEXP y, SEXP checked, SEXP size, SEXP columns, SEXP chol, SEXP control);
SEXP ffi_stream_clone(SEXP stream);
SEXP ffi_stream_pack(SEXP stream);
SEXP ffi_stream_take(SEXP stream, SEXP other);
SEXP ffi_stream_expect(SEXP stream, SEXP y, SEXP control);
SEXP ffi_stream_add(SEXP stream, SEXP x, SEXP b, SEXP control);
SEXP ffi_stream_evaluate(SEXP stream, SEXP y, SEXP like, SEXP first, SEXP control);
SEXP ffi_stream_close(SEXP stream);
SEXP ffi_sparse_norms(SEXP rows, SEXP d, SEXP kernel, SEXP control);
SEXP ffi_sparse_kernels(SEXP rows, SEXP centres, SEXP first, SEXP count, SEXP kernel, SEXP control);
SEXP ffi_row_loss(SEXP part, SEXP kind, SEXP f, SEXP y, SEXP u, SEXP control);
SEXP ffi_row_loss_sum(SEXP kind, SEXP f, SEXP y, SEXP direction, SEXP length, SEXP weights, SEXP control);
SEXP ffi_column_products(SEXP a, SEXP b, SEXP control);
SEXP ffi_combine_columns(SEXP x, SEXP a, SEXP by, SEXP control);
SEXP ffi_stretched_slopes(SEXP k, SEXP power, SEXP control);
SEXP ffi_matrix_product(SEXP a, SEXP b, SEXP transposed, SEXP control);
SEXP ffi_stored_normal(SEXP transposed, SEXP v, SEXP w, SEXP weights, SEXP asked, SEXP control);
SEXP ffi_kernel_matrix(SEXP sources, SEXP y, SEXP control);
SEXP ffi_ridge_path(SEXP K, SEXP y, SEXP noises, SEXP with_own, SEXP control);
SEXP ffi_inverse(SEXP C, SEXP control);
SEXP ffi_preconditioner(SEXP K, SEXP diagonal, SEXP ladder, SEXP rough, SEXP control);
SEXP ffi_precondition(SEXP handle, SEXP weights, SEXP scale, SEXP lambda, SEXP progress);
SEXP ffi_apply_factors(SEXP handle, SEXP v, SEXP steps);
SEXP ffi_factor(SEXP handle, SEXP which, SEXP whole);
SEXP ffi_free_preconditioner(SEXP handle);
SEXP ffi_all_finite(SEXP x);
SEXP ffi_far_centre(SEXP x, SEXP weights, SEXP far);
SEXP ffi_row_keys(SEXP x);
SEXP ffi_neighbour_distances(SEXP x, SEXP y, SEXP rank, SEXP control);
SEXP ffi_polygon_masses(SEXP sides, SEXP centres, SEXP widths, SEXP moments, SEXP control);
SEXP ffi_derivatives(SEXP job, SEXP control);
SEXP ffi_whiten_doubled(SEXP x, SEXP centre, SEXP chol);
SEXP ffi_rectangles(SEXP job, SEXP control);
SEXP ffi_cube_sums(SEXP job, SEXP control);
SEXP ffi_conditional(SEXP job, SEXP control);
SEXP ffi_identity(SEXP x);
SEXP ffi_backend_info(void);
SEXP ffi_is_diagonal(SEXP factor);
SEXP ffi_machine_memory(void);
SEXP ffi_kernels(void);
SEXP ffi_resolve(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel);
SEXP ffi_nominal_costs(void);
SEXP ffi_guess(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel);
SEXP ffi_can(SEXP control, SEXP operation, SEXP d, SEXP kernel);
SEXP ffi_hint(SEXP control, SEXP n, SEXP m, SEXP d, SEXP kernel, SEXP own, SEXP share);
SEXP ffi_gpu_info(void);
SEXP ffi_gpu_use(SEXP path);
SEXP ffi_gpu_try(SEXP path);
SEXP ffi_sha256(SEXP path);
SEXP ffi_gpu_release(void);
SEXP ffi_fma_rate(SEXP seconds, SEXP single, SEXP threads);
SEXP ffi_test(SEXP name, SEXP arguments); /* src/tests */

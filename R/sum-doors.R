# The interface of all kernel sums: estimation, bandwidth selection, plots and draws call these functions, and each
# .Call() that sums is in this file, once. The class of the sources (sum-sources.R) decides how a sum is computed.
# Points in memory are passed to C. Other points are summed in groups (sum-over.R) or by workers. Sums of coefficients
# are computed chunk by chunk (sum-by-chunks.R), or with a tolerance by one grid for all chunks (sum-by-stream.R).
#
# Arguments and results in this file: `at` are the targets, a checked matrix, or NULL for the sources themselves.
# `control` is the result of run_control(). `stats` say what was computed where: see r_stats() in src/r/glue.c.

# ---- sums with their logarithms ---------------------------------------------------------------

# Returns list(log_abs, negative, stats): log |sum w f(q / 2) k|, with the polynomial f in `factor`, and whether the sum
# is negative, if the polynomial allows this. With `loo`, and the points as targets, each point's own term is omitted.
log_sum <- function(sources, at, factor, loo, control) {
  UseMethod("log_sum", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
log_sum.engine_sources <- function(sources, at, factor, loo, control) {
  .Call(ffi_log_sum, sources, at, factor, loo, control)
}

# Returns list(score, stats): the gradient of the logarithm of log_sum(), with the column names `names`.
score_sum <- function(sources, at, factor, loo, names, control) {
  UseMethod("score_sum", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
score_sum.engine_sources <- function(sources, at, factor, loo, names, control) {
  .Call(ffi_score, sources, at, factor, loo, names, control)
}

# ---- sums of coefficients ---------------------------------------------------------------------

# Returns list(sums, stats) for points in memory: sum b k, with a column for each column of `b`. The coefficients
# include the weights. The sums are a vector if `b` is one, unless `as_matrix`.
kernel_sum_of <- function(sources, at, b, control, as_matrix = FALSE) {
  UseMethod("kernel_sum_of", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
kernel_sum_of.engine_sources <- function(sources, at, b, control, as_matrix = FALSE) {
  kernel_sum_at(at, sources, b, control, as_matrix)
}

# Implements kernel_sum_of() with dispatch on where the targets are.
kernel_sum_at <- function(at, sources, b, control, as_matrix) UseMethod("kernel_sum_at")

#' @export
kernel_sum_at.default <- function(at, sources, b, control, as_matrix) {
  .Call(ffi_kernel_sum, sources, at, b, as_matrix, control)
}

# For kernels of sum(abs(u)), an m x d x t array: sums of b k sign(u - v), where u are the whitened sources, v the
# whitened targets `at`, and sign(0) is 0. Its products with L^-1 are the gradients of the sums of b k. `b`: n x t.
sign_sums_of <- function(sources, at, b, control) {
  found <- .Call(ffi_sign_sums, sources, at, b, control)$sums
  array(found, c(nrow(found), ncol(found) / ncol(b), ncol(b)))
}

# Returns list(product, stats): K'(W (K v + w)), where the kernel matrix K has the points of `sources` as columns and
# those of `rows` (NULL: of `sources`) as rows, both in memory. The matrices v and w and the vector `weights` may each
# be NULL. With `with_sums`, and v not NULL, the result also has `sums`, K v.
normal_product_of <- function(sources, rows, v, w, weights, control, with_sums = FALSE) UseMethod("normal_product_of")

#' @export
normal_product_of.engine_sources <- function(sources, rows, v, w, weights, control, with_sums = FALSE) {
  normal_product_at(rows, sources, v, w, weights, control, with_sums)
}

# Implements normal_product_of() with dispatch on where the rows are.
normal_product_at <- function(rows, sources, v, w, weights, control, with_sums) UseMethod("normal_product_at")

#' @export
normal_product_at.default <- function(rows, sources, v, w, weights, control, with_sums) {
  .Call(ffi_normal_product, sources, rows, v, w, weights, with_sums, control)
}

# Returns list(sums, stats, n, m, d) for points in memory or elsewhere. `sums` is NULL if the sums were written to
# `out`; `n`, `m` and `d` are the numbers of sources, targets and columns. `b`: checked coefficients, without the
# weights.
sum_kernels <- function(sources, at, b, control, out = NULL, chunk_rows = NULL) UseMethod("sum_kernels")

#' @export
sum_kernels.default <- function(sources, at, b, control, out = NULL, chunk_rows = NULL) {
  job <- sum_job(sources, at, n_sums(b), chunk_rows)
  out <- check_out(out)
  source <- chunk_source(\() source_chunks(sources, b, job), job$once)
  is_vector <- is.null(dim(b)) && source$peek()$is_vector
  check_out_size(out, job$m, n_sums(source$peek()$columns))
  sink <- sum_sink(out, is_vector)
  name_stage(control, "Summing kernels")
  if (!job$once) suggest_tolerance(control, job$n, job$m, job$d, sources, own = job$own)
  done <- if (may_stream(job, control)) sum_by_stream(job, source, sink, control)
  if (is.null(done)) done <- sum_by_chunks(job, source, sink, control)
  list(sums = sink$join(), stats = done$stats, n = done$n, m = nrow(job$targets), d = job$d)
}

# ---- both stages of an SD-KDE -----------------------------------------------------------------

# Returns list(debiased, stats): every source moved by H / 2 times the score, with H = L L'. `sources$L` is the factor
# of the bandwidth of the score.
debias_sum <- function(sources, L, control) {
  UseMethod("debias_sum", if (is.null(control$cluster)) sources else spread(sources, NULL, control))
}

#' @export
debias_sum.engine_sources <- function(sources, L, control) .Call(ffi_debias, sources, L, control)

#' @export
debias_sum.default <- function(sources, L, control) {
  found <- debias_scores(sources, control)
  squares <- if (is.null(found$squares)) 1 else found$squares
  list(debiased = sources$points + squares * (found$score %*% tcrossprod(L)) / 2, stats = found$stats)
}

# Returns list(score, squares, stats): the scores along which the sources move, and with local bandwidth factors their
# squares. The score is 0, and the point stays, where no kernel has weight.
debias_scores <- function(sources, control) UseMethod("debias_scores")

#' @export
debias_scores.default <- function(sources, control) {
  found <- score_sum(sources, NULL, PLAIN_FACTOR, FALSE, NULL, control)
  found$score[!is.finite(found$score)] <- 0
  found
}

# Returns list(log_sum, means, stats): at every source, the logarithm of the sum over the others, which are debiased
# without this source, and unless there are categories the kernel-weighted mean of all sources there. `widths`: for
# sources with local bandwidth factors, the members of struct fk_widths (src/core/loo.h); the weights of `sources` are
# then those of the score.
debiased_loo_sum <- function(sources, L, control, widths = NULL) UseMethod("debiased_loo_sum")

#' @export
debiased_loo_sum.default <- function(sources, L, control, widths = NULL) {
  stats <- NULL
  if (is.null(widths)) {
    share_stage(control, 0, 0.5)
    known <- score_means(sources, control)
    widths <- c(known[c("means", "log_mass")], list(weights = sources$weights))
    found <- dominated_points(sources, NULL, known$log_mass, control)
    widths <- with_dominated(widths, found, away_from_dominant(sources$points, found), sources$L, L)
    stats <- joined_stats(known$stats, found$stats)
    share_stage(control, 0.5, 0.5)
  }
  sums <- debiased_loo_at(sources, L, widths, NULL, control)
  replace(sums, c("means", "stats"), list(widths$means, joined_stats(stats, sums$stats)))
}

# Returns the list of masses_and_means() at the sources. For points in memory C computes it in one pass, and unless
# differences of the sums may cancel in the precision of the settings.
score_means <- function(sources, control) {
  UseMethod("score_means", if (is.null(control$cluster)) sources else spread(sources, NULL, control))
}

#' @export
score_means.default <- function(sources, control) {
  control[c("tol", "engine")] <- list(0, "exact")
  if (may_dominate(sources$weights)) control$precision <- "double"
  .Call(ffi_score_means, sources, control)
}

# Returns list(log_mass, means, stats) at `at` (NULL: the sources), exactly: the logarithm of the kernel sum, and the
# kernel-weighted mean of the sources. Where no kernel has weight, these are 0 and the target itself.
masses_and_means <- function(sources, at, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  points <- if (is.null(at)) sources$points else at
  mass <- log_sum(sources, at, PLAIN_FACTOR, FALSE, control)
  score <- score_sum(sources, at, PLAIN_FACTOR, FALSE, NULL, control)
  to_mean <- score$score %*% tcrossprod(sources$L)
  to_mean[!is.finite(to_mean)] <- 0
  list(
    log_mass = replace(mass$log_abs, !is.finite(mass$log_abs), 0), means = points + to_mean,
    stats = add_stats(mass$stats, score$stats)
  )
}

# Computes debiased_loo_sum() at the points `held_out` (NULL: the sources), list(points, weights, first, number). They
# are the sources from number `first` on, or no sources if `first` is NA. `number`: the number of the first of them
# among all points, if this is not `first`. With `widths` the sources may be a part of all points; sums over parts add
# up.
debiased_loo_at <- function(sources, L, widths, held_out, control) {
  UseMethod("debiased_loo_at", if (is.null(control$cluster)) sources else spread(sources, held_out$points, control))
}

#' @export
debiased_loo_at.default <- function(sources, L, widths, held_out, control) {
  .Call(ffi_sdkde_loo, sources, L, widths, held_out, control)
}

# Returns for each target the number of the source that dominates it, or 0 (sum-debias-dominated.R). The sources are in
# decreasing order of weight. `job`: the members of struct fk_dominants in src/core/loo.h.
dominant_sources <- function(job, control) .Call(ffi_dominants, job, control)

# ---- sums in one dimension --------------------------------------------------------------------

# Returns at each of `q` the sum of w (Phi(z) + z (c1 + c2 z^2) phi(z)), with z = (q - x) / h and c(c1, c2) in
# `correction`. `centres`: the sorted points x; `cumulative`: the cumulative sums of their weights w.
cdf_sum <- function(centres, cumulative, h, q, correction, control) {
  .Call(ffi_cdf, centres, cumulative, h, q, correction, control)
}

# Returns conditional distribution functions of y given x, sum a Phi((y - c) / s) / sum a with log a = log_weights -
# |x - x_i|^2 / (2 s_i^2), a matrix with the dimensions of `y`, which has a column for each target. With `probabilities`
# it returns the quantiles y instead; these have a column for each: the tail probability, its normal quantile, and
# whether it is the upper tail. `job`: list(x, log_weights, centres, widths, at, y or probabilities); x and `at` are
# whitened, a point in each column; the centres c are in units of y's bandwidth; `widths` is NULL if all s are 1.
conditional_sums <- function(job, control) .Call(ffi_conditional, job, control)

# ---- sums with their derivatives, and over rectangles -------------------------------------------

# Returns the sums of src/cpu/loops/derivatives.h, a column for each target, and the probabilities of
# src/cpu/loops/rectangles.h. `job`: the members of the structs there, a point in each column.
derivative_sums <- function(job, control) .Call(ffi_derivatives, job, control)
rectangle_sums <- function(job, control) .Call(ffi_rectangles, job, control)

# Returns list(sums, stats) for polynomial kernels with a cutoff radius (sum-compact.R). `windows`: list(x, weights,
# reach, coefficients, ties), with sorted x. If `y` is NULL, the targets are x, without their own terms. Targets are
# sorted first, because sorted targets take a quarter of the time.
window_sum <- function(windows, y, control) {
  by_size <- if (!is.null(y) && is.unsorted(y)) order(y, method = "radix")
  found <- .Call(ffi_window_sums, windows, if (is.null(by_size)) y else y[by_size], control)
  if (!is.null(by_size)) found$sums[by_size, ] <- found$sums
  found
}

# Returns list(sums, stats) for products of such kernels. `cubes`: the members of struct fk_cubes
# (src/cpu/loops/cubes.h).
cube_sum <- function(cubes, control) .Call(ffi_cube_sums, cubes, control)

# Returns list(sums, top, moments, stats) by combination of categories, for the searches of sum-category-pairs.R. `job`:
# the members of struct fk_level_sums (src/cpu/loops/level_sums.h), a point in each row.
level_pair_sums <- function(job, control) .Call(ffi_level_sums, job, control)

# Returns list(all, others, stats): moments of points on a line about targets (src/cpu/line/line.h). With `loo`,
# `others` omits the point that the target is; `own` has the numbers of these points. `line`: list(x, weights, y,
# order). x and `at` (NULL: x) are sorted.
line_sums <- function(line, at, own, loo, control) .Call(ffi_line_moments, line, at, own, loo, control)

# Returns list(x, log_det, own, variance): an exact fit on a line in linear time. `system`: the members of struct
# fk_markov_system; the last two are NULL unless `with_own`.
markov_solve <- function(system, y, with_own, control) .Call(ffi_markov, system, y, with_own, control)

# ---- records ----------------------------------------------------------------------------------

# Returns the speeds and costs of a nominal core, list(pairs, coordinates, linear, moments), of struct fk_nominal_costs in
# src/core/costs.h, and `gpu_start`, the seconds that a GPU takes to start.
nominal_costs <- function() .Call(ffi_nominal_costs)

# Returns where a sum of n sources at m targets in d dimensions would run, in the form of `stats`. Fails if it cannot
# run.
resolve_control <- function(control, n, m, d, kernel = "gaussian") {
  .Call(ffi_resolve, control, as.double(n), as.double(m), as.double(d), kernel)
}

# Returns the engine's estimate of the seconds for such a sum. It is computed from constants, not measured.
guessed_seconds <- function(control, n, m, d, kernel = "gaussian") {
  .Call(ffi_guess, control, as.double(n), as.double(m), as.double(d), kernel)
}

# The run for many sums, as a search takes: if they are `worth` starting a GPU for, which one sum may not be, and there is
# one, on the GPU.
run_of_many <- function(run, worth) if (starts_gpu(run, worth)) replace(run, "backend", "cuda") else run

# Starts a GPU if that is `worth` it and there is one for this run: what follows goes where it takes less time. gpu_info() starts it.
starts_gpu <- function(run, worth) worth && run$backend == "auto" && backend_info()$gpu_engine && length(gpu_info()$index) > 0

# Does an engine support this operation in d dimensions? `operation`: "sums", "logs", "coordinates", "shift",
# "debiased_loo", "stream" or "normal" (enum fk_operation in src/fk.h).
can_do <- function(control, operation, d, kernel) .Call(ffi_can, control, operation, as.double(d), kernel)

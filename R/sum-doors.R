# The door to all sums of kernels. What is estimated, selected, plotted or drawn asks here, and every .Call() that sums
# stands here, once. How it is done is of no concern to the callers: points in memory go to C as they are, others a
# piece at a time (sum-by-chunks.R, sum-by-pieces.R), and chunks to a tolerance onto one grid (sum-by-stream.R); those of
# kernels of several widths go class by class, of sources (sum-by-factors.R) or of targets (sum-balloon.R), those of
# points with levels by cells (sum-by-categories.R).
#
# `at`: the targets, a checked matrix, or NULL for the sources themselves. `control`: of run_control(). `stats`: what
# was computed where, see r_stats() in src/r/glue.c.

# What is summed over: points with their weights (NULL: equal ones), H = L L' and the kernel. Points may be a
# big.matrix or, for sum_kernels() alone, a function that yields chunks. `plan`: of new_plan(), for sources that are
# summed over more than once. `factors`: NULL, or for sums with their logarithms and both stages of an SD-KDE a number
# for each point, whose kernel then is that of factor L, times factor^(-d height): of densities relative to those of L,
# or with height 2 of their squares. `target_factors`: NULL, or for sums with their logarithms the same by targets: a
# function of `at`, `loo` and `control` that has a number for each (sum-balloon.R).
sum_sources <- function(points, weights, L, kernel = "gaussian", plan = NULL, factors = NULL, height = 1,
                        target_factors = NULL) {
  list(
    points = points, weights = weights, L = L, kernel = kernel, plan = plan, factors = factors, height = height,
    target_factors = target_factors
  )
}

# A handle in which C keeps what it prepares of sources in memory: the same as long as these are, else made anew, as
# after readRDS(). It is a reference: copies share it.
new_plan <- function() .Call(ffi_plan)

# ---- sums with their logarithms ---------------------------------------------------------------

# list(log_abs, negative, stats): log |sum w f(q / 2) k| and, where the polynomial `factor` may make it negative, whether
# it is. `loo`: without each point's own term, where the points are their own targets.
log_sum <- function(sources, at, factor, loo, control) {
  if (goes_to_cluster(sources, at, control)) {
    return(spread_targets("log", sources, at, control, factor = factor, loo = loo))
  }
  if (is_remote(sources$points)) return(log_sum_by_shards(sources, at, factor, loo, control))
  if (is_big(sources$points)) return(log_sum_by_pieces(sources, at, factor, loo, control))
  if (!is.null(sources$discrete)) return(log_sum_by_cells(sources, at, factor, loo, control))
  if (!is.null(sources$target_factors)) return(log_sum_by_targets(sources, at, factor, loo, control))
  if (!is.null(sources$factors)) return(log_sum_by_classes(sources, at, factor, loo, control))
  if (is_compact(sources$kernel)) return(log_compact_sum(sources, at, loo, control))
  .Call(ffi_log_sum, sources, at, factor, loo, control)
}

# list(score, stats): the gradient of the same logarithm for the entry `estimator` of ESTIMATORS, with the column names
# `names`.
score_sum <- function(sources, at, estimator, loo, names, control) {
  if (goes_to_cluster(sources, at, control)) {
    name <- names(ESTIMATORS)[vapply(ESTIMATORS, identical, NA, estimator)]
    return(spread_targets("score", sources, at, control, estimator = name, names = names, loo = loo))
  }
  if (is_remote(sources$points)) return(score_sum_by_shards(sources, at, estimator, loo, names, control))
  if (is_big(sources$points)) return(score_sum_by_pieces(sources, at, estimator, loo, names, control))
  if (!is.null(sources$discrete)) return(score_sum_by_cells(sources, at, estimator, loo, names, control))
  if (!is.null(sources$target_factors)) {
    return(score_sum_by_targets(sources, at, estimator, loo, names, control))
  }
  if (!is.null(sources$factors)) return(score_sum_by_classes(sources, at, estimator, loo, names, control))
  if (is_compact(sources$kernel)) return(compact_score(sources, at, loo, names, control))
  .Call(ffi_score, sources, at, estimator$factor(dim(sources$points)[2]), loo, names, control)
}

# ---- sums of coefficients ---------------------------------------------------------------------

# list(sums, stats) of points in memory: sum b k, one column for each of `b`, whose coefficients hold the weights. The
# sums are a vector where b is one, unless they are to be a matrix.
kernel_sum_of <- function(sources, at, b, control, as_matrix = FALSE) {
  if (goes_to_cluster(sources, at, control)) {
    found <- spread_targets("sums", sources, at, control, b = b)
    if (is.null(dim(b)) && !as_matrix) found$sums <- as.vector(found$sums)
    return(found)
  }
  if (is_remote(sources$points) || is_remote(at)) return(kernel_sum_by_shards(sources, at, b, control, as_matrix))
  .Call(ffi_kernel_sum, sources, at, b, as_matrix, control)
}

# list(product, stats): K'(W (K v + w)) for the kernels K of `sources`, its columns, at those of `rows` (NULL: their
# own), both in memory, of matrices v and w and a vector of weights, each of which may be NULL. `with_sums`: and K v of
# a v that is given, as `sums`.
normal_product_of <- function(sources, rows, v, w, weights, control, with_sums = FALSE) {
  if (is_remote(sources$points) || is_remote(rows$points)) {
    return(normal_product_by_shards(sources, rows, v, w, weights, control))
  }
  .Call(ffi_normal_product, sources, rows, v, w, weights, with_sums, control)
}

# list(sums, stats, n, m, d) of points anywhere: `sums` are NULL where they went to `out`; `n`, `m` and `d` say how
# many sources, targets and columns there were. `b`: checked coefficients, beside the weights.
sum_kernels <- function(sources, at, b, control, out = NULL, chunk_rows = NULL) {
  if (is_remote(sources$points)) return(sum_kernels_by_shards(sources, at, b, control, out))
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

# list(debiased, stats): every source moved by half a step of size H = L L' along the score. `sources$L` is that of
# the score. Sources may have factors (sum-debias-by-factors.R).
debias_sum <- function(sources, L, control) {
  if (!is.null(sources$discrete)) return(debias_by_cells(sources, L, control))
  if (!is.null(sources$factors)) return(debias_by_classes(sources, L, control))
  if (goes_to_cluster(sources, NULL, control)) {
    found <- score_sum(sources, NULL, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
    return(list(debiased = sources$points + found$score %*% tcrossprod(L) / 2, stats = found$stats))
  }
  .Call(ffi_debias, sources, L, control)
}

# list(log_sum, stats): at every source the log of the sum over the others, debiased without it. `widths`: what C has to
# know of sources with factors, whose weights then are those of the score alone (struct fk_widths in src/core/loo.h).
debiased_loo_sum <- function(sources, L, control, widths = NULL) {
  if (!is.null(sources$discrete)) return(debiased_loo_by_cells(sources, L, control))
  if (!is.null(sources$factors)) return(debiased_loo_by_classes(sources, L, control))
  by_pieces <- goes_to_cluster(sources, NULL, control)
  stats <- NULL
  if (is.null(widths) && (by_pieces || may_dominate(sources$weights))) {
    share_stage(control, 0, 0.5)
    known <- if (by_pieces) masses_and_means(sources, NULL, control) else score_means(sources, control)
    widths <- c(known[c("means", "log_mass")], list(weights = sources$weights))
    found <- dominated_points(sources, NULL, known$log_mass, control)
    widths <- with_dominated(widths, found, away_from_dominant(sources$points, found), sources$L, L)
    stats <- joined_stats(known$stats, found$stats)
    share_stage(control, 0.5, 0.5)
  }
  sums <- if (by_pieces) {
    debiased_loo_by_pieces(sources, L, control, widths)
  } else {
    debiased_loo_at(sources, L, widths, NULL, control)
  }
  replace(sums, "stats", list(joined_stats(stats, sums$stats)))
}

# list(log_mass, means, stats) of points in memory, as masses_and_means() has them, as C finds both in one pass.
score_means <- function(sources, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  .Call(ffi_score_means, sources, control)
}

# The same at some of all the points that the score is of, `held_out`, list(points, weights, first, number): their own
# terms are those of the sources from number `first` on, NA where these are others; `number`: of the first among all
# points, where that is not `first`. NULL: the sources. With `widths` these may be a part of all points: sums over parts
# add up.
debiased_loo_at <- function(sources, L, widths, held_out, control) {
  .Call(ffi_sdkde_loo, sources, L, widths, held_out, control)
}

# Which of the sources, in the order of falling weight, dominates each target, 0 for none (sum-debias-dominated.R). `job`: the
# members of struct fk_dominants in src/core/loo.h.
dominant_sources <- function(job, control) .Call(ffi_dominants, job, control)

# ---- sums in one dimension --------------------------------------------------------------------

# sum w (Phi(z) + z (c1 + c2 z^2) phi(z)), z = (q - x) / h, at `q`, over sorted `centres` with the cumulative sums of
# their weights; `correction`: c(c1, c2).
cdf_sum <- function(centres, cumulative, h, q, correction, control) {
  .Call(ffi_cdf, centres, cumulative, h, q, correction, control)
}

# Of one y given x: sum a Phi((y - c) / s) / sum a, log a = log_weights - |x - x_i|^2 / (2 s_i^2), a matrix as `y`,
# which has a column for each place; or the y where that has the `probabilities`, a matrix of tail, normal quantile
# and whether it is the upper one, a column for each. `job`: list(x, log_weights, centres, widths, at, y or
# probabilities), x and `at` whitened, in columns, c in units of y's bandwidth, widths NULL where all s are 1.
conditional_sums <- function(job, control) .Call(ffi_conditional, job, control)

# ---- sums with their derivatives, and over rectangles -------------------------------------------

# The sums of src/core/derivatives.h, a column for each target, and probabilities as src/core/rectangles.h has them.
# `job`: the members of their structs, points in columns.
derivative_sums <- function(job, control) .Call(ffi_derivatives, job, control)
rectangle_sums <- function(job, control) .Call(ffi_rectangles, job, control)

# list(sums, stats): of polynomials of bounded reach (sum-compact.R). `windows`: list(x, weights, reach, coefficients,
# ties), x in order; `y` NULL: at these, each without itself. Targets in order take a quarter of the time.
window_sum <- function(windows, y, control) {
  by_size <- if (!is.null(y) && is.unsorted(y)) order(y, method = "radix")
  found <- .Call(ffi_window_sums, windows, if (is.null(by_size)) y else y[by_size], control)
  if (!is.null(by_size)) found$sums[by_size, ] <- found$sums
  found
}

# The same of products of them in several dimensions. `cubes`: the members of struct fk_cubes in src/core/cubes.h.
cube_sum <- function(cubes, control) .Call(ffi_cube_sums, cubes, control)

# list(sums, top, moments, stats) of cells of levels, for the searches of sum-category-pairs.R. `job`: the members of
# struct fk_level_sums (src/core/level_sums.h), points in rows.
level_pair_sums <- function(job, control) .Call(ffi_level_sums, job, control)

# list(all, others, stats): moments of points on a line about targets (src/cpu/line/line.h), `others` where `loo`, without
# the points that the targets are, by their numbers `own`. `line`: list(x, weights, y, order); x and `at`, NULL for
# these, in order.
line_sums <- function(line, at, own, loo, control) .Call(ffi_line_moments, line, at, own, loo, control)

# ---- records ----------------------------------------------------------------------------------

# Seconds of a nominal core: list(pairs, coordinates, linear, moments), struct fk_nominal_costs in src/core/costs.h.
nominal_costs <- function() .Call(ffi_nominal_costs)

# Where a sum of n sources at m targets in d dimensions would run, as the stats of a sum; an error where it cannot.
resolve_control <- function(control, n, m, d, kernel = "gaussian") {
  .Call(ffi_resolve, control, as.double(n), as.double(m), as.double(d), kernel)
}

# The seconds that it would take there, by the engine's guess, of which constants decide and no clock.
guessed_seconds <- function(control, n, m, d, kernel = "gaussian") {
  .Call(ffi_guess, control, as.double(n), as.double(m), as.double(d), kernel)
}

# Is there an engine that can do this with sums in d dimensions: "sums", "logs", "coordinates", "shift", "debiased_loo",
# "stream" or "normal" (enum fk_operation in src/fk.h)?
can_do <- function(control, operation, d, kernel) .Call(ffi_can, control, operation, as.double(d), kernel)

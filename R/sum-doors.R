# The door to all sums of kernels. What is estimated, selected, plotted or drawn asks here, and every .Call() that sums
# stands here, once. How it is done is of no concern to the callers, but of the class of the sources (sum-sources.R):
# points in memory go to C as they are, others in groups (sum-over.R) or to workers; sums of coefficients go a chunk at
# a time (sum-by-chunks.R), and to a tolerance all chunks onto one grid (sum-by-stream.R).
#
# `at`: the targets, a checked matrix, or NULL for the sources themselves. `control`: of run_control(). `stats`: what
# was computed where, see r_stats() in src/r/glue.c.

# ---- sums with their logarithms ---------------------------------------------------------------

# list(log_abs, negative, stats): log |sum w f(q / 2) k| and, where the polynomial `factor` may make it negative,
# whether it is. `loo`: without each point's own term, where the points are their own targets.
log_sum <- function(sources, at, factor, loo, control) {
  UseMethod("log_sum", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
log_sum.engine_sources <- function(sources, at, factor, loo, control) {
  .Call(ffi_log_sum, sources, at, factor, loo, control)
}

# list(score, stats): the gradient of the same logarithm, with the column names `names`.
score_sum <- function(sources, at, factor, loo, names, control) {
  UseMethod("score_sum", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
score_sum.engine_sources <- function(sources, at, factor, loo, names, control) {
  .Call(ffi_score, sources, at, factor, loo, names, control)
}

# ---- sums of coefficients ---------------------------------------------------------------------

# list(sums, stats) of points in memory: sum b k, one column for each of `b`, whose coefficients hold the weights. The
# sums are a vector where b is one, unless they are to be a matrix.
kernel_sum_of <- function(sources, at, b, control, as_matrix = FALSE) {
  UseMethod("kernel_sum_of", if (is.null(control$cluster)) sources else spread(sources, at, control))
}

#' @export
kernel_sum_of.engine_sources <- function(sources, at, b, control, as_matrix = FALSE) {
  kernel_sum_at(at, sources, b, control, as_matrix)
}

# The same by where the targets are.
kernel_sum_at <- function(at, sources, b, control, as_matrix) UseMethod("kernel_sum_at")

#' @export
kernel_sum_at.default <- function(at, sources, b, control, as_matrix) {
  .Call(ffi_kernel_sum, sources, at, b, as_matrix, control)
}

# list(product, stats): K'(W (K v + w)) for the kernels K of `sources`, its columns, at those of `rows` (NULL: their
# own), both in memory, of matrices v and w and a vector of weights, each of which may be NULL. `with_sums`: and K v of
# a v that is given, as `sums`.
normal_product_of <- function(sources, rows, v, w, weights, control, with_sums = FALSE) UseMethod("normal_product_of")

#' @export
normal_product_of.engine_sources <- function(sources, rows, v, w, weights, control, with_sums = FALSE) {
  normal_product_at(rows, sources, v, w, weights, control, with_sums)
}

# The same by where the rows are.
normal_product_at <- function(rows, sources, v, w, weights, control, with_sums) UseMethod("normal_product_at")

#' @export
normal_product_at.default <- function(rows, sources, v, w, weights, control, with_sums) {
  .Call(ffi_normal_product, sources, rows, v, w, weights, with_sums, control)
}

# list(sums, stats, n, m, d) of points anywhere: `sums` are NULL where they went to `out`; `n`, `m` and `d` say how
# many sources, targets and columns there were. `b`: checked coefficients, beside the weights.
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

# list(debiased, stats): every source moved by half a step of size H = L L' along the score. `sources$L` is that of
# the score.
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

# list(score, squares, stats): along which each source moves, and for kernels of several widths the squares of their
# factors. Where no kernel has weight there is no score, and a point stays.
debias_scores <- function(sources, control) UseMethod("debias_scores")

#' @export
debias_scores.default <- function(sources, control) {
  found <- score_sum(sources, NULL, PLAIN_FACTOR, FALSE, NULL, control)
  found$score[!is.finite(found$score)] <- 0
  found
}

# list(log_sum, stats): at every source the log of the sum over the others, debiased without it. `widths`: what C has to
# know of sources with factors, whose weights then are those of the score alone (struct fk_widths in src/core/loo.h).
debiased_loo_sum <- function(sources, L, control, widths = NULL) UseMethod("debiased_loo_sum")

#' @export
debiased_loo_sum.default <- function(sources, L, control, widths = NULL) {
  stats <- NULL
  shared <- !is.null(control$cluster) && inherits(spread(sources, NULL, control), "spread_sources")
  if (is.null(widths) && (shared || may_dominate(sources$weights))) {
    share_stage(control, 0, 0.5)
    known <- score_means(sources, control)
    widths <- c(known[c("means", "log_mass")], list(weights = sources$weights))
    found <- dominated_points(sources, NULL, known$log_mass, control)
    widths <- with_dominated(widths, found, away_from_dominant(sources$points, found), sources$L, L)
    stats <- joined_stats(known$stats, found$stats)
    share_stage(control, 0.5, 0.5)
  }
  sums <- debiased_loo_at(sources, L, widths, NULL, control)
  replace(sums, "stats", list(joined_stats(stats, sums$stats)))
}

# list(log_mass, means, stats) of points in memory, as masses_and_means() has them, as C finds both in one pass.
score_means <- function(sources, control) {
  UseMethod("score_means", if (is.null(control$cluster)) sources else spread(sources, NULL, control))
}

#' @export
score_means.default <- function(sources, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  .Call(ffi_score_means, sources, control)
}

# list(log_mass, means, stats) at `at` (NULL: the sources): the log of the sum of the kernels there and their mean,
# exactly. Where no kernel has weight, a point is its own mean.
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

# The same at some of all the points that the score is of, `held_out`, list(points, weights, first, number): their own
# terms are those of the sources from number `first` on, NA where these are others; `number`: of the first among all
# points, where that is not `first`. NULL: the sources. With `widths` these may be a part of all points: sums over parts
# add up.
debiased_loo_at <- function(sources, L, widths, held_out, control) {
  UseMethod("debiased_loo_at", if (is.null(control$cluster)) sources else spread(sources, held_out$points, control))
}

#' @export
debiased_loo_at.default <- function(sources, L, widths, held_out, control) {
  .Call(ffi_sdkde_loo, sources, L, widths, held_out, control)
}

# Which of the sources, in the order of falling weight, dominates each target, 0 for none (sum-debias-dominated.R).
# `job`: the members of struct fk_dominants in src/core/loo.h.
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

# The sums of src/cpu/loops/derivatives.h, a column for each target, and probabilities as rectangles.h there has them.
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

# The same of products of them in several dimensions. `cubes`: the members of struct fk_cubes in src/cpu/loops/cubes.h.
cube_sum <- function(cubes, control) .Call(ffi_cube_sums, cubes, control)

# list(sums, top, moments, stats) of cells of levels, for the searches of sum-category-pairs.R. `job`: the members of
# struct fk_level_sums (src/cpu/loops/level_sums.h), points in rows.
level_pair_sums <- function(job, control) .Call(ffi_level_sums, job, control)

# list(all, others, stats): moments of points on a line about targets (src/cpu/line/line.h), `others` where `loo`,
# without the points that the targets are, by their numbers `own`. `line`: list(x, weights, y, order); x and `at`, NULL
# for these, in order.
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

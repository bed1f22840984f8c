# Moments of pairs of points, for the values and gradients of bandwidth criteria. They are computed by one pass over all
# pairs, or by the engines. Notation: H = L L', u_ij = L^-1 (x_i - x_j), q = |u_ij|^2, k = exp(-q / 2), and f is the
# polynomial `factor` in q / 2.

# Returns list(S, M, S_wide, M_wide, fourth, stats):
#   S_i = sum_{j != i} w_j f(q / 2) k                                n numbers
#   M = sum_i r_i sum_{j != i} w_j (f - f')(q / 2) k u u'            NULL, d numbers, or a symmetric d x d matrix
# with r_i = row_weights_i, or with `ratio` r_i = row_weights_i / (S_i + floor_i). S_i is 0 if all its terms underflow;
# r_i is 0 if the floor is 0, too.
#
# `wide`: NULL, or n weights. S_wide and M_wide are S and M for the kernel of 2 H, exp(-q / 4), and for u / sqrt(2),
# with these weights as r_i. They cost half as much as another call, and are not available with a factor. `moments`
# "order4": also `fourth`, sum_i r_i sum_j w_j (f - f') k u_a u_b u_c u_d, a symmetric array of d^4 numbers.
#
# Sums are exact, on the CPU and in double precision, and have the same bits for any number of threads.
pair_moments <- function(x, L, weights = NULL, row_weights = NULL, floor = NULL,
                         moments = "none", ratio = FALSE, wide = NULL,
                         factor = PLAIN_FACTOR, run) {
  d <- ncol(x)
  job <- list(
    x = x, L = L, weights = weights, row_weights = row_weights, floor = floor, wide = wide, factor = factor,
    ratio = ratio
  )
  order <- match(moments, c("none", "diagonal", "full", "order4")) - 1L
  found <- .Call(ffi_pair_moments, job, order, run)
  shape <- switch(moments, none = \(m, d) NULL, diagonal = \(m, d) m, symmetric_matrix)
  found$M <- shape(found$M, d)
  found$M_wide <- if (!is.null(wide)) shape(found$M_wide, d)
  found$fourth <- if (moments == "order4") symmetric_fourth(found$fourth, d)
  found
}

# Returns list(S, stats): S of pair_moments() for each power of the kernel, which is the kernel of bandwidth H / power,
# in a matrix with a column for each. Powers that are small multiples of each other cost little
# (src/cpu/loops/scales.h). `factors`: NULL, or a local bandwidth factor for each point. `logs`: NULL, or a list of
# log_floor and log_others, of the points, and log_unit, of the powers. The result then has with_floor()'s logarithms.
pair_scales <- function(x, L, powers, weights = NULL, factor = PLAIN_FACTOR, run, factors = NULL, logs = NULL) {
  job <- c(list(x = x, L = L, weights = weights, factor = factor, factors = factors), logs)
  .Call(ffi_pair_scales, job, as.double(powers), run)
}

# Returns the symmetric matrix with this lower triangle, given row by row.
symmetric_matrix <- function(lower, d) {
  matrix <- matrix(0, d, d)
  matrix[upper.tri(matrix, diag = TRUE)] <- lower
  matrix[lower.tri(matrix)] <- t(matrix)[lower.tri(matrix)]
  matrix
}

# Returns the symmetric array of d^4 numbers. `numbers` are in the order of struct fk_moments_task
# (src/cpu/loops/moments.h): for coordinates b <= a <= e <= c.
symmetric_fourth <- function(numbers, d) {
  sorted <- do.call(rbind, lapply(seq_len(d), function(a) {
    after <- do.call(rbind, lapply(a:d, \(c) cbind(a:c, c)))
    do.call(rbind, lapply(seq_len(a), \(b) cbind(b, a, after)))
  }))
  every <- as.matrix(expand.grid(rep(list(seq_len(d)), 4)))
  every <- t(apply(every, 1, sort))
  key <- \(index) drop((index - 1) %*% d^(0:3))
  array(numbers[match(key(every), key(sorted))], rep(d, 4))
}

# ---- by the engines -----------------------------------------------------------------------------

# pair_moments() without "order4", by one pass over all pairs or by the engines, whichever takes less time. A tolerance
# is too large an error for M: see differs_by_tolerance().
moments_of <- function(x, L, weights, row_weights, floor, moments, ratio, wide, factor, run) {
  can <- moments == "none" || identical(factor, PLAIN_FACTOR)
  engines <- can && prefers_engines(resolved_run(x, run), nrow(x), ncol(x), moments, !is.null(wide))
  how <- if (engines) engine_moments else pair_moments
  how(x, L, weights, row_weights, floor, moments, ratio, wide, factor, run = run)
}

# Where sums over all pairs of the points would run: `resolved` in the next three functions.
resolved_run <- function(x, run) resolve_control(run, nrow(x), nrow(x), ncol(x))

# The exact engine on the CPU computes every pair once, but for M it takes two passes, of d + 1 columns
# (bench/NOTES.md).
prefers_engines <- function(resolved, n, d, moments, wide) {
  if (resolved$backend == "cuda" || resolved$engine == "fast") return(TRUE)
  switch(moments, none = n >= 2000 && !wide, diagonal = FALSE, full = d >= 6)
}

# Is one pass faster for many bandwidths? It is on the CPU, unless the fast engine is used.
prefers_scales <- function(resolved) resolved$backend == "cpu" && resolved$engine == "exact"

# Would the engine use the tolerance?
differs_by_tolerance <- function(resolved, run) run$tol > 0 && resolved$engine == "fast"

engine_moments <- function(x, L, weights, row_weights, floor, moments, ratio, wide, factor, run) {
  near <- engine_side(x, L, weights, row_weights, floor, moments, ratio, factor, run)
  if (is.null(near)) return(pair_moments(x, L, weights, row_weights, floor, moments, ratio, wide, factor, run))
  if (is.null(wide)) return(near)
  far <- engine_side(x, sqrt(2) * L, weights, wide, NULL, moments, FALSE, factor, run)
  near$stats <- add_stats(near$stats, far$stats)
  c(near, list(S_wide = far$S, M_wide = far$M))
}

# Returns S and M for one bandwidth, or NULL if M would lose digits and pair_moments() costs little.
engine_side <- function(x, L, weights, row_weights, floor, moments, ratio, factor, run) {
  sources <- sum_sources(x, weights, L, plan = new_plan())
  sums <- log_sum(sources, NULL, factor, TRUE, run)
  S <- exp(sums$log_abs)
  if (!is.null(sums$negative)) S[sums$negative] <- -S[sums$negative]
  if (moments == "none") return(list(S = S, stats = sums$stats))
  v <- if (is.null(row_weights)) rep(1, nrow(x)) else row_weights
  r <- v
  if (ratio) {
    all <- if (is.null(floor)) S else S + floor
    r <- ifelse(S > 1e-10 * all, v / all, 0)
  }
  Y <- t(forwardsolve(L, t(x) - colMeans(x)))
  if (nrow(x) <= 20000 && cancels(Y, sources, r, S) > 1e-7 * sum(v)) return(NULL)
  resolved <- resolve_control(run, nrow(x), nrow(x), ncol(x))
  on_tensor_cores <- resolved$backend == "cuda" && resolved$precision != "double"
  second <- (if (on_tensor_cores) moments_by_scores else second_moments)(sources, Y, S, r, run)
  M <- if (moments == "diagonal") diagonal(second$M) else second$M
  list(S = S, M = M, stats = add_stats(sums$stats, second$stats))
}

# Returns the error of M from the points' own terms, which cancel. They have the size r |y|^2, and kernels have an error
# of |y|^2 units in the last place. With `ratio`, r is large for rows with few neighbours.
cancels <- function(Y, sources, r, S) {
  w <- if (is.null(sources$weights)) 1 else sources$weights
  .Machine$double.eps * sum(r * (S + w) * rowSums(Y^2)^2)
}

# Returns M, sum_ij r_i w_j k_ij (y_i - y_j)(y_i - y_j)' with the whitened points y = L^-1 x, by sums of d + 1 columns.
# A point's own term is 0. Sums are in double precision, because terms cancel.
second_moments <- function(sources, Y, S, r, run) {
  run <- replace(run, c("tol", "precision"), list(0, "double"))
  d <- ncol(Y)
  w <- if (is.null(sources$weights)) 1 else sources$weights
  sums <- kernel_sum_of(sources, NULL, cbind(w * Y, r), run, as_matrix = TRUE)
  cross <- crossprod(r * Y, sums$sums[, seq_len(d), drop = FALSE])
  M <- crossprod(Y, (r * (S + w) + w * sums$sums[, d + 1]) * Y) - cross - t(cross)
  list(M = unname(M), stats = sums$stats)
}

# Returns M by scores, as - sum_i r_i y_i s_i' - sum_j w_j y_j t_j' with s_i = sum_j w_j k (y_j - y_i) and t_j = sum_i
# r_i k (y_i - y_j). No terms of the size |y|^2 cancel, so single precision suffices. Tensor cores take a tenth of the
# time of second_moments().
moments_by_scores <- function(sources, Y, S, r, run) {
  w <- if (is.null(sources$weights)) 1 else sources$weights
  there <- shift_sums(sources, S, run)
  back <- sum_sources(sources$points, r, sources$L, plan = new_plan())
  sums <- log_sum(back, NULL, PLAIN_FACTOR, TRUE, run)
  here <- shift_sums(back, exp(sums$log_abs), run)
  M <- -crossprod(Y, r * there$sums) - crossprod(Y, w * here$sums)
  list(M = unname(M + t(M)) / 2, stats = add_stats(add_stats(there$stats, sums$stats), here$stats))
}

# Returns list(sums, stats): sum_{j != i} w_j k_ij (y_j - y_i), n x d. `S`: the sums of w_j k_ij.
shift_sums <- function(sources, S, run) {
  found <- score_sum(sources, NULL, PLAIN_FACTOR, TRUE, NULL, run)
  sums <- S * found$score %*% sources$L
  sums[S == 0, ] <- 0
  list(sums = sums, stats = found$stats)
}

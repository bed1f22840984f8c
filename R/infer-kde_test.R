#' Are two samples of one density?
#'
#' Compares the kernel density estimates of two samples by the integral of their squared difference, which no
#' binning or numerical integration approximates, in any number of dimensions. As `ks::kde.test()`, with an exact
#' level.
#'
#' @details
#' The statistic is \eqn{T = \int (p_1 - p_2)^2}{T = int (p_1 - p_2)^2}, p_1 and p_2 being plain estimates of one
#' bandwidth H (Anderson, Hall and Titterington 1994). Two Gaussians have a Gaussian for their product, so it is a
#' sum over all pairs: \deqn{T = \sum_{ij} a_i a_j K_{2H}(z_i - z_j)}{T = sum_ij a_i a_j K_2H(z_i - z_j)} over the
#' points z of both samples, with \eqn{a = 1 / n_1} for those of x and \eqn{-1 / n_2} for those of y. But for the
#' kernel's height T is the squared maximum mean discrepancy of Gretton and others (2012) for a Gaussian kernel of
#' variance 2 H, so it tells apart any two densities, with any bandwidth; a bandwidth that suits an estimate serves
#' details, a larger one differences in the large.
#'
#' `"permutation"` compares T with that of `replicates` random exchanges of points between the samples, all of them
#' in one product of kernels and columns. The p-value is \eqn{(1 + \#\{T_b \ge T\}) / (B + 1)}{(1 + #{T_b >= T}) /
#' (B + 1)}; the level is exact for any sample sizes, since a bandwidth by name is chosen from both samples
#' together, whose order it does not know.
#'
#' `"asymptotic"` takes the mean and the variance that T has over all exchanges, which are sums over pairs, too,
#' and the multiple of a chi-squared distribution that has both; where the bandwidth is small that is nearly the
#' normal distribution of `ks::kde.test()`. It takes two sums in place of `replicates`.
#'
#' **Weights**: only their ratios within a sample count. Rows are exchanged with their weights, and T is compared
#' relative to its estimated mean in the same samples, a studentised permutation test (Chung and Romano 2013): the
#' level is exact if the weights of both samples are drawn alike, whatever they have to do with the points, and
#' approximately held if they are not. The moments for `"asymptotic"` are by the squares of the weights that each
#' sample has.
#'
#' Cost: \eqn{O(n^2)} for n points in all and each replicate, many in one pass; with a `tol` in `control`, in few
#' dimensions, \eqn{O(n)}.
#'
#' @param x,y The samples: matrices or data frames with a row per point and the same columns, or vectors. Rows with
#'   missing values are left out.
#' @param bandwidth That of both estimates, as for [flash_kde()]: a number, a vector of standard deviations, a
#'   variance matrix, or the name of a selector, which sees both samples together.
#' @param method `"permutation"` or `"asymptotic"`.
#' @param replicates Number of permutations, by R's random numbers ([set.seed()]).
#' @param weights_x,weights_y Weights of the rows of each sample, not negative, or `NULL` for equal ones.
#' @param control A [flash_control()].
#' @returns A list of class `htest` (see [stats::t.test()]): `statistic` (T, in 1 / (product of the units)),
#'   `parameter` (the number of replicates, or degrees of freedom), `p.value`, `estimate` (the integrals of
#'   \eqn{p_1^2}{p_1^2}, \eqn{p_2^2}{p_2^2} and \eqn{p_1 p_2}{p_1 p_2}), `alternative`, `method` and `data.name`;
#'   and `bandwidth`, the variance matrix H.
#' @inheritSection flash_kde Errors
#' @references Anderson, N. H., Hall, P. and Titterington, D. M. (1994) Two-sample test statistics for measuring
#'   discrepancies between two multivariate probability density functions using kernel-based density estimates.
#'   *Journal of Multivariate Analysis* 50, 41-54.
#'
#'   Chung, E. and Romano, J. P. (2013) Exact and asymptotically robust permutation tests. *The Annals of Statistics*
#'   41, 484-507.
#'
#'   Duong, T., Goud, B. and Schauer, K. (2012) Closed-form density-based framework for automatic detection of
#'   cellular morphology changes. *Proceedings of the National Academy of Sciences* 109, 8382-8387.
#'
#'   Gretton, A., Borgwardt, K. M., Rasch, M. J., Schoelkopf, B. and Smola, A. (2012) A kernel two-sample test.
#'   *Journal of Machine Learning Research* 13, 723-773.
#' @seealso [kde_local_test()] for where they differ; [kde_gof()] for one sample and a given distribution.
#' @export
#' @examples
#' set.seed(1)
#' flowers <- split(iris[, 1:2], iris$Species)
#' kde_test(flowers$versicolor, flowers$virginica)
#' kde_test(flowers$versicolor, flowers$virginica, method = "asymptotic")
kde_test <- function(x, y, bandwidth = "silverman", method = c("permutation", "asymptotic"), replicates = 999,
                     weights_x = NULL, weights_y = NULL, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given")
  names <- paste(deparse1(substitute(x), width.cutoff = 60), "and", deparse1(substitute(y), width.cutoff = 60))
  method <- check_choice(method, c("permutation", "asymptotic"), "method")
  replicates <- check_count(replicates, "replicates")
  run <- start_run(settle_control(control), "Permuting")
  rows <- both_samples(x, y, weights_x, weights_y)
  chosen <- test_bandwidth(bandwidth, rows$points, run, "x", rows$weights)
  sources <- sum_sources(unname(rows$points), NULL, sqrt(2) * chosen$L, plan = new_plan())
  height <- exp(log_kernel_norm(sources$L))
  parts <- squared_parts(sources, rows$shares, run)
  statistic <- parts[[1]] + parts[[2]] - 2 * parts[[3]]
  found <- if (method == "asymptotic") {
    by_moments(sources, statistic, rows, run)
  } else if (is.null(rows$weights)) {
    by_permutation(sources, statistic, rows, replicates, run)
  } else {
    by_weighted_permutation(sources, rows, replicates, run)
  }
  estimate <- height * c("int p1^2" = parts[[1]], "int p2^2" = parts[[2]], "int p1 p2" = parts[[3]])
  how <- paste0("Two-sample kernel density test, ", found$how, if (!is.null(rows$weights)) ", weighted")
  new_htest(
    c(T = height * statistic), found, how, shorten(names, 120), "the densities differ", estimate, chosen
  )
}

# list(points, weights, first, n, shares): the rows of both samples, which of them are of x, and two columns, of each
# row's share in its sample. Weights are relative to the mean in their sample; NULL where neither has any.
both_samples <- function(x, y, weights_x, weights_y) {
  x <- test_points(x, "x", weights = weights_x, weights_arg = "weights_x")
  y <- test_points(y, "y", ncol(x$points), colnames(x$points), weights_y, "weights_y")
  points <- rbind(unname(x$points), unname(y$points))
  colnames(points) <- colnames(x$points)
  n <- c(nrow(x$points), nrow(y$points))
  first <- seq_len(sum(n)) <= n[1]
  weights <- if (!is.null(x$weights) || !is.null(y$weights)) {
    c(if (is.null(x$weights)) rep(1, n[1]) else x$weights, if (is.null(y$weights)) rep(1, n[2]) else y$weights)
  }
  own <- if (is.null(weights)) 1 else weights
  list(
    points = points, weights = weights, first = first, n = n,
    shares = cbind(own * first / n[1], own * (!first) / n[2])
  )
}

# As print() of package stats has tests.
new_htest <- function(statistic, found, method, names, alternative, estimate, chosen) {
  structure(class = "htest", list(
    statistic = statistic, parameter = found$parameter, p.value = found$p, estimate = estimate,
    alternative = alternative, method = method, data.name = names, bandwidth = chosen$H
  ))
}

# list(points, weights): rows without missing values and of positive weight, weights relative to their mean.
test_points <- function(x, arg, d = NULL, names = NULL, weights = NULL, weights_arg = "weights") {
  points <- check_points(x, arg, d, names, like = "`x`", infinite = TRUE)
  weights <- check_weights(weights, nrow(points), weights_arg, missing = TRUE)
  kept <- handle_missing(points, weights, stats::na.omit, arg)
  if (!is.null(weights)) {
    used <- kept$weights > 0
    kept$points <- kept$points[used, , drop = FALSE]
    kept$weights <- relative_to_largest(kept$weights[used])
    kept$weights <- kept$weights / mean(kept$weights)
  }
  if (nrow(kept$points) < 2) {
    stop_argument(arg, "must have at least two rows", if (!is.null(weights)) " of positive weight", ": found one")
  }
  kept[c("points", "weights")]
}

# As settle_bandwidth() gives it, for a plain estimate. `arg`: what the user calls the points.
test_bandwidth <- function(bandwidth, points, control, arg, weights = NULL) {
  wanted <- want_bandwidth(bandwidth, points, weights, "bandwidth")
  data <- list(points = points, weights = weights, clean = once(clean_points(points, weights, arg)))
  search <- search_options("auto", "auto", NULL, 5)
  settle_bandwidth(wanted, data, PLAIN_ESTIMATOR, search, control, "bandwidth", arg)
}

# a' K b of columns of points' own weights a and b.
kernel_forms <- function(sources, a, b, run) {
  colSums(a * kernel_sum_of(sources, NULL, b, run, as_matrix = TRUE)$sums)
}

# The integrals of p1^2, p2^2 and p1 p2, relative to the kernel's height.
squared_parts <- function(sources, shares, run) {
  sums <- kernel_sum_of(sources, NULL, shares, run, as_matrix = TRUE)$sums
  c(sum(shares[, 1] * sums[, 1]), sum(shares[, 2] * sums[, 2]), sum(shares[, 1] * sums[, 2]))
}

by_permutation <- function(sources, statistic, rows, replicates, run) {
  a <- rowSums(rows$shares)
  own <- sum(a * a) # what rounding is relative to
  a <- ifelse(rows$first, a, -a)
  draws <- in_blocks(replicates, length(a), 1, run, \(columns) {
    exchanged <- vapply(seq_len(columns), \(i) sample(a), a)
    kernel_forms(sources, exchanged, exchanged, run)
  })
  permuted(draws, statistic, own)
}

# An exchange that is none gives the same up to rounding.
permuted <- function(draws, statistic, size) {
  p <- (1 + sum(draws >= statistic - 1e-10 * abs(statistic) - 1e-14 * size)) / (length(draws) + 1)
  list(p = p, parameter = c(replicates = length(draws)), how = "permutations")
}

# Rows are exchanged with their weights; T is relative to what it would be on average.
by_weighted_permutation <- function(sources, rows, replicates, run) {
  w <- rows$weights
  # columns of which rows are of x
  ratio_of <- function(first) {
    one <- w * first
    two <- w - one
    one <- one / rep(colSums(one), each = length(w))
    two <- two / rep(colSums(two), each = length(w))
    sums <- kernel_sum_of(sources, NULL, cbind(one, two), run, as_matrix = TRUE)$sums
    at_one <- sums[, seq_len(ncol(one)), drop = FALSE]
    at_two <- sums[, -seq_len(ncol(one)), drop = FALSE]
    own <- rbind(colSums(one * at_one), colSums(two * at_two))
    # sum_i a_i^2 |phi(z_i) - its sample's mean|^2
    spread <- colSums(one^2 * (1 - 2 * at_one)) + colSums(two^2 * (1 - 2 * at_two)) +
      colSums(one^2) * own[1, ] + colSums(two^2) * own[2, ]
    (own[1, ] + own[2, ] - 2 * colSums(one * at_two)) / pmax(spread, 1e-12 * colSums(own))
  }
  draws <- in_blocks(replicates, 6 * length(w), 1, run, \(columns) {
    ratio_of(vapply(seq_len(columns), \(i) sample(rows$first), rows$first))
  })
  permuted(draws, ratio_of(matrix(rows$first)), 1)
}

# Of kernels K~ centred by rows and columns, v_i the variance of what row i is multiplied by: E T = sum v_i K~_ii, and
# var T = 2 sum_{i != j} v_i v_j K~_ij^2. Without weights v is that over all exchanges, (1 / n_1 + 1 / n_2) / n, and
# both are their moments up to terms of order 1 / n.
by_moments <- function(sources, statistic, rows, run) {
  n <- sum(rows$n)
  v <- if (is.null(rows$weights)) rep(sum(1 / rows$n) / n, n) else rowSums(rows$shares)^2
  share <- if (is.null(rows$weights)) rep(1 / n, n) else rows$weights / n
  sums <- kernel_sum_of(sources, NULL, cbind(share, v), run, as_matrix = TRUE)$sums
  # squared kernels are those of half the variance
  narrow <- sum_sources(sources$points, NULL, sources$L / sqrt(2))
  squares <- kernel_forms(narrow, matrix(v), matrix(v), run)
  row <- sums[, 1] - sum(share * sums[, 1]) / 2 # K~_ij = K_ij - row_i - row_j
  own <- 1 - 2 * row
  mean <- sum(v * own) / share_of_pairs(share)
  all <- squares - 4 * sum(v * row * sums[, 2]) + 2 * sum(v) * sum(v * row^2) + 2 * sum(v * row)^2
  variance <- 2 * (all - sum((v * own)^2))
  how <- "moments of permutations"
  # nothing differs but by rounding
  if (!(mean > 1e-12 * sum(v) && variance > 0)) return(list(p = 1, parameter = c(df = NA_real_), how = how))
  df <- 2 * mean^2 / variance
  list(p = stats::pchisq(df * statistic / mean, df, lower.tail = FALSE), parameter = c(df = df), how = how)
}

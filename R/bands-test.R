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
#' Cost: \eqn{O(n^2)} for n points in all and each replicate, many in one pass; with a `tol` in `control`, in few
#' dimensions, \eqn{O(n)}.
#'
#' @param x,y The samples: matrices or data frames with a row per point and the same columns, or vectors. Rows with
#'   missing values are left out.
#' @param bandwidth That of both estimates, as for [flash_kde()]: a number, a vector of standard deviations, a
#'   variance matrix, or the name of a selector, which sees both samples together.
#' @param method `"permutation"` or `"asymptotic"`.
#' @param replicates Number of permutations, by R's random numbers ([set.seed()]).
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
#'   Duong, T., Goud, B. and Schauer, K. (2012) Closed-form density-based framework for automatic detection of
#'   cellular morphology changes. *Proceedings of the National Academy of Sciences* 109, 8382-8387.
#'
#'   Gretton, A., Borgwardt, K. M., Rasch, M. J., Schoelkopf, B. and Smola, A. (2012) A kernel two-sample test.
#'   *Journal of Machine Learning Research* 13, 723-773.
#' @seealso [kde_gof()] for one sample and a given distribution.
#' @export
#' @examples
#' set.seed(1)
#' flowers <- split(iris[, 1:2], iris$Species)
#' kde_test(flowers$versicolor, flowers$virginica)
#' kde_test(flowers$versicolor, flowers$virginica, method = "asymptotic")
kde_test <- function(x, y, bandwidth = "silverman", method = c("permutation", "asymptotic"), replicates = 999,
                     control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given")
  names <- paste(deparse1(substitute(x), width.cutoff = 60), "and", deparse1(substitute(y), width.cutoff = 60))
  method <- check_choice(method, c("permutation", "asymptotic"), "method")
  replicates <- check_count(replicates, "replicates")
  run <- start_run(settle_control(control), "Permuting")
  x <- test_points(x, "x")
  y <- test_points(y, "y", d = ncol(x), names = colnames(x))
  both <- rbind(unname(x), unname(y))
  colnames(both) <- colnames(x)
  n <- c(nrow(x), nrow(y))
  chosen <- test_bandwidth(bandwidth, both, run, "x")
  sources <- sum_sources(unname(both), NULL, sqrt(2) * chosen$L, plan = new_plan())
  height <- exp(log_kernel_norm(sources$L))
  first <- seq_len(sum(n)) <= n[1]
  parts <- height * squared_parts(sources, first, n, run)
  statistic <- parts[[1]] + parts[[2]] - 2 * parts[[3]]
  found <- if (method == "permutation") {
    by_permutation(sources, statistic / height, n, replicates, run)
  } else {
    by_moments(sources, statistic / height, n, run)
  }
  estimate <- c("int p1^2" = parts[[1]], "int p2^2" = parts[[2]], "int p1 p2" = parts[[3]])
  new_htest(
    c(T = statistic), found, paste("Two-sample kernel density test,", found$how), shorten(names, 120),
    "the densities differ", estimate, chosen
  )
}

# As print() of package stats has tests.
new_htest <- function(statistic, found, method, names, alternative, estimate, chosen) {
  structure(class = "htest", list(
    statistic = statistic, parameter = found$parameter, p.value = found$p, estimate = estimate,
    alternative = alternative, method = method, data.name = names, bandwidth = chosen$H
  ))
}

test_points <- function(x, arg, d = NULL, names = NULL) {
  points <- check_points(x, arg, d, names, like = "`x`", infinite = TRUE)
  points <- handle_missing(points, NULL, stats::na.omit, arg)$points
  if (nrow(points) < 2) stop_argument(arg, "must have at least two rows: found one")
  points
}

# As settle_bandwidth() gives it, for a plain estimate. `arg`: what the user calls the points.
test_bandwidth <- function(bandwidth, points, control, arg) {
  wanted <- want_bandwidth(bandwidth, points, NULL, "bandwidth")
  data <- list(points = points, weights = NULL, clean = once(clean_points(points, NULL, arg)))
  search <- search_options("auto", "auto", NULL, 5)
  settle_bandwidth(wanted, data, PLAIN_ESTIMATOR, search, control, "bandwidth", arg)
}

# a' K b of columns of points' own weights a and b.
kernel_forms <- function(sources, a, b, run) {
  colSums(a * kernel_sum_of(sources, NULL, b, run, as_matrix = TRUE)$sums)
}

# The integrals of p1^2, p2^2 and p1 p2, relative to the kernel's height.
squared_parts <- function(sources, first, n, run) {
  own <- cbind(first / n[1], (!first) / n[2])
  sums <- kernel_sum_of(sources, NULL, own, run, as_matrix = TRUE)$sums
  c(sum(own[, 1] * sums[, 1]), sum(own[, 2] * sums[, 2]), sum(own[, 1] * sums[, 2]))
}

by_permutation <- function(sources, statistic, n, replicates, run) {
  a <- rep(c(1, -1) / n, n)
  draws <- in_blocks(replicates, sum(n), 1, run, \(columns) {
    exchanged <- vapply(seq_len(columns), \(i) sample(a), a)
    kernel_forms(sources, exchanged, exchanged, run)
  })
  # an exchange that is none gives the same up to rounding
  p <- (1 + sum(draws >= statistic - 1e-10 * abs(statistic))) / (replicates + 1)
  list(p = p, parameter = c(replicates = replicates), how = "permutations")
}

# Over all exchanges, of kernels K~ centred by rows and columns: E T = s tr(K~) / (n - 1), s = 1 / n_1 + 1 / n_2,
# and var T = 2 s^2 sum_{i != j} K~_ij^2 / n^2, up to terms of order 1 / n.
by_moments <- function(sources, statistic, n, run) {
  s <- sum(1 / n)
  n <- sum(n)
  ones <- matrix(1, n)
  rows <- kernel_sum_of(sources, NULL, ones, run, as_matrix = TRUE)$sums[, 1]
  # squared kernels are those of half the variance
  narrow <- sum_sources(sources$points, NULL, sources$L / sqrt(2))
  squares <- kernel_forms(narrow, ones, ones, run)
  all <- sum(rows)
  own <- 1 - 2 * rows / n + all / n^2
  mean <- s * sum(own) / (n - 1)
  variance <- 2 * s^2 * (squares - 2 * sum(rows^2) / n + (all / n)^2 - sum(own^2)) / n^2
  df <- 2 * mean^2 / variance
  list(
    p = stats::pchisq(df * statistic / mean, df, lower.tail = FALSE), parameter = c(df = df),
    how = "moments of permutations"
  )
}

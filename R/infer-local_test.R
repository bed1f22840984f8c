#' Where do two samples differ?
#'
#' Tests at each of some places whether two samples have the same density there, with p-values that are adjusted for
#' the number of places. As `ks::kde.local.test()`, in any number of dimensions. [kde_test()] tells whether they differ
#' at all, with more power.
#'
#' @details
#' At a place y the plain estimates \eqn{p_1} and \eqn{p_2} of one bandwidth H are compared by \eqn{z = (p_1 - p_2) /
#' se}{z = (p_1 - p_2) / se}, which is about normal where the densities are the same; both have the same bias then, so
#' nothing need be corrected. `variance` says what \eqn{se^2}{se^2} is:
#'
#' * `"sums"`: the sum of both estimates' variances, by exact sums of squared kernels, \eqn{\sum_i a_i^2 (K_H(y - x_i) -
#'   p)^2}{sum_i a_i^2 (K_H(y - x_i) - p)^2} with \eqn{a_i = 1 / n}, or the share of a row's weight.
#' * `"leading"`: its leading term for small bandwidths, \eqn{R(K) |H|^{-1/2} (p_1 / n_1 + p_2 / n_2)}{R(K) |H|^(-1/2)
#'   (p_1 / n_1 + p_2 / n_2)} (Duong 2013), with effective sizes for n where there are weights: what `ks` has. It is
#'   larger where the bandwidth is not small, so that fewer differences are found.
#'
#' P-values are adjusted by [stats::p.adjust()]. `"hochberg"`, which `ks` has, holds the probability of any false
#' finding for tests that are positively dependent, as those at neighbouring places are; `"holm"` for all; `"BH"` holds
#' the share of false findings. All of them count places as if they were independent tests, so a fine grid costs power.
#' `"permutation"` knows how they depend: it compares |z| with the largest of all places in `replicates` exchanges of
#' rows between the samples (Westfall and Young 1993), which is exact if the samples have one density, and does not
#' take z for normal where few points are near. Of 50 and 60 normal points whose means are half a standard deviation
#' apart it finds a difference in 0.4 of samples, Hochberg's rule on 201 places in 0.15, and that with the leading
#' variance in 0.01.
#'
#' Cost: \eqn{O(nm)} for `m` places; by permutations for each replicate, many in one pass.
#'
#' @inheritParams kde_test
#' @param newdata Places: rows with the columns of the samples, or a vector. `NULL`: an even grid over the range of both
#'   samples, in one and two dimensions.
#' @param variance `"sums"` or `"leading"`.
#' @param adjust One of [stats::p.adjust.methods], or `"permutation"`.
#' @param replicates Number of permutations, for `adjust = "permutation"`.
#' @param n Number of places of the grid along each axis. `NULL`: 201 in one dimension, 41 in two.
#' @returns A data frame of class `kde_local_test`, a row for each place: the places' columns, `density_x`, `density_y`,
#'   `difference`, the first less the second, and its `se`, in 1 / (product of the units of the columns), `statistic`
#'   (z), `p.value` and `p.adjusted`. Rows of `newdata` with missing values are `NA`. Its attribute `"test"` is a list
#'   with the rest: `bandwidth`, the variance matrix H, among it.
#' @inheritSection flash_kde Errors
#' @references Duong, T. (2013) Local significant differences from nonparametric two-sample tests. *Journal of
#'   Nonparametric Statistics* 25, 635-645.
#'
#'   Hochberg, Y. (1988) A sharper Bonferroni procedure for multiple tests of significance. *Biometrika* 75, 800-802.
#'
#'   Westfall, P. H. and Young, S. S. (1993) *Resampling-Based Multiple Testing*. Wiley.
#' @seealso [plot.kde_local_test()]; [kde_test()] for all places together.
#' @export
#' @examples
#' flowers <- split(iris[, 1:2], iris$Species)
#' differ <- kde_local_test(flowers$versicolor$Sepal.Length, flowers$virginica$Sepal.Length)
#' differ
#' plot(differ)
#'
#' places <- data.frame(Sepal.Length = 5:7, Sepal.Width = 3)
#' kde_local_test(flowers$versicolor, flowers$virginica, places)
kde_local_test <- function(x, y, newdata = NULL, bandwidth = "silverman", variance = c("sums", "leading"),
                           adjust = "hochberg", replicates = 999, n = NULL, weights_x = NULL, weights_y = NULL,
                           control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given")
  names <- c(deparse1(substitute(x), width.cutoff = 60), deparse1(substitute(y), width.cutoff = 60))
  variance <- check_choice(variance, c("sums", "leading"), "variance")
  adjust <- check_choice(adjust, c(stats::p.adjust.methods, "permutation"), "adjust")
  replicates <- check_count(replicates, "replicates")
  if (!is.null(newdata) && !is.null(n)) stop_argument("n", "must be NULL with `newdata`, which says where")
  run <- start_run(settle_control(control), "Comparing")
  rows <- both_samples(x, y, weights_x, weights_y)
  like_fit <- list(x = rows$points, n = nrow(rows$points), d = ncol(rows$points), names = colnames(rows$points))
  given <- if (is.null(newdata)) band_grid(like_fit, n) else new_points(like_fit, newdata)
  kept <- newdata_rows(given, stats::na.pass)
  chosen <- test_bandwidth(bandwidth, rows$points, run, "x", rows$weights)
  m <- nrow(kept$points)
  check_memory(8 * 16 * as.double(m), "newdata")
  compared <- local_comparison(unname(rows$points), kept$points, chosen$L, variance, run)
  columns <- local_differences(compared, rows$shares)
  draws <- if (adjust == "permutation" && m > 0) largest_exchanged(compared, rows, m, replicates, run)
  columns$p.adjusted <- adjusted_p(columns, adjust, draws)
  columns <- Map(kept$restore, columns, c(0, 0, 0, 0, 0, 1, 1))
  places <- as.data.frame(given)
  names(places) <- make.unique(c(names(columns), point_names(like_fit)))[-seq_along(columns)]
  structure(
    cbind(places, columns),
    test = list(
      samples = shorten(names, 40), n = rows$n, bandwidth = chosen$H, variance = variance, adjust = adjust,
      variables = names(places), grid = is.null(newdata), weighted = !is.null(rows$weights)
    ),
    class = c("kde_local_test", "data.frame")
  )
}

# Columns at the rows of `at`, but for p-values that are adjusted.
local_differences <- function(compared, shares) {
  found <- compared(shares[, 1, drop = FALSE], shares[, 2, drop = FALSE])
  c(lapply(found, drop), list(p.value = 2 * stats::pnorm(-abs(drop(found$statistic)))))
}

# A function of two matrices of shares of the rows in x and in y, a column of each for a pair of samples:
# list(density_x, density_y, difference, se, statistic), matrices with a row for each of `at` and a column for each pair.
local_comparison <- function(points, at, L, variance, run) {
  height <- exp(log_kernel_norm(L))
  sums_of <- function(L, b) {
    if (nrow(at) == 0) return(matrix(0, 0, ncol(b)))
    unname(kernel_sum_of(sum_sources(points, NULL, L), at, b, run, as_matrix = TRUE)$sums)
  }
  variance_of <- function(p, a) {
    own <- rep(colSums(a^2), each = nrow(at))
    if (variance == "leading") return(height * 2^(-ncol(points) / 2) * own * p)
    height^2 * sums_of(L / sqrt(2), a^2) - 2 * height * p * sums_of(L, a^2) + p^2 * own
  }
  function(one, two) {
    p <- list(height * sums_of(L, one), height * sums_of(L, two))
    se <- sqrt(pmax(variance_of(p[[1]], one) + variance_of(p[[2]], two), 0))
    difference <- p[[1]] - p[[2]]
    # none where there are no points of either
    z <- ifelse(se > 0, difference / se, 0)
    list(density_x = p[[1]], density_y = p[[2]], difference = difference, se = se, statistic = z)
  }
}

# The largest of all |z|, for rows that are exchanged between the samples with their weights.
largest_exchanged <- function(compared, rows, m, replicates, run) {
  w <- if (is.null(rows$weights)) rep(1, length(rows$first)) else rows$weights
  name_stage(run, "Permuting")
  in_blocks(replicates, 6 * length(w) + 12 * m, 1, run, \(columns) {
    one <- w * vapply(seq_len(columns), \(i) sample(rows$first), rows$first)
    two <- w - one
    of_all <- \(a) a / rep(colSums(a), each = length(w))
    z <- compared(of_all(one), of_all(two))$statistic
    matrix(apply(abs(z), 2, max), 1)
  })
}

adjusted_p <- function(columns, adjust, draws) {
  if (adjust != "permutation") return(stats::p.adjust(columns$p.value, adjust))
  z <- abs(columns$statistic)
  (1 + vapply(z, \(z) sum(draws >= z - 1e-10 * z), 0)) / (length(draws) + 1)
}

#' @export
print.kde_local_test <- function(x, level = 0.05, ...) {
  test <- attr(x, "test")
  if (is.null(test)) return(NextMethod())
  found <- factor(which_is_denser(x, level), c(1, -1))
  counts <- tabulate(found, 2)
  cat(
    "Local two-sample kernel density test\n\n",
    "data:    ", test$samples[1], " (n = ", test$n[1], ") and ", test$samples[2], " (n = ", test$n[2], ")",
    if (test$weighted) ", weighted", "\n",
    "places:  ", nrow(x), ", of which ", sum(counts), " differ at level ", format(level), " (", test$adjust,
    "): x is denser at ", counts[1], ", y at ", counts[2], "\n\n", sep = ""
  )
  rows <- if (nrow(x) > 10) utils::head(order(x$p.value), 6) else seq_len(nrow(x))
  if (length(rows) < nrow(x)) cat("the smallest p-values:\n")
  print(structure(x, class = "data.frame", test = NULL)[rows, ], ...)
  invisible(x)
}

# 1 where x is denser at that level, -1 where y is, else 0.
which_is_denser <- function(test, level) {
  found <- !is.na(test$p.adjusted) & test$p.adjusted <= level
  found * sign(replace(test$difference, !found, 0))
}

#' Tests with kernel density estimates
#'
#' `kde_test()` tests whether two samples have the same density, where they differ, whether columns are independent, or whether a
#' sample has a given distribution, in any number of dimensions.
#'
#' @section Two samples:
#' The statistic is \eqn{T = \int (p_1 - p_2)^2}{T = int (p_1 - p_2)^2} for two classical estimates with the same bandwidth H
#' (Anderson, Hall and Titterington 1994), as in `ks::kde.test()`. Up to a constant it is the squared maximum mean discrepancy
#' (MMD) for a Gaussian kernel with variance 2 H (Gretton and others 2012). The test is consistent.
#'
#' * `"permutation"` compares T with its values in `replicates` random permutations of the rows. The p-value is
#'   \eqn{(1 + \#\{T_b \ge T\}) / (B + 1)}{(1 + #{T_b >= T}) / (B + 1)}. The level is exact for any sample sizes, also if
#'   the bandwidth is chosen from both samples together.
#' * `"asymptotic"` uses a scaled chi-squared distribution with the moments of T over all permutations.
#'
#' With `bandwidth = "aggregated"` the statistic is the smallest p-value of ten bandwidths, compared with that of every
#' permutation: the level is exact (MMDAgg; Schrab and others 2023).
#'
#' More than 256 rows are permuted in at most 256 bins, drawn at random. One pass over all pairs then serves all
#' `replicates`, and the level stays exact (Domingo-Enrich and others 2025).
#'
#' Rows are permuted with their weights, and T is studentised (Chung and Romano 2013). The level is exact if the
#' weights of both samples have the same distribution.
#'
#' @section Independence:
#' `x` and `y` are columns of the same rows. The statistic is \eqn{T = \int (p_{xy} - p_x p_y)^2}{T = int (p_xy - p_x p_y)^2},
#' up to a constant the Hilbert-Schmidt independence criterion (HSIC; Gretton and others 2008). By default nine pairs of
#' bandwidths are aggregated. Categorical columns have the kernel 1 for equal categories and 0 for others. The level is exact by
#' permutation of y. More than 256 rows are permuted within strata of eight bins (four above 4,096 rows), by one pass over eight
#' (four) times the rows, with the power of about 7/8 (3/4) of the rows.
#'
#' @section One sample and a distribution:
#' The statistic is \eqn{T = \int (p - K_H * p_0)^2}{T = int (p - K_H * p_0)^2}, where the null density \eqn{p_0} is smoothed like
#' the sample (Fan 1994).
#'
#' The p-value is from a parametric bootstrap with `replicates` samples of \eqn{p_0}. Estimated parameters, and a bandwidth that is
#' chosen by name, are computed again for each sample. The level is exact if no parameter is estimated. Bootstrap samples
#' have the weights of the sample, which should not depend on the points.
#'
#' @section One sample and scores:
#' `y` is a fit of other rows, or for `method = "stein"` a function(x, ...) that returns gradients of the log density. T is
#' the squared kernel Stein discrepancy for the Gaussian kernel with variance 2 H, without a normalising constant. By default ten bandwidths are aggregated (KSDAgg; Schrab and others 2022). The p-value is from
#' random signs of rows or bins (wild bootstrap), so the level is approximate.
#'
#' @section Where two samples differ:
#' The statistic at each place is \eqn{z = (p_1 - p_2) / se}{z = (p_1 - p_2) / se}, as in `ks::kde.local.test()`. It is
#' approximately normal if the densities are the same there. `variance` selects the standard error:
#'
#' * `"sums"`: exact sums of squared kernels, \eqn{\sum_i a_i^2 (K_H(y - x_i) - p)^2}{sum_i a_i^2 (K_H(y - x_i) - p)^2} for
#'   each sample, with \eqn{a_i = 1 / n} or the share of the row's weight.
#' * `"leading"`: the leading term for small bandwidths (Duong 2013).
#'
#' `adjust = "permutation"` compares |z| with its maximum over all places in `replicates` permutations. It is
#' exact if the samples have the same density, and has more power on fine grids.
#'
#' @section Cost:
#' \eqn{O(n^2)} for n rows in all and each bandwidth, and for each replicate of a bootstrap or of `"local"`. With a
#' `tol` far below 1 / n in `control`, in few dimensions, \eqn{O(n)}.
#'
#' @param x The sample, or one of two: a matrix or data frame with a row per point, or a vector. Rows with missing values
#'   are left out. Or a formula of two groups, with `y` (or `data`) and `subset`, as for [stats::t.test()].
#' @param y The other sample, of the same columns, or for `"independence"` other columns. Or a distribution: `"norm"`; for one
#'   variable the name of another one, such as `"exp"` for [stats::qexp()] and [stats::rexp()]; a function(n, ...) that draws n
#'   points: a vector, or a matrix of n rows; or a fit from [flash_kde()].
#' @param bandwidth Of all estimates, as for [flash_kde()] (a selector sees both samples together), or `"aggregated"`.
#' @param method Of two samples `"permutation"`, `"asymptotic"`, `"local"` or `"independence"`, of one `"bootstrap"` or `"stein"`.
#' @param replicates Number of permutations or samples, by R's random numbers ([set.seed()]).
#' @param weights_x,weights_y Weights of the rows, not negative, or `NULL`.
#' @param control A [flash_control()].
#' @param ... Parameters of the distribution, by name, as `rate = 2`. Of `"norm"` both or none: `mean` and, in one
#'   dimension, `sd`, or the variance matrix `sigma`; without them they are estimated.
#' @param estimate A function(x) that estimates the distribution's parameters from an n x d matrix and returns them as a
#'   named list; with weights a function(x, weights).
#' @param newdata For `"local"`, places: rows with the columns of the samples, or a vector. `NULL`: an even grid over both samples.
#' @param variance For `"local"`, `"sums"` or `"leading"`.
#' @param adjust For `"local"`, one of [stats::p.adjust.methods], or `"permutation"`.
#' @param n For `"local"`, number of places of the grid along each axis. `NULL`: 201 in one dimension, 41 in two.
#' @returns A list of class `htest`: `statistic` (T, or the smallest p-value of several
#'   bandwidths), `parameter` (numbers of bandwidths and replicates, or degrees of freedom), `p.value`, `estimate` (the
#'   integrals of \eqn{p_1^2}{p_1^2}, \eqn{p_2^2}{p_2^2} and \eqn{p_1 p_2}{p_1 p_2}, or the parameters of the distribution),
#'   `alternative`, `method` and `data.name`; and `bandwidth`, the variance matrix H, of several that of the smallest p-value.
#'
#'   With `method = "local"` a data frame of class `kde_local_test`, a row for each place: the places' columns,
#'   `density_x`, `density_y`, `difference`, the first less the second, and its `se`, in 1 / (product of the units of the
#'   columns), `statistic` (z), `p.value` and `p.adjusted`. Rows of `newdata` with missing values are `NA`.
#' @references Anderson, N. H., Hall, P. and Titterington, D. M. (1994) *Journal of Multivariate Analysis* 50, 41-54.
#'
#'   Chung, E. and Romano, J. P. (2013) *The Annals of Statistics* 41, 484-507.
#'
#'   Domingo-Enrich, C., Dwivedi, R. and Mackey, L. (2025) *arXiv* 2502.07672. Duong, T. (2013) *Journal of Nonparametric
#'   Statistics* 25, 635-645. Fan, Y. (1994) *Econometric Theory* 10, 316-356.
#'
#'   Gretton, A. and others (2008) *Advances in NIPS* 20, 585-592; (2012) *Journal of Machine Learning Research* 13, 723-773.
#'
#'   Schrab, A. and others (2022) *Advances in NeurIPS* 35; (2023) *Journal of Machine Learning Research* 24, 1-81.
#' @seealso [plot.kde_local_test()]; [kde_bands()].
#' @rawRd \concept{two-sample test}\concept{goodness of fit}\concept{same distribution}\concept{test of independence}
#'   \concept{maximum mean discrepancy}\concept{HSIC}\concept{kernel Stein discrepancy}
#' @export
#' @examples
#' set.seed(1)
#' flowers <- split(iris[, 1:2], iris$Species)
#' kde_test(flowers$versicolor, flowers$virginica)
#' kde_test(flowers$versicolor, flowers$virginica, "aggregated")
#' kde_test(len ~ supp, ToothGrowth)
#'
#' # where they differ
#' lengths <- split(iris$Sepal.Length, iris$Species)
#' differ <- kde_test(lengths$versicolor, lengths$virginica, method = "local")
#' differ
#' plot(differ)
#'
#' # independence
#' kde_test(precip, nchar(names(precip)), method = "independence", replicates = 199)
#'
#' # one sample: normal, exponential, and a fit of other rows
#' kde_test(faithful$waiting, "norm", replicates = 199)
#' kde_test(precip, "exp", estimate = \(x) list(rate = 1 / mean(x)), replicates = 199)
#' kde_test(faithful[1:100, ], flash_kde(faithful[101:272, ]))
kde_test <- function(x, y, ...) {
  named <- "formula" %in% ...names()
  if (named || !missing(x) && inherits(x, "formula")) {
    call <- match.call()
    names(call)[names(call) == "x"] <- if (named) "data" else "formula"
    names(call)[names(call) == "y"] <- "data"
    call[[1]] <- test_of_groups
    return(eval(call, parent.frame()))
  }
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given: another sample, or a distribution")
  # one text is the name of a distribution, several are categories
  UseMethod("kde_test", if (is.character(y) && length(y) > 1) factor(y) else y)
}

#' @rdname kde_test
#' @export
kde_test.default <- function(x, y, bandwidth = if (method == "independence") "aggregated" else "silverman",
                             method = c("permutation", "asymptotic", "local", "independence"),
                             replicates = 999, weights_x = NULL, weights_y = NULL, newdata = NULL,
                             variance = c("sums", "leading"), adjust = "hochberg", n = NULL, control = NULL, ...) {
  check_dots_empty(...)
  names <- c(deparse1(substitute(x), width.cutoff = 60), deparse1(substitute(y), width.cutoff = 60))
  method <- check_choice(method, c("permutation", "asymptotic", "local", "independence"), "method")
  replicates <- check_count(replicates, "replicates")
  run <- start_run(settle_control(control), if (method == "local") "Comparing" else "Permuting")
  label <- shorten(paste(names, collapse = " and "), 120)
  dates <- date_kinds(x)
  x <- dates_as_numbers(x, dates, "x")
  y <- dates_as_numbers(y, if (method == "independence") date_kinds(y) else dates, "y")
  newdata <- dates_as_numbers(newdata, dates, "newdata")
  if (method == "independence") {
    weighted <- c("weights_x", "weights_y")[!c(is.null(weights_x), is.null(weights_y))]
    if (length(weighted) > 0) stop_argument(weighted[1], "must be NULL for method = \"independence\"")
    return(independence_test(x, y, label, bandwidth, replicates, run))
  }
  if (is_levels(x) || is_levels(y)) {
    found <- if (is_levels(x)) "x" else "y"
    stop_argument(found, "must have numbers: found categories, which only method = \"independence\" takes")
  }
  rows <- both_samples(x, y, weights_x, weights_y)
  if (method == "local") return(local_test(rows, names, newdata, bandwidth, variance, adjust, replicates, n, run))
  if (!is.null(newdata)) stop_argument("newdata", "must be NULL unless method = \"local\"")
  how <- paste0("Two-sample kernel density test", if (!is.null(rows$weights)) ", weighted")
  choose <- if (method == "permutation") test_bandwidths else test_bandwidth
  chosen <- choose(bandwidth, rows$points, run, "x", rows$weights)
  found <- if (method == "permutation") by_permutation(rows, chosen$factors, replicates, run)
  other <- "the densities differ"
  if (is_aggregated(bandwidth)) return(exchange_htest(found, how, label, other, chosen$factors[[found$best]]))
  sources <- sum_sources(unname(rows$points), NULL, sqrt(2) * chosen$L, plan = new_plan())
  height <- exp(log_kernel_norm(sources$L))
  parts <- if (method == "permutation") found$parts else squared_parts(sources, rows$shares, run)
  statistic <- parts[[1]] + parts[[2]] - 2 * parts[[3]]
  if (method == "asymptotic") found <- by_moments(sources, statistic, rows, run)
  estimate <- height * c("int p1^2" = parts[[1]], "int p2^2" = parts[[2]], "int p1 p2" = parts[[3]])
  new_htest(c(T = height * statistic), found, paste0(how, ", ", found$how), label, other, estimate, chosen)
}

# The test of two groups by a formula, as of t.test(). `...`: arguments of kde_test.default().
test_of_groups <- function(formula, data = NULL, subset, ...) {
  check_formula(formula, data)
  frame <- eval_model_frame(keep_arguments(match.call(), c("formula", "data", "subset")), parent.frame())
  group <- if (length(formula) == 3 && length(frame) == 2) factor(frame[[2]])
  if (nlevels(group) != 2) {
    found <- if (is.null(group)) shorten(deparse1(formula)) else paste0(nlevels(group), " groups (`subset` selects two)")
    stop_argument("formula", "must be values ~ a variable of two groups: found ", found)
  }
  samples <- split(if (is.matrix(frame[[1]])) as.data.frame(frame[[1]]) else frame[1], group)
  found <- kde_test.default(samples[[1]], samples[[2]], ...)
  if (inherits(found, "htest")) found$data.name <- paste(names(frame), collapse = " by ") else {
    attr(found, "test")$samples <- paste(names(frame)[2], "=", levels(group))
  }
  found
}

# list(points, weights, first, n, shares): the rows of both samples, whether each is from x, and a matrix of two columns
# with the share of each row in its sample. Weights are relative to the mean of their sample; NULL if neither has any.
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

# An object of class htest, printed by package stats.
new_htest <- function(statistic, found, method, names, alternative, estimate, chosen) {
  structure(class = "htest", list(
    statistic = statistic, parameter = found$parameter, p.value = found$p, estimate = estimate,
    alternative = alternative, method = method, data.name = names, bandwidth = chosen$H
  ))
}

# list(points, weights): complete rows of positive weight; weights are relative to their mean.
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

# settle_bandwidth() for the classical estimate. `arg`: the name of the user's argument.
test_bandwidth <- function(bandwidth, points, control, arg, weights = NULL) {
  wanted <- want_bandwidth(bandwidth, points, weights, "bandwidth")
  data <- list(points = points, weights = weights, clean = once(clean_points(points, weights, arg)))
  search <- search_options("auto", "auto", NULL, 5)
  settle_bandwidth(wanted, data, PLAIN_ESTIMATOR, search, control, "bandwidth", arg)
}

# a' K b for the columns of a and b, weights of the points.
kernel_forms <- function(sources, a, b, run) colSums(a * kernel_sum_of(sources, NULL, b, run, as_matrix = TRUE)$sums)

# The integrals of p1^2, p2^2 and p1 p2, relative to the height of the kernel.
squared_parts <- function(sources, shares, run) {
  sums <- kernel_sum_of(sources, NULL, shares, run, as_matrix = TRUE)$sums
  c(sum(shares[, 1] * sums[, 1]), sum(shares[, 2] * sums[, 2]), sum(shares[, 1] * sums[, 2]))
}

# The test by permutation with each of the bandwidth factors. Without weights the statistic is T; with weights, rows are
# permuted with them, and T is divided by its expectation. `parts` of the result: squared_parts() of the first bandwidth.
by_permutation <- function(rows, factors, replicates, run) {
  bins <- sample_bins(rows$n)
  by_bin <- order(bins$bin)
  points <- unname(rows$points)[by_bin, , drop = FALSE]
  size <- tabulate(bins$bin)
  free <- seq_len(sum(bins$count))
  first <- rows$first[match(seq_along(size), bins$bin)]
  draws <- cbind(first, vapply(seq_len(replicates), \(i) replace(first, free, sample(first[free])), first), deparse.level = 0)
  w <- if (!is.null(rows$weights)) matrix(rows$weights[by_bin])
  shares <- cbind(first / rows$n[1], (!first) / rows$n[2])
  found <- vapply(seq_along(factors), function(i) {
    L <- sqrt(2) * factors[[i]]
    share_stage(run, (i - 1) / length(factors), (if (is.null(w)) 1 else 1 / 3) / length(factors))
    G <- bin_forms(points, size, L, run, w)
    parts <- crossprod(shares, G %*% shares)[c(1, 4, 2)]
    if (is.null(w)) return(c(parts, forms_of(G, draws / rows$n[1] - (!draws) / rows$n[2])))
    share_stage(run, (i - 2 / 3) / length(factors), 2 / 3 / length(factors))
    c(parts, studentised(G, bin_forms(points, size, L, run, w^2, w), fold_rows(cbind(w, w^2), size), draws))
  }, numeric(replicates + 4))
  close_progress(run)
  statistics <- found[-(1:3), , drop = FALSE]
  c(permuted(statistics, if (is.null(w)) sum(1 / rows$n) else 1), list(parts = found[1:3, 1]))
}

# T divided by its expectation, for columns of `draws` that are TRUE for bins of x. `G`, `squares`: forms of weights w
# and w, and of w^2 and w; `mass`: the sums of w and of w^2 in each bin.
studentised <- function(G, squares, mass, draws) {
  part <- function(own) {
    a <- own / rep(colSums(mass[, 1] * own), each = nrow(own))
    own <- forms_of(G, a)
    # sum_i a_i^2 |phi(z_i) - mean of phi in the sample of z_i|^2
    list(a = a, own = own, spread = colSums(a^2 * mass[, 2]) * (1 + own) - 2 * colSums(a^2 * (squares %*% a)))
  }
  one <- part(draws)
  two <- part(!draws)
  own <- one$own + two$own
  (own - 2 * colSums(one$a * (G %*% two$a))) / pmax(one$spread + two$spread, 1e-12 * own)
}

# K~ is the kernel matrix centred by rows and columns, and v_i the variance of the coefficient of row i. Then E T = sum
# v_i K~_ii, and var T = 2 sum_{i != j} v_i v_j K~_ij^2. Without weights v is the variance over all permutations,
# (1 / n_1 + 1 / n_2) / n, and both are the moments over permutations up to terms of order 1 / n.
by_moments <- function(sources, statistic, rows, run) {
  n <- sum(rows$n)
  v <- if (is.null(rows$weights)) rep(sum(1 / rows$n) / n, n) else rowSums(rows$shares)^2
  share <- if (is.null(rows$weights)) rep(1 / n, n) else rows$weights / n
  sums <- kernel_sum_of(sources, NULL, cbind(share, v), run, as_matrix = TRUE)$sums
  # the squared kernel is a kernel of half the variance
  narrow <- sum_sources(sources$points, NULL, sources$L / sqrt(2))
  squares <- kernel_forms(narrow, matrix(v), matrix(v), run)
  row <- sums[, 1] - sum(share * sums[, 1]) / 2 # K~_ij = K_ij - row_i - row_j
  own <- 1 - 2 * row
  mean <- sum(v * own) / share_of_pairs(share)
  all <- squares - 4 * sum(v * row * sums[, 2]) + 2 * sum(v) * sum(v * row^2) + 2 * sum(v * row)^2
  variance <- 2 * (all - sum((v * own)^2))
  how <- "moments of permutations"
  # the samples differ only by rounding
  if (!(mean > 1e-12 * sum(v) && variance > 0)) return(list(p = 1, parameter = c(df = NA_real_), how = how))
  df <- 2 * mean^2 / variance
  list(p = stats::pchisq(df * statistic / mean, df, lower.tail = FALSE), parameter = c(df = df), how = how)
}

# Goodness of fit by the kernel Stein discrepancy, for a fit or a function that returns scores.

#' @rdname kde_test
#' @export
kde_test.flash_kde <- function(x, y, bandwidth = "aggregated", replicates = 999, weights_x = NULL, control = NULL, ...) {
  check_dots_empty(...)
  fit <- unclass(y)
  if (!is.null(fit$kind)) {
    stop_argument("y", "must be a fit of numbers without a `support`: its density need not vanish at bounds")
  }
  names <- shorten(deparse1(substitute(x), width.cutoff = 60), 120)
  rows <- test_points(x, "x", fit$d, fit$names, weights_x, "weights_x")
  stein_test(rows, \(points, run) score_estimate(fit, points, FALSE, run), names, bandwidth, replicates, control)
}

# `score`: a function(points, run) that returns the gradients of the log density. `rows`: of test_points().
stein_test <- function(rows, score, names, bandwidth, replicates, control) {
  replicates <- check_count(replicates, "replicates")
  run <- start_run(settle_control(control), "Comparing")
  points <- unname(rows$points)
  n <- nrow(points)
  scores <- as.matrix(score(rows$points, run))
  if (!is.numeric(scores) || !identical(dim(scores), dim(points)) || !all(is.finite(scores))) {
    stop_argument("y", "must have finite scores, a row for each of ", whole(n), " points: found ", describe(scores))
  }
  chosen <- test_bandwidths(bandwidth, rows$points, run, "x", rows$weights)
  share <- (if (is.null(rows$weights)) rep(1, n) else rows$weights) / n
  size <- ceiling(n / MOST_BINS)
  by_bin <- if (size == 1) seq_len(n) else sample(n)
  sizes <- c(rep(size, n %/% size), if (n %% size > 0) n %% size)
  signs <- cbind(1, vapply(seq_len(replicates), \(i) random_signs(length(sizes)), numeric(length(sizes))))
  draws <- vapply(seq_along(chosen$factors), function(k) {
    share_stage(run, (k - 1) / length(chosen$factors), 1 / length(chosen$factors))
    pick <- \(values) values[by_bin, , drop = FALSE]
    forms_of(stein_forms(pick(points), pick(scores), share[by_bin], sizes, sqrt(2) * chosen$factors[[k]], run), signs)
  }, numeric(replicates + 1))
  close_progress(run)
  how <- paste0("Kernel Stein test of fit", if (!is.null(rows$weights)) ", weighted")
  found <- permuted(draws, mean(abs(draws)), "wild bootstrap")
  exchange_htest(found, how, names, "the density is another one", chosen$factors[[found$best]])
}

# Signs of the wild bootstrap. As many are positive as negative, so that the mean of the rows' features, 0 under the null, does not
# widen the distribution of the replicates, which would make the test conservative. Fewer than 20 have independent signs.
random_signs <- function(n) if (n < 20) sample(c(-1, 1), n, TRUE) else sample(rep_len(c(-1, 1), n))

# Forms of the Stein kernel for the Gaussian kernel k of bandwidth L. With u = L^-1 x and t = L's for the score s, it is
# k_ij (t_i't_j + (t_i - t_j)'(u_i - u_j) + d - |u_i - u_j|^2), which is the sum of
# k_ij (a_i'a_j / 2 + u_i'u_j / 2 + u_i't_i - |u_i|^2 + d / 2), with a = t - u, and its transpose.
stein_forms <- function(points, scores, share, sizes, L, run) {
  u <- whiten(points - rep(colMeans(points), each = nrow(points)), L)
  t <- scores %*% L
  a <- t - u
  own <- rowSums(u * a) + ncol(u) / 2
  half <- bin_forms(u, sizes, diag(ncol(u)), run, share * cbind(a / 2, u / 2, own), share * cbind(a, u, 1))
  half + t(half)
}

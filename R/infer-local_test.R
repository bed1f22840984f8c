# Local two-sample test: `method = "local"` of kde_test().

local_test <- function(rows, names, newdata, bandwidth, variance, adjust, replicates, n, run) {
  variance <- check_choice(variance, c("sums", "leading"), "variance")
  adjust <- check_choice(adjust, c(stats::p.adjust.methods, "permutation"), "adjust")
  if (!is.null(newdata) && !is.null(n)) stop_argument("n", "must be NULL with `newdata`: it is the size of the grid")
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

# The columns of the result at the rows of `at`, before p-values are adjusted.
local_differences <- function(compared, shares) {
  found <- compared(shares[, 1, drop = FALSE], shares[, 2, drop = FALSE])
  c(lapply(found, drop), list(p.value = 2 * stats::pnorm(-abs(drop(found$statistic)))))
}

# Returns a function of two matrices, the shares of the rows in x and in y, with a column for each pair of samples. The
# value is list(density_x, density_y, difference, se, statistic), matrices of the rows of `at` by the pairs.
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
    # z is 0 where neither sample has points
    z <- ifelse(se > 0, difference / se, 0)
    list(density_x = p[[1]], density_y = p[[2]], difference = difference, se = se, statistic = z)
  }
}

# The maximum of |z| for each permutation of the rows with their weights.
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
    "points:  ", nrow(x), ", of which ", sum(counts), " differ at level ", format(level), " (", test$adjust,
    "): ", test$samples[1], " is denser at ", counts[1], ", ", test$samples[2], " at ", counts[2], "\n\n", sep = ""
  )
  rows <- if (nrow(x) > 10) utils::head(order(x$p.value), 6) else seq_len(nrow(x))
  if (length(rows) < nrow(x)) cat("the smallest p-values:\n")
  print(structure(x, class = "data.frame", test = NULL)[rows, ], ...)
  invisible(x)
}

# 1 where x is significantly denser at that level, -1 where y is, otherwise 0.
which_is_denser <- function(test, level) {
  found <- !is.na(test$p.adjusted) & test$p.adjusted <= level
  found * sign(replace(test$difference, !found, 0))
}

# Test of independence: `method = "independence"` of kde_test(). The statistic is the integral of (p_xy - p_x p_y)^2, up
# to a constant the Hilbert-Schmidt independence criterion (Gretton and others 2008).

independence_test <- function(x, y, names, bandwidth, replicates, run) {
  x <- check_points(x, "x", infinite = TRUE)
  y <- check_points(y, "y", infinite = TRUE)
  if (nrow(y) != nrow(x)) {
    stop_argument("y", "must have a row for each row of `x`, ", whole(nrow(x)), ": found ", whole(nrow(y)))
  }
  points <- test_points(cbind(unname(x), unname(y)), "x")$points
  columns <- split(seq_len(ncol(points)), seq_len(ncol(points)) > ncol(x))
  sides <- lapply(columns, \(k) points[, k, drop = FALSE])
  factors <- side_factors(bandwidth, points, sides, columns, run)
  pairs <- expand.grid(lapply(factors, seq_along))
  joint <- lapply(seq_len(nrow(pairs)), \(k) joint_factor(Map(`[[`, factors, pairs[k, ])))
  draws <- if (nrow(points) <= MOST_BINS) {
    by_all_permutations(sides, factors, replicates, run)
  } else {
    by_strata(sides, factors, joint, pairs, replicates, run)
  }
  close_progress(run)
  found <- permuted(draws, 1)
  L <- joint[[found$best]]
  height <- exp(log_kernel_norm(sqrt(2) * L))
  exchange_htest(found, "Kernel test of independence", names, "they are dependent", L, height)
}

# The bandwidth factor of (x, y).
joint_factor <- function(of) {
  L <- diag(0, sum(vapply(of, ncol, 0L)))
  first <- seq_len(ncol(of[[1]]))
  L[first, first] <- of[[1]]
  L[-first, -first] <- of[[2]]
  L
}

# A list of bandwidth factors for x, and one for y. Neither depends on which rows belong together: selectors see x and y
# alone. Of many bandwidths, three for each, whose kernels have lengths of a third, one and three times the median
# distance.
side_factors <- function(bandwidth, points, sides, columns, run) {
  if (!is.character(bandwidth)) {
    H <- test_bandwidth(bandwidth, points, run, "x")$H
    return(lapply(columns, \(k) list(lower_factor(H[k, k, drop = FALSE], "bandwidth"))))
  }
  Map(\(side, arg) {
    name <- if (is_aggregated(bandwidth)) "silverman" else bandwidth
    L <- test_bandwidth(name, side, run, arg)$L
    if (!is_aggregated(bandwidth)) return(list(L))
    lapply(stats::median(some_distances(side, L)) / 2 * c(1 / 3, 1, 3), \(by) by * L)
  }, sides, c("x", "y"))
}

# Returns a matrix with the statistic of the rows as they are, and of each permutation of y, a column for each pair of
# bandwidths: n^-2 sum_ij K~_ij L_ij, where K~ is the kernel matrix of x centred by rows and columns.
by_all_permutations <- function(sides, factors, replicates, run) {
  matrices <- Map(\(side, of) {
    lapply(of, \(L) kernel_matrix_of(sum_sources(side, NULL, sqrt(2) * L), NULL, run))
  }, sides, factors)
  n <- nrow(sides[[1]])
  centred <- vapply(matrices[[1]], \(K) as.vector(K - outer(rowMeans(K), rowMeans(K), `+`) + mean(K)), numeric(n^2))
  draws <- vapply(seq_len(replicates + 1), function(i) {
    order <- if (i == 1) seq_len(n) else sample(n)
    vapply(matrices[[2]], \(L) drop(crossprod(centred, as.vector(L[order, order]))), numeric(ncol(centred)))
  }, matrix(0, ncol(centred), length(matrices[[2]])))
  t(matrix(draws, ncol = replicates + 1)) / n^2
}

# The same for permutations of bins of rows within strata of a few bins, drawn at random. The statistic sums over pairs of
# joint points (x_i, y_j), where the rows i and j have the same place in two bins of a stratum: so a pass over
# `bins` * n joint points has the forms of all permutations. Rows left over keep their y.
by_strata <- function(sides, factors, joint, pairs, replicates, run) {
  n <- nrow(sides[[1]])
  bins <- if (n <= 4096) 8 else 4
  size <- ceiling(n * bins / (4 * MOST_BINS))
  strata <- n %/% (size * bins)
  rows <- sample(n)
  used <- array(rows[seq_len(size * bins * strata)], c(size, bins, strata))
  left <- rows[-seq_along(used)]
  of_x <- c(used[, rep(seq_len(bins), bins), ], left)
  of_y <- c(used[, rep(seq_len(bins), each = bins), ], left)
  sizes <- c(rep(size, bins^2 * strata), if (length(left) > 0) length(left))
  points <- cbind(sides[[1]][of_x, , drop = FALSE], sides[[2]][of_y, , drop = FALSE])
  # the joint bins of a permutation
  picked <- function(i) {
    from <- if (i == 1) rep(seq_len(bins), strata) else c(replicate(strata, sample(bins)))
    of_strata <- rep(seq_len(strata) - 1, each = bins) * bins^2
    as.integer(c(seq_len(bins) + bins * (from - 1) + of_strata, if (length(left) > 0) length(sizes)))
  }
  picks <- vapply(seq_len(replicates + 1), picked, integer(bins * strata + (length(left) > 0)))
  row_sums <- Map(\(side, of) lapply(of, \(L) {
    drop(kernel_sum_of(sum_sources(side, NULL, sqrt(2) * L), NULL, rep(1, n), run, as_matrix = TRUE)$sums)
  }), sides, factors)
  vapply(seq_along(joint), function(k) {
    share_stage(run, (k - 1) / length(joint), 1 / length(joint))
    sums <- Map(`[[`, row_sums, pairs[k, ])
    G <- bin_forms(points, sizes, sqrt(2) * joint[[k]], run)
    crossed <- drop(fold_rows(matrix(sums[[1]][of_x] * sums[[2]][of_y]), sizes))
    apply(picks, 2, \(pick) sum(G[pick, pick]) - 2 / n * sum(crossed[pick])) / n^2 +
      sum(sums[[1]]) * sum(sums[[2]]) / n^4
  }, numeric(replicates + 1))
}

# Test of independence: `method = "independence"` of kde_test(). The statistic is the integral of (p_xy - p_x p_y)^2, up
# to a constant the Hilbert-Schmidt independence criterion (Gretton and others 2008).

independence_test <- function(x, y, names, bandwidth, replicates, run) {
  x <- any_points(if (is_levels(x)) list(x = x) else x, "x")
  y <- any_points(if (is_levels(y)) list(y = y) else y, "y")
  if (nrow(y) != nrow(x)) {
    stop_argument("y", "must have a row for each row of `x`, ", whole(nrow(x)), ": found ", whole(nrow(y)))
  }
  points <- test_points(cbind(unname(x), unname(y)), "x")$points
  columns <- split(seq_len(ncol(points)), seq_len(ncol(points)) > ncol(x))
  sides <- lapply(columns, \(k) points[, k, drop = FALSE])
  coded <- lengths(list(attr(x, "columns"), attr(y, "columns")))
  of_numbers <- side_factors(bandwidth, points, Map(\(k, n) utils::head(k, length(k) - n), columns, coded), run)
  factors <- Map(\(of, k) lapply(of, joint_factor, diag(WIDTH_OF_CODES, k)), of_numbers, coded)
  pairs <- expand.grid(lapply(factors, seq_along))
  joints <- \(of) Map(\(i, j) joint_factor(of[[1]][[i]], of[[2]][[j]]), pairs[[1]], pairs[[2]])
  by <- if (nrow(points) <= MOST_BINS) by_all_permutations else by_strata
  found <- permuted(by(sides, factors, joints(factors), pairs, replicates, run), 1)
  L <- joints(of_numbers)[[found$best]]
  height <- exp(log_kernel_norm(sqrt(2) * L))
  exchange_htest(found, "Kernel test of independence", names, "they are dependent", L, height)
}

# Numbers, then the codes of categories. With this bandwidth the kernel of different codes is below 1e-27. Any other kernel
# of two values, for equal and for different categories, gives the same test.
WIDTH_OF_CODES <- 1 / 16

# The bandwidth factor of (x, y).
joint_factor <- function(a, b) {
  rbind(cbind(a, matrix(0, nrow(a), ncol(b))), cbind(matrix(0, nrow(b), ncol(a)), b))
}

# A list of bandwidth factors for x, and one for y. Neither depends on which rows belong together: selectors see x and y
# alone. Of many bandwidths there are three for each. `columns`: the numbers of x and of y.
side_factors <- function(bandwidth, points, columns, run) {
  three <- \(far) stats::median(far) * c(1 / 3, 1, 3)
  chosen <- \(k, arg) test_bandwidths(bandwidth, points[, k, drop = FALSE], run, arg, lengths = three)$factors
  if (!is.character(bandwidth)) {
    used <- unlist(columns)
    if (length(used) == 0) stop_argument("bandwidth", "must not be numbers without numeric columns")
    H <- matrix(0, ncol(points), ncol(points))
    H[used, used] <- test_bandwidth(bandwidth, points[, used, drop = FALSE], run, "x")$H
    chosen <- \(k, arg) list(lower_factor(H[k, k, drop = FALSE], "bandwidth"))
  }
  Map(\(k, arg) if (length(k) > 0) chosen(k, arg) else list(matrix(0, 0, 0)), columns, c("x", "y"))
}

# Returns a matrix with the statistic of the rows as they are, and of each permutation of y, a column for each of the
# `pairs` of bandwidths: n^-2 sum_ij K~_ij M_ij, where K~ is the kernel matrix of x centred by rows and columns, and M that
# of y. `joint`: the bandwidth factors of (x, y).
by_all_permutations <- function(sides, factors, joint, pairs, replicates, run) {
  matrix_of <- \(side, L) kernel_matrix_of(sum_sources(side, NULL, sqrt(2) * L), NULL, run)
  matrices <- Map(\(side, of) lapply(of, \(L) matrix_of(side, L)), sides, factors)
  n <- nrow(sides[[1]])
  centred <- vapply(matrices[[1]], \(K) as.vector(K - outer(rowMeans(K), rowMeans(K), `+`) + mean(K)), numeric(n^2))
  draws <- vapply(seq_len(replicates + 1), function(i) {
    order <- if (i == 1) seq_len(n) else sample(n)
    unlist(lapply(matrices[[2]], \(M) crossprod(centred, as.vector(M[order, order]))))
  }, numeric(length(joint)))
  matrix(draws, ncol = length(joint), byrow = TRUE) / n^2
}

# The same for permutations of bins of rows within strata of a few bins, drawn at random. The statistic sums over pairs of
# joint points (x_i, y_j), where the rows i and j have the same place in two bins of a stratum: so a pass over
# `bins` * n joint points has the forms of all permutations. Rows left over keep their y.
by_strata <- function(sides, factors, joint, pairs, replicates, run) {
  n <- nrow(sides[[1]])
  bins <- if (n <= 4096) 8 else 4
  size <- ceiling(n * bins / (2 * MOST_BINS))
  strata <- n %/% (size * bins)
  rows <- sample(n)
  used <- array(rows[seq_len(size * bins * strata)], c(size, bins, strata))
  left <- rows[-seq_along(used)]
  of_x <- c(used[, rep(seq_len(bins), bins), ], left)
  of_y <- c(used[, rep(seq_len(bins), each = bins), ], left)
  sizes <- c(rep(size, bins^2 * strata), if (length(left) > 0) length(left))
  points <- cbind(sides[[1]][of_x, , drop = FALSE], sides[[2]][of_y, , drop = FALSE])
  before <- rep(seq_len(strata) - 1, each = bins) * bins^2 + seq_len(bins) - bins
  # the joint bins of a permutation
  picks <- vapply(seq_len(replicates + 1), function(i) {
    from <- if (i == 1) rep(seq_len(bins), strata) else c(replicate(strata, sample(bins)))
    c(before + bins * from, if (length(left) > 0) length(sizes))
  }, numeric(bins * strata + (length(left) > 0)))
  sums_of <- \(side, L) kernel_sum_of(sum_sources(side, NULL, sqrt(2) * L), NULL, rep(1, n), run)$sums
  share_stage(run, 0, 0)
  row_sums <- Map(\(side, of) lapply(of, \(L) sums_of(side, L)), sides, factors)
  draws <- vapply(seq_along(joint), function(k) {
    share_stage(run, (k - 1) / length(joint), 1 / length(joint))
    a <- row_sums[[1]][[pairs[k, 1]]]
    b <- row_sums[[2]][[pairs[k, 2]]]
    G <- bin_forms(points, sizes, sqrt(2) * joint[[k]], run)
    crossed <- drop(fold_rows(matrix(a[of_x] * b[of_y]), sizes))
    apply(picks, 2, \(pick) sum(G[pick, pick]) - 2 / n * sum(crossed[pick])) / n^2 + sum(a) * sum(b) / n^4
  }, numeric(replicates + 1))
  close_progress(run)
  draws
}

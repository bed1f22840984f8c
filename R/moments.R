# Moments of the pairs of points: what criteria of bandwidths have their values and gradients of. H = L L',
# u_ij = L^-1 (x_i - x_j), q = |u_ij|^2, k = exp(-q / 2), and f the polynomial `factor` of q / 2.

# list(S, M, S_wide, M_wide, fourth, stats):
#   S_i = sum_{j != i} w_j f(q / 2) k                                n numbers
#   M = sum_i r_i sum_{j != i} w_j (f - f')(q / 2) k u u'            NULL, d numbers, or a symmetric d x d matrix
# with r_i = row_weights_i, or row_weights_i / (S_i + floor_i) where `ratio`. Where all terms of S_i underflow it is 0,
# and r_i is 0 where the floor is, too. `wide`: NULL, or n weights: S_wide and M_wide are the same of the kernel of 2 H,
# exp(-q / 4), and of u / sqrt(2), with these for r_i, at half the cost of another call; not with a factor. `moments`
# "order4": also `fourth`, sum_i r_i sum_j w_j (f - f') k u_a u_b u_c u_d, a symmetric array of d^4.
#
# Exact, on the CPU, in double, the same bits for any number of threads.
pair_moments <- function(x, L, weights = NULL, row_weights = NULL, floor = NULL,
                         moments = c("none", "diagonal", "full", "order4"), ratio = FALSE, wide = NULL,
                         factor = PLAIN_FACTOR, run) {
  moments <- match.arg(moments)
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

# Of the lower triangle, row by row.
symmetric_matrix <- function(lower, d) {
  matrix <- matrix(0, d, d)
  matrix[upper.tri(matrix, diag = TRUE)] <- lower
  matrix[lower.tri(matrix)] <- t(matrix)[lower.tri(matrix)]
  matrix
}

# Numbers in the order of struct fk_moments_task (src/core/moments.h): each is b <= a <= e <= c of the coordinates
# a, b, c, e.
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

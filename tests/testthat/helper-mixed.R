# Estimates with numbers and categories by their formula, in loops over the points.

# The kernel l(a, b) of categories by number, without a table: the value from `from` to `to` among `count` categories.
ref_level <- function(kernel, ordered, to, from, lambda, count) {
  relative <- function(a) {
    if (kernel == "aitchisonaitken") return(if (a == from) 1 - lambda else lambda / (count - 1))
    steps <- if (ordered) abs(a - from) else as.numeric(a != from)
    if (kernel == "liracine") return(lambda^steps)
    if (steps == 0) 1 - lambda else (1 - lambda) / 2 * lambda^steps
  }
  relative(to) / sum(vapply(seq_len(count), relative, 0))
}

# The matrix of w_i l(c, c_i) for the rows c of `to` and i of `from`, data frames whose factors have kernels in the list
# `kernels`, by name.
ref_shares <- function(to, from, kernels, lambda, w = rep(1, nrow(from))) {
  shares <- matrix(w, nrow(to), nrow(from), byrow = TRUE)
  for (name in names(kernels)) {
    there <- as.integer(to[[name]])
    own <- as.integer(from[[name]])
    ordered <- is.ordered(from[[name]])
    count <- nlevels(from[[name]])
    for (j in seq_along(there)) {
      for (i in seq_along(own)) {
        shares[j, i] <- shares[j, i] * ref_level(kernels[[name]], ordered, there[j], own[i], lambda[[name]], count)
      }
    }
  }
  shares
}

# The matrix of K_H(y - x) for the rows of two matrices, times the Laplace correction if wanted.
ref_gauss <- function(y, x, H, laplace = FALSE) {
  K <- matrix(0, nrow(y), nrow(x))
  P <- solve(H)
  for (j in seq_len(nrow(y))) {
    for (i in seq_len(nrow(x))) {
      u <- y[j, ] - x[i, ]
      q <- sum(u * P %*% u)
      K[j, i] <- exp(-q / 2) / sqrt(det(2 * pi * H)) * if (laplace) 1 + ncol(x) / 2 - q / 2 else 1
    }
  }
  K
}

# A few rows with an unordered factor, an ordered one, and two numbers; the last levels have no rows.
mixed_data <- function(n = 40, seed = 4) {
  set.seed(seed)
  data.frame(
    a = stats::rnorm(n), kind = factor(sample(c("u", "v"), n, TRUE), c("u", "v", "none")), b = stats::rexp(n),
    grade = factor(sample(1:3, n, TRUE), 1:4, ordered = TRUE)
  )
}

# The probabilities of the categories of one column.
ref_level_shares <- function(data, name, kernels, lambda) {
  column <- data[[name]]
  share <- \(to, from) ref_level(kernels[[name]], is.ordered(column), to, from, lambda[[name]], nlevels(column))
  shares <- vapply(seq_along(levels(column)), \(to) mean(vapply(as.integer(column), \(from) share(to, from), 0)), 0)
  stats::setNames(shares, levels(column))
}

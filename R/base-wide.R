# Data with many more columns than rows. A kernel with the same bandwidth in all columns depends only on distances, and
# n columns are enough to represent the distances of n points and the origin. So searches avoid d x d matrices. Then
# the factor L of H = L L' has an attribute `more`, the number of omitted columns: there all points are 0, and the
# diagonal of L continues.

# Whether the reduction pays off. The QR decomposition takes about 2 n^2 d operations.
is_wide <- function(data) {
  n <- nrow(data$x)
  is.null(data$discrete) && data$d >= max(500, 2 * n) && n^2 * data$d <= 5e8
}

# Reduces the data of clean_points(), with centre 0 and scale 1, to as many columns as rows.
in_few_columns <- function(data) {
  n <- nrow(data$x)
  decomposed <- qr(t(data$x), LAPACK = TRUE)
  data$x <- t(qr.R(decomposed)[, order(decomposed$pivot), drop = FALSE])
  data[c("centre", "scale")] <- list(data$centre[seq_len(n)], data$scale[seq_len(n)])
  data$more <- data$d - n
  data
}

# The identity as a factor, for data that may be reduced.
unit_factor <- function(data) {
  L <- diag(1, ncol(data$x))
  if (!is.null(data$more)) attr(L, "more") <- data$more
  L
}

more_columns <- function(L) {
  more <- attr(L, "more", exact = TRUE)
  if (is.null(more)) 0 else more
}

# Number of columns of the kernel, with the omitted ones.
kernel_columns <- function(L) nrow(L) + more_columns(L)

# The factor with all columns.
whole_factor <- function(L) {
  if (more_columns(L) == 0) L else diagonal_matrix(rep(L[1], kernel_columns(L)), kernel_columns(L))
}

# Is L a multiple of the identity?
is_scalar_factor <- function(L) {
  if (!is_diagonal(L)) return(FALSE)
  sds <- diagonal(L)
  all(abs(sds - sds[1]) <= 1e-12 * sds[1])
}

# Data with many more columns than rows. Kernels that are equally wide in all columns depend on distances alone, and n
# points and the origin have theirs in n columns, too: there a search forms no matrices of d x d numbers. A factor L of
# H = L L' there has an attribute `more`, the number of columns that are left out, in which L is the same multiple of 1
# and all points are 0.

# Is it worth it? A QR decomposition takes about 2 n^2 d operations.
is_wide <- function(data) {
  n <- nrow(data$x)
  is.null(data$discrete) && data$d >= max(500, 2 * n) && n^2 * data$d <= 5e8
}

# The data of clean_points(), whose columns have centre 0 and scale 1, in as many columns as rows.
in_few_columns <- function(data) {
  n <- nrow(data$x)
  decomposed <- qr(t(data$x), LAPACK = TRUE)
  data$x <- t(qr.R(decomposed)[, order(decomposed$pivot), drop = FALSE])
  data[c("centre", "scale")] <- list(data$centre[seq_len(n)], data$scale[seq_len(n)])
  data$more <- data$d - n
  data
}

# L = 1, of data that may be in few columns.
unit_factor <- function(data) {
  L <- diag(1, ncol(data$x))
  if (!is.null(data$more)) attr(L, "more") <- data$more
  L
}

more_columns <- function(L) {
  more <- attr(L, "more", exact = TRUE)
  if (is.null(more)) 0 else more
}

# The number of columns of the kernel.
kernel_columns <- function(L) nrow(L) + more_columns(L)

# Of all columns.
whole_factor <- function(L) {
  if (more_columns(L) == 0) L else diagonal_matrix(rep(L[1], kernel_columns(L)), kernel_columns(L))
}

# Is L a multiple of 1?
is_scalar_factor <- function(L) {
  if (!is_diagonal(L)) return(FALSE)
  sds <- diagonal(L)
  all(abs(sds - sds[1]) <= 1e-12 * sds[1])
}

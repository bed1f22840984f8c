# Bandwidths: one standard deviation of the kernel, d of them, or a d x d variance matrix H. Only this file converts
# standard deviations to variances.

# Converts a bandwidth to list(H, L): the variance matrix and its lower Cholesky factor, H = L L'. `names`: of the
# columns; a bandwidth with names is matched by them.
as_bandwidth <- function(bandwidth, d, arg = "bandwidth", names = NULL) {
  # fast path: one number that passes every check
  if (is.double(bandwidth) && is.null(attributes(bandwidth)) && length(bandwidth) == 1 && isTRUE(bandwidth > 1e-100) &&
    bandwidth < 1e100 && d < 100) {
    L <- diagonal_matrix(rep(bandwidth, d), d)
    H <- L^2
    if (!is.null(names)) dimnames(H) <- list(names, names)
    return(list(H = H, L = L))
  }
  if (is.character(bandwidth)) {
    hint <- " (kde_bandwidth() returns the bandwidth of a method)"
    stop_argument(arg, "must be numeric: found ", describe(bandwidth), hint)
  }
  if (!is_number(bandwidth)) stop_argument(arg, "must be ", bandwidth_forms(d), ": found ", describe(bandwidth))
  check_finite(bandwidth, arg)
  if (length(dim(bandwidth)) == 2) {
    H <- check_variance(bandwidth, d, arg, names)
    L <- lower_factor(H, arg)
  } else {
    variances <- sds_to_variances(bandwidth, d, arg, names)
    H <- diagonal_matrix(variances, d)
    L <- diagonal_factor_of(variances, d, arg)
  }
  if (!is.null(names)) dimnames(H) <- list(names, names)
  list(H = H, L = L)
}

bandwidth_forms <- function(d) {
  if (d == 1) return("one kernel standard deviation (or a 1 x 1 variance matrix)")
  paste0("one kernel standard deviation, ", d, " of them or a ", d, " x ", d, " variance matrix")
}

sds_to_variances <- function(sds, d, arg, names) {
  if (length(sds) != 1 && length(sds) != d) {
    stop_argument(arg, "must be ", bandwidth_forms(d), ": found ", length(sds), " values")
  }
  # a single number applies to all columns, whatever its name
  by_column <- if (length(sds) > 1) match_names(base::names(sds), names, arg)
  sds <- as.double(if (is.null(by_column)) sds else sds[by_column])
  if (any(sds <= 0)) stop_argument(arg, "must be positive: found ", format(sds[sds <= 0][1]))
  check_variances(sds^2, arg, sds = sds)
  rep_len(sds^2, d)
}

# Faster than diag() and matrix() of base R, which take longer than a small sum.
diagonal <- function(matrix) matrix[seq.int(1, by = nrow(matrix) + 1, length.out = nrow(matrix))]

diagonal_matrix <- function(values, d) {
  matrix <- numeric(d^2)
  matrix[seq.int(1, d^2, d + 1)] <- values
  dim(matrix) <- c(d, d)
  matrix
}

# L: lower triangular. This function and factor_sds() avoid d x d temporaries.
is_diagonal <- function(L) .Call(ffi_is_diagonal, L)

# Standard deviations of the kernel with H = L L'.
factor_sds <- function(L) if (is_diagonal(L)) c(diagonal(L), rep(L[1], more_columns(L))) else sqrt(rowSums(L^2))

check_variance <- function(H, d, arg, names) {
  refuse <- \(...) stop_argument(arg, "must ", ...)
  if (nrow(H) != d || ncol(H) != d) {
    refuse("be a ", d, " x ", d, " variance matrix: found a ", nrow(H), " x ", ncol(H), " matrix")
  }
  # names of rows or of columns alone are those of both
  rows <- match_names(rownames(H), names, arg)
  columns <- match_names(colnames(H), names, arg)
  if (is.null(rows)) rows <- columns
  if (is.null(columns)) columns <- rows
  if (!is.null(rows)) H <- H[rows, columns]
  H <- matrix(as.double(H), d, d)
  variances <- diag(H)
  if (any(variances <= 0)) {
    refuse("have positive variances on its diagonal: found ", format(variances[variances <= 0][1]))
  }
  # relative to the standard deviations, so that units of columns do not matter
  sds <- sqrt(variances)
  if (any(abs(H - t(H)) > 1e-8 * outer(sds, sds))) refuse("be a symmetric variance matrix: found an asymmetric one")
  H / 2 + t(H) / 2
}

# Positions of `wanted` in `found`; NULL if either has no names.
match_names <- function(found, wanted, arg) {
  if (!has_names(found) || !has_names(wanted)) return(NULL)
  if (setequal(found, wanted)) return(match(wanted, found))
  columns <- paste0("the names of the columns, ", quote_names(wanted))
  stop_argument(arg, "must have ", columns, ", or none: found ", quote_names(found))
}

lower_factor <- function(H, arg) {
  variances <- diagonal(H)
  if (sum(H != 0) %in% nrow(H)) return(diagonal_factor_of(variances, nrow(H), arg))
  check_variances(variances, arg, all(is.finite(H)))
  # factor the correlation matrix, so that units of columns do not decide whether H is singular
  sds <- sqrt(variances)
  correlation <- H / outer(sds, sds)
  upper <- tryCatch(chol(correlation), error = \(e) NULL)
  if (is.null(upper) || min(diag(upper))^2 < nrow(H) * .Machine$double.eps) {
    stop_argument(arg, "must be a positive definite variance matrix: found a singular or indefinite one")
  }
  t(upper) * sds
}

# Same bits as the Cholesky factor of lower_factor().
diagonal_factor_of <- function(variances, d, arg) {
  check_variances(variances, arg)
  sds <- sqrt(variances)
  diagonal_matrix(sqrt(variances / sds^2) * sds, d)
}

# Squares of finite standard deviations may overflow or underflow.
check_variances <- function(variances, arg, finite = all(is.finite(variances)), sds = sqrt(variances)) {
  if (finite && min(variances) >= .Machine$double.xmin) return(invisible())
  found <- paste(format(range(sds)), collapse = " to ")
  stop_argument(arg, "must have variances within the range of doubles: found standard deviations from ", found)
}

# Square roots of the diagonal of H, named by column.
bandwidth_sds <- function(H) sqrt(diag(H))

# Log of the Gaussian kernel at 0, for H = L L'.
log_kernel_norm <- function(L) {
  d <- nrow(L)
  more <- attr(L, "more", exact = TRUE)
  if (is.null(more)) more <- 0
  on_diagonal <- L[seq.int(1, by = d + 1, length.out = d)]
  -(d + more) * log(2 * pi) / 2 - sum(log(on_diagonal)) - (if (more > 0) more * log(L[1]) else 0)
}

has_correlation <- function(H) !is.null(H) && any(H[lower.tri(H)] != 0)

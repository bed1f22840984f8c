# A bandwidth as the user may write it (a kernel sd, d sds, or a d x d variance matrix) becomes the
# variance matrix H, its lower Cholesky factor L (H = L L') and log det H. This is the only place
# where sds turn into variances.

as_bandwidth <- function(bandwidth, d, arg = "bandwidth", names = NULL) {
  if (!is.numeric(bandwidth) || inherits(bandwidth, "integer64")) {
    stop_argument(
      arg, "must be a kernel sd, a vector of ", d, " sds or a ", d, " x ", d,
      " variance matrix: found ", describe(bandwidth)
    )
  }
  check_finite(bandwidth, arg)
  is_matrix <- length(dim(bandwidth)) == 2
  H <- if (is_matrix) check_variance(bandwidth, d, arg) else sds_to_variance(bandwidth, d, arg)
  L <- lower_factor(H, arg)
  dimnames(H) <- if (!is.null(names)) list(names, names)
  list(H = H, L = L, log_det = 2 * sum(log(diag(L))))
}

sds_to_variance <- function(sds, d, arg) {
  if (length(sds) != 1 && length(sds) != d) {
    stop_argument(
      arg, "must be one sd or ", d, " sds (or a ", d, " x ", d, " variance matrix): found ",
      length(sds), " values"
    )
  }
  sds <- as.double(sds)
  if (any(sds <= 0)) stop_argument(arg, "must be positive: found ", format(sds[sds <= 0][1]))
  diag(rep_len(sds^2, d), d)
}

check_variance <- function(H, d, arg) {
  if (nrow(H) != d || ncol(H) != d) {
    stop_argument(
      arg, "must be a ", d, " x ", d, " variance matrix: found a ", nrow(H), " x ", ncol(H),
      " matrix"
    )
  }
  H <- matrix(as.double(H), d, d)
  if (any(diag(H) <= 0)) {
    stop_argument(
      arg, "must have positive variances on its diagonal: found ", format(diag(H)[diag(H) <= 0][1])
    )
  }
  if (max(abs(H - t(H))) > 1e-8 * max(abs(H))) {
    stop_argument(arg, "must be a symmetric variance matrix: found an asymmetric one")
  }
  H / 2 + t(H) / 2
}

lower_factor <- function(H, arg) {
  # squares of finite sds may still leave the range of a double
  if (!all(is.finite(H)) || any(diag(H) < .Machine$double.xmin)) {
    stop_argument(
      arg, "must have variances that a double can hold: found sds from ",
      paste(format(range(sqrt(diag(H)))), collapse = " to ")
    )
  }
  # Factor the correlation matrix: the units of the columns must not decide whether H is singular.
  sds <- sqrt(diag(H))
  correlation <- H / outer(sds, sds)
  upper <- tryCatch(chol(correlation), error = \(e) NULL)
  if (is.null(upper) || min(diag(upper))^2 < nrow(H) * .Machine$double.eps) {
    stop_argument(
      arg, "must be a positive definite variance matrix: found a singular or indefinite one"
    )
  }
  t(upper) * sds
}

# Kernel sds (square roots of the diagonal of H), named by column.
bandwidth_sds <- function(H) sqrt(diag(H))

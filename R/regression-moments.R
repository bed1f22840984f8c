# Moments of the rows about targets, which local fits are made of. Rows are whitened: kernels are exp(-|u|^2 / 2), u the
# row less the target. `data`: a list of z, the whitened rows, n x d; w, their weights, at most 1; and y, n x t.
#
# Moments are sums of columns of powers of z, the same kernels for all of them, about a centre near the targets: about a
# far one they would cancel. A matrix has them, a row for each target, with columns as regression_layout() says:
#   log   the logarithm of S = sum k, of kernels k times weights; the others are means under k / S
#   y     of y, t columns
#   mean  of u, d columns                                      } of order 1 and more
#   cross covariances of u with y, d columns for each response }
#   cov   covariances of u, the lower triangle                   of order 2
regression_layout <- function(d, t, order) {
  pairs <- which(lower.tri(diag(d), diag = TRUE), arr.ind = TRUE)
  sizes <- c(log = 1, y = t, mean = d * (order > 0), cross = d * t * (order > 0), cov = nrow(pairs) * (order > 1))
  columns <- split(seq_len(sum(sizes)), factor(rep(names(sizes), sizes), names(sizes)))
  c(columns, list(d = d, t = t, pairs = pairs, order = order, width = sum(sizes)))
}

# list(all, others): moments at the targets `at` (NULL: the rows), and where `loo` of all rows but the target's own.
local_moments <- function(data, at, order, run, loo = FALSE) {
  layout <- regression_layout(ncol(data$z), ncol(data$y), order)
  targets <- if (is.null(at)) data$z else at
  check_memory(8 * (nrow(data$z) + 2 * nrow(targets)) * layout$width, if (is.null(at)) "x" else "newdata")
  all <- matrix(NA_real_, nrow(targets), layout$width)
  others <- if (loo) all
  for (box in regression_boxes(targets, data$z)) {
    found <- box_moments(data, targets, box, is.null(at), layout, run, loo)
    all[box$targets, ] <- found$all
    if (loo) others[box$targets, ] <- found$others
  }
  far <- which(is_lost(all[, 1]))
  if (length(far) > 0) all[far, ] <- direct_moments(data, targets[far, , drop = FALSE], layout)
  alone <- if (loo) which(is_lost(others[, 1]))
  if (length(alone) > 0) others[alone, ] <- direct_moments(data, targets[alone, , drop = FALSE], layout, alone)
  list(all = all, others = others)
}

# Smaller sums may have lost terms to underflow; NA were none.
is_lost <- function(log_S) is.na(log_S) | log_S < LEAST_LOG

LEAST_LOG <- log(1e-250)

# ---- boxes ------------------------------------------------------------------------------------

# Targets in boxes that are so narrow that squares of coordinates about their middle leave 10 digits, each with the rows
# that its kernels reach; nearly always one box with all rows, NULL.
regression_boxes <- function(targets, z) {
  boxes <- list()
  visit <- function(own, near) {
    ranges <- apply(if (is.null(own)) targets else targets[own, , drop = FALSE], 2, range)
    widths <- ranges[2, ] - ranges[1, ]
    k <- which.max(widths)
    if (widths[k] <= BOX_WIDTH) {
      every <- is.null(own)
      boxes[[length(boxes) + 1]] <<- list(
        targets = if (every) seq_len(nrow(targets)) else own, near = near, centre = colMeans(ranges), every = every
      )
      return(invisible())
    }
    if (is.null(own)) own <- seq_len(nrow(targets))
    left <- targets[own, k] <= mean(ranges[, k])
    for (side in list(own[left], own[!left])) {
      reach <- range(targets[side, k]) + c(-KERNEL_REACH, KERNEL_REACH)
      if (is.null(near)) near <- seq_len(nrow(z))
      visit(side, near[z[near, k] >= reach[1] & z[near, k] <= reach[2]])
    }
  }
  visit(NULL, NULL)
  boxes
}

# In bandwidths. Beyond the reach kernels are 0 in double precision.
BOX_WIDTH <- 512
KERNEL_REACH <- 40

# The moments at the targets of a box, NA where the sums are too small to tell.
box_moments <- function(data, targets, box, own, layout, run, loo) {
  near <- box$near
  pick <- \(x, rows) if (is.null(rows)) x else x[rows, , drop = FALSE]
  if (!is.null(near) && length(near) == 0) {
    none <- matrix(NA_real_, length(box$targets), layout$width)
    return(list(all = none, others = none))
  }
  v <- pick(data$z, near) - rep(box$centre, each = if (is.null(near)) nrow(data$z) else length(near))
  at <- if (!own || !box$every) {
    pick(targets, if (!box$every) box$targets) - rep(box$centre, each = length(box$targets))
  }
  columns <- moment_columns(v, pick(data$y, near), if (is.null(near)) data$w else data$w[near], layout)
  # at its own place a row has the kernel 1
  mine <- if (!loo) NULL else if (is.null(near)) columns else columns[match(box$targets, near), , drop = FALSE]
  sums <- moment_sums(v, at, columns, if (loo) mine[, 1] else 0, run)
  tau <- if (is.null(at)) v else at
  list(
    all = as_moments(sums, tau, layout),
    others = if (loo) as_moments(less_own(sums, mine), tau, layout)
  )
}

moment_columns <- function(v, y, w, layout) {
  d <- layout$d
  first <- if (layout$order > 0) cbind(v, do.call(cbind, lapply(seq_len(layout$t), \(r) v * y[, r])))
  second <- if (layout$order > 1) v[, layout$pairs[, 1], drop = FALSE] * v[, layout$pairs[, 2], drop = FALSE]
  unname(w * cbind(1, y, first, second))
}

# Kernels times columns, in double. To a tolerance the sums are as exact as a grid can make them, which costs little
# more: of differences of sums. Where they are not exact enough beside S itself, they are summed again. `own`: of S, the
# row's own part, which will be taken off.
moment_sums <- function(v, at, columns, own, run) {
  run$precision <- "double"
  sources <- sum_sources(v, NULL, diag(ncol(v)), plan = new_plan())
  m <- if (is.null(at)) nrow(v) else nrow(at)
  if (resolve_control(run, nrow(v), m, ncol(v))$engine != "fast") {
    suggest_tolerance(run, nrow(v), m, ncol(v), own = is.null(at))
    return(kernel_sum_of(sources, at, columns, exactly(run), as_matrix = TRUE)$sums)
  }
  tight <- replace(run, c("tol", "tol_type"), list(min(run$tol, FINEST_TOL), "global"))
  sums <- kernel_sum_of(sources, at, columns, tight, as_matrix = TRUE)$sums
  tau <- if (is.null(at)) v else at
  error <- tight$tol * max(sums[, 1]) * (1 + rowSums(tau^2))
  low <- which(!(sums[, 1] - own > error / run$tol))
  if (length(low) > 0) {
    sums[low, ] <- kernel_sum_of(sources, tau[low, , drop = FALSE], columns, exactly(run), as_matrix = TRUE)$sums
  }
  sums
}

FINEST_TOL <- 1e-13

# Sums without the rows' own terms; NA where little else is left.
less_own <- function(sums, mine) {
  rest <- sums - mine
  rest[!(rest[, 1] > LEAST_SHARE * mine[, 1]), 1] <- NA
  rest
}

LEAST_SHARE <- 1e-3

# Of sums about a centre, from which the targets are at `tau`.
as_moments <- function(sums, tau, layout) {
  S <- sums[, 1]
  S[!(S > 0)] <- NA
  M <- sums / S
  M[, 1] <- log(S)
  if (layout$order == 0) return(M)
  mean <- M[, layout$mean, drop = FALSE]
  for (r in seq_len(layout$t)) {
    cross <- layout$cross[(r - 1) * layout$d + seq_len(layout$d)]
    M[, cross] <- M[, cross] - mean * M[, layout$y[r]]
  }
  if (layout$order > 1) {
    products <- mean[, layout$pairs[, 1], drop = FALSE] * mean[, layout$pairs[, 2], drop = FALSE]
    M[, layout$cov] <- M[, layout$cov] - products
  }
  M[, layout$mean] <- mean - tau
  M
}

# ---- one target at a time ---------------------------------------------------------------------

# By the logarithms of all kernels: for the few targets that all rows are far from, and rows that are nearly alone.
# `drop`: a row for each target that is left out. Where no row counts, log is -Inf and the rest 0.
direct_moments <- function(data, at, layout, drop = NULL) {
  n <- nrow(data$z)
  blocks <- blocks_of(nrow(at), max(1, floor(DIRECT_PAIRS / n)))
  do.call(rbind, lapply(blocks, \(rows) {
    u <- lapply(seq_len(layout$d), \(k) outer(-at[rows, k], data$z[, k], "+"))
    log_k <- rep(log(data$w), each = length(rows)) - Reduce(`+`, lapply(u, \(one) one^2)) / 2
    if (!is.null(drop)) log_k[cbind(seq_along(rows), drop[rows])] <- -Inf
    top <- log_k[cbind(seq_along(rows), max.col(log_k, "first"))]
    k <- exp(log_k - ifelse(top > -Inf, top, 0))
    S <- rowSums(k)
    moments_under(k / ifelse(S > 0, S, 1), u, data$y, top + log(pmax(S, 1)), layout)
  }))
}

DIRECT_PAIRS <- 2e6

# Means under the shares p, a matrix with a row for each target, of differences u, a list by coordinate.
moments_under <- function(p, u, y, log_S, layout) {
  M <- matrix(0, nrow(p), layout$width)
  M[, 1] <- log_S
  M[, layout$y] <- p %*% y
  if (layout$order == 0) return(M)
  M[, layout$mean] <- vapply(u, \(one) rowSums(p * one), numeric(nrow(p)))
  apart <- Map(\(one, k) p * (one - M[, layout$mean[k]]), u, seq_along(u))
  for (k in seq_along(u)) M[, layout$cross[seq(k, by = layout$d, length.out = layout$t)]] <- apart[[k]] %*% y
  if (layout$order > 1) {
    for (i in seq_len(nrow(layout$pairs))) {
      a <- layout$pairs[i, 1]
      b <- layout$pairs[i, 2]
      M[, layout$cov[i]] <- rowSums(apart[[a]] * (u[[b]] - M[, layout$mean[b]]))
    }
  }
  M
}

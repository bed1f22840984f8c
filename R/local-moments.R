# Moments of the rows about targets, which local fits are made of. Rows are whitened: kernels are exp(-|u|^2 / 2),
# u the row less the target. `data`: a list of z, the whitened rows, n x d; w, their weights, at most 1; y, n x t; and
# of one column by_size, the rows in order.
#
# Moments are sums of columns of powers of z, the same kernels for all of them, about a centre near the targets:
# about a far one they would cancel. A matrix has them, a row for each target, with columns as regression_layout()
# says:
#   log   the logarithm of S = sum k, of kernels k times weights; the others are means under k / S
#   y     of y, t columns
#   mean  of u, d columns                                      } of order 1 and more
#   cross covariances of u with y, d columns for each response }
#   cov   covariances of u, the lower triangle                   of order 2
regression_layout <- function(d, t, order) {
  down <- rev(seq_len(d))
  pairs <- cbind(sequence(down, seq_len(d)), rep.int(seq_len(d), down))
  sizes <- c(1L, t, d * (order > 0), d * t * (order > 0), nrow(pairs) * (order > 1))
  ends <- as.integer(cumsum(sizes))
  column <- \(k) ends[k] - sizes[k] + seq_len(sizes[k])
  list(
    log = 1L, y = column(2), mean = column(3), cross = column(4), cov = column(5), d = d, t = t, pairs = pairs,
    order = order, width = ends[5]
  )
}

# list(all, others): moments of regression_layout() at the targets `at` (NULL: the rows), and where these are the rows
# `own` of all but the target's own. In the first of the ways that tells, in the end by logarithms.
local_moments <- function(data, at, layout, run, own = NULL) {
  targets <- if (is.null(at)) data$z else at
  loo <- !is.null(own)
  check_memory(8 * (nrow(data$z) + 2 * nrow(targets)) * layout$width, if (is.null(at)) "x" else "newdata")
  if (layout$d == 0) return(mass_moments(data, nrow(targets), own))
  if (goes_by_line(layout$d, run)) return(line_moments(data, at, layout$order, run, own))
  all <- matrix(NA_real_, nrow(targets), layout$width)
  others <- if (loo) all
  lost <- NULL
  for (way in moment_ways(run, data$z, nrow(targets), layout$order, is.null(at))) {
    for (box in regression_boxes(targets, lost, data$z, way)) {
      found <- box_moments(data, targets, box, is.null(at), layout, way, own)
      all[box$targets, ] <- found$all
      if (loo) others[box$targets, ] <- found$others
    }
    lost <- which(is_lost(all[, 1]) | (if (loo) is_lost(others[, 1]) else FALSE))
    if (length(lost) == 0) break
  }
  far <- lost[is_lost(all[lost, 1])]
  if (length(far) > 0) all[far, ] <- direct_moments(data, picked_rows(targets, far), layout)
  alone <- if (loo) lost[is_lost(others[lost, 1])]
  if (length(alone) > 0) others[alone, ] <- direct_moments(data, picked_rows(targets, alone), layout, own[alone])
  list(all = all, others = others)
}

# Smaller sums may have lost terms to underflow; NA were none.
is_lost <- function(log_S) is.na(log_S) | log_S < LEAST_LOG

LEAST_LOG <- log(1e-250)

# Each a list of `run`; `tol`, what is allowed of errors beside S, 0 for sums of all that counts; `width`, of
# boxes; and `reach`, of kernels. To a tolerance moments are differences of sums that are much more exact, which
# costs hardly more in boxes that are not wide: both the squares of coordinates and the largest sum, beside which a
# grid is exact, are the box's own. Where S is too small for that it is summed exactly. All sums are in double
# precision.
moment_ways <- function(run, z, m, order, own) {
  run$precision <- "double"
  exact <- list(run = exactly(run), tol = 0, width = 512, reach = 40)
  # without a tolerance a grid, which stands in for pairs elsewhere, would have to prove each of these sums by itself
  if (run$tol == 0 || resolve_control(run, nrow(z), m, ncol(z))$engine != "fast") {
    suggest_tolerance(run, nrow(z), m, ncol(z), sum_sources(z, NULL, diag(ncol(z))), own = own)
    return(list(exact))
  }
  finer <- replace(run, c("tol", "tol_type"), list(min(run$tol, FINEST_TOL), "global"))
  list(list(run = finer, tol = run$tol, width = if (order == 0) 64 else 16, reach = 9), exact)
}

# Below it grids may lose to sums of pairs (bench/NOTES.md).
FINEST_TOL <- 1e-10

# ---- boxes ------------------------------------------------------------------------------------

# Targets `rows` (NULL: all) in boxes that are so narrow that squares of coordinates about their middle leave
# digits, each with the rows `near` that its kernels reach. NULL: all rows.
regression_boxes <- function(targets, rows, z, way) {
  boxes <- list()
  visit <- function(own, near) {
    ranges <- apply(if (is.null(own)) targets else targets[own, , drop = FALSE], 2, range)
    widths <- ranges[2, ] - ranges[1, ]
    k <- which.max(widths)
    if (widths[k] <= way$width) {
      boxes[[length(boxes) + 1]] <<- list(
        targets = if (is.null(own)) seq_len(nrow(targets)) else own, near = near, centre = colMeans(ranges),
        every = is.null(own)
      )
      return(invisible())
    }
    if (is.null(own)) own <- seq_len(nrow(targets))
    if (is.null(near)) near <- seq_len(nrow(z))
    left <- targets[own, k] <= mean(ranges[, k])
    for (side in list(own[left], own[!left])) {
      ends <- range(targets[side, k]) + c(-way$reach, way$reach)
      visit(side, near[z[near, k] >= ends[1] & z[near, k] <= ends[2]])
    }
  }
  visit(rows, NULL)
  boxes
}

# The moments at the targets of a box, NA where the sums are too small to tell. `same`: are the targets the rows?
box_moments <- function(data, targets, box, same, layout, way, own) {
  near <- box$near
  pick <- \(x, rows) if (is.null(rows)) x else x[rows, , drop = FALSE]
  if (!is.null(near) && length(near) == 0) {
    none <- matrix(NA_real_, length(box$targets), layout$width)
    return(list(all = none, others = none))
  }
  v <- rows_about(data$z, near, box$centre)
  at <- if (!same || !box$every) {
    rows_about(targets, if (!box$every) box$targets, box$centre)
  }
  columns <- moment_columns(v, pick(data$y, near), if (is.null(near)) data$w else data$w[near], layout)
  sums <- kernel_sum_of(sum_sources(v, NULL, diag(layout$d)), at, columns, way$run, as_matrix = TRUE)$sums
  tau <- if (is.null(at)) v else at
  if (way$tol > 0) {
    cut <- nrow(data$z) * way$reach^2 * exp(-way$reach^2 / 2)
    squares <- if (layout$order == 0) 0 else max(rowSums(tau^2))
    least <- ((1 + squares) * way$run$tol * max(sums[, 1]) + cut) / way$tol
  } else least <- 0
  if (is.null(own)) return(list(all = as_moments(sums, tau, least, layout)))
  # at its own place a row has the kernel 1
  mine <- own[box$targets]
  mine <- columns[if (is.null(near)) mine else match(mine, near), , drop = FALSE]
  list(
    all = as_moments(sums, tau, least, layout),
    others = as_moments(sums - mine, tau, pmax(least, LEAST_SHARE * mine[, 1]), layout)
  )
}

# Of a row's own part: where less is left without it, that has lost digits.
LEAST_SHARE <- 1e-3

moment_columns <- function(v, y, w, layout) {
  d <- layout$d
  first <- if (layout$order > 0) cbind(v, do.call(cbind, lapply(seq_len(layout$t), \(r) v * y[, r])))
  second <- if (layout$order > 1) v[, layout$pairs[, 1], drop = FALSE] * v[, layout$pairs[, 2], drop = FALSE]
  unname(w * cbind(1, y, first, second))
}

# Of sums about a centre, from which the targets are at `tau`; NA where S is not above `least`.
as_moments <- function(sums, tau, least, layout) {
  S <- sums[, 1]
  S[!(S > least)] <- NA
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
# Where no row counts, log is -Inf and the rest 0.
direct_moments <- function(data, at, layout, drop = NULL) {
  by_shares(data, at, drop, \(p, u, log_S, rows) moments_under(p, u, data$y, log_S, layout))
}

# The rows of `use` of the shares k / S, a matrix with a row for each target, the differences u, a list by
# coordinate, and log S, for some `rows` of the targets at a time. `drop`: a row for each target that is left out.
by_shares <- function(data, at, drop, use) {
  blocks <- blocks_of(nrow(at), max(1, floor(DIRECT_PAIRS / nrow(data$z))))
  do.call(rbind, lapply(blocks, \(rows) {
    u <- lapply(seq_len(ncol(at)), \(k) -apart_in(picked_rows(at, rows), data$z, k))
    log_k <- rep(log(data$w), each = length(rows)) - Reduce(`+`, lapply(u, \(one) one^2)) / 2
    if (!is.null(drop)) log_k[cbind(seq_along(rows), drop[rows])] <- -Inf
    top <- log_k[cbind(seq_along(rows), max.col(log_k, "first"))]
    k <- exp(log_k - ifelse(top > -Inf, top, 0))
    S <- rowSums(k)
    use(k / ifelse(S > 0, S, 1), u, top + log(pmax(S, 1)), rows)
  }))
}

DIRECT_PAIRS <- 2e6

# Means under shares, of by_shares().
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

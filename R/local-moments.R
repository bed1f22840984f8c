# Moments of the rows about targets, for local fits. Rows are whitened: kernels are exp(-|u|^2 / 2), with u the row
# minus the target. `data`: a list of z, the whitened rows, n x d; w, their weights, at most 1; y, n x t; and for one
# column by_size, the order of the rows.
#
# Moments are kernel sums of powers of z minus a centre. The centre is near the targets, because moments about a distant
# one would cancel. The result is a matrix with a row for each target. regression_layout() has the numbers of its
# columns:
#   log   the logarithm of S = sum k, with kernels k times weights; the other columns are means with weights k / S
#   y     means of y, t columns
#   mean  means of u, d columns                                } order 1 and 2
#   cross covariances of u with y, d columns for each response }
#   cov   covariances of u, the lower triangle                   order 2
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

# Returns list(all, others): moments at the targets `at` (NULL: the rows), and if the targets are the rows `own`, the
# leave-one-out moments. Methods are tried in the order of moment_ways(), and at last logarithms of all kernels, for the
# targets whose sums the method before could not resolve.
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

# Are sums so small that terms may have underflowed? NA means that a sum was not resolved.
is_lost <- function(log_S) is.na(log_S) | log_S < LEAST_LOG

LEAST_LOG <- log(1e-250)

# Returns the methods to try, each a list of `run`; `tol`, the error of moments relative to S, 0 for exact sums;
# `width`, the largest width of boxes; and `reach`, the cutoff radius of kernels. With a tolerance, moments are
# differences of sums that need a smaller tolerance. This costs little in narrow boxes, where the squares of coordinates
# are small, and where the largest sum, to which the error of a grid is relative, is that of the box. Targets whose S is
# too small are summed exactly. All sums are in double precision.
moment_ways <- function(run, z, m, order, own) {
  run$precision <- "double"
  exact <- list(run = exactly(run), tol = 0, width = 512, reach = 40)
  # without a tolerance the fast engine would have to prove the error of each of these sums, so it is not used
  if (run$tol == 0 || resolve_control(run, nrow(z), m, ncol(z))$engine != "fast") {
    suggest_tolerance(run, nrow(z), m, ncol(z), sum_sources(z, NULL, diag(ncol(z))), own = own)
    return(list(exact))
  }
  finer <- replace(run, c("tol", "tol_type"), list(min(run$tol, FINEST_TOL), "global"))
  list(list(run = finer, tol = run$tol, width = if (order == 0) 64 else 16, reach = 9), exact)
}

# With smaller tolerances grids may be slower than sums over pairs (bench/NOTES.md).
FINEST_TOL <- 1e-10

# ---- boxes ------------------------------------------------------------------------------------

# Divides the targets `rows` (NULL: all) into boxes that are so narrow that squares of coordinates about their centre
# keep enough digits. Each box has `near`, the rows within the cutoff radius. NULL: all rows.
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

# Returns the moments at the targets of a box, NA where the sums are too small. `same`: are the targets the rows?
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
  # the kernel of a row at itself is 1
  mine <- own[box$targets]
  mine <- columns[if (is.null(near)) mine else match(mine, near), , drop = FALSE]
  list(
    all = as_moments(sums, tau, least, layout),
    others = as_moments(sums - mine, tau, pmax(least, LEAST_SHARE * mine[, 1]), layout)
  )
}

# A leave-one-out sum below this share of the row's own term has lost digits.
LEAST_SHARE <- 1e-3

moment_columns <- function(v, y, w, layout) {
  d <- layout$d
  first <- if (layout$order > 0) cbind(v, do.call(cbind, lapply(seq_len(layout$t), \(r) v * y[, r])))
  second <- if (layout$order > 1) v[, layout$pairs[, 1], drop = FALSE] * v[, layout$pairs[, 2], drop = FALSE]
  unname(w * cbind(1, y, first, second))
}

# Returns moments from sums about a centre; `tau`: targets minus the centre. Moments are NA if S is not above `least`.
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

# Returns moments from the logarithms of all kernels, for the few targets that are far from all rows, or from all other
# rows. If no row has weight, log is -Inf and the other moments are 0.
direct_moments <- function(data, at, layout, drop = NULL) {
  by_shares(data, at, drop, \(p, u, log_S, rows) moments_under(p, u, data$y, log_S, layout))
}

# Returns the rows of `use(p, u, log_S, rows)`, called for some `rows` of the targets at a time: the shares p = k / S, a
# matrix with a row for each target; the differences u, a list by coordinate; and log S. `drop`: for each target a row
# to omit.
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

# Returns moments from the arguments that by_shares() passes.
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

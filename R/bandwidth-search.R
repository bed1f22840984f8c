# The search for a factor L of H = L L' that minimises a criterion: minimise(), for all kinds of bandwidths.
#
# - A criterion is a list: value(L), a number; rows, how many it is of; and where these are there gradient(L, moves), and
#   values(L, powers) with at_once (bandwidth-criteria.R).
# - Moves are what of L may change: "scalar", "diagonal" or "full". Lambdas of levels go along, as their best ones are
#   known for each L (with_lambdas()).
# - A schedule says how it is looked for, see SCHEDULE, and how many rows are (rows_for(), batches_of()).

# - scan: the factors of the start from which and to which a scalar is scanned. NULL: it is looked for near the start,
#   `step` of its logarithm apart; so it is too where the criterion has no values at once and `valleys`, how many such a
#   scan may find, is one.
# - tol: of the logarithm.
# - rate: a function of L, the power of the number of rows by which it shrinks: many rows are looked at from where few
#   have ended. NULL: all at once.
SCHEDULE <- list(scan = NULL, step = 0.2, valleys = Inf, tol = 1e-3, rate = NULL)

# list(L, value, converged), of a scalar with trace, too: the least minimum of on(batch) from starts(batch), a list of
# factors. `on`: a function of rows with the criterion on them; `schedule`: what differs from SCHEDULE.
minimise <- function(on, batch, starts, moves = "scalar", schedule = list()) {
  how <- replace(SCHEDULE, names(schedule), schedule)
  if (!is.null(how$rate) && nrow(batch$x) > 1.5 * SCAN_ROWS) return(minimise_on_few(on, batch, starts, moves, how))
  criterion <- on(batch)
  scans <- !is.null(how$scan) && (isTRUE(criterion$at_once) || how$valleys > 1)
  best_of(lapply(starts(batch), \(L) {
    if (moves != "scalar") return(minimise_factor(criterion, L, moves))
    if (scans) return(scan_factor(criterion, L, how$scan[1], how$scan[2], how$tol))
    polish_factor(criterion, L, how$step, how$tol)
  }))[[1]]
}

# First on few of the rows, where a scalar need not be known well.
minimise_on_few <- function(on, batch, starts, moves, how) {
  few <- sample_of(batch, seq_len(SCAN_ROWS))
  coarse <- replace(how, c("rate", "tol"), list(NULL, if (moves == "scalar") 0.02 else how$tol))
  first <- minimise(on, few, starts, moves, coarse)
  by <- carried(few, batch, how$rate(first$L))
  found <- minimise(on, batch, \(rows) list(by * first$L), moves, list(tol = how$tol))
  if (moves != "scalar") return(found)
  first$trace[, "factor"] <- first$trace[, "factor"] * by * first$L[1] / found$L[1]
  replace(found, "trace", list(rbind(first$trace, found$trace)))
}

best_of <- function(found) found[which.min(vapply(found, `[[`, 0, "value"))]

# By what the bandwidth changes from a sample to more rows.
carried <- function(from, to, rate) (from$n / to$n)^rate

# As many rows as a scan needs, and a search that begins anew.
SCAN_ROWS <- 500

# So many rows are looked at if `passes` over all of their pairs, `each` in seconds of a nominal core, are to take no
# more than some of the budget.
rows_for <- function(seconds, passes, each, least = SCAN_ROWS) {
  max(least, floor(sqrt(0.4 * seconds / (passes * each))))
}

# Samples of plan$rows rows each.
batches_of <- function(data, plan) {
  lapply(seq_len(plan$batches), \(b) sample_of(data, (b - 1) * plan$rows + seq_len(plan$rows)))
}

# list(gain, se): what estimates gain over others, of the logarithms of densities at rows that judge by v.
gain_over <- function(one, other, v) {
  difference <- other - one
  gain <- sum(v * difference)
  list(gain = gain, se = sqrt(sum((v * (difference - gain))^2)))
}

# ---- steps ------------------------------------------------------------------------------------

# What a structure is: `moves`, how L may change, as gradients of criteria know it; `base`, the shape of which L is a
# multiple (NULL: none). Columns are in units of `unit`.
BANDWIDTH_STRUCTURES <- list(
  scaled = list(moves = "scalar", base = \(data) unit_factor(data)),
  scalar = list(moves = "scalar", base = \(data) diag(scalar_spread(data$unit) / data$unit, data$d)),
  sphered = list(moves = "scalar", base = \(data) unname(covariance_root(data))),
  diagonal = list(moves = "diagonal"),
  full = list(moves = "full")
)

# How many parameters it has.
free_parameters <- function(moves, d) switch(moves, scalar = 1, diagonal = d, full = d * (d + 1) / 2)

# L = L0 A: A's lower triangle by parameters theta, 0 at L0, the first of them the logs of its diagonal.
moved_factor <- function(L0, theta, moves) {
  d <- nrow(L0)
  if (moves == "scalar") return(exp(theta) * L0)
  A <- diagonal_matrix(exp(theta[seq_len(d)]), d)
  if (moves == "full") A[lower.tri(A)] <- theta[-seq_len(d)]
  L0 %*% A
}

# The criterion's change with theta, of its change with E in L(I + E). From A dE = dA: what A^-T E says below the
# diagonal, times A_kk on the diagonal.
theta_gradient <- function(E, L0, L, moves) {
  if (moves != "full") return(as.vector(E))
  d <- nrow(L0)
  A <- forwardsolve(L0, L)
  G <- backsolve(A, E, upper.tri = FALSE, transpose = TRUE)
  c(diagonal(G) * diagonal(A), G[lower.tri(G)])
}

# list(L, value, converged): the minimum near L0. As an estimate of a mean over n rows, the criterion is
# not known better than the stop here.
minimise_factor <- function(criterion, L0, moves) {
  free <- free_parameters(moves, nrow(L0))
  at <- NULL
  look <- function(theta) {
    if (identical(at$theta, theta)) return(at)
    L <- moved_factor(L0, theta, moves)
    found <- criterion$gradient(L, moves)
    gradient <- theta_gradient(found$E, L0, L, moves)
    if (!is.finite(found$value) || !all(is.finite(gradient))) {
      found$value <- WORST
      gradient <- numeric(free)
    }
    at <<- list(theta = theta, value = found$value, gradient = gradient, L = L)
    at
  }
  reach <- log(1000)
  # it begins as if all curvatures were scale^2: so it takes the fewest steps (bench/NOTES.md)
  found <- stats::nlminb(
    numeric(free), \(theta) look(theta)$value, \(theta) look(theta)$gradient, scale = 0.6,
    lower = -reach, upper = reach,
    control = list(rel.tol = 1e-7, x.tol = 1e-4, iter.max = 100, eval.max = 150, step.min = 0.3, step.max = 2)
  )
  best <- look(found$par)
  # "false convergence" of the code is a valley as flat as the criterion is rounded
  stuck <- any(abs(best$theta) >= 0.999 * reach) || grepl("limit", found$message)
  list(L = best$L, value = best$value, converged = !stuck)
}

# Of a criterion out of its range.
WORST <- .Machine$double.xmax^0.5

# As minimise_factor(), for factors of L0 alone and by values alone: a scan in steps of sqrt(2), further out while the
# best stands at an end, then the minima of polynomials through the points about the best, until the next is within
# `tol` of one. No minimum wider than the scan's step is missed. Also `trace`, all that was tried, and `vertex`, of L0,
# the factor of the last polynomial.
scan_factor <- function(criterion, L0, from = 0.05, to = 3, tol = 1e-3) {
  known <- values_known(criterion, L0)
  known$at_powers(log(to), 2^(0:ceiling(2 * log2(to / from))))
  valleys <- known$valleys()
  ended <- bracket(known, log(2) / 2, 40, tol)
  c(known$found(), ended, list(valleys = valleys))
}

# The same from a factor that is nearly right, `step` apart.
polish_factor <- function(criterion, L0, step = 0.2, tol = 1e-3) {
  known <- values_known(criterion, L0)
  if (!known$around()) for (theta in step * (-1:1)) known$at(theta)
  ended <- bracket(known, step, 60, tol)
  c(known$found(), ended)
}

# `found`, a minimum in other parameters, too, with the trace of the factor about it.
traced <- function(found, criterion, step = 0.2) {
  known <- values_known(criterion, found$L)
  if (!known$around()) {
    known$add(0, found$value)
    for (theta in c(-step, step)) known$at(theta)
  }
  replace(found, "trace", list(known$found()$trace))
}

# What is known of the criterion at factors exp(theta) of L0: known_values(), with
# - at_powers(theta, powers): looks at factors exp(theta) / sqrt(power)
# - around(): at 0 and near it, where several cost hardly more than one; else FALSE
# - found(): list(L, value, trace) of the best.
values_known <- function(criterion, L0) {
  known <- known_values(\(theta) criterion$value(exp(theta) * L0))
  many <- if (is.null(criterion$values)) one_by_one(criterion$value) else criterion$values
  at_powers <- \(theta, powers) known$add(theta - log(powers) / 2, many(exp(theta) * L0, powers))
  c(known, list(
    at_powers = at_powers,
    around = function() {
      at_once <- isTRUE(criterion$at_once)
      if (at_once) at_powers(log(2), c(1, 2, 3, 4, 6, 8))
      at_once
    },
    found = function() {
      all <- known$all()
      at <- which.min(all$value)
      trace <- cbind(rows = criterion$rows, factor = exp(all$theta - all$theta[at]), value = all$value)
      list(L = exp(all$theta[at]) * L0, value = all$value[at], trace = trace[all$value < WORST, , drop = FALSE])
    }
  ))
}

# What is known of `value`, a function of one number theta.
# - add(theta, value), at(theta): what was or is to be looked at
# - best(): the best and its neighbours, sorted; fewer than three where it stands at an end; and the nearest five
# - valleys(): how many there are; all(): list(theta, value).
known_values <- function(value) {
  thetas <- values <- numeric()
  add <- function(theta, value) {
    value[!is.finite(value)] <- WORST
    thetas <<- c(thetas, theta)
    values <<- c(values, value)
  }
  list(
    add = add,
    at = \(theta) add(theta, value(theta)),
    best = function() {
      order <- order(thetas)
      i <- which.min(values[order])
      near <- order[max(1, i - 1):min(length(order), i + 1)]
      five <- order(abs(thetas - thetas[order[i]]))
      if (length(five) > 5) five <- five[1:5]
      list(
        theta = thetas[near], value = values[near], at = match(order[i], near),
        nearest = list(theta = thetas[five], value = values[five])
      )
    },
    valleys = \() sum(diff(sign(diff(c(Inf, values[order(thetas)], Inf)))) > 0),
    all = \() list(theta = thetas, value = values)
  )
}

# Where the function of known_values() is least, about the best so far, list(vertex, converged): the lowest point of the
# last polynomial, and was it between others?
bracket <- function(known, step, further, tol) {
  while (length((best <- known$best())$theta) < 3 && further > 0) {
    further <- further - 1
    known$at(best$theta[best$at] + if (best$at == 1) -step else step)
  }
  inside <- length(best$theta) == 3
  theta <- best$theta[best$at]
  if (inside) for (i in 0:4) {
    theta <- vertex(best)
    if (i == 4 || tol == Inf) break
    if (min(abs(theta - best$theta)) < tol) {
      if (length(best$nearest$theta) > 3) break
      # of three points alone it is not known how skew the valley is
      theta <- theta + step / 4
    }
    known$at(theta)
    best <- known$best()
  }
  list(vertex = exp(theta), converged = inside && min(best$value) < WORST)
}

# Between the neighbours of the best, the lowest point of the polynomial through the nearest five; where the criterion is
# out of its range, the middle of the wider half.
vertex <- function(best) {
  x <- best$theta
  y <- best$nearest$value
  if (max(best$value, y) >= WORST || max(y) == min(y)) {
    return(if (x[2] - x[1] > x[3] - x[2]) (x[1] + x[2]) / 2 else (x[2] + x[3]) / 2)
  }
  z <- best$nearest$theta - x[2]
  powers <- seq_along(z) - 1
  coefficients <- solve(outer(z, powers, "^"), y - min(y), tol = 0)
  slope <- (coefficients * powers)[-1]
  flat <- if (all(is.finite(slope)) && any(slope != 0)) polyroot(slope)
  flat <- Re(flat)[abs(Im(flat)) <= 1e-6 * abs(flat)]
  ends <- range(x - x[2])
  tried <- c(ends, flat[flat > ends[1] & flat < ends[2]])
  x[2] + tried[which.min(outer(tried, powers, "^") %*% coefficients)]
}

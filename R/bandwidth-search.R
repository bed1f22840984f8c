# minimise() minimises a criterion over bandwidths of any structure.
#
# - A criterion is a list: value(at), a number at a place, which is a factor L of H = L L' or whatever else the moves
#   know; rows, how many it is of; and where there are these values(L, powers) with at_once, and gradient(at, moves),
#   list(value, E) (bandwidth-criteria.R), which a descent takes in place of value(); E may be NULL.
# - Moves say how numbers theta change a place: FACTOR_MOVES. Lambdas of levels go along with L, as their best ones are
#   known for each L (with_lambdas()).
# - A schedule says how it is looked for, see SCHEDULE, and how many rows are (rows_for(), batches_of()).

# - scan: the factors of the start from which and to which a line is scanned in steps of sqrt(2), and then up to
#   `further` steps out while the best stands at an end. NULL: it is looked for near the start, `step` apart; so it is
#   too where the criterion has no values at once and `valleys`, how many such a scan may find, is one.
# - powers: those of 1 / h^2 at which a criterion that has values at once is looked at near the start.
# - tol: of the theta of a line; Inf: the first polynomial is enough.
# - scale, control: of stats::nlminb(), which descends where there are several thetas. It begins as if all curvatures
#   were scale^2: so it takes the fewest steps (bench/NOTES.md).
SCHEDULE <- list(
  scan = NULL, further = 40, step = 0.2, valleys = Inf, powers = c(1, 2, 3, 4, 6, 8) / 4, tol = 1e-4, scale = 0.6,
  control = list(rel.tol = 1e-7, x.tol = 1e-4, iter.max = 100, eval.max = 150, step.min = 0.3, step.max = 2)
)

# list(L, the place, value, converged), along a line with trace, too, all that was tried, valleys, how many the first
# look found, and vertex, the theta of the last polynomial's bottom: the least minimum from `starts`, a list of places.
# `schedule`: what differs from SCHEDULE.
minimise <- function(criterion, starts, moves = "scalar", schedule = list()) {
  how <- replace(SCHEDULE, names(schedule), schedule)
  if (is.character(moves)) moves <- FACTOR_MOVES[[moves]]
  search <- if (moves$line) search_line else search_descent
  found <- lapply(starts, \(start) search(criterion, start, moves, how))
  found[[which.min(vapply(found, `[[`, 0, "value"))]]
}

# Minimises on(rows), a criterion on rows of `batch`, from starts(rows). With many rows, it first minimises on SCAN_ROWS
# of them with a coarse tolerance, and starts there. rate(L): the power of the number of rows by which L shrinks.
minimise_on <- function(on, batch, starts, moves, schedule, rate) {
  if (nrow(batch$x) <= 1.5 * SCAN_ROWS) return(minimise(on(batch), starts(batch), moves, schedule))
  few <- sample_of(batch, seq_len(SCAN_ROWS))
  first <- minimise(on(few), starts(few), moves, replace(schedule, "tol", 0.02))
  by <- carried(few, batch, rate(first$L))
  found <- minimise(on(batch), list(by * first$L), moves, replace(schedule, "scan", list(NULL)))
  if (is.null(found$trace)) return(found)
  first$trace[, "factor"] <- first$trace[, "factor"] * by * first$L[1] / found$L[1]
  replace(found, c("trace", "valleys"), list(rbind(first$trace, found$trace), first$valleys))
}

# Factor of a bandwidth from a sample to more rows.
carried <- function(from, to, rate) (from$n / to$n)^rate

# Number of rows for a scan, and for a search without a good start.
SCAN_ROWS <- 500

# So many rows are looked at if `passes` over all of their pairs, `each` in seconds of a nominal core, are to take no
# more than some of the budget.
rows_for <- function(seconds, passes, each, least = SCAN_ROWS) {
  max(least, floor(sqrt(0.4 * seconds / (passes * each))))
}

# The samples of a search, of plan$rows rows each.
batches_of <- function(data, plan) {
  lapply(seq_len(plan$batches), \(b) sample_of(data, (b - 1) * plan$rows + seq_len(plan$rows)))
}

# list(gain, se): what estimates gain over others, of the logarithms of densities at rows that judge by v.
gain_over <- function(one, other, v) {
  difference <- other - one
  gain <- sum(v * difference)
  list(gain = gain, se = sqrt(sum((v * (difference - gain))^2)))
}

# ---- moves ------------------------------------------------------------------------------------

# What a structure is: `moves`, how L may change; `base`, the shape of which L is a multiple (NULL: none). Columns are
# in units of `unit`.
BANDWIDTH_STRUCTURES <- list(
  scaled = list(moves = "scalar", base = \(data) unit_factor(data)),
  scalar = list(moves = "scalar", base = \(data) diag(scalar_spread(data$unit) / data$unit, data$d)),
  sphered = list(moves = "scalar", base = \(data) unname(covariance_root(data))),
  diagonal = list(moves = "diagonal"),
  full = list(moves = "full")
)

# Number of parameters of a structure.
free_parameters <- function(moves, d) switch(moves, scalar = 1, diagonal = d, full = d * (d + 1) / 2)

# Moves are a list:
# - name: as gradients of criteria know them; line: is theta one number?
# - free(start): how many numbers; limits(start): list(lower, upper) of them
# - at(start, theta): the place, `start` where theta is 0
# - slope(E, start, at): the criterion's change with theta, of its change E at the place `at`
#
# Moves of a factor L = L0 A: A's lower triangle by theta, the first of them the logs of its diagonal. E is the change
# with E in L(I + E). From A dE = dA: what A^-T E says below the diagonal, times A_kk on the diagonal.
FACTOR_MOVES <- list(
  scalar = list(name = "scalar", line = TRUE, at = \(L, theta) exp(theta) * L),
  diagonal = list(
    name = "diagonal", line = FALSE, free = nrow, limits = \(L) list(-log(1000), log(1000)),
    at = \(L, theta) L %*% diagonal_matrix(exp(theta), nrow(L)), slope = \(E, from, to) as.vector(E)
  ),
  full = list(
    name = "full", line = FALSE, free = \(L) free_parameters("full", nrow(L)),
    limits = \(L) list(-log(1000), log(1000)),
    at = function(L, theta) {
      d <- nrow(L)
      A <- diagonal_matrix(exp(theta[seq_len(d)]), d)
      A[lower.tri(A)] <- theta[-seq_len(d)]
      L %*% A
    },
    slope = function(E, from, to) {
      A <- forwardsolve(from, to)
      G <- backsolve(A, E, upper.tri = FALSE, transpose = TRUE)
      c(diagonal(G) * diagonal(A), G[lower.tri(G)])
    }
  )
)

# ---- several numbers ----------------------------------------------------------------------------

# Value of a criterion outside its range.
WORST <- .Machine$double.xmax^0.5

# The minimum near `start`. The criterion is an estimate of a mean over n rows, and its error exceeds the stopping
# tolerance.
search_descent <- function(criterion, start, moves, how) {
  limits <- moves$limits(start)
  none <- numeric(moves$free(start))
  at <- NULL
  look <- function(theta) {
    if (identical(at$theta, theta)) return(at)
    L <- moves$at(start, theta)
    found <- if (is.null(criterion$gradient)) list(value = criterion$value(L)) else criterion$gradient(L, moves$name)
    slope <- if (!is.null(found$E)) moves$slope(found$E, start, L)
    if (!all(is.finite(c(found$value, slope)))) {
      found$value <- WORST
      slope <- 0 * theta
    }
    at <<- list(theta = theta, value = found$value, slope = slope, L = L)
    at
  }
  found <- stats::nlminb(
    none, \(theta) look(theta)$value, if (!is.null(look(none)$slope)) \(theta) look(theta)$slope,
    scale = how$scale, lower = limits[[1]], upper = limits[[2]], control = how$control
  )
  best <- look(found$par)
  # "false convergence" of the code is a valley as flat as the criterion is rounded
  inside <- best$theta > 0.999 * limits[[1]] & best$theta < 0.999 * limits[[2]]
  list(L = best$L, value = best$value, converged = all(inside) && !grepl("limit", found$message))
}

# ---- one number -----------------------------------------------------------------------------------

# The minimum on the line, by values: of a scan, or of three about the start; then of polynomials through the nearest of
# them, until the bottoms of two in turn are within `tol`. No minimum wider than the scan's step is missed.
search_line <- function(criterion, start, moves, how) {
  thetas <- values <- numeric() # in ascending order
  look <- function(theta) {
    value <- criterion$value(moves$at(start, theta))
    after <- sum(thetas < theta)
    thetas <<- append(thetas, theta, after)
    values <<- append(values, if (is.finite(value)) value else WORST, after)
  }
  # at first, 1 / sqrt(power) times the start
  look_at_powers <- function(powers) {
    all <- -log(powers) / 2
    if (is.null(criterion$values)) return(for (one in all) look(one))
    thetas <<- rev(all)
    values <<- rev(criterion$values(start, powers))
    values[!is.finite(values)] <<- WORST
  }
  step <- how$step
  at_once <- isTRUE(criterion$at_once)
  if (!is.null(how$scan) && (at_once || how$valleys > 1)) {
    step <- log(2) / 2
    look_at_powers(2^(0:ceiling(2 * log2(how$scan[2] / how$scan[1]))) / how$scan[2]^2)
  } else if (at_once) {
    look_at_powers(how$powers)
  } else {
    for (theta in step * (-1:1)) look(theta)
  }
  valleys <- sum(diff(sign(diff(c(Inf, values, Inf)))) > 0)
  inside <- \() which.min(values) > 1 && which.min(values) < length(values)
  for (i in seq_len(how$further)) {
    if (inside()) break
    look(if (which.min(values) == 1) thetas[1] - step else thetas[length(thetas)] + step)
  }
  found <- inside()
  lowest <- thetas[which.min(values)]
  if (found) for (i in 1:5) {
    before <- if (i > 1) lowest else Inf
    lowest <- vertex(thetas, values)
    if (i == 5 || how$tol == Inf || abs(lowest - before) < how$tol) break
    # a bottom that is at a place of the first look by chance is not known to be one
    look(if (min(abs(lowest - thetas)) < how$tol) lowest + step / 4 else lowest)
  }
  best <- which.min(values)
  trace <- cbind(rows = criterion$rows, factor = exp(thetas - thetas[best]), value = values)
  list(
    L = moves$at(start, thetas[best]), value = values[best], converged = found && values[best] < WORST,
    trace = trace[values < WORST, , drop = FALSE], valleys = valleys, vertex = lowest
  )
}

# Between the neighbours of the best of ascending thetas, the lowest bottom of the polynomial through the five around it.
# Where it has none, or the criterion is out of its range, the middle of the wider half.
vertex <- function(thetas, values) {
  best <- which.min(values)
  ends <- thetas[best + c(-1, 1)] - thetas[best]
  unit <- max(abs(ends))
  middle <- thetas[best] + (if (-ends[1] > ends[2]) ends[1] else ends[2]) / 2
  first <- max(1, min(best - 2, length(thetas) - 4))
  around <- first:min(first + 4, length(thetas))
  x <- (thetas[around] - thetas[best]) / unit
  y <- values[around] - values[best]
  if (max(values[around]) >= WORST || max(y) == 0) return(middle)
  n <- length(x)
  for (k in 2:n) y[k:n] <- (y[k:n] - y[k:n - 1]) / (x[k:n] - x[k:n - k + 1]) # divided differences
  a <- y[n] # coefficients of powers
  for (k in (n - 1):1) a <- c(y[k], a) - x[k] * c(a, 0)
  roots <- polyroot(a[-1] * seq_len(n - 1))
  at <- Re(roots)[abs(Im(roots)) < 1e-6]
  at <- at[at > ends[1] / unit & at < ends[2] / unit]
  if (length(at) == 0) return(middle)
  heights <- 0 * at
  for (k in n:1) heights <- heights * at + a[k]
  thetas[best] + unit * at[which.min(heights)]
}

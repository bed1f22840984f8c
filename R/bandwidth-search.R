# The search for a factor L of H = L L' that minimises a criterion (R/bandwidth-criteria.R).

# What a structure is: `moves`, how L may change, as gradients of criteria know it; `base`, the shape of which L is a
# multiple (NULL: none). Columns are in units of `unit`.
BANDWIDTH_STRUCTURES <- list(
  scaled = list(moves = "scalar", base = \(data) diag(1, data$d)),
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
  found <- stats::nlminb(
    numeric(free), \(theta) look(theta)$value, \(theta) look(theta)$gradient, lower = -reach, upper = reach,
    control = list(rel.tol = 1e-7, x.tol = 1e-4, iter.max = 100, eval.max = 150, step.min = 0.3, step.max = 2)
  )
  best <- look(found$par)
  # "false convergence" of the code is a valley as flat as the criterion is rounded
  stuck <- any(abs(best$theta) >= 0.999 * reach) || grepl("limit", found$message)
  list(L = best$L, value = best$value, converged = !stuck)
}

# Of a criterion out of its range.
WORST <- .Machine$double.xmax^0.5

# As minimise_factor(), for factors of L0 alone and by values alone: a scan, further out while the best stands at an
# end, then parabolas through the best three; also `trace`, all that was tried. No minimum wider than the scan's step is
# missed.
scan_factor <- function(criterion, L0, from = 0.05, to = 3, size = 12) {
  known <- values_known(criterion, L0)
  step <- log(to / from) / (size - 1)
  for (theta in log(from) + step * (seq_len(size) - 1)) known$at(theta)
  bracket(known, step, 40)
}

# The same from a factor that is nearly right, `step` apart.
polish_factor <- function(criterion, L0, step = 0.2) {
  known <- values_known(criterion, L0)
  for (theta in step * (-1:1)) known$at(theta)
  bracket(known, step, 60)
}

# What is known of the criterion at factors exp(theta) of L0.
values_known <- function(criterion, L0) {
  thetas <- values <- numeric()
  list(
    at = function(theta) {
      value <- criterion$value(exp(theta) * L0)
      thetas <<- c(thetas, theta)
      values <<- c(values, if (is.finite(value)) value else WORST)
    },
    # the best and its neighbours, sorted; fewer than three where it stands at an end
    best = function() {
      order <- order(thetas)
      i <- which.min(values[order])
      near <- order[seq(max(1, i - 1), min(length(order), i + 1))]
      list(theta = thetas[near], value = values[near], at = match(order[i], near))
    },
    found = function() {
      at <- which.min(values)
      list(
        L = exp(thetas[at]) * L0, value = values[at],
        trace = data.frame(rows = criterion$rows, factor = exp(thetas - thetas[at]), value = values)[values < WORST, ]
      )
    }
  )
}

bracket <- function(known, step, further) {
  while (length((best <- known$best())$theta) < 3 && further > 0) {
    further <- further - 1
    known$at(best$theta[best$at] + if (best$at == 1) -step else step)
  }
  inside <- length(best$theta) == 3
  # four parabolas leave less than a thousandth in the factor
  if (inside) for (i in 1:4) {
    theta <- vertex(best)
    if (min(abs(theta - best$theta)) < 1e-3) break
    known$at(theta)
    best <- known$best()
  }
  c(known$found(), list(converged = inside && min(best$value) < WORST))
}

# Of the parabola through three points whose middle is lowest, in the half of the wider side at least where it comes too
# near to the middle of uneven ones.
vertex <- function(best) {
  x <- best$theta
  y <- best$value
  left <- (x[2] - x[1]) * (y[2] - y[3])
  right <- (x[2] - x[3]) * (y[2] - y[1])
  if (left == right || max(y) >= WORST) {
    return(if (x[2] - x[1] > x[3] - x[2]) (x[1] + x[2]) / 2 else (x[2] + x[3]) / 2)
  }
  x[2] - ((x[2] - x[1]) * left - (x[2] - x[3]) * right) / (2 * (left - right))
}

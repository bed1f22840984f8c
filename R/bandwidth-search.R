# The search behind the cross-validation selectors. A structure is a base Cholesky factor and a way to
# turn p numbers theta, 0 at the base, into another factor; a criterion is a function of the factor, to
# be minimised, and returns list(value, stats).

search_bandwidth <- function(data, criterion, structure, start, estimator, control) {
  base <- search_base(data, structure, start, estimator)
  free <- switch(structure, diagonal = data$d, full = data$d * (data$d + 1) / 2, 1)
  name_stage(control, "Selecting the bandwidth")
  # about so many, see ?bw_lcv
  expected <- 30 + if (free > 1) 10 + 10 * free^1.5 else 0
  evaluations <- 0
  stats <- NULL
  value_at <- function(L) {
    share_stage(control, evaluations / expected, 1 / expected)
    evaluations <<- evaluations + 1
    found <- criterion(L)
    stats <<- if (is.null(stats)) found$stats else add_stats(stats, found$stats)
    # a criterion out of range says nothing but "not here"
    if (is.finite(found$value)) found$value else .Machine$double.xmax^0.5
  }
  best <- search_scale(\(theta) value_at(exp(theta) * base))
  if (free > 1) {
    base <- exp(best$theta) * base
    shape <- if (structure == "full") full_factor else diagonal_factor
    best <- search_shape(\(theta) value_at(shape(base, theta)), data$d, free, best)
    L <- shape(base, best$theta)
  } else {
    L <- exp(best$theta) * base
  }
  list(
    L = L, value = best$value, evaluations = evaluations, convergence = best$convergence,
    stats = stats
  )
}

# theta = 0: Silverman's rule in the structure, or what the user gave.
search_base <- function(data, structure, start, estimator) {
  if (!is.null(start)) {
    L <- as_bandwidth(start, data$d, "start", colnames(data$x))$L
    if (structure %in% c("full", "sphered")) return(L)
    sds <- sqrt(rowSums(L^2))
    if (structure == "scalar") sds <- rep(exp(mean(log(sds))), data$d)
    return(diag(sds, data$d))
  }
  factor <- rule_factor("silverman", data$n, data$d, estimator)
  switch(structure,
    full = ,
    sphered = factor * covariance_root(data),
    scalar = diag(factor * scalar_spread(robust_spread(data)), data$d),
    diag(factor * robust_spread(data), data$d)
  )
}

diagonal_factor <- function(base, theta) {
  diag(exp(theta) * diag(base), length(theta))
}

# base times a lower triangle with exp(theta_1..d) on its diagonal, the rest of theta below it.
full_factor <- function(base, theta) {
  d <- nrow(base)
  inner <- diag(exp(theta[seq_len(d)]), d)
  inner[lower.tri(inner)] <- theta[-seq_len(d)]
  base %*% inner
}

# One parameter, the log of the factor. The scan finds the deepest of several minima.
search_scale <- function(f) {
  step <- log(400) / 16
  grid <- log(1 / 50) + step * (0:16)
  values <- vapply(grid, f, 0)
  at <- which.min(values)
  extended <- 0
  while (at %in% c(1, length(grid)) && extended < 40) {
    further <- if (at == 1) grid[1] - step else grid[at] + step
    value <- f(further)
    grid <- if (at == 1) c(further, grid) else c(grid, further)
    values <- if (at == 1) c(value, values) else c(values, value)
    at <- which.min(values)
    extended <- extended + 1
  }
  if (at %in% c(1, length(grid))) {
    return(list(theta = grid[at], value = values[at], convergence = 1))
  }
  inside <- stats::optimize(f, grid[at + c(-1, 1)], tol = 1e-4)
  if (inside$objective > values[at]) {
    inside <- list(minimum = grid[at], objective = values[at])
  }
  list(theta = inside$minimum, value = inside$objective, convergence = 0)
}

# Several parameters, from theta = 0 with value `scale$value`: the first d are logs of factors.
search_shape <- function(f, d, free, scale) {
  reach <- log(1000)
  descend <- function(start) {
    stats::nlminb(
      start, f, \(theta) central_gradient(f, theta),
      lower = -reach, upper = reach, control = list(rel.tol = 1e-8, iter.max = 200)
    )
  }
  start <- scan_shape(f, d, free, scale$value)
  found <- descend(start)
  # Few parameters: a second descent, from where the scale alone was best, costs little.
  if (d <= 3 && any(start != 0)) {
    second <- descend(numeric(free))
    if (second$objective < found$objective) found <- second
  }
  # Codes of PORT other than 0 (false or singular convergence) say that the valley is flat or the
  # criterion rounded: the point is as good as can be had. Only a bound or the limit is a failure.
  failed <- any(abs(found$par) >= reach) || grepl("limit reached", found$message)
  list(
    theta = found$par, value = found$objective,
    convergence = as.integer(failed || scale$convergence != 0)
  )
}

# A coarse look around, because these criteria have several local minima: all combinations of factors
# in up to three dimensions, one direction after the other in more.
scan_shape <- function(f, d, free, value) {
  theta <- numeric(free)
  try <- function(trial) {
    trial_value <- f(trial)
    if (trial_value < value) {
      theta <<- trial
      value <<- trial_value
    }
  }
  if (d <= 3) {
    moves <- as.matrix(expand.grid(rep(list(log(2) * (-2:1)), d)))
    for (i in seq_len(nrow(moves))) try(replace(numeric(free), seq_len(d), moves[i, ]))
  } else {
    for (k in seq_len(d)) for (move in log(2) * c(-1, 1)) try(replace(theta, k, move))
  }
  theta
}

# The step suits a criterion known to six digits (single precision) as well as one known to fifteen.
central_gradient <- function(f, theta, step = 5e-3) {
  vapply(seq_along(theta), function(k) {
    up <- f(replace(theta, k, theta[k] + step))
    down <- f(replace(theta, k, theta[k] - step))
    (up - down) / (2 * step)
  }, 0)
}

warn_search <- function(bandwidth, structure) {
  if (attr(bandwidth, "convergence") != 0) {
    warning(
      "the cross-validation criterion has no optimum in the range searched (structure \"", structure,
      "\"): the bandwidth is the best one tried", call. = FALSE
    )
  }
  bandwidth
}

# The result in the form that flash_kde() takes, at the size of the whole data.
selected <- function(found, data, structure, estimator, selector) {
  shrink <- (data$n / data$n_all)^bandwidth_rate(estimator, data$d)
  names <- colnames(data$x)
  L <- shrink * found$L
  bandwidth <- switch(structure,
    scalar = L[1, 1],
    sphered = ,
    full = structure(tcrossprod(L), dimnames = if (!is.null(names)) list(names, names)),
    structure(diag(L), names = if (data$d > 1) names)
  )
  new_bandwidth(bandwidth, selector, found, data$ties)
}

# ---- ties -------------------------------------------------------------------------------------

# Spreads equal values over the gap to their neighbours (see ?bw_lcv). Irrational steps order the
# members of a group differently in every column, so that no dependence is made up.
spread_ties <- function(data) {
  data$ties <- 0
  for (k in seq_len(data$d)) {
    column <- data$x[, k]
    if (!anyDuplicated(column)) next
    spread <- spread_column(column, step = sqrt(k^2 + 1))
    data$ties <- data$ties + sum(spread != column)
    data$x[, k] <- spread
  }
  data
}

spread_column <- function(column, step) {
  order <- order(column, (seq_along(column) * step) %% 1)
  sorted <- column[order]
  runs <- rle(sorted)
  gaps <- diff(runs$values)
  half <- pmin(c(Inf, gaps), c(gaps, Inf)) / 2
  size <- rep(runs$lengths, runs$lengths)
  place <- (sequence(runs$lengths) - 0.5) / size - 0.5
  sorted <- sorted + 2 * rep(half, runs$lengths) * place
  column[order] <- sorted
  column
}

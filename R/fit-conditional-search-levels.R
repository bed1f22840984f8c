# Bandwidths and lambdas of a conditional density with columns of levels, by the same leave-one-out conditional
# likelihood as fit-conditional-search.R: H for given lambdas on a sample of rows, lambdas for a given H at next to no
# cost, in turns, as bandwidth-mixed.R does for a joint density; then the factor of H, with the best lambdas of each,
# by all.

# list(options, search, free), as settle_conditional(): `free` says which lambdas were chosen.
settle_levels <- function(made, options, estimator, na.action, run) {
  columns <- choose_level_kernels(attr(made$points, "columns"), options$discrete_kernel)
  lambda <- check_lambda(options$lambda, columns)
  free <- is.na(lambda) & most_lambda(columns) > 0
  weights <- check_weights(made$weights, nrow(made$points), missing = TRUE)
  data <- handle_missing(made$points, weights, na.action, "formula")
  codes <- data$points[, names(columns), drop = FALSE]
  data$points <- data$points[, setdiff(colnames(data$points), names(columns)), drop = FALSE]
  data$discrete <- list(
    columns = columns, codes = codes, lambda = replace(lambda, is.na(lambda) & !free, 0),
    given = intersect(names(columns), made$given)
  )
  response <- which(colnames(data$points) %in% made$response)
  if (ESTIMATORS[[estimator]]$signed && length(response) == 0) {
    stop_argument("estimator", "must be \"kde\" or \"sdkde\" for a categorical left side: found \"", estimator, "\"")
  }
  choose_H <- ncol(data$points) > 0 && is_own_search(options$bandwidth)
  search <- conditional_options(options)
  wanted <- if (!choose_H) mixed_wanted(options$bandwidth, data, "bandwidth")
  if (is.character(wanted)) return(list(options = options)) # of the joint density
  if (!choose_H && !any(free)) return(list(options = options))
  check_lambda_rows(free, data, choose_H, "formula")
  if (choose_H) check_spread(data$points, "formula", data$weights, cure = " (give `bandwidth` as numbers)")
  own <- search_run(run, max(1, ncol(data$points)))
  name_stage(own, "Selecting the bandwidth")
  found <- if (choose_H) {
    choose_given_levels(data, response, free, search, estimator, own)
  } else {
    choose_given_lambdas(data, wanted$L, response, free, own)
  }
  if (choose_H) options <- with_sds(options, estimator, found$bandwidth, colnames(data$points))
  options$lambda <- stats::setNames(found$lambda, names(columns))
  list(options = options, search = found$search, chose_sds = choose_H, free = free)
}

# list(bandwidth, lambda, search).
choose_given_levels <- function(data, response, free, options, estimator, run) {
  clean <- clean_mixed(data, "formula")
  tally <- new_tally()
  rows <- options$rows
  # a step is as three passes of cell_moments(), of which some eighty are made in each turn
  if (is.null(rows)) rows <- rows_for(options$seconds, 240 * MOST_TURNS, nominal_costs()$moments)
  batch <- sample_of(clean, seq_len(min(nrow(clean$x), rows)))
  lambdas <- \(data) \(L, lambda) {
    data$discrete$lambda <- lambda
    best_given_lambdas(data, L, response, free, run)
  }
  starts <- conditional_starts(batch, response)
  turned <- in_turns(batch, starts[[1]], lambdas(batch), \(batch, last) {
    from <- if (is.null(last)) starts else list(last$L)
    minimise(conditional_criterion(batch, response, run, tally), from, "diagonal")
  })
  L <- turned$L
  batch$discrete$lambda <- clean$discrete$lambda <- turned$lambda
  carry <- \(estimator, L) L * carried(batch, clean, conditional_rate(estimator, L, response))
  last <- with_lambdas(clean, carry(PLAIN_ESTIMATOR, L), lambdas(clean))
  if (estimator != PLAIN_ESTIMATOR) last$L <- carry(estimator, widened_for(estimator, L, batch, response, run, tally))
  sds <- diagonal(last$L)
  variances <- raised_variances((clean$unit * sds)^2, clean$columns)
  search <- list(
    rows = nrow(batch$x), batches = 1, evaluations = tally$evaluations,
    loglik = -last$value - sum(log(clean$unit[response])),
    wide = c(clean$columns$column[setdiff(which(sds > WIDE), response)], even_levels(clean$discrete, last$lambda))
  )
  list(bandwidth = sqrt(variances), lambda = last$lambda, search = search)
}

# Columns of x whose categories carry no information.
even_levels <- function(discrete, lambda) {
  most <- most_lambda(discrete$columns)
  kernels <- vapply(discrete$columns, `[[`, "", "kernel")
  even <- names(most)[lambda >= 0.999 * most & most > 0 & kernels != "wangvanryzin"]
  intersect(even, discrete$given)
}

# For a bandwidth that is known.
choose_given_lambdas <- function(data, L, response, free, run) {
  own <- new_selector_data(data$points, data$weights, data$discrete)
  own$row_weights <- judge_weights(own$weights)
  # any order will do, so long as it is that of no column
  if (own$d > 0) own <- in_own_order(own)
  own$centre <- apply(own$x, 2, stats::median)
  own$scale <- pmax(own$sds, diagonal(L))
  found <- best_given_lambdas(own, L, response, free, run)
  search <- list(
    rows = nrow(own$x), batches = 1, evaluations = 0, loglik = -found$value,
    wide = even_levels(own$discrete, found$lambda)
  )
  list(lambda = found$lambda, search = search)
}

# ---- lambdas ------------------------------------------------------------------------------------

# list(lambda, value) at L, of the conditional likelihood's loss.
best_given_lambdas <- function(data, L, response, free, run) {
  optimise_lambdas(given_loss(judged(data), L, response, run), data$discrete, free)
}

# The loss as a function of lambda, as lambda_loss(): of the joint sums of each cell at the judges, and of those of x.
given_loss <- function(data, L, response, run) {
  cells <- cells_of(data$discrete$codes)
  n <- nrow(data$x)
  most <- min(JUDGES, JUDGED_SUMS / length(cells$rows), GIVEN_PAIRS / n)
  judges <- seq_len(min(n, max(200, floor(most))))
  sides <- conditional_sides(data, response)
  given <- sides$x$dims
  joint <- side_sums(data, sides$joint$dims, L, cells, judges, run)
  side <- if (length(response) == 0) joint else side_sums(data, given, L, cells, judges, run)
  own <- cells$of[judges]
  v <- data$v[judges] / sum(data$v[judges])
  log_floor <- conditional_floor(data, response)[judges]
  log_unit <- log_kernel_norm(L) - log_kernel_norm(L[given, given, drop = FALSE])
  log_of <- \(sums, near) log(rowSums(sums$shares * near[own, , drop = FALSE])) + sums$top
  function(lambda, free) {
    discrete <- replace(data$discrete, "lambda", list(lambda))
    log_x <- log_of(side, level_matrix(discrete, cells$codes, sides$x$levels))
    log_p <- log_of(joint, level_matrix(discrete, cells$codes, sides$joint$levels)) - log_x + log_unit
    undefined <- log_x == -Inf
    list(value = -sum(v * log_add(replace(log_p, undefined, -Inf), log_floor)), undefined = v[undefined])
  }
}

# Largest number of pairs of points and rows of the criterion.
GIVEN_PAIRS <- 1e8

# list(shares, top): the sums of the kernels of the numbers `dims` of each cell at the judges without their own, a
# column for each, and the logarithm of a unit in each row.
side_sums <- function(data, dims, L, cells, judges, run) {
  if (length(dims) > 0) {
    part <- list(x = data$x[, dims, drop = FALSE], w = data$w, d = length(dims))
    found <- cell_sums(part, L[dims, dims, drop = FALSE], cells, judges, run)
    return(list(shares = found$sums, top = found$top))
  }
  mass <- matrix(rowsum(data$w, cells$of)[, 1], length(judges), length(cells$rows), byrow = TRUE)
  own <- cbind(judges, cells$of[judges])
  mass[own] <- pmax(mass[own] - data$w[judges], 0)
  list(shares = mass, top = 0)
}

# What each combination of levels gives to each, by the kernels of these columns.
level_matrix <- function(discrete, codes, columns) {
  if (length(columns) == 0) return(matrix(1, nrow(codes), nrow(codes)))
  cell_matrix(some_levels(discrete, columns), codes[, columns, drop = FALSE])
}

some_levels <- function(discrete, columns) {
  names(discrete$lambda) <- names(discrete$columns)
  list(
    columns = discrete$columns[columns], lambda = discrete$lambda[columns],
    codes = discrete$codes[, columns, drop = FALSE]
  )
}

# ---- bandwidths ---------------------------------------------------------------------------------

# side_moments() for numbers x (possibly no columns) and some categorical columns.
level_moments <- function(data, x, levels, L, v, floor, moments, run) {
  part <- some_levels(data$discrete, levels)
  if (ncol(x) == 0) return(list(S = level_mass(part, data$w), M = numeric()))
  # so that no ratio is 0 / 0
  floor <- rep_len(if (is.null(floor)) .Machine$double.xmin else floor, nrow(x))
  cell_moments(list(x = x, w = data$w, d = ncol(x), discrete = part), L, v, moments, floor, run)
}

# At each point what the levels of all others give to it.
level_mass <- function(discrete, w) {
  cells <- cells_of(discrete$codes)
  near <- cell_matrix(discrete, cells$codes)
  totals <- rowsum(w, cells$of)[, 1]
  pmax((near %*% totals)[cells$of] - w * diagonal(near)[cells$of], 0)
}

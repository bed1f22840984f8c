# The bandwidths of a conditional density: those of the largest leave-one-out conditional likelihood, the mean of
# log p_-i(y_i, x_i) - log p_-i(x_i), one for each column (Hall, Racine and Li 2004). A variable that tells nothing
# about y gets a bandwidth so large that it drops out of p(y | x).

# A kernel this many spreads wide hardly distinguishes the points of its column.
WIDE <- 4

# list(bandwidth, search): the kernel standard deviations, and the record. `data`: list(points, weights); `response`:
# the columns of y; `options`: of search_options().
conditional_bandwidth <- function(data, response, estimator, options, run, arg) {
  name_stage(run, "Selecting the bandwidth")
  clean <- clean_points(data$points, data$weights, arg)
  plan <- plan_conditional(clean, options, run)
  batches <- batches_of(clean, plan)
  tally <- new_tally()
  on <- \(rows) conditional_criterion(rows, response, run, tally)
  rate <- \(L) conditional_rate(PLAIN_ESTIMATOR, L, response)
  first <- minimise_on(on, batches[[1]], \(rows) conditional_starts(rows, response), "diagonal", list(), rate)
  found <- c(list(first), lapply(batches[-1], \(batch) minimise(on(batch), list(first$L), "diagonal")))
  L <- mean_factor(lapply(found, `[[`, "L"))
  if (estimator != PLAIN_ESTIMATOR) L <- widened_for(estimator, L, batches[[1]], response, run, tally)
  sds <- diagonal(L) * carried(batches[[1]], clean, conditional_rate(estimator, L, response))
  wide <- sds > WIDE & !seq_along(sds) %in% response
  variances <- raised_variances((clean$unit * sds)^2, clean$columns)
  search <- list(
    rows = plan$rows * plan$batches, batches = plan$batches, evaluations = tally$evaluations,
    loglik = -first$value - sum(log(clean$unit[response])), wide = clean$columns$column[wide]
  )
  list(bandwidth = sqrt(variances), search = search)
}

# By what a nominal core takes, as plan_rows(): a step of the search is as a pass over pairs of all columns and two
# of those of x, of which about eighty are made.
plan_conditional <- function(data, options, run) {
  n <- nrow(data$x)
  each <- pair_seconds(n, data$d, on_cpu(run))
  rows <- if (is.null(options$rows)) rows_for(options$seconds, 160, each) else options$rows
  if (rows >= n) list(rows = n, batches = 1) else list(rows = rows, batches = min(4, floor(n / rows)))
}

# The power of n with which bandwidths fall; a variable that drops out is none of the dimensions.
conditional_rate <- function(estimator, L, response) {
  sds <- diagonal(L)
  bandwidth_rate(estimator, length(response) + sum(sds[-response] <= WIDE))
}

# From the rule of the joint density, and from there with a smooth x: the likelihood may have a valley at either.
conditional_starts <- function(batch, response) {
  smooth <- replace(rep(8, batch$d), response, 1)
  lapply(list(1, smooth), \(by) diagonal_matrix(rep_len(by * reference_factor(batch), batch$d), batch$d))
}

# ---- criteria ---------------------------------------------------------------------------------

# What the two sums of p(y | x) are over: numbers `dims` and, where there are some, columns of `levels`.
conditional_sides <- function(data, response) {
  all <- seq_len(ncol(data$x))
  list(
    joint = list(dims = all, levels = names(data$discrete$columns)),
    x = list(dims = setdiff(all, response), levels = data$discrete$given)
  )
}

# An outlier in y must not choose the bandwidth alone: beside p(y | x) there is a little of a Cauchy density of y, or of
# even shares of its levels.
conditional_floor <- function(data, response) {
  levels <- data$discrete$columns[setdiff(names(data$discrete$columns), data$discrete$given)]
  even <- -sum(log(lengths(lapply(levels, `[[`, "levels"))))
  share <- log_rescue_share(length(response)) + even
  if (length(response) == 0) return(rep(share, nrow(data$x)))
  share + cauchy_log_density(data$x[, response, drop = FALSE], data$centre[response], data$scale[response])
}

# For minimise(), diagonal L alone: gradient(L, ...), list(value, E), the value being -sum v log(p(y | x) +
# floor), each row left out.
conditional_criterion <- function(data, response, run, tally) {
  data <- judged(data)
  sides <- conditional_sides(data, response)
  given <- sides$x$dims
  log_floor <- conditional_floor(data, response)
  gradient <- function(L, ...) {
    tally$evaluations <- tally$evaluations + 1
    L_x <- L[given, given, drop = FALSE]
    S_x <- side_moments(data, sides$x, L_x, data$v, NULL, "none", run)$S
    log_unit <- log_kernel_norm(L) - log_kernel_norm(L_x)
    # of the joint density, in units of its kernels: so the floor is one of the ratio
    floor <- pmin(exp(log_floor - log_unit) * S_x, .Machine$double.xmax)
    joint <- side_moments(data, sides$joint, L, data$v, floor, "diagonal", run)
    ratio <- (joint$S + floor) / S_x
    share <- joint$S / (joint$S + floor)
    lost <- which(!(S_x > 0 & ratio > 0 & ratio < .Machine$double.xmax))
    share[lost] <- 0
    log_p <- replace(log(ratio) + log_unit, lost, log_floor[lost])
    along_x <- side_moments(data, sides$x, L_x, data$v * share, NULL, "diagonal", run)$M
    E <- sum(data$v * share) - joint$M
    E[given] <- along_x - joint$M[given]
    list(value = -sum(data$v * log_p), E = E)
  }
  list(gradient = gradient)
}

# moments_of() of one of the sides, with a ratio; of levels see fit-conditional-search-levels.R.
side_moments <- function(data, side, L, v, floor, moments, run) {
  x <- data$x[, side$dims, drop = FALSE]
  if (length(side$levels) > 0) return(level_moments(data, x, side$levels, L, v, floor, moments, run))
  moments_of(x, L, data$weights, v, floor, moments, TRUE, NULL, PLAIN_FACTOR, run)
}

# The factor of the bandwidth for other estimators, whose best bandwidth is larger: the factor with the best predictions
# of fifths of the rows from the other rows.
widened_for <- function(estimator, L, batch, response, run, tally) {
  rate <- conditional_rate(estimator, L, response)
  fold <- seq_len(nrow(batch$x)) %% min(5, nrow(batch$x))
  value <- function(L) {
    tally$evaluations <- tally$evaluations + 1
    -sum(vapply(unique(fold), \(k) {
      train <- sample_of(batch, which(fold != k))
      held <- judged(sample_of(batch, which(fold == k)))
      wider <- L * carried(batch, train, rate)
      log_p <- held_conditional(estimator, train, held, wider, response, run)
      sum(held$v * log_add(log_p, conditional_floor(held, response)))
    }, 0)) / length(unique(fold))
  }
  near <- L * rule_factor("silverman", batch$n, batch$d, estimator) / reference_factor(batch)
  minimise(list(value = value), list(near), schedule = list(scan = c(0.35, 3), tol = 0.02))$L
}

# log p(y | x) at the rows of `held` by another estimate of `train`, -Inf where a part of it is negative.
held_conditional <- function(estimator, train, held, L, response, run) {
  sources <- sum_sources(train$x, train$weights, sqrt(SCORE_RATIO) * L, discrete = train$discrete)
  points <- if (ESTIMATORS[[estimator]]$debiased) debias_sum(sources, L, run)$debiased else train$x
  log_p <- function(side) {
    own <- L[side$dims, side$dims, drop = FALSE]
    levels <- if (length(side$levels) > 0) some_levels(train$discrete, side$levels)
    sources <- sum_sources(points[, side$dims, drop = FALSE], train$weights, own, discrete = levels)
    at <- cbind(held$x[, side$dims, drop = FALSE], held$discrete$codes[, side$levels, drop = FALSE])
    found <- log_sum(sources, at, ESTIMATORS[[estimator]]$factor(length(side$dims)), FALSE, run)
    replace(found$log_abs, which(as.logical(found$negative)), -Inf) + log_kernel_norm(own)
  }
  sides <- conditional_sides(train, response)
  log_x <- log_p(sides$x)
  replace(log_p(sides$joint) - log_x, log_x == -Inf, -Inf)
}

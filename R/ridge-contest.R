# A contest of candidates for kernel, bandwidth and lambda at rows that are held out, for more rows than the sample that
# proposed them: with more rows, smaller bandwidths and penalties may be better, and a metric that was learnt from few
# rows is judged by others.

# A contest needs so many times the rows of the sample. Its fits have at most so many rows and centres.
CONTEST_GROWTH <- 2
CONTEST_ROWS <- 12000
CONTEST_CENTERS <- 1500
CONTEST_STEPS <- 20L

# Bandwidths relative to those of the sample, and penalties n lambda relative to that of the sample.
CONTEST_WIDTHS <- c(1, 0.7)
CONTEST_LAMBDAS <- c(0.1, 1)

# The candidate of least squared error, a list(kernel, bandwidth, lambda). Each is one, too. `response`: on the scale of the
# link of the family, because fits by other losses take many times as long.
win_contest <- function(candidates, rows, response, weights, spec, run) {
  given <- if (spec$family$squared) spec$lambda
  name_stage(run, "Comparing candidates")
  some <- contest_rows(rows, response, weights, spec)
  task <- with_fixed_seed(contest_task(some, spec$intercept))
  best <- list(error = Inf)
  for (candidate in candidates) {
    for (width in CONTEST_WIDTHS) {
      tried <- at_width(candidate, width)
      lambdas <- if (is.null(given)) tried$lambda * CONTEST_LAMBDAS else given
      found <- contest_errors(tried, lambdas * some$more, task, run)
      k <- which.min(found)
      error <- found[k]
      if (isTRUE(error < best$error)) best <- replace(tried, c("lambda", "error"), list(lambdas[k], error))
      if (!isTRUE(error <= MAY_WIN * best$error)) break
    }
  }
  if (is.infinite(best$error)) return(candidates[[1]])
  best[c("kernel", "bandwidth", "lambda")]
}

# list(rows, points, centers, held, y, y_held, root): the points of a fit, of its centres and of the rows that are held out;
# the responses minus the mean of the rows of the fit, and the roots of the weights of these (NULL: ones).
contest_task <- function(some, intercept) {
  rows <- some$rows
  y <- some$response$y
  if (!is.null(some$offset)) y <- y - some$offset
  aside <- set_aside(rows, some$response, some$weights, min(HELD_ROWS, rows$n %/% 5))
  w <- aside$weights
  kept <- which(w > 0)
  mean <- if (intercept) weighted_means(y, w) else rep(0, ncol(y))
  centers <- sort(draw_places(rows, min(some$centers, length(kept)), as.numeric(w > 0)))
  list(
    rows = rows, points = rows_take(rows, kept), centers = rows_take(rows, centers), held = rows_take(rows, aside$held),
    y = shift_columns(y[kept, , drop = FALSE], mean), y_held = shift_columns(y[aside$held, , drop = FALSE], mean),
    root = if (any(w[kept] != 1)) sqrt(w[kept])
  )
}

# The mean squared error at the rows held out for each of `lambdas`, by the normal equations, in double precision. A ridge
# of CONTEST_JITTER makes their matrix positive definite. Rows held out count in n lambda, as rows of weight 0 do.
contest_errors <- function(candidate, lambdas, task, run) {
  L <- rows_factor(task$rows, candidate$bandwidth)
  kernels <- \(points) kernels_between(points, task$centers, L, candidate$kernel, run)
  weigh <- \(x) if (is.null(task$root)) x else task$root * x
  K <- weigh(kernels(task$points))
  G <- matrix_crossprod(K, K, run)
  moments <- matrix_crossprod(K, weigh(task$y), run)
  of_centers <- kernels(NULL)
  at <- kernels(task$held)
  vapply(lambdas, \(lambda) {
    A <- G + task$rows$n * lambda * of_centers
    a <- ridge_path(A, moments, CONTEST_JITTER * mean(diagonal(A)), run, with_own = FALSE)$coefficients
    mean((matrix_product(at, matrix(a, ncol(K)), run) - task$y_held)^2)
  }, 0)
}
CONTEST_JITTER <- 1e-10

# The best penalty by the loss of a family: with more rows than those that chose it, a smaller one may be better.
contest_lambda <- function(choice, rows, response, weights, spec, run) {
  some <- contest_rows(rows, response, weights, spec, ncol(response$y))
  found <- contest_error(choice, choice$lambda * FAMILY_LAMBDAS * some$more, some, spec, run)
  if (is.finite(found$error)) found$lambda / some$more else choice$lambda
}
FAMILY_LAMBDAS <- c(1, 0.3, 0.1)

at_width <- function(candidate, by) {
  H <- candidate$bandwidth
  candidate$bandwidth <- if (is.matrix(H)) H * by^2 else H * by
  if (inherits(candidate$kernel, "kernel_of_terms")) candidate$kernel <- widen_terms(candidate$kernel, by)
  candidate
}

# The rows of the contest, with their response, weights and offset. `more`: lambda of a fit to these over lambda of the
# fit to all, which has the same n lambda. `shares`: the contest has so many times fewer rows and centres.
contest_rows <- function(rows, response, weights, spec, shares = 1) {
  number <- min(rows$n, (CONTEST_ROWS + min(HELD_ROWS, rows$n %/% 5)) %/% sqrt(shares))
  positive <- positive_weights(weights)
  index <- draw_places(rows, if (is.null(positive)) number else min(number, sum(positive)), positive)
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  y <- response$y[index, , drop = FALSE]
  list(
    rows = ridge_rows(rows_take(rows, index)), response = replace(response, "y", list(y)),
    weights = if (!is.null(weights)) as.vector(numbers_at(weights, index)),
    offset = if (!is.null(offset)) offset[index, , drop = FALSE],
    more = rows$n / length(index), centers = min(CONTEST_CENTERS %/% sqrt(shares), length(index) %/% 4)
  )
}

# list(lambda, error): the best of `lambdas` and its error at the rows held out.
contest_error <- function(candidate, lambdas, some, spec, run) {
  spec[c("kernel", "bandwidth", "offset")] <- list(candidate$kernel, candidate$bandwidth, some$offset)
  # a comparison needs few digits
  spec[c("iterations", "tolerance")] <- list(CONTEST_STEPS, 5e-3)
  found <- tryCatch(
    suppressWarnings(with_fixed_seed(
      hold_out_path(some$rows, some$response, some$weights, spec, list(some$centers), lambdas, run)$table
    )),
    flashkernel_error_singular = \(e) NULL
  )
  if (is.null(found)) return(list(lambda = NA, error = Inf))
  at <- which.min(found$error)
  if (length(at) == 0) list(lambda = NA, error = Inf) else list(lambda = found$lambda[at], error = found$error[at])
}

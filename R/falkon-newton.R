# Logistic losses by Newton's method. The unknown is beta = T alpha, for which the penalty is lambda |beta|^2 / 2: with
# one T for all steps, and A of T W T' anew where the second derivatives W at the centres have changed.
#
# Penalties fall to lambda by a hundredth a step: each is solved as well as the next one needs, whose quadratic model is
# then a good one. A step takes one sweep for the gradient, some for conjugate gradients and one for the change of the
# link, along which lengths of the step are tried without another. The link at all rows is kept.

fit_logistic <- function(system, problem, spec) {
  t <- ncol(problem$y)
  model <- c(system, list(loss = class_loss(t), y = problem$y))
  intercept <- if (problem$intercept) null_link(problem$y, problem$weights, problem$offset) else rep(0, t)
  point <- first_point(model, problem, intercept, spec$start)
  penalties <- if (is.null(spec$start)) falling_penalties(spec$lambda, spec$max_iter) else spec$lambda
  coefficients <- \(beta) apply_factors(system$preconditioner, beta, "T^-1")
  watch <- watch_iterations(system, problem, intercept, coefficients)
  solved <- newton(model, point, penalties, spec, watch$each)
  alpha <- watch$best()
  best <- watch$best_iteration()
  list(
    coefficients = if (is.null(alpha)) coefficients(solved$point$beta) else alpha, intercept = intercept,
    fitted = if (is.null(alpha)) solved$point$f, trace = watch$trace(), iterations = solved$iterations,
    converged = solved$converged, best_iteration = if (is.null(best)) solved$iterations else best
  )
}

# list(beta, f): coefficients in T's coordinates, and the link at the rows.
first_point <- function(model, problem, intercept, start) {
  f <- matrix(intercept, model$n, length(intercept), byrow = TRUE)
  if (!is.null(problem$offset)) f <- f + problem$offset
  if (is.null(start)) return(list(beta = matrix(0, model$centers$m, ncol(f)), f = f))
  alpha <- start$coefficients
  list(
    beta = apply_factors(model$preconditioner, alpha, "T"),
    f = f + rows_multiply(model$rows, model$centers, alpha, model$run)$sums
  )
}

FIRST_PENALTY <- 1e-2

falling_penalties <- function(lambda, max_iter) {
  steps <- ceiling(log(FIRST_PENALTY / lambda) / log(100))
  if (steps < 1 || max_iter == 1) return(lambda)
  exp(seq(log(FIRST_PENALTY), log(lambda), length.out = min(steps + 1, max_iter)))
}

# Newton steps at each penalty once, and then at the last.
newton <- function(model, point, penalties, spec, each) {
  lambda <- penalties[length(penalties)]
  residual <- Inf
  converged <- FALSE
  iteration <- 0
  stale <- TRUE
  while (iteration < spec$max_iter && !converged) {
    iteration <- iteration + 1
    mu <- penalties[min(iteration, length(penalties))]
    last <- iteration >= length(penalties)
    if (stale) precondition_newton(model, point, mu)
    step <- newton_direction(model, point, mu, if (last) opt$it else opt$itp, if (last) opt$eta(residual) else opt$etap)
    walked <- line_search(model, point, step, mu)
    stale <- !last || !step$converged || opt$always
    residual <- step$decrement / walked$objective
    point <- walked$point
    converged <- last && residual <= spec$tol
    each(iteration, point$beta, residual)
    if (opt$verbose) cat(sprintf("%2d mu %.1e cg %d (%.1e) passes %d s %.3g decrement %.3e objective %.12f\n", iteration, mu, step$iterations, step$residual, PASSES$n, walked$length, step$decrement, walked$objective))
    if (walked$length == 0) break
  }
  list(point = point, iterations = iteration, converged = converged)
}
PASSES <- new.env()
PASSES$n <- 0L
opt <- new.env()
opt$it <- 8; opt$itp <- 3; opt$eta <- \(r) 0.01; opt$etap <- 0.01; opt$always <- TRUE; opt$verbose <- TRUE; opt$scale <- "auto"; opt$long <- 0

precondition_newton <- function(model, point, mu) {
  index <- model$center_index
  W <- model$loss$curvature(point$f[index, , drop = FALSE])
  if (!is.null(model$weights)) W <- W * model$weights[index]
  m <- model$centers$m
  scale <- switch(opt$scale, auto = if (mu >= 1e-4) 1 / m else 1 / model$n, m = 1 / m, n = 1 / model$n, mid = 1/sqrt(m*model$n))
  precondition(model$preconditioner, W, scale, mu)
}

newton_direction <- function(model, point, mu, max_iter, tol) {
  P <- model$preconditioner
  size <- dim(point$beta)
  slope <- model$loss$slope(point$f, model$y)
  PASSES$n <- PASSES$n + 1L
  product <- rows_normal(model$rows, model$centers, NULL, slope, model$weights, model$run)$product
  gradient <- apply_factors(P, product / model$n, "T^-T") + mu * point$beta
  multiply <- normal_operator(model, lambda = mu, product = model$loss$product(model, point$f))
  # columns may be coupled: they are one vector here
  b <- matrix(apply_factors(P, gradient, "A^-T"), ncol = 1)
  cg <- conjugate_gradients(\(x) matrix(multiply(matrix(x, size[1])), ncol = 1), b, NULL, max_iter, tol)
  direction <- apply_factors(P, matrix(cg$x, size[1]), "A^-1")
  PASSES$n <- PASSES$n + cg$iterations + 1L
  shift <- rows_multiply(model$rows, model$centers, apply_factors(P, direction, "T^-1"), model$run)$sums
  list(
    beta = direction, f = shift, decrement = sum(gradient * direction), converged = cg$converged, iterations = cg$iterations, residual = cg$residual
  )
}

line_search <- function(model, point, step, mu) {
  at <- function(length) {
    moved <- list(beta = point$beta - length * step$beta, f = point$f - length * step$f)
    c(moved, list(length = length, objective = mean_loss(model, moved$f) + mu / 2 * sum(moved$beta^2)))
  }
  before <- at(0)
  best <- at(1)
  if (opt$long && is.finite(best$objective) && best$objective < before$objective) { repeat {
    tried <- at(opt$long * best$length)
    if (!is.finite(tried$objective) || tried$objective >= best$objective) break
    best <- tried
  } }
  while (!(is.finite(best$objective) && best$objective <= before$objective - 1e-4 * best$length * step$decrement + 1e-14 * before$objective)) {
    best <- if (best$length < 1e-9) return(list(point = before, objective = before$objective, length = 0)) else at(best$length / 2)
  }
  list(point = best, objective = best$objective, length = best$length)
}

mean_loss <- function(model, f) {
  value <- model$loss$value(f, model$y)
  sum(if (is.null(model$weights)) value else model$weights * value) / model$n
}

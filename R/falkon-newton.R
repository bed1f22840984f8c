# Logistic losses by Newton's method. The unknown is beta = T alpha, for which the penalty is lambda |beta|^2 / 2: with
# one T for all steps, and A of T W T' anew where the second derivatives W at the centres have changed.
#
# Penalties fall to lambda by a hundredth a step: each is solved as well as the next one needs, whose quadratic model is
# then a good one. A step takes one sweep for the gradient, some for conjugate gradients and one for the change of the
# link, along which lengths of the step are tried without another. The link at all rows is kept.

fit_logistic <- function(system, problem, spec) {
  t <- ncol(problem$y)
  intercept <- if (problem$intercept) null_link(problem$y, problem$weights, problem$offset) else rep(0, t)
  model <- c(system, list(loss = class_loss(t), y = problem$y, intercept = intercept))
  state <- spec$state
  point <- if (is.null(state)) first_point(model, problem, spec$start) else state$point
  penalties <- if (is.null(spec$start)) falling_penalties(spec$lambda, spec$max_iter) else spec$lambda
  coefficients <- \(beta) apply_factors(system$preconditioner, beta, "T^-1")
  watch <- watch_iterations(system, problem, intercept, coefficients, state$watch)
  save <- if (!is.null(spec$save)) \(state) spec$save(c(state, list(watch = watch$seen())))
  solved <- newton(model, point, penalties, spec, watch$each, save, state$iteration)
  warn_stuck(solved)
  alpha <- watch$best()
  best <- watch$best_iteration()
  list(
    coefficients = if (is.null(alpha)) coefficients(solved$point$beta) else alpha, intercept = intercept,
    fitted = if (is.null(alpha)) solved$point$f, trace = watch$trace(), iterations = solved$iterations,
    converged = solved$converged, best_iteration = if (is.null(best)) solved$iterations else best
  )
}

warn_stuck <- function(solved) {
  if (!solved$converged && solved$point$length == 0) {
    warning(
      "Newton's method found no better point after ", solved$iterations, " steps: `lambda` or `bandwidth` is too ",
      "small for the precision of the sums", call. = FALSE
    )
  }
}

# list(beta, f, loss): coefficients in T's coordinates, the link at the rows, and its mean loss.
first_point <- function(model, problem, start) {
  f <- matrix(model$intercept, model$n, length(model$intercept), byrow = TRUE)
  if (!is.null(problem$offset)) f <- f + problem$offset
  beta <- matrix(0, model$centers$m, ncol(f))
  if (!is.null(start)) {
    beta <- apply_factors(model$preconditioner, start$coefficients, "T")
    f <- f + rows_multiply(model$rows, model$centers, start$coefficients, model$run)$sums
  }
  list(beta = beta, f = f, loss = mean_loss(model, f))
}

# ---- the penalties ----------------------------------------------------------------------------

FIRST_PENALTY <- 1e-2

# From the first to lambda, by a hundredth or less a step; by more where there are not enough steps.
falling_penalties <- function(lambda, max_iter) {
  steps <- ceiling(log(FIRST_PENALTY / lambda) / log(100))
  if (steps < 1 || max_iter == 1) return(lambda)
  exp(seq(log(FIRST_PENALTY), log(lambda), length.out = min(steps + 1, max_iter)))
}

# Conjugate gradients in a step stop at this part of the gradient: more is lost on a model that the next step replaces.
FORCING <- 0.3

# The most of them, on the way and at lambda.
INNER_ON_THE_WAY <- 3
INNER_ITERATIONS <- 30

# One step at each penalty, and then all at the last. `residual`: how much a step promises to take off the objective,
# relative to that. A is kept where it still serves: to make it can cost as much as many sweeps.
newton <- function(model, point, penalties, spec, each, save = NULL, iteration = NULL) {
  residual <- Inf
  if (is.null(iteration)) iteration <- 0
  last <- length(penalties)
  fresh <- NULL # inner iterations with A as it was new
  while (iteration < spec$max_iter && !(iteration >= last && residual <= spec$tol)) {
    iteration <- iteration + 1
    mu <- penalties[min(iteration, last)]
    renew <- iteration <= last || is.null(fresh) || !step$converged || step$iterations > 1.5 * fresh
    if (renew) precondition_newton(model, point, mu)
    step <- newton_direction(model, point, mu, if (iteration < last) INNER_ON_THE_WAY else INNER_ITERATIONS)
    if (renew) fresh <- step$iterations
    point <- line_search(model, point, step, mu)
    residual <- if (step$decrease == 0) 0 else step$decrease / point$objective
    each(iteration, point$beta, residual)
    if (!is.null(save)) save(list(point = point, iteration = iteration))
    if (point$length == 0 && iteration >= last) break
  }
  list(point = point, iterations = iteration, converged = iteration >= last && isTRUE(residual <= spec$tol))
}

# A at mu, with the second derivatives at the centres; where these are no rows, the link there is T' beta. 1 / m is the
# better scale for large penalties, 1 / n for small ones (on bike and higgs up to twice as good, either way).
precondition_newton <- function(model, point, mu) {
  index <- model$center_index
  W <- model$loss$curvature(if (is.null(index)) link_at_centers(model, point) else point$f[index, , drop = FALSE])
  by_row <- weights_at_centers(model)
  W <- W * if (!is.null(by_row)) by_row else if (is.null(model$weights)) 1 else mean(model$weights)
  precondition(model$preconditioner, W, if (mu >= 1e-4) 1 / model$centers$m else 1 / model$n, mu)
}

link_at_centers <- function(model, point) {
  apply_factors(model$preconditioner, point$beta, "T'") + rep(model$intercept, each = model$centers$m)
}

# list(beta, f, decrease, converged, iterations): the Newton direction, how it changes the link, twice the decrease of
# the objective that the quadratic model promises, and how conjugate gradients went.
newton_direction <- function(model, point, mu, max_iter) {
  P <- model$preconditioner
  slope <- model$loss$slope(point$f, model$y)
  product <- rows_normal(model$rows, model$centers, NULL, slope, model$weights, model$run)$product
  gradient <- apply_factors(P, product / model$n, "T^-T") + mu * point$beta
  # second derivatives couple the columns: all are one vector here
  multiply <- normal_operator(model, lambda = mu, product = model$loss$product(model, point$f))
  as_columns <- \(x) matrix(x, model$centers$m)
  solved <- conjugate_gradients(
    \(x) as.matrix(as.vector(multiply(as_columns(x)))), as.matrix(as.vector(apply_factors(P, gradient, "A^-T"))),
    max_iter = max_iter, tol = FORCING
  )
  beta <- apply_factors(P, as_columns(solved$x), "A^-1")
  f <- rows_multiply(model$rows, model$centers, apply_factors(P, beta, "T^-1"), model$run)$sums
  c(list(beta = beta, f = f, decrease = sum(gradient * beta)), solved[c("converged", "iterations")])
}

# The point along a direction from another, with its mean `loss`, its `objective` and the `length` of the step: twice as
# far, and again, as long as that is better, where a step takes off more than its model promised (where classes come
# apart, steps are always too short); else half as far until it is not worse. The length is 0 where no step helps.
line_search <- function(model, point, step, mu) {
  moved <- \(length) list(beta = point$beta - length * step$beta, f = point$f - length * step$f)
  at <- function(length) {
    to <- moved(length)
    loss <- mean_loss(model, to$f)
    objective <- loss + mu / 2 * sum(to$beta^2)
    list(length = length, loss = loss, objective = if (is.finite(objective)) objective else Inf)
  }
  before <- point$loss + mu / 2 * sum(point$beta^2)
  # what rounding of the objective does not tell apart
  noise <- 1e-13 * before
  found <- at(1)
  if (before - found$objective > 1.05 * step$decrease / 2 + noise) {
    while ((further <- at(2 * found$length))$objective < found$objective) found <- further
  }
  while (found$objective > before + noise && found$length > 1e-9) found <- at(found$length / 2)
  if (found$objective > before + noise) found <- list(length = 0, loss = point$loss, objective = before)
  c(if (found$length == 0) point[c("beta", "f")] else moved(found$length), found)
}

# Of all rows, those of weight 0 as well.
mean_loss <- function(model, f) {
  value <- model$loss$value(f, model$y)
  sum(if (is.null(model$weights)) value else model$weights * value) / model$n
}

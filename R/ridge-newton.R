# Logistic losses by Newton's method. The unknown is beta = T alpha, for which the penalty is lambda |beta|^2 / 2: with
# one T for all steps, and A of T W T' anew where the second derivatives W at the centres have changed.
#
# A Newton step is good near the solution alone. The way there is gone with an eighth of the centres, where a sweep
# takes an eighth of the time and a factor a five-hundredth: penalties fall to lambda by a hundredth a step, each solved
# as well as the next one needs. What that comes to is the start of the fit, which then needs few steps, and few an A
# anew.
#
# A step takes half a sweep for the gradient and one for each of conjugate gradients, whose products bring the change of
# the link at all rows with them: along it lengths of the step are tried without another.

fit_logistic <- function(system, problem, spec) {
  t <- ncol(problem$y)
  intercept <- if (problem$intercept) null_link(problem$y, problem$weights, problem$offset) else rep(0, t)
  model <- c(system, list(y = problem$y, offset = problem$offset, intercept = intercept))
  state <- spec$state
  if (is.null(state)) state <- newton_from(first_point(model, spec))
  if (is.null(state$point$f)) {
    state$point$f <- point_at(model, apply_factors(system$preconditioner, state$point$beta, "T^-1"))$f
  }
  falls <- is.null(spec$start) && !has_coarse(model)
  penalties <- if (falls) falling_penalties(spec$lambda, spec$iterations) else spec$lambda
  coefficients <- \(beta) apply_factors(system$preconditioner, beta, "T^-1")
  watch <- watch_iterations(system, problem, intercept, coefficients, state$watch)
  solved <- newton(model, state, penalties, spec, watch$each, watched_save(spec, watch))
  warn_stuck(solved)
  c(watched_result(watch, intercept, solved, coefficients(solved$point$beta)), list(
    fitted = if (is.null(watch$seen()$best)) solved$point$f, factors = solved$factors
  ))
}

warn_stuck <- function(solved) {
  if (!solved$converged && solved$point$length == 0) {
    warning(
      "Newton's method could not reduce the objective after ", solved$iterations, " steps: `lambda` or `bandwidth` is ",
      "too small for the precision of the sums. Use a larger one.", call. = FALSE
    )
  }
}

# ---- where it begins --------------------------------------------------------------------------

# Centres of the way to the start: one of so many, but at least so many of them.
COARSER <- 8
LEAST_COARSE <- 50

# How well the start is solved: what it lacks of the other centres is more.
COARSE_TOLERANCE <- 1e-3
STEPS_TO_START <- 20

has_coarse <- function(model) model$centers$m >= COARSER * LEAST_COARSE

# list(beta, f, loss): coefficients in T's coordinates, the link at the rows, and its mean loss.
first_point <- function(model, spec) {
  start <- spec$start
  if (is.null(start) && has_coarse(model)) coarse_point(model, spec) else point_at(model, start$coefficients)
}

point_at <- function(model, alpha = NULL) {
  f <- rows_constant(model$rows, model$intercept)
  if (!is.null(model$offset)) f <- f + model$offset
  beta <- matrix(0, model$centers$m, ncol(f))
  if (!is.null(alpha)) {
    beta <- apply_factors(model$preconditioner, alpha, "T")
    f <- f + rows_link(model$rows, model$centers, alpha, model$run)
  }
  list(beta = beta, f = f, loss = mean_loss(f, model$y, model$run, model$weights))
}

# The solution with some of the centres, as a point of all.
coarse_point <- function(model, spec) {
  some <- spread_rows(model$centers$m, model$centers$m / COARSER)
  coarse <- model
  coarse$centers <- ridge_centers(model$centers$points[some, , drop = FALSE], spec$L, spec$kernel)
  coarse$center_index <- model$center_index[some]
  coarse$preconditioner <- preconditioner_of(coarse$centers, model$run, model$preconditioner$jitter)
  on.exit(free_preconditioner(coarse$preconditioner))
  spec$tolerance <- max(spec$tolerance, COARSE_TOLERANCE)
  spec$iterations <- STEPS_TO_START
  falling <- falling_penalties(spec$lambda, STEPS_TO_START)
  solved <- newton(coarse, newton_from(point_at(coarse)), falling, spec, \(...) FALSE)
  alpha <- matrix(0, model$centers$m, ncol(model$y))
  alpha[some, ] <- apply_factors(coarse$preconditioner, solved$point$beta, "T^-1")
  if (is_column(solved$point$f)) return(point_at(model, alpha))
  c(solved$point[c("f", "loss")], list(beta = apply_factors(model$preconditioner, alpha, "T")))
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

# One step at each penalty, and then all at the last. A state is where that is, with all that it takes to go on:
# `point`; `iteration`; `residual`, how much a step promises to take off the objective, relative to that; what A was
# `made` of, for it is kept where it still serves (to make it can cost as much as many sweeps), and how often it was
# (`factors`); `inner` iterations of the last step, and `fresh`, those with A as it was new.
newton <- function(model, state, penalties, spec, each, save = NULL) {
  last <- length(penalties)
  if (!is.null(state$made)) make_newton(model, state$made)
  while (state$iteration < spec$iterations && !(state$iteration >= last && has_ended(state, spec$tolerance))) {
    iteration <- state$iteration + 1
    mu <- penalties[min(iteration, last)]
    renew <- iteration <= last || state$inner >= worth_renewal(model, state$fresh)
    if (renew) {
      state[c("made", "factors")] <- list(newton_parts(model, state$point, mu), state$factors + 1)
      make_newton(model, state$made)
    }
    step <- newton_direction(model, state$point, mu, if (iteration < last) INNER_ON_THE_WAY else INNER_ITERATIONS)
    state$inner <- step$iterations
    if (renew) state$fresh <- step$iterations
    state$point <- line_search(model, state$point, step, mu)
    state$residual <- if (step$decrease == 0) 0 else step$decrease / state$point$objective
    state$iteration <- iteration
    each(iteration, state$point$beta, state$residual)
    if (!is.null(save)) save(state)
  }
  converged <- state$iteration >= last && isTRUE(state$residual <= spec$tolerance)
  list(point = state$point, iterations = state$iteration, factors = state$factors, converged = converged)
}

newton_from <- function(point) list(point = point, iteration = 0, factors = 0, residual = Inf)

# It converged, or the last step found no better point.
has_ended <- function(state, tol) isTRUE(state$residual <= tol) || isTRUE(state$point$length == 0)

# Inner iterations from which on A is made anew: those with a new one and half of them, or as many as it takes the time
# of (2/3 m^3 operations for A, n m kernels of 50 of them or so, on H200 and CPUs, in 10 to 30 dimensions, for one).
worth_renewal <- function(model, fresh) {
  spared <- max(1, fresh / 2, model$centers$m^2 / (75 * model$n * ncol(model$y)))
  min(fresh + spared, INNER_ITERATIONS)
}

# What A is made of at mu: the second derivatives at the centres; where these are no rows, the link there is T' beta. 1
# / m is the better scale for large penalties, 1 / n for small ones (on bike and higgs up to twice as good, either way).
newton_parts <- function(model, point, mu) {
  index <- model$center_index
  f <- if (is.null(index)) link_at_centers(model, point) else point$f[index, , drop = FALSE]
  by_row <- weights_at_centers(model)
  scale <- if (!is.null(by_row)) by_row else if (is.null(model$weights)) 1 else mean(model$weights)
  W <- scale * class_loss("curvature", f, NULL, model$run)
  list(weights = W, scale = if (mu >= 1e-4) 1 / model$centers$m else 1 / model$n, lambda = mu)
}

make_newton <- function(model, made) precondition(model$preconditioner, made$weights, made$scale, made$lambda)

link_at_centers <- function(model, point) {
  apply_factors(model$preconditioner, point$beta, "T'") + rep(model$intercept, each = model$centers$m)
}

# list(beta, f, decrease, iterations): the Newton direction, how it changes the link, twice the decrease of the
# objective that the quadratic model promises, and the steps of conjugate gradients. Second derivatives couple the
# columns: all are one vector here.
newton_direction <- function(model, point, mu, max_iter) {
  P <- model$preconditioner
  u <- NULL # what the last direction does to the link
  slope <- class_loss("slope", point$f, model$y, model$run)
  product <- rows_normal(model$rows, model$centers, NULL, slope, model$weights, model$run)$product
  gradient <- apply_factors(P, product / model$n, "T^-T") + mu * point$beta
  of_rows <- hessian_product(model, point$f)
  multiply <- normal_operator(model, mu, function(alpha) {
    found <- of_rows(alpha)
    u <<- found$sums
    found$product
  })
  r <- p <- apply_factors(P, gradient, "A^-T")
  x <- f <- 0
  first <- size <- sum(r^2)
  iteration <- 0
  while (iteration < max_iter && size > FORCING^2 * first) {
    iteration <- iteration + 1
    Ap <- multiply(p)
    curvature <- sum(p * Ap)
    # rounding has the last word
    if (!is.finite(curvature) || curvature <= 0) break
    x <- x + size / curvature * p
    f <- f + size / curvature * u
    r <- r - size / curvature * Ap
    before <- size
    size <- sum(r^2)
    p <- r + size / before * p
  }
  beta <- apply_factors(P, x + 0 * p, "A^-1")
  list(beta = beta, f = f + 0 * point$f, decrease = sum(gradient * beta), iterations = iteration)
}

# The point along a direction from another, with its mean `loss`, its `objective` and the `length` of the step: twice as
# far, and again, as long as that is better, where a step takes off more than its model promised (where classes come
# apart, steps are always too short); else half as far until it is not worse. The length is 0 where no step helps.
line_search <- function(model, point, step, mu) {
  at <- function(length) {
    loss <- mean_loss(point$f, model$y, model$run, model$weights, step$f, length)
    objective <- loss + mu / 2 * sum((point$beta - length * step$beta)^2)
    list(length = length, loss = loss, objective = if (is.finite(objective)) objective else Inf)
  }
  before <- point$loss + mu / 2 * sum(point$beta^2)
  if (!is.finite(before + step$decrease)) stop_solver("the objective is not finite")
  # what rounding of the objective does not tell apart
  noise <- 1e-13 * before
  found <- at(1)
  if (before - found$objective > 1.05 * step$decrease / 2 + noise) {
    while ((further <- at(2 * found$length))$objective < found$objective) found <- further
  }
  while (found$objective > before + noise && found$length > 1e-9) found <- at(found$length / 2)
  if (found$objective > before + noise) found <- list(length = 0, loss = point$loss, objective = before)
  moved <- if (found$length == 0) point[c("beta", "f")] else {
    list(beta = point$beta - found$length * step$beta, f = point$f - found$length * step$f)
  }
  c(moved, found)
}

# Newton's method for losses other than the square. The unknown is beta = T alpha, for which the penalty is lambda |beta|^2 / 2. T is
# the same in all steps; A is the factor of T W T' and is recomputed when the second derivatives W at the centres have
# changed.
#
# Newton steps are good near the solution only. A coarse fit with an eighth of the centres finds the start: a sweep
# takes an eighth of the time, a factorisation a five-hundredth. Its penalties decrease to lambda by a factor of 100 a
# step. From this start the fit needs few steps and few recomputations of A.
#
# A step takes half a sweep for the gradient and one sweep for each iteration of conjugate gradients. The products of
# these include the change of the link at all rows, so that the line search needs no further sweep.

fit_newton <- function(system, problem, spec) {
  t <- ncol(problem$y)
  intercept <- if (problem$intercept) null_link(spec$family, problem$y, problem$weights, problem$offset, system$run) else rep(0, t)
  model <- staged_model(c(system, list(y = problem$y, offset = problem$offset, intercept = intercept)), spec$family)
  # errors at held-out rows are those of one loss
  problem$family$loss <- model$loss
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
    fitted = if (is.null(watch$seen()$best)) solved$point$f, factors = solved$factors, loss = solved$loss
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

# The coarse fit has one of COARSER centres, and at least a minimum number.
COARSER <- 8
LEAST_COARSE <- 50

# Tolerance of the coarse fit. The error from its missing centres is larger.
COARSE_TOLERANCE <- 0.1
STEPS_TO_START <- 20

has_coarse <- function(model) model$centers$m >= COARSER * LEAST_COARSE

# list(beta, f, loss): the first iterate: coefficients in the coordinates of T, the link at the rows, and its mean loss.
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
  list(beta = beta, f = f, loss = mean_loss(model$loss, f, model$y, model$run, model$weights))
}

# The solution of the coarse fit in the coordinates of all centres.
coarse_point <- function(model, spec) {
  some <- spread_rows(model$centers$m, model$centers$m / COARSER)
  coarse <- model
  coarse$centers <- ridge_centers(model$centers$points[some, , drop = FALSE], spec$L, spec$kernel)
  coarse$rows <- rows_with_kernels(model$rows, coarse$centers, spec, model$run)
  coarse$center_index <- model$center_index[some]
  coarse$preconditioner <- preconditioner_of(coarse$centers, model$run, model$preconditioner$jitter)
  on.exit(free_preconditioner(coarse$preconditioner), add = TRUE)
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

# Decreasing penalties to lambda, by a factor of at most 100 for each step, or more if there are not enough steps.
falling_penalties <- function(lambda, max_iter) {
  steps <- ceiling(log(FIRST_PENALTY / lambda) / log(100))
  if (steps < 1 || max_iter == 1) return(lambda)
  exp(seq(log(FIRST_PENALTY), log(lambda), length.out = min(steps + 1, max_iter)))
}

# Conjugate gradients of a Newton step stop when the best of the last RECENT iterations, times the number of all, adds less
# than FORCING of the predicted decrease (Nash and Sofer, 1990); a single iteration may add little by chance. More accuracy is
# wasted on a local model. Where the preconditioner is poor, the residual would stop too early, with too small a predicted
# decrease, or far too late.
FORCING <- 0.9
RECENT <- 2

# Largest number of conjugate gradient iterations in a step, before and at the final penalty.
INNER_ON_THE_WAY <- 3
INNER_ITERATIONS <- 30

# One step at each penalty, then all further steps at the last. The state has all that is needed to continue: `point`;
# `iteration`; `residual`, the predicted decrease of the objective relative to the objective; `made`, the inputs of A,
# which is reused while it serves (a new A can cost as much as many sweeps); `factors`, the number of times A was
# computed; `inner`, the iterations of the last step; `fresh`, the iterations of the first step with this A.
newton <- function(model, state, penalties, spec, each, save = NULL) {
  last <- max(length(penalties), model$family$stages)
  if (!is.null(state$made)) make_newton(model, state$made)
  if (!is.null(state$loss)) model$loss <- state$loss
  while (state$iteration < spec$iterations && !(state$iteration >= last && has_ended(state, spec$tolerance))) {
    iteration <- state$iteration + 1
    mu <- penalties[min(iteration, length(penalties))]
    if (iteration <= model$family$stages) {
      model$loss <- state$loss <- stage_loss(model, state$point$f, iteration)
      state$point$loss <- mean_loss(model$loss, state$point$f, model$y, model$run, model$weights)
    }
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
  list(point = state$point, iterations = state$iteration, factors = state$factors, converged = converged, loss = model$loss)
}

# The model with the first loss of its family, for losses that change in the first steps.
staged_model <- function(model, family) {
  model$family <- family
  model$loss <- family$loss
  if (family$stages > 0) {
    f <- rows_constant(model$rows, model$intercept)
    if (!is.null(model$offset)) f <- f + model$offset
    model$loss <- stage_loss(model, f, 1)
    sharp <- if (is.null(family$levels)) model$loss else final_loss(family)
    model$unit <- mean_loss(sharp, f, model$y, model$run, model$weights)
    model$loss <- stage_loss(model, f, 1)
  }
  model
}

stage_loss <- function(model, f, iteration) model$family$staged(model$loss, model$y, f, max(0, model$unit), iteration)

newton_from <- function(point) list(point = point, iteration = 0, factors = 0, residual = Inf)

# TRUE if it converged, or if the last step found no better point.
has_ended <- function(state, tol) isTRUE(state$residual <= tol) || isTRUE(state$point$length == 0)

# Number of inner iterations from which A is recomputed: `fresh`, those with a new A, plus half of them, or plus the
# number of iterations that take the time of a new A if that is larger. A takes 2/3 m^3 operations, an iteration n m
# kernels of about 50 operations (on H200 and CPUs, in 10 to 30 dimensions).
worth_renewal <- function(model, fresh) {
  spared <- max(1, fresh / 2, model$centers$m^2 / (75 * model$n * ncol(model$y)))
  min(fresh + spared, INNER_ITERATIONS)
}

# Inputs of A at penalty mu: the second derivatives at the centres. If centres are not rows, the link there is T' beta.
# The scale 1 / m is better for large penalties, 1 / n for small ones (up to a factor of 2 on bike and higgs).
newton_parts <- function(model, point, mu) {
  by_row <- weights_at_centers(model)
  scale <- if (!is.null(by_row)) by_row else if (is.null(model$weights)) 1 else mean(model$weights)
  W <- scale * curvature_at_centers(model, point)
  list(weights = W, scale = if (mu >= 1e-4) 1 / model$centers$m else 1 / model$n, lambda = mu)
}

# The mean over the rows stands in where the response at the centres is not known, or where few rows bend the loss.
curvature_at_centers <- function(model, point) {
  index <- model$center_index
  all <- length(index) == model$n
  if (!model$family$of_classes && !all && (is.null(index) || model$family$stages > 0)) {
    bent <- row_loss("curvature", model$loss, point$f, model$y, model$run)
    return(rep(sum(bent) / model$n, model$centers$m))
  }
  f <- if (is.null(index)) link_at_centers(model, point) else point$f[index, , drop = FALSE]
  y <- if (!model$family$of_classes) model$y[index, , drop = FALSE]
  row_loss("curvature", model$loss, f, y, model$run)
}

make_newton <- function(model, made) precondition(model$preconditioner, made$weights, made$scale, made$lambda)

link_at_centers <- function(model, point) {
  apply_factors(model$preconditioner, point$beta, "T'") + rep(model$intercept, each = model$centers$m)
}

# list(beta, f, decrease, iterations): the Newton direction, the change of the link along it, twice the decrease of the
# objective that the quadratic model predicts, and the iterations of conjugate gradients. As second derivatives couple
# the columns, all columns are one vector here.
newton_direction <- function(model, point, mu, max_iter) {
  P <- model$preconditioner
  u <- NULL # what the last direction does to the link
  slope <- row_loss("slope", model$loss, point$f, model$y, model$run)
  product <- rows_normal(model$rows, model$centers, NULL, slope, model$weights, model$run)$product
  gradient <- apply_factors(P, product / model$n, "T^-T") + mu * point$beta
  of_rows <- hessian_product(model, point$f)
  multiply <- normal_operator(model, mu, function(alpha) {
    found <- of_rows(alpha)
    u <<- found$sums
    found$product
  })
  r <- p <- apply_factors(P, gradient, "A^-T")
  x <- 0 * r
  f <- 0 * point$f
  size <- sum(r^2)
  iteration <- gained <- gains <- 0
  is_rough <- \() iteration * max(gains) >= FORCING * gained
  while (iteration < max_iter && size > 0 && is_rough()) {
    iteration <- iteration + 1
    Ap <- multiply(p)
    curvature <- sum(p * Ap)
    # rounding has made the matrix indefinite
    if (!is.finite(curvature) || curvature <= 0) break
    gains <- utils::head(c(size^2 / curvature, gains), RECENT)
    gained <- gained + gains[1]
    x <- add_times(x, p, size / curvature, model$run)
    f <- add_times(f, u, size / curvature, model$run)
    r <- add_times(r, Ap, -size / curvature, model$run)
    before <- size
    size <- sum(r^2)
    p <- add_times(r, p, size / before, model$run)
  }
  list(beta = apply_factors(P, x, "A^-1"), f = f, decrease = gained, iterations = iteration)
}

# x + by a, by all threads.
add_times <- function(x, a, by, run) if (is_column(a)) x + by * a else combine_columns(x, a, rep(by, ncol(a)), run)

# Line search along a direction: returns the new point with its mean `loss`, its `objective` and the `length` of the
# step. If the step reduces the objective more than predicted (with separable classes steps are always too short), the
# length is doubled as long as that is better; otherwise it is halved until the objective does not increase. Length 0:
# no step helps.
line_search <- function(model, point, step, mu) {
  at <- function(length) {
    loss <- mean_loss(model$loss, point$f, model$y, model$run, model$weights, step$f, length)
    objective <- loss + mu / 2 * sum((point$beta - length * step$beta)^2)
    list(length = length, loss = loss, objective = if (is.finite(objective)) objective else Inf)
  }
  before <- point$loss + mu / 2 * sum(point$beta^2)
  if (!is.finite(before + step$decrease)) stop_solver("the objective is not finite")
  # rounding error of the objective
  noise <- 1e-13 * before
  found <- at(1)
  if (before - found$objective > 1.05 * step$decrease / 2 + noise) {
    while ((further <- at(2 * found$length))$objective < found$objective) found <- further
  }
  while (found$objective > before + noise && found$length > 1e-9) found <- at(found$length / 2)
  if (found$objective > before + noise) found <- list(length = 0, loss = point$loss, objective = before)
  moved <- if (found$length == 0) point[c("beta", "f")] else {
    by <- -found$length
    list(beta = add_times(point$beta, step$beta, by, model$run), f = add_times(point$f, step$f, by, model$run))
  }
  c(moved, found)
}

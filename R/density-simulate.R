#' Random draws from a density estimate
#'
#' `simulate()` draws points from the estimate: a training point (for `"sdkde"` a debiased one), chosen by weight, plus noise with the
#' distribution of the kernel. Categorical columns are drawn, too.
#'
#' @details
#' A Laplace-corrected estimate can be negative. Its draws come from its **positive part, renormalised**, by rejection from the
#' classical estimate, times \eqn{1 + d/2} for `"laplace"`; for `"laplace6"` from a classical estimate with a larger
#' bandwidth. Rejection evaluates about \eqn{(1 + d/2)}{1 + d/2} densities for each draw.
#'
#' @param object A fit from [flash_kde()].
#' @param nsim Number of draws.
#' @param seed As in [stats::simulate()]: `NULL` uses the state of R's generator; a number is
#'   given to [set.seed()] and the state is restored afterwards.
#' @param ... Not used; anything here is an error.
#' @returns A data frame of `nsim` rows with the columns of the fit (`x1`, `x2`, ... where they have
#'   no names; `x` in one dimension), in the units of the data. As in [stats::simulate()] it has an
#'   attribute `"seed"`: the state of the generator before, or `seed` with the kinds of generator.
#' @importFrom stats simulate
#' @rawRd \concept{random draws}\concept{sampling from a density}
#' @export
#' @examples
#' fit <- flash_kde(faithful)
#' draws <- simulate(fit, 500, seed = 1)
#' plot(draws)
simulate.flash_kde <- function(object, nsim = 1, seed = NULL, ...) {
  check_dots_empty(...)
  check_can(object, "draws")
  nsim <- check_count(nsim, "nsim")
  hold_limits(object)
  check_memory(8 * 4 * nsim * object$d, "nsim")
  with_seed_of_simulate(seed, {
    draws <- if (is_signed(object)) draw_positive_part(object, nsim) else draw_estimate(object, nsim)
    points_frame(object, draws)
  })
}

#' @export
draw_estimate.default <- function(object, n, inflate = 1) {
  lower <- inflate * fit_factor(object)
  from_origin(object, draw_mixture(
    fit_points(object), object$weights, lower, n, object$adaptive$factors, fit_kernel(object)
  ))
}

# Draws from the mixture of kernels at the rows of `centres`, with variance f^2 L L' for L = `lower` and local factors
# f.
draw_mixture <- function(centres, weights, lower, n, factors = NULL, kernel = "gaussian") {
  if (is_remote(centres)) return(unname(draw_data(centres, n)) + draw_kernel(kernel, n, lower))
  rows <- sample.int(nrow(centres), n, replace = TRUE, prob = weights)
  noise <- draw_kernel(kernel, n, lower)
  if (!is.null(factors)) noise <- factors[rows] * noise
  unname(centres[rows, , drop = FALSE]) + noise
}

draw_positive_part <- function(object, n) {
  control <- start_run(fit_asked(object), "Simulating")
  envelope <- envelope_of(object)
  bound <- envelope$bound
  wide <- inflated(object, envelope$inflate)
  draws <- own_places(object)[rep(1, n), , drop = FALSE]
  filled <- 0
  while (filled < n) {
    # at least one of `bound` draws is accepted
    tries <- draw_estimate(object, min(ceiling(1.1 * bound * (n - filled)) + 16, 1e5), envelope$inflate)
    corrected <- log_estimate(object, tries, FALSE, control)
    plain <- log_estimate(wide, tries, FALSE, control, factor = PLAIN_FACTOR)
    share <- exp(corrected$log_abs - plain$log_abs) / bound
    share[corrected$negative] <- 0
    kept <- utils::head(which(stats::runif(nrow(tries)) < share), n - filled)
    draws[filled + seq_along(kept), ] <- tries[kept, ]
    filled <- filled + length(kept)
  }
  draws
}

# The envelope of rejection sampling: list(inflate, bound). The estimate is at most `bound` times the classical one
# whose standard deviations are multiplied by `inflate`. With kernels of c H a kernel with the polynomial f exceeds by
# c^(d/2) f(t) exp(-t (1 - 1/c)), t = q / 2: linear f is largest at 0, others where the derivative is 0.
envelope_of <- function(object) {
  f <- fit_polynomial(object)
  if (f[3] == 0) return(list(inflate = 1, bound = f[1]))
  bound <- function(c) {
    s <- 1 - 1 / c
    t <- c(0, pmax(Re(polyroot(c(f[2] - s * f[1], 2 * f[3] - s * f[2], -s * f[3]))), 0))
    c^(object$d / 2) * max((f[1] + f[2] * t + f[3] * t^2) * exp(-s * t))
  }
  best <- stats::optimize(bound, c(1.01, 3))
  list(inflate = sqrt(best$minimum), bound = bound(best$minimum))
}

# Evaluates `draws` as methods of simulate() do: after set.seed(seed), restoring the state of the generator afterwards,
# or with the present state if `seed` is NULL. The attribute "seed" is what reproduces the draws.
with_seed_of_simulate <- function(seed, draws) {
  if (!is.null(seed)) seed <- check_count(seed, "seed", min = -.Machine$integer.max)
  if (!exists(".Random.seed", globalenv(), inherits = FALSE)) stats::runif(1)
  before <- get(".Random.seed", globalenv(), inherits = FALSE)
  state <- before
  if (!is.null(seed)) {
    on.exit(assign(".Random.seed", before, envir = globalenv()))
    set.seed(seed)
    state <- structure(seed, kind = as.list(RNGkind()))
  }
  structure(draws, seed = state)
}

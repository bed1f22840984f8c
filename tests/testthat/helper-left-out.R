# Leave-one-out sums of an SD-KDE over some of the sources, as on another machine: list(n, some(), whole()). `with`:
# "nothing", "weights", "even weights" (1 to 3) or "factors". `ratio`: the score's bandwidth, as a multiple.
# some(block, rows, control): the sums of the sources `block` at the points `rows`, which may or may not be among them.

left_out_case <- function(n, d, with = "nothing", ratio = 0.8) {
  x <- matrix(example_points(n, max(d, 2))[, seq_len(d)], n)
  if (n > 2) x[n, ] <- 300 # alone, a long way out
  w <- if (with != "nothing") seq(0, 2, length.out = n + 1)[-1] * (seq_len(n) %% 7 > 0)
  if (with == "even weights") w <- 1 + seq_len(n) %% 3
  factors <- if (with == "factors") rep_len(c(1, 2, 0.7), n)
  L <- t(chol(example_bandwidth(d)))
  sources <- sum_sources(x, w, ratio * L, factors = factors)
  control <- run_control(settle_control(flash_control(threads = 2)))
  if (is.null(factors)) {
    known <- masses_and_means(sources, NULL, control)[c("means", "log_mass")]
  } else {
    found <- scores_by_classes(sources, control, masses = TRUE)
    known <- list(means = x + factors^2 * (found$score %*% tcrossprod(sources$L)), log_mass = found$log_mass)
  }
  of_scores <- if (is.null(factors)) sources else score_sources(sources)
  known <- c(known, list(weights = w, factors = factors))
  take <- \(one, rows) if (is.matrix(one)) one[rows, , drop = FALSE] else one[rows]
  list(
    n = n,
    whole = \(control) debiased_loo_at(of_scores, L, known, NULL, control)$log_sum,
    some = function(block, rows, control) {
      held_out <- list(
        points = take(x, rows), weights = of_scores$weights[rows], first = as.double(match(rows[1], block))
      )
      debiased_loo_at(some_sources(of_scores, block), L, lapply(known, take, block), held_out, control)$log_sum
    },
    known = \(control) debiased_loo_sum(sources, L, control)$log_sum
  )
}

# SD-KDEs of every kind with one heavy point, and with others between it and the rest: for each, a function of the rows
# that the fit has, and the position of its points. The rest has the weights `ratio`.
heavy_weights <- function(ratio, n) c(1, sqrt(ratio), min(1, 100 * ratio), rep(ratio, n - 3))

heavy_cases <- function(ratio, n, ...) {
  x <- example_points(n, 2)
  w <- heavy_weights(ratio, n)
  factors <- rep_len(c(1, 2, 0.5), n)
  line <- data.frame(a = x[, 1])
  mixed <- data.frame(a = x[, 1], g = factor(rep_len(c("p", "q", "r"), n)))
  fit <- function(data, own = \(rows) list(), bandwidth = 0.7, ...) {
    further <- list(...)
    list(data = data, fit = \(rows) {
      about <- c(list(data[rows, , drop = FALSE], "sdkde", bandwidth, weights = w[rows]), own(rows), further)
      do.call(flash_kde, about)
    })
  }
  list(
    plain = fit(line, ...), columns = fit(data.frame(x), debias = debiasing(bandwidth = 0.9), ...),
    mixed = fit(mixed, categorical = categorical_kernel(0.2), ...),
    adaptive = fit(data.frame(x), \(rows) list(adaptive = factors[rows]), ...),
    transform = fit(exp(line), support = kde_support(c(0, Inf), "transform"), ...),
    compact = fit(data.frame(x), kernel = "epanechnikov", bandwidth = 1, ...),
    window = fit(line, kernel = "biweight", bandwidth = 1, ...)
  )
}

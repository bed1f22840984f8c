# The bounds that the 13 reference cases must meet on every back end, in double and in single precision.

# The coordinates of d7-offset have fewer digits relative to the bandwidth.
bound_for <- function(case, bound) if (case$name == "d7-offset") 10 * bound else bound

fit_case <- function(case, estimator, precision, backend = "cpu") {
  flash_kde(
    case$x, estimator = estimator, bandwidth = case$H, weights = case$weights,
    control = flash_control(precision = precision, backend = backend)
  )
}

expect_log_density <- function(got, case, want, precision, label) {
  if (precision == "double") {
    expect_within(got, want, bound_for(case, 1e-10), label)
  } else {
    error <- abs(got - want) / ifelse(want > -100, 1e-4, 1e-5 * abs(want))
    worst <- max(error)
    testthat::expect(isTRUE(worst <= 1), sprintf("%s: %.3g times the single bound.", label, worst))
  }
}

# Laplace densities are signed and underflow to zero; their logs exist where they are positive.
expect_laplace <- function(fit, case, precision, label) {
  density <- predict(fit, case$y)
  normal <- case$log_abs_laplace > log(.Machine$double.xmin)
  want <- ifelse(normal, case$laplace_sign * exp(case$log_abs_laplace), 0)
  if (precision == "single") {
    # Signs cancel: the bound is relative to the sum of the absolute terms.
    terms <- ref_log_sum(case$x, case$y, case$H, case$weights, ref_laplace_factor(ncol(case$x)))
    log_norm <- ref_log_norm(case$H, sum(ref_weights(case$x, case$weights)))
    size <- exp(terms$log_size + log_norm) * pmax(1e-4, 1e-5 * abs(case$log_abs_laplace))
    return(testthat::expect_true(all(abs(density - want) <= size), label = label))
  }
  testthat::expect_identical(sign(density), sign(want))
  expect_within(
    log(abs(density[normal])), case$log_abs_laplace[normal], bound_for(case, 1e-9), label
  )
  positive <- case$laplace_sign > 0
  testthat::expect_warning(log_density <- predict(fit, case$y, type = "log_density"), "negative")
  testthat::expect_identical(is.nan(log_density), !positive)
  if (any(positive)) {
    expect_within(
      log_density[positive], case$log_abs_laplace[positive], bound_for(case, 1e-9), label
    )
  }
}

# Also in units of one kernel standard deviation: a bound that depends on neither the origin nor the units, and that
# single precision can meet.
expect_score <- function(got, case, precision, label) {
  half <- t(chol(case$H)) # H = half half'
  if (precision == "double") expect_within(got, case$score, bound_for(case, 1e-8), label)
  bound <- if (precision == "double") bound_for(case, 1e-8) else 1e-4
  expect_within(got %*% half, case$score %*% half, bound, paste(label, "in kernel sds"))
}

expect_debiased <- function(got, case, precision, label) {
  if (precision == "double") expect_within(got, case$debiased, bound_for(case, 1e-8), label)
  shift <- function(debiased) (debiased - case$x) %*% solve(chol(case$H))
  bound <- if (precision == "double") bound_for(case, 1e-8) else 1e-4
  expect_within(shift(got), shift(case$debiased), bound, paste(label, "in kernel sds"))
}

expect_case <- function(case, precision, backend) {
  kde <- fit_case(case, "kde", precision, backend)
  got <- predict(kde, case$y, type = "log_density")
  expect_log_density(got, case, case$log_kde, precision, "log_kde")
  expect_score(predict(kde, case$y, type = "score"), case, precision, "score")
  score <- kernel_sum(case$x, case$y,
    bandwidth = case$H, weights = case$weights, type = "score",
    control = flash_control(precision = precision, backend = backend)
  )
  expect_score(score, case, precision, "kernel_sum()")

  sdkde <- fit_case(case, "sdkde", precision, backend)
  expect_debiased(sdkde$debiased, case, precision, "debiased")
  got <- predict(sdkde, case$y, type = "log_density")
  expect_log_density(got, case, case$log_sdkde, precision, "log_sdkde")

  expect_laplace(fit_case(case, "laplace", precision, backend), case, precision, "laplace")
}

# The list that C receives, as flash_control(...) makes it with the defaults of flash_kde().
control_list <- function(...) {
  internal <- asNamespace("flashkernel")
  internal$run_control(internal$settle_control(flash_control(...)))
}

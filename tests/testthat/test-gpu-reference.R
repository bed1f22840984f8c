# The 13 cases in 40-digit arithmetic on the GPU: in double and single precision under the bounds of the
# CPU, in "fast" under its own; see test-reference.R.

for (precision in c("double", "single")) for (name in reference_cases) {
  test_that(paste0("case ", name, " is met on the GPU in ", precision, " precision"), {
    skip_if_no_gpu()
    expect_case(read_case(name), precision, "cuda")
  })
}

# Densities under the L2 bound, relative to the sum of absolute terms where these cancel.
expect_densities <- function(case, precision) {
  promise <- function(estimator, want) {
    fit <- fit_case(case, estimator, precision, "cuda")
    got <- predict(fit, case$y, type = "log_density")
    expect_promise(got, want, ncol(case$x), precision, estimator)
  }
  promise("kde", case$log_kde)
  promise("sdkde", case$log_sdkde)
  terms <- ref_log_sum(case$x, case$y, case$H, case$weights, ref_laplace_factor(ncol(case$x)))
  log_size <- terms$log_size + ref_log_norm(case$H, sum(ref_weights(case$x, case$weights)))
  expect_l2(
    predict(fit_case(case, "laplace", precision, "cuda"), case$y),
    case$laplace_sign * exp(case$log_abs_laplace), l2_bound(precision, ncol(case$x)), "laplace", exp(log_size)
  )
}

for (name in reference_cases) {
  test_that(paste0("the densities of case ", name, " meet their bounds on the GPU"), {
    skip_if_no_gpu()
    case <- read_case(name)
    expect_densities(case, "single")
    expect_densities(case, "fast")
  })

  test_that(paste0("scores and debiased points of case ", name, " are right in fast precision"), {
    skip_if_no_gpu()
    case <- read_case(name)
    kde <- fit_case(case, "kde", "fast", "cuda")
    expect_score_near(predict(kde, case$y, type = "score"), case$score, case$H, "fast", "score")
    debiased <- fit_case(case, "sdkde", "fast", "cuda")$debiased
    steps <- function(moved) 2 * (moved - case$x) %*% solve(case$H) # back to scores
    expect_score_near(steps(debiased), steps(case$debiased), case$H, "fast", "debiased")
  })

  test_that(paste0("leave-one-out values of case ", name, " are those of the CPU"), {
    skip_if_no_gpu()
    skip_if(name == "n1", "there is nothing to leave out")
    case <- read_case(name)
    for (estimator in c("kde", "sdkde", "laplace")) {
      fit <- fit_case(case, estimator, "double")
      loo <- function(fit, ...) {
        suppressWarnings(predict(fit, loo = TRUE, ...), classes = "flashkernel_warning_negative")
      }
      want <- loo(fit, type = "log_density")
      for (precision in c("double", "single", "fast")) {
        label <- paste(estimator, precision)
        if (estimator == "laplace") {
          size <- pmax(abs(loo(fit)), loo(fit_case(case, "kde", "double")))
          expect_l2(loo(on_gpu(fit, precision)), loo(fit), l2_bound(precision, ncol(case$x)), label, size)
        } else {
          got <- loo(on_gpu(fit, precision), type = "log_density")
          expect_promise(got, want, ncol(case$x), precision, label, bound_for(case, 1e-10))
        }
      }
    }
  })
}

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()

# The 13 cases in 40-digit arithmetic, through the public functions. Bounds are those the
# documentation promises.

# Coordinates of d7-offset hold fewer digits relative to the bandwidth.
bound_for <- function(case, bound) if (case$name == "d7-offset") 10 * bound else bound

fit_case <- function(case, estimator, precision) {
  flash_kde(case$x,
    estimator = estimator, bandwidth = case$H, weights = case$weights, precision = precision
  )
}

expect_log_density <- function(got, case, want, precision, label) {
  if (precision == "double") {
    expect_within(got, want, bound_for(case, 1e-10), label)
  } else {
    error <- abs(got - want) / ifelse(want > -100, 1e-4, 1e-5 * abs(want))
    worst <- max(error)
    expect(isTRUE(worst <= 1), sprintf("%s: %.3g times the single bound.", label, worst))
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
    return(expect_true(all(abs(density - want) <= size), label = label))
  }
  expect_identical(sign(density), sign(want))
  expect_within(
    log(abs(density[normal])), case$log_abs_laplace[normal], bound_for(case, 1e-9), label
  )
  positive <- case$laplace_sign > 0
  expect_warning(log_density <- predict(fit, case$y, type = "log_density"), "negative")
  expect_identical(is.nan(log_density), !positive)
  if (any(positive)) {
    expect_within(
      log_density[positive], case$log_abs_laplace[positive], bound_for(case, 1e-9), label
    )
  }
}

# Also in units of one kernel sd: a bound that does not depend on the origin or on the units, and
# what single precision can hold.
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

test_that("all 13 reference cases are here and complete", {
  parts <- c("x", "y", "bandwidth", "expected", "debiased")
  files <- file.path(
    rep(reference_cases, each = length(parts)), paste0(parts, ".csv.gz")
  )
  files <- c(files, file.path(c("d3-weighted", "d33-weighted"), "weights.csv.gz"))
  present <- list.files(test_path("fixtures", "reference"), "gz$", recursive = TRUE)
  expect_length(reference_cases, 13)
  expect_setequal(present, files)
})

test_that("the R formulas of the tests agree with the 40-digit values", {
  for (name in reference_cases) {
    case <- read_case(name)
    H <- case$H
    w <- case$weights
    expect_within(ref_log_kde(case$x, case$y, H, w), case$log_kde, 1e-13, name)
    expect_within(ref_log_sdkde(case$x, case$y, H, weights = w), case$log_sdkde,
      bound_for(case, 1e-11), name
    )
    expect_within(ref_score(case$x, case$y, H, w), case$score, bound_for(case, 1e-10), name)
    expect_within(ref_debias(case$x, H, weights = w), case$debiased, 1e-13, name)
    laplace <- ref_log_sum(case$x, case$y, H, w, ref_laplace_factor(ncol(case$x)))
    log_norm <- ref_log_norm(H, sum(ref_weights(case$x, w)))
    expect_within(laplace$log_abs + log_norm, case$log_abs_laplace, 1e-12, name)
    expect_identical(laplace$sign, case$laplace_sign)
  }
})

for (precision in c("double", "single")) for (name in reference_cases) {
  test_that(paste0("case ", name, " is met in ", precision, " precision"), {
    case <- read_case(name)

    kde <- fit_case(case, "kde", precision)
    got <- predict(kde, case$y, type = "log_density")
    expect_log_density(got, case, case$log_kde, precision, "log_kde")
    expect_score(predict(kde, case$y, type = "score"), case, precision, "score")
    score <- kernel_score(case$x, case$y,
      bandwidth = case$H, weights = case$weights, precision = precision
    )
    expect_score(score, case, precision, "kernel_score()")

    sdkde <- fit_case(case, "sdkde", precision)
    expect_debiased(sdkde$debiased, case, precision, "debiased")
    got <- predict(sdkde, case$y, type = "log_density")
    expect_log_density(got, case, case$log_sdkde, precision, "log_sdkde")

    expect_laplace(fit_case(case, "laplace", precision), case, precision, "laplace")
  })
}

test_that("the log of the absolute Laplace sum is right where the density underflows", {
  log_sum <- get("ffi_log_sum", asNamespace("flashkernel"))
  control <- list(backend = "cpu", precision = "double", threads = 1L, progress = NULL)
  for (name in reference_cases) {
    case <- read_case(name)
    d <- ncol(case$x)
    got <- .Call(
      log_sum, case$x, case$y, case$weights, t(chol(case$H)), c(1 + d / 2, -1, 0), FALSE, control
    )
    log_norm <- ref_log_norm(case$H, sum(ref_weights(case$x, case$weights)))
    expect_within(got$log_abs + log_norm, case$log_abs_laplace, bound_for(case, 1e-9), name)
    expect_equal(ifelse(got$negative, -1, 1), case$laplace_sign)
  }
})

# ---- every instruction set this machine has, each in its own process

case_in_child <- function(cases) {
  precisions <- c("double", "single")
  one <- function(case, precision) {
    fit <- function(estimator) {
      flash_kde(case$x,
        estimator = estimator, bandwidth = case$H, weights = case$weights, precision = precision
      )
    }
    kde <- fit("kde")
    sdkde <- fit("sdkde")
    list(
      log_kde = predict(kde, case$y, type = "log_density"),
      score = predict(kde, case$y, type = "score"),
      log_sdkde = predict(sdkde, case$y, type = "log_density"),
      debiased = sdkde$debiased,
      laplace = predict(fit("laplace"), case$y)
    )
  }
  results <- lapply(cases, \(case) lapply(precisions, \(p) one(case, p)))
  list(isa = backend_info()$isa, results = lapply(results, stats::setNames, precisions))
}

for (isa in backend_info()$isa_available) {
  test_that(paste0("the ", isa, " code meets the reference cases"), {
    skip_on_cran()
    names <- setdiff(reference_cases, c("n1", "d100"))
    cases <- lapply(stats::setNames(names, names), read_case)
    child <- in_child(case_in_child, list(cases = cases), env = c(FLASHKERNEL_ISA = isa))
    expect_identical(child$isa, isa)
    for (name in names) for (precision in c("double", "single")) {
      case <- cases[[name]]
      got <- child$results[[name]][[precision]]
      label <- paste(isa, name, precision)
      expect_log_density(got$log_kde, case, case$log_kde, precision, label)
      expect_log_density(got$log_sdkde, case, case$log_sdkde, precision, label)
      expect_score(got$score, case, precision, label)
      expect_debiased(got$debiased, case, precision, label)
      if (precision == "double") {
        normal <- case$log_abs_laplace > log(.Machine$double.xmin)
        expect_within(
          log(abs(got$laplace[normal])), case$log_abs_laplace[normal], bound_for(case, 1e-9), label
        )
      }
    }
  })
}

test_that("portable code is always among the instruction sets", {
  expect_true("portable" %in% backend_info()$isa_available)
  expect_true(backend_info()$isa %in% backend_info()$isa_available)
})

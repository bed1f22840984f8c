# The 13 cases in 40-digit arithmetic, through the public functions. Bounds are those the
# documentation promises.

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
    expect_case(read_case(name), precision, "cpu")
  })
}

test_that("the log of the absolute Laplace sum is right where the density underflows", {
  log_sum <- get("ffi_log_sum", asNamespace("flashkernel"))
  control <- list(
    backend = "cpu", precision = "double", threads = 1L, devices = integer(), progress = NULL
  )
  for (name in reference_cases) {
    case <- read_case(name)
    d <- ncol(case$x)
    got <- .Call(
      log_sum, sum_sources(case$x, case$weights, t(chol(case$H))), case$y, c(1 + d / 2, -1, 0), FALSE, control
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
      flash_kde(
        case$x, estimator = estimator, bandwidth = case$H, weights = case$weights,
        control = flash_control(precision = precision)
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
  list(isa = flashkernel:::backend_info()$isa, results = lapply(results, stats::setNames, precisions))
}

for (isa in flashkernel:::backend_info()$isa_available) {
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
  expect_true("portable" %in% flashkernel:::backend_info()$isa_available)
  expect_true(flashkernel:::backend_info()$isa %in% flashkernel:::backend_info()$isa_available)
})

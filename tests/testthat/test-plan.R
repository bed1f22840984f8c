# What the planner decides (src/core/plan.h), and what it says of it. Works are far from where decisions change, so that
# no guess here depends on the machine.

plan <- function(..., size, kernel = "gaussian", operation = "sums") {
  c_unit("plan", control_list("cpu", ...), as.double(c(size, 0)), kernel, operation)
}

internal <- function(name) get(name, asNamespace("flashkernel"))

# ---- which engine and method ------------------------------------------------------------------

decided <- function(n, m, d, kernel, bandwidth, tol, ...) {
  set.seed(1)
  x <- matrix(stats::rnorm(n * d), n)
  y <- if (m > 0) matrix(stats::rnorm(m * d), m) else x
  diagnostics(kernel_sum_by(
    x, y, bandwidth = bandwidth, kernel = kernel, tol = tol, ...,
    control = flash_control(backend = "cpu")
  ))
}

# m = 0: at the sources themselves
DECISIONS <- utils::read.table(header = TRUE, text = "
      n     m d    kernel bandwidth  tol engine     method   why
     50    20 1  gaussian       1.0 0     exact difference   no.tolerance
     50    20 3  gaussian       1.0 1e-6  exact difference   by.estimate:.+,.fast
    500   100 6  gaussian       1.0 0     exact       gram   no.tolerance
    500   100 6  gaussian       0.001 0   exact difference   no.tolerance
    500   100 6  gaussian       1.0 1e-6  exact       gram   by.estimate:.+,.fast
   2000  2000 9  gaussian       1.0 1e-6  exact       gram   no.fast.engine.for.the.gaussian.kernel.in.9.dimensions
   2000  2000 1 laplacian       1.0 1e-6  exact difference   no.fast.engine.for.the.laplacian.kernel..not.smooth.at.0.$
     50    20 6    cauchy       1.0 0     exact difference   no.tolerance
  30000     0 1  gaussian       0.3 0     fast        line   by.estimate:.+,.exact
   3000     0 1 laplacian       0.3 0     exact difference   no.tolerance
  30000     0 1  gaussian       0.3 1e-6  fast        grid   grid.by.estimate:.+,.exact
  30000 30000 2  gaussian       0.3 1e-3  fast        grid   grid.by.estimate:.+,.exact
  30000     0 3  gaussian       0.005 1e-3 fast     direct   direct.sums.by.estimate:.+,.exact
  30000     0 5  gaussian       0.05 1e-3 fast      direct   direct.sums.by.estimate:.+,.exact
  60000     0 1    cauchy       0.3 1e-3  fast        grid   sums.of.Gaussians.by.estimate:.+,.exact
   1000  1000 7  gaussian       1.0 1e-8  exact       gram   by.estimate:.+,.fast
")

for (i in seq_len(nrow(DECISIONS))) {
  case <- DECISIONS[i, ]
  label <- paste(case$kernel, case$n, "x", case$m, "in", case$d, "with h =", case$bandwidth, "to", case$tol)
  test_that(paste("decided as ever:", label), {
    got <- decided(case$n, case$m, case$d, case$kernel, case$bandwidth, case$tol)
    expect_identical(c(got$engine, got$method), c(case$engine, case$method), info = got$reason_engine)
    expect_match(got$reason_engine, paste0("^", case$why))
    expect_output(print(got), paste0("\nEngine: ", case$engine, ", ", case$why), perl = TRUE)
  })
}

test_that("an engine that was asked for is taken, and exact sums in place of fast ones are in double", {
  expect_identical(decided(50, 20, 2, "gaussian", 1, 1e-6, engine = "exact")$reason_engine, "as asked")
  expect_identical(decided(200, 200, 2, "gaussian", 0.3, 1e-6, engine = "fast")$engine, "fast")
  single <- function(...) plan("single", ..., size = c(50, 20, 2))
  expect_identical(single(tol = 1e-3)$precision, "double")
  expect_identical(single(tol = 1e-3, engine = "exact")$precision, "other")
  expect_identical(single()$precision, "other")
  expect_identical(plan("single", tol = 1e-3, size = c(50, 20, 2), kernel = "cauchy")$precision, "other")
  expect_identical(single()$reason, "as asked")
})

test_that("chunks go onto one grid where that is faster than by themselves", {
  set.seed(1)
  x <- matrix(stats::rnorm(40000), ncol = 1)
  first <- 1
  chunks <- function() {
    if (first > nrow(x)) return(NULL)
    rows <- first:(first + 9999)
    first <<- first + 10000
    list(x = x[rows, , drop = FALSE])
  }
  got <- diagnostics(kernel_sum(chunks, x, bandwidth = 0.3, tol = 1e-6, control = flash_control(backend = "cpu")))
  expect_identical(c(got$engine, got$method), c("fast", "grid"))
  expect_match(got$reason_engine, "^one grid by estimate: .+ s, chunks by themselves ")
})

test_that("a fit says why, and one of an earlier version prints without", {
  fit <- flash_kde(example_points(50, 2), "kde", bandwidth = 0.5, control = flash_control(backend = "cpu"))
  record <- diagnostics(fit)
  expect_identical(record$reason_engine, "no tolerance")
  expect_output(print(record), "\nEngine: exact, no tolerance\n")
  record$reason_engine <- NULL
  expect_false(any(grepl("Engine", utils::capture.output(print(record)))))
})

test_that("a fit says why of its estimate, not of the searches, which have other sums", {
  set.seed(1)
  fit <- flash_kde(matrix(stats::rcauchy(800), ncol = 2), control = flash_control(backend = "cpu", threads = 1))
  expect_identical(names(fit$computed$stages), c("bandwidth", "adaptive"))
  expect_identical(fit$computed$stages$adaptive$reason_engine, "")
  expect_identical(diagnostics(fit)$reason_engine, "no tolerance")
})

# ---- what engines can do ----------------------------------------------------------------------

test_that("engines say which operations they have", {
  able <- c_unit("engines")
  loops <- c(
    "moments", "scales", "levels", "neighbours", "derivatives", "rectangles", "cubes", "conditional", "sparse", "polygon",
    "line_moments", "windows", "cdf"
  )
  engines <- c("sums", "logs", "coordinates", "shift", "debiased_loo", "stream", "normal")
  expect_identical(colnames(able), c(engines, loops))
  expect_true(all(able["exact cpu", loops]))
  expect_false(any(able[rownames(able) != "exact cpu", loops]))
  able <- able[, engines]
  expected <- rbind(
    "exact cpu" = c(TRUE, TRUE, TRUE, FALSE, TRUE, FALSE, TRUE),
    "exact cuda" = c(TRUE, TRUE, TRUE, TRUE, TRUE, FALSE, TRUE),
    "line cpu" = c(TRUE, TRUE, TRUE, FALSE, FALSE, FALSE, TRUE),
    "fast cpu" = c(TRUE, TRUE, TRUE, FALSE, FALSE, TRUE, TRUE),
    "fast cuda" = c(TRUE, TRUE, TRUE, FALSE, FALSE, FALSE, TRUE)
  )
  expect_true(all(c("exact cpu", "line cpu", "fast cpu") %in% rownames(able)))
  expect_identical(unname(able), unname(expected[rownames(able), ]))
})

test_that("what no fast engine has is done exactly, whatever is asked for", {
  for (engine in c("auto", "exact", "fast")) {
    got <- plan(engine = engine, tol = 1e-3, size = c(1e6, 1e6, 2), operation = "debiased_loo")
    expect_identical(got$engine, "exact")
    expect_identical(got$reason_engine, "no fast engine for leave-one-out of debiased points")
  }
  x <- example_points(40, 2)
  loo <- \(..., control = flash_control(backend = "cpu")) {
    logLik(flash_kde(x, "sdkde", bandwidth = 0.5, control = control, ...))
  }
  expect_identical(loo(tol = 1e-3), loo())
  expect_identical(loo(tol = 1e-3, control = flash_control(backend = "cpu", engine = "fast")), loo())
})

test_that("normal products are planned as two sums by fast engines, and as one sweep by the CPU's exact one", {
  product <- \(..., d = 2) plan(..., size = c(1e5, 1e5, d), operation = "normal")
  expect_identical(product(tol = 1e-3)$engine, "fast")
  expect_identical(product(tol = 1e-3, engine = "exact")$engine, "exact")
  expect_match(product(tol = 1e-3, d = 9)$reason_engine, "^no fast engine for the gaussian kernel in 9 dimensions$")
  expect_error(product(tol = 1e-3, d = 9, engine = "fast"), class = "flashkernel_error_unsupported")
})

test_that("streams are for Gaussian sums to a global tolerance in up to 7 dimensions, on the CPU", {
  can_do <- internal("can_do")
  can <- \(..., d = 2, kernel = "gaussian") can_do(control_list(...), "stream", d, kernel)
  expect_true(can("cpu", tol = 1e-3))
  expect_true(can("auto", tol = 1e-3, d = 7, engine = "fast"))
  expect_false(can("cpu", tol = 1e-3, d = 8))
  expect_false(can("cpu", tol = 1e-3, kernel = "cauchy"))
  expect_false(can("cpu", tol = 1e-3, tol_type = "pointwise"))
  expect_false(can("cpu", tol = 1e-3, engine = "exact"))
  expect_false(can("cuda", tol = 1e-3))
  expect_false(can("cpu"))
  expect_error(can_do(control_list("cpu"), "divination", 2, "gaussian"), "must be the name of an operation")
})

test_that("exact sums that take long are told from those that a tolerance would not make short", {
  to_save <- internal("seconds_to_save")
  expect_identical(to_save(control_list("cpu", "double", 1), 1e6, 1e6, 2, "gaussian", FALSE), NA_real_) # stands in
  control <- control_list("cpu", "single", 1)
  long <- to_save(control, 1e6, 1e6, 2, "gaussian", FALSE)
  expect_gt(long, 5)
  expect_identical(to_save(control, 1e6, 1e6, 2, "gaussian", TRUE), long / 2)
  expect_equal(to_save(control, 1e6, 1e6, 2, "gaussian", FALSE, 0.5), long / 2)
  expect_identical(to_save(control, 1e6, 1e6, 2, "gaussian", FALSE, 0.001), NA_real_)
  expect_identical(to_save(control, 1e4, 1e4, 2, "gaussian", FALSE), NA_real_)
  expect_identical(to_save(control, 1e6, 1e6, 2, "matern32", FALSE), NA_real_)
})

# The contract of `tol` holds for every input: helper-tolerance.R makes what attacks it. The issue's own examples
# have their tests here; 5,000 cases run in inst/bench/tolerance.R.

# ---- the yardstick ----------------------------------------------------------------------------

test_that("the sums of all pairs that the tolerance is measured by are those of 60 digits", {
  table <- utils::read.csv(testthat::test_path("fixtures", "tolerance", "sums.csv"))
  for (case in split(table, table$case)) {
    part <- \(what) {
      of <- case[case$what == what, ]
      matrix(of$value[order(of$column, of$row)], max(of$row))
    }
    b <- part("b")[, 1]
    kernel <- names(log_kernels)[part("kernel") + 1]
    got <- brute_sums(part("x"), part("y"), part("L"), log(abs(b)), sign(b), kernel, slopes = TRUE)
    label <- paste("case", case$case[1])
    expect_within(log_size(got), part("log_size")[, 1], 1e-14, label)
    for (name in c("value", "laplace", "slope", "slope_size", "laplace_slope", "laplace_slope_size")) {
      # exponents of a thousand keep thirteen digits
      expect_within(as.vector(got[[name]] / got$size), as.vector(part(name)), 2e-12, paste(label, name))
    }
  }
})

test_that("powers of two out of range are no trouble, and the contract's errors are seen", {
  expect_identical(times_power(c(3, 1, 0, Inf), c(-1200, 1100, 3000, -2000)), c(3 * 2^-600 * 2^-600, Inf, 0, Inf))
  excess <- \(got, tol = 0.1, scale = log(8)) value_excess(got, c(8, 1e-300), c(8, 1e-300), c(0, 0), scale, tol, 0, 0)
  expect_equal(excess(c(8, 0)), 1e-299 / 8)
  expect_equal(excess(c(8.4, 0)), 0.5)
  expect_equal(excess(c(8, 0), scale = log(c(8, 1e-300))), 10)
  expect_identical(excess(c(8, NaN)), Inf)
  expect_equal(value_excess(0, 1, 1, -2000, -2000, 1e-3, 0, 0), 1000)
  expect_equal(value_excess(0, 1, 1, -2000, -2000, 1e-3, 0, 2^-1022), 0)
})

test_that("the exact engine is far inside what a tolerance allows, in all cases alike", {
  for (seed in 1:69) {
    case <- replace(tolerance_case(seed, 200, 40), c("engine", "method", "precision", "tol"), list("exact", "", "double", 1e-10))
    row <- run_case(case)
    expect(row$ratio < 0.01, sprintf("%s: %.3g of 1e-10.", label_of(row), row$ratio))
  }
})

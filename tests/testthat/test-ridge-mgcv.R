# Kernel smooths in models of mgcv.
skip_if_not_installed("mgcv")

of_mgcv <- function(name) getExportedValue("mgcv", name)

bumps <- function(n) {
  x <- stats::runif(n)
  z <- stats::runif(n)
  bump <- \(height, a, b) height * exp(-(x - a)^2 / 0.09 - (z - b)^2 / 0.16)
  f <- bump(2, 0.2, 0.3) + bump(1.2, 0.7, 0.8)
  data.frame(x, z, f, y = f + stats::rnorm(n, sd = 0.2))
}

test_that("smooths predict new rows as well as thin plate splines", {
  set.seed(1)
  d <- bumps(300)
  new <- bumps(500)
  error <- \(bs) {
    fit <- of_mgcv("gam")(y ~ s(x, z, bs = bs, k = 30), data = d, method = "REML")
    sqrt(mean((stats::predict(fit, new) - new$f)^2))
  }
  expect_lt(error("fk"), 1.05 * error("tp"))
})

test_that("cross products of a smooth at its centres are the kernel, and new rows have the same columns", {
  set.seed(1)
  d <- bumps(30)
  made <- \(xt) of_mgcv("smoothCon")(of_mgcv("s")(x, z, bs = "fk", k = 30, xt = xt), d, absorb.cons = FALSE)[[1]]
  smooth <- made(list(bandwidth = c(0.2, 0.4), kernel = "matern32"))
  K <- kernel_operator(as.matrix(d[1:2]), bandwidth = c(0.2, 0.4), kernel = "matern32") %*% diag(30)
  expect_equal(tcrossprod(smooth$X), K, tolerance = 1e-6, ignore_attr = TRUE)
  expect_equal(unname(of_mgcv("PredictMat")(smooth, d[3:5, ])), unname(smooth$X[3:5, ]))
  expect_argument_error(made(list(width = 1)), "xt")
})

# Balloon estimates on a GPU, beside the CPU: a sum for each class of targets.

test_that("a GPU has the densities, scores and leave-one-out values of balloon estimates", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(1, 3, 24)) {
    x <- matrix(stats::rt(1500 * d, 4), ncol = d)
    y <- matrix(stats::rt(300 * d, 4), ncol = d)
    w <- stats::runif(1500, 0.1, 1)
    fit <- \(...) flash_kde(x, bandwidth = 0.7, weights = w, adaptive = "balloon", ...)
    here <- fit(backend = "cpu")
    limits <- c(double = 1e-10, single = 1e-4, fast = 1e-2)
    for (precision in names(limits)) {
      there <- fit(backend = "cuda", precision = precision)
      for (type in c("density", "score")) {
        wanted <- predict(here, y, type = type)
        off <- sqrt(sum((predict(there, y, type = type) - wanted)^2) / sum(wanted^2))
        expect_lt(off, limits[[precision]], label = paste(d, precision, type))
      }
      if (precision == "double") {
        expect_equal(predict(there, loo = TRUE), predict(here, loo = TRUE), tolerance = 1e-10)
      }
    }
  }
})

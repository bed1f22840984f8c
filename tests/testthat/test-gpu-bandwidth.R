# Moments of pairs by the sums of a GPU, beside the pass over all pairs on the CPU.

test_that("a GPU has the moments of pairs, and criteria their gradients", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(2, 10)) {
    x <- matrix(stats::rnorm(3000 * d), ncol = d)
    w <- stats::runif(3000, 0.1, 1)
    L <- diag(0.8, d) + 0.1 * lower.tri(diag(d))
    run <- \(backend) start_run(settle_control(flash_control(backend, "double")))
    arguments <- list(x, L, w, w / 2, w / 100, "full", TRUE, w, PLAIN_FACTOR)
    wanted <- do.call(pair_moments, c(arguments, run = list(run("cpu"))))
    found <- do.call(moments_of, c(arguments, run = list(run("cuda"))))
    expect_identical(found$stats$backend, "cuda")
    for (part in c("S", "M", "S_wide", "M_wide")) {
      expect_lt(max(abs(found[[part]] - wanted[[part]])), 1e-9 * max(abs(wanted[[part]])))
    }
    data <- list(x = x, weights = w, n = 2500, d = d, centre = numeric(d), scale = rep(1, d))
    for (name in c("lcv", "csl", "lscv", "scv")) {
      there <- new_criterion(name, data, "kde", run("cuda"))$gradient(L, "full")
      here <- new_criterion(name, data, "kde", run("cpu"))$gradient(L, "full")
      expect_equal(there, here, tolerance = 1e-8)
    }
  }
})

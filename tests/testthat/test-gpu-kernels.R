# The kernels beside the Gaussian on the GPU; test-parity.R has most of it.

test_that("more columns than one launch takes, in every precision, are those of the CPU", {
  skip_if_no_gpu()
  # by differences: "fast", too, which may be worse
  bounds <- c(double = 1e-12, single = 1e-5, fast = 1e-5)
  for (d in c(1, 4, 20)) {
    x <- example_points(700, d)
    y <- example_points(300, d, seed = 2)
    w <- seq(0, 1, length.out = 700)
    set.seed(5)
    b <- matrix(stats::rnorm(70 * 700), 700)
    for (kernel in names(ref_kernels)[-1]) for (targets in list(NULL, y)) {
      sums <- \(b, ...) plain(kernel_matvec(x, targets, b, example_bandwidth(d), kernel, weights = w, ...))
      want <- sums(b, backend = "cpu", precision = "double")
      size <- max(sums(abs(b), backend = "cpu", precision = "double"))
      for (precision in names(bounds)) {
        got <- sums(b, backend = "cuda", precision = precision)
        expect_lt(max(abs(got - want)) / size, bounds[[precision]], label = paste(kernel, precision, "d =", d))
      }
    }
  }
})

test_that("a kernel is 1 at its own point on the GPU too", {
  skip_if_no_gpu()
  for (kernel in names(ref_kernels)) for (d in c(1, 9)) {
    at <- matrix(1e6 + seq_len(d) / 7, 1)
    sum <- kernel_matvec(at, at + 0, 1, 0.37, kernel, precision = "double", backend = "cuda")
    expect_identical(plain(sum), 1, label = kernel)
  }
})

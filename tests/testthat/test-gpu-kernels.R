# The kernels beside the Gaussian on the GPU, against the CPU in double precision.

test_that("every kernel on the GPU is that of the CPU, in few and in many dimensions", {
  skip_if_no_gpu()
  # by differences: "fast", too, which may be worse
  bounds <- c(double = 1e-12, single = 1e-5, fast = 1e-5)
  for (d in c(1, 2, 3, 4, 5, 20)) {
    x <- example_points(700, d)
    y <- example_points(300, d, seed = 2)
    H <- example_bandwidth(d)
    w <- seq(0, 1, length.out = 700)
    set.seed(5)
    b <- matrix(stats::rnorm(70 * 700), 700) # more columns than one launch takes
    for (kernel in names(ref_kernels)[-1]) {
      sums <- \(..., b) plain(kernel_matvec(x, ..., b = b, bandwidth = H, kernel = kernel))
      for (columns in list(1, 1:3, 1:70)) for (targets in list(NULL, y)) {
        coefficients <- b[, columns, drop = FALSE]
        cpu <- \(b) sums(targets, b = b, weights = w, backend = "cpu", precision = "double")
        size <- max(cpu(abs(coefficients)))
        for (precision in names(bounds)) {
          got <- sums(targets, b = coefficients, weights = w, backend = "cuda", precision = precision)
          expect_lt(max(abs(got - cpu(coefficients))) / size, bounds[[precision]],
            label = paste(kernel, precision, "d =", d)
          )
        }
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

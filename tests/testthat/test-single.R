# Points of class float32: what C reads of them, and what R makes of them. A stand-in for the class of the package float,
# of which nothing but the slot is read.

methods::setClass("float32", representation(Data = "ANY"), where = globalenv())

float32 <- function(x) {
  bits <- readBin(writeBin(as.vector(x), raw(), size = 4), "integer", length(x))
  of_class <- methods::getClass("float32", where = globalenv())
  methods::new(of_class, Data = if (is.matrix(x)) matrix(bits, nrow(x), dimnames = dimnames(x)) else bits)
}

single_case <- function(n = 300, m = 40, d = 3) {
  x <- to_floats(matrix(example_points(n, d), n))
  x[1, 1] <- -0 # the bits of NA
  list(x = x, y = to_floats(matrix(example_points(m, d, 2), m)), b = example_points(n, 1)[, 1])
}

test_that("sums over floats are those over the same doubles, which are not made", {
  case <- single_case()
  x <- float32(case$x)
  y <- float32(case$y)
  for (backend in c("cpu", if (has_gpu()) "cuda")) for (tol in c(0, 1e-4)) {
    sums <- \(x, y) as.vector(kernel_sum(x, y, case$b, 0.4, tol = tol, control = flash_control(backend = backend)))
    want <- sums(case$x, case$y)
    expect_identical(sums(x, y), want)
    expect_identical(sums(x, case$y), want)
    expect_identical(sums(case$x, y), want)
    expect_identical(sums(x, NULL), sums(case$x, NULL))
    expect_identical(kernel_sum(
      x, y, bandwidth = 0.4, type = "score",
      control = flash_control(backend = backend)
    ), kernel_sum(
      case$x, case$y, bandwidth = 0.4, type = "score",
      control = flash_control(backend = backend)
    ))
  }
  expect_identical(kernel_sum(x, y, float32(case$b), 0.4, tol = 0), kernel_sum(case$x, case$y, to_floats(case$b), 0.4, tol = 0))
  points <- check_points(x, "x", single = TRUE)
  expect_s3_class(points, "single_points")
  expect_identical(dim(points), dim(case$x))
  expect_identical(widen(points, "x"), case$x)
  expect_identical(1 / widen(points, "x")[1, 1], -Inf)
  expect_identical(widen(points[2:3, , drop = FALSE], "x"), case$x[2:3, ])
})

test_that("an operator of floats multiplies as one of doubles does, and gives its parts", {
  case <- single_case()
  op <- kernel_operator(float32(case$x), float32(case$y), 0.4, "matern32", tol = 0)
  want <- kernel_operator(case$x, case$y, 0.4, "matern32", tol = 0)
  u <- example_points(40, 2)
  for (i in 1:2) {
    expect_identical(op %*% case$b, want %*% case$b)
    expect_identical(crossprod(op, u), crossprod(want, u))
  }
  expect_identical(op[3:1, c(7, 5)], want[3:1, c(7, 5)])
  expect_output(show(op), "40 x 300: matern32 kernel in 3 dimensions")
  saved <- unserialize(serialize(op, NULL))
  expect_identical(saved %*% case$b, want %*% case$b)
})

test_that("chunks may be floats, on a grid and chunk by chunk", {
  case <- single_case(20000, 30, 2)
  chunks <- function(type) {
    first <- 1
    function() {
      rows <- first:(first + 4999)
      first <<- first + 5000
      if (rows[1] < 20000) list(x = type(case$x[rows, ]), b = case$b[rows])
    }
  }
  for (engine in c("exact", "fast")) with_method("grid", {
    sums <- \(type) as.vector(kernel_sum(
      chunks(type), type(case$y), bandwidth = 0.4, tol = 1e-3,
      control = flash_control(engine = engine)
    ))
    expect_identical(sums(float32), sums(identity))
  })
})

test_that("floats are points wherever points are taken", {
  case <- single_case()
  x <- float32(case$x)
  expect_identical(flash_kde(x, "kde", 0.4)$x, case$x)
  fit <- flash_kde(case$x, "kde", 0.4)
  expect_identical(predict(fit, float32(case$y)), predict(fit, case$y))
  expect_identical(as.vector(kernel_sum(float32(case$x[, 1]), NULL, NULL, 0.4, tol = 0)), kernel_sum(case$x[, 1], NULL, NULL, 0.4, tol = 0))
  named <- case$x
  colnames(named) <- c("a", "b", "c")
  turned <- float32(named[, c(2, 3, 1)])
  expect_identical(kernel_sum(named, turned, NULL, 0.4, tol = 0), kernel_sum(named, named, NULL, 0.4, tol = 0))
})

test_that("mistakes in floats are told as those in doubles", {
  case <- single_case()
  for (bad in c(NaN, Inf)) {
    x <- case$x
    x[5, 2] <- bad
    expect_error(kernel_sum(float32(x), bandwidth = 1), "in row 5, column", class = "flashkernel_error_argument")
    if (is.infinite(bad)) expect_error(flash_kde(float32(x), bandwidth = 1), "in row 5, column")
  }
  expect_error(kernel_sum(float32(case$x), float32(case$y[, 1:2]), bandwidth = 1, tol = 0), "3 columns")
  expect_error(kernel_sum(float32(case$x[0, ]), bandwidth = 1, tol = 0), "at least one row")
})

methods::removeClass("float32", where = globalenv())

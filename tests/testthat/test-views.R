# Points that are rows of a larger matrix, or floats, give the numbers of a matrix of doubles of their own, to the
# last bit; the rows around them are no numbers.

view_points <- function(n, d, seed = 1) matrix(example_points(n, d, seed), n) + 3

test_that("what reads a view reads its rows alone, as doubles", {
  x <- view_points(31, 3)
  x[, 2] <- x[, 2] + 1000
  x <- to_floats(x)
  rows <- c(31L, 1L, 7L, 7L)
  for (single in c(FALSE, TRUE)) {
    parts <- c_unit("view", inner_view(x, single), rep(200, 3), rows)
    expect_identical(parts[[1]], 1)
    expect_identical(parts[[2]], c(0, min(x[, 2]), 0))
    expect_identical(parts[[3]], as.vector(x[rows, ]))
    expect_identical(parts[[4]], as.vector(x[floor((0:9 + (0:9 * 2654435769) %% 2^32 / 2^32) * 3.1) + 1, ]))
    expect_identical(parts[[5]], x[-1, 1])
    expect_identical(parts[[6]], as.vector(x))
    for (bad in c(NaN, Inf)) {
      spoilt <- replace(x, c(1, 93)[1 + single], bad)
      expect_identical(c_unit("view", inner_view(spoilt, single), rep(200, 3), rows)[[1]], 0)
    }
  }
})

test_that("views are whitened as their numbers are, with the same centre", {
  for (d in c(1, 2, 3, 7)) for (full in c(FALSE, TRUE)) {
    L <- if (full) t(chol(example_bandwidth(d))) else diag(0.5, d)
    for (n in c(1L, 24L, 193L, if (d < 3) 70000L)) { # two parts of a column
      x <- to_floats(view_points(n, d))
      if (n == 24L) x[3, 1] <- 1e9 # far: the centre is the least number
      for (rows in list(NULL, c(n, 1L, (n + 1L) %/% 2L))) {
        want <- c_unit("whiten", x, L, rows)
        for (single in c(FALSE, TRUE)) {
          expect_identical(c_unit("whiten", inner_view(x, single), L, rows), want)
        }
      }
    }
  }
})

test_that("exact sums of views are those of their numbers, in every precision, for all that is summed", {
  d <- 3
  x <- view_points(700, d)
  y <- view_points(230, d, 2)
  y[5, ] <- y[5, ] + 200 # a row in the tails, which is done again
  L <- t(chol(example_bandwidth(d)))
  set.seed(1)
  b <- matrix(stats::rnorm(2100), 700)
  for (precision in c("double", "single")) {
    control <- view_control(precision = precision)
    where <- \(what) paste(what, precision)
    for (own in c(FALSE, TRUE)) {
      at <- if (!own) y
      expect_same_of_views(x, at, sums_of_views(L, "gaussian", b, control), where("columns"))
      expect_same_of_views(x, at, sums_of_views(L, "matern32", b[, 1], control), where("one column"))
      expect_same_of_views(x, at, sums_of_views(L, "gaussian", abs(b[, 1]), control, "logs"), where("logarithms"))
      expect_same_of_views(x, at, sums_of_views(L, "gaussian", NULL, control, "scores"), where("scores"))
    }
    expect_same_of_views(x, NULL, sums_of_views(L, "gaussian", NULL, control, "debiased"), where("debiased"))
    diagonal <- diag(0.5, d)
    expect_same_of_views(x, NULL, sums_of_views(diagonal, "gaussian", NULL, control, "debiased"), where("diagonal"))
    expect_same_of_views(x, NULL, sums_of_views(L, "gaussian", NULL, control, "debiased_loo"), where("leave-one-out"))
  }
})

test_that("the sums of a view are those that R gets of its rows", {
  x <- to_floats(view_points(300, 2))
  y <- view_points(40, 2, 2)
  b <- example_points(300, 1)[, 1]
  L <- diag(0.5, 2)
  want <- kernel_sum(x, y, b, 0.5, control = flash_control(backend = "cpu", precision = "double"), tol = 0)
  expect_identical(sums_of_views(L, "gaussian", b, view_control())(inner_view(x, TRUE), whole_view(y))[1:40], want)
})

for (method in c("grid", "direct")) {
  test_that(paste("fast sums of views are those of their numbers:", method), {
    for (d in 1:3) with_method(method, {
      x <- view_points(2000, d)
      y <- view_points(500, d, 2)
      y[1:10, ] <- y[1:10, ] + 30 # done again
      L <- diag(c(0.3, 0.2, 0.4)[1:d], d)
      b <- example_points(2000, 1)[, 1]
      of <- \(tol, ...) sums_of_views(L, ..., control = view_control("fast", tol = 1e-3, tol_type = tol))
      where <- paste(method, "in", d, "dimensions")
      expect_same_of_views(x, y, of("global", "gaussian", b), where)
      expect_same_of_views(x, NULL, of("global", "gaussian", b), paste(where, "at the points"))
      if (d == 2) {
        expect_same_of_views(x, y, of("pointwise", "gaussian", b), paste(where, "pointwise"))
        expect_same_of_views(x, y, of("global", "gaussian", NULL, what = "logs"), paste(where, "logarithms"))
        expect_same_of_views(x, NULL, of("global", "gaussian", NULL, what = "debiased"), paste(where, "debiased"))
        expect_same_of_views(x[1:700, ], y, of("global", "cauchy", b[1:700]), paste(where, "mixture"))
      }
    })
  })
}

test_that("streams take views of sources and targets", {
  for (d in 1:3) with_method("grid", {
    x <- view_points(5000, d)
    y <- view_points(900, d, 2)
    b <- example_points(5000, 1)[, 1]
    rows <- .Call(ffi_stream_rows, 5000, 900)
    control <- view_control("fast", tol = 1e-3)
    expect_same_of_views(x, y, \(x, y) {
      of <- y$of[y$first - 1L + rows, , drop = FALSE]
      check <- if (y$first > 1) inner_view(of, y$single) else whole_view(of)
      c_unit("stream", x, y, check, diag(0.4, d), b, control)
    }, paste("stream in", d, "dimensions"))
  })
})

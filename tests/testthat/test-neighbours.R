# Distances to k-th neighbours, against all of them in plain R.

ref_kth <- function(points, at, k) {
  of <- if (is.null(at)) points else at
  apply(of, 2, \(y) sort(sqrt(colSums((points - y)^2)))[k + is.null(at)])
}

run_by <- function(...) start_run(settle_control(flash_control(...)))

test_that("distances to the k-th neighbour are those of all pairs", {
  set.seed(7)
  run <- run_by()
  for (d in 1:8) for (n in if (d == 3) c(2, 9, 65, 300) else 130) {
    points <- matrix(stats::rnorm(n * d), d)
    at <- matrix(2 * stats::rnorm(20 * d), d)
    for (k in unique(pmin(c(1, 7, n - 1), n - 1))) {
      expect_equal(kth_distances(points, NULL, k, run), ref_kth(points, NULL, k), tolerance = 1e-14)
      for (few in c(3, 20)) { # in their own order, and in that of a tree
        some <- at[, seq_len(few), drop = FALSE]
        expect_equal(kth_distances(points, some, k, run), ref_kth(points, some, k), tolerance = 1e-14)
      }
    }
    expect_equal(kth_distances(points, at, n, run), ref_kth(points, at, n), tolerance = 1e-14)
  }
})

test_that("whole numbers have exact distances, whatever ties there are", {
  set.seed(8)
  run <- run_by()
  for (d in c(1, 3, 8)) {
    points <- matrix(as.double(sample(0:2, 200 * d, TRUE)), d)
    points[, 101:150] <- points[, 1]
    for (k in c(1, 49, 50, 120, 199)) {
      expect_identical(kth_distances(points, NULL, k, run), ref_kth(points, NULL, k))
      expect_identical(kth_distances(points, points, k, run), ref_kth(points, points, k))
    }
  }
  same <- matrix(3, 2, 300)
  expect_identical(kth_distances(same, NULL, 299, run), numeric(300))
  expect_identical(kth_distances(same, same[, 1:2] + c(3, 4), 5, run), c(5, 5))
})

test_that("distances have the same bits for any threads, order of the points and company", {
  set.seed(9)
  for (k in c(3, 70)) {
    n <- if (k == 3) 20000 else 3000
    points <- matrix(stats::rt(3 * n, 2), 3)
    at <- matrix(stats::rt(3 * 1000, 2), 3)
    order <- sample(n)
    one <- kth_distances(points, NULL, k, run_by(threads = 1))
    expect_identical(kth_distances(points, NULL, k, run_by(threads = 4)), one)
    expect_identical(kth_distances(points[, order], NULL, k, run_by()), one[order])
    there <- kth_distances(points, at, k, run_by())
    expect_identical(kth_distances(points, at[, 4:1], k, run_by()), there[4:1])
    # a point is its own nearest one
    expect_identical(kth_distances(points, points[, 1:100], k + 1, run_by()), one[1:100])
  }
})

test_that("distances of tiny and of huge numbers are found, too", {
  run <- run_by()
  points <- matrix(c(0, 1, 3, 7, 15, 31), 1)
  wanted <- ref_kth(points, NULL, 2)
  for (scale in 2^c(-500, 500)) expect_identical(kth_distances(scale * points, NULL, 2, run), scale * wanted)
  # squares that a double does not hold
  expect_identical(kth_distances(2^600 * points, NULL, 2, run), rep(Inf, 6))
  expect_identical(kth_distances(2^-600 * points, NULL, 2, run), rep(0, 6))
})

test_that("points far apart in one coordinate and equal in the others are ordered by that", {
  points <- rbind(0, 10^seq(-6, 6, length.out = 500), 5)
  expect_equal(kth_distances(points, NULL, 4, run_by()), ref_kth(points, NULL, 4), tolerance = 1e-14)
})

test_that("factors by neighbours are finite where points are equal", {
  data <- list(x = matrix(c(rep(0, 20), 1:5)))
  distances <- neighbour_distances(data, diag(1), 3, run_by())
  expect_identical(distances[1:20], rep(min(distances), 20))
  expect_identical(neighbour_distances(list(x = matrix(1, 9, 1)), diag(1), 3, run_by()), rep(1, 9))
})

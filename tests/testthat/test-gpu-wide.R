# Clusters so far apart that whitened coordinates lose digits which differences of the points still have.

WIDE_BOUNDS <- c(double = 1e-12, single = 2e-5)
WIDE_AT <- c(0, 1, 1e3, 1e8, 1e12)

# One cluster after the other, each in a direction of its own.
wide_points <- function(n, d, at = WIDE_AT) {
  set.seed(n + d)
  towards <- matrix(cos(seq_along(at) * rep(1:d, each = length(at))), ncol = d)
  of <- sort(rep_len(seq_along(at), n))
  (at * towards)[of, , drop = FALSE] + matrix(stats::rnorm(n * d, sd = 0.4), n)
}

wide_matrices <- function(d) {
  H <- diag(seq(0.08, 0.15, length.out = d), d)
  if (d == 1) return(list(diagonal = H))
  full <- H
  full[row(H) != col(H)] <- 0.03
  list(diagonal = H, full = full)
}

# Rows near to some points, and (far) rows in the tails.
wide_rows <- function(x, m, far = 0) {
  y <- x[rep_len(seq(1, nrow(x), by = 3), m), , drop = FALSE] + 0.3 * matrix(sin(seq_len(m * ncol(x))), m)
  y[seq_len(far), 1] <- y[seq_len(far), 1] + 40
  y
}

expect_rows <- function(got, want, size, bound, label) {
  error <- max(abs(as.matrix(got) - want) / size)
  testthat::expect(isTRUE(error <= bound), sprintf("%s: error %.3g is above the bound %.3g.", label, error, bound))
}

# The gradient of the log density, by differences of the points
ref_wide_score <- function(x, y, H) {
  P <- solve(H)
  rows <- apply(y, 1, \(at) {
    z <- x - rep(at, each = nrow(x))
    q <- rowSums((z %*% P) * z)
    k <- exp(-(q - min(q)) / 2)
    P %*% (colSums(k * z) / sum(k))
  })
  matrix(rows, ncol = ncol(x), byrow = TRUE)
}

test_that("sums of clusters far apart keep every digit on a GPU: all kernels, weights, columns", {
  skip_if_no_gpu()
  for (d in c(1, 3, 6)) for (shape in names(wide_matrices(d))) for (kernel in names(ref_kernels)) {
    x <- wide_points(310, d)
    y <- wide_rows(x, 130)
    H <- wide_matrices(d)[[shape]]
    b <- matrix(stats::runif(310 * 21, -1, 2), 310)
    weights <- stats::runif(310)
    for (targets in list(NULL, y)) {
      K <- ref_kernel_matrix(x, if (is.null(targets)) x else targets, H, kernel)
      for (precision in names(WIDE_BOUNDS)) {
        where <- sprintf("%s, d = %d, %s, %s", kernel, d, shape, precision)
        bound <- WIDE_BOUNDS[[precision]]
        sums <- \(b, ...) {
          plain(kernel_sum_by(x, targets, b, H, kernel, tol = 0, ..., control = flash_control("cuda", precision)))
        }
        expect_rows(sums(rep(1, 310)), K %*% rep(1, 310), rowSums(K), bound, where)
        size <- K %*% (weights * abs(b))
        expect_rows(sums(b, weights = weights), K %*% (weights * b), size, bound, paste(where, "columns"))
      }
    }
  }
})

test_that("log densities in the tails of clusters far apart, and leave-one-out values, keep every digit on a GPU", {
  skip_if_no_gpu()
  for (d in c(1, 3, 6)) for (shape in names(wide_matrices(d))) {
    x <- wide_points(310, d)
    y <- wide_rows(x, 150, far = 30)
    lonely <- c(5, 100, 305) # in the tails of the others
    x[lonely, 1] <- x[lonely, 1] + 50
    H <- wide_matrices(d)[[shape]]
    weights <- rep(c(1, 3, 2, 1, 4), 62)
    loo <- vapply(1:310, \(i) ref_log_kde(x[-i, , drop = FALSE], x[i, , drop = FALSE], H), 0)
    for (precision in names(WIDE_BOUNDS)) {
      where <- sprintf("d = %d, %s, %s", d, shape, precision)
      density <- \(...) flash_kde(x, "kde", bandwidth = H, control = flash_control("cuda", precision), ...)
      near <- function(got, want, what) {
        if (precision == "double") return(expect_within(got, want, 1e-12, paste(where, what)))
        expect_promise(got, want, d, precision, paste(where, what))
      }
      near(predict(density(), y, "log_density"), ref_log_kde(x, y, H), "plain")
      near(predict(density(weights = weights), y, "log_density"), ref_log_kde(x, y, H, weights), "weighted")
      near(predict(density(), loo = TRUE, type = "log_density"), loo, "loo")
    }
  }
})

test_that("scores and debiased points of clusters far apart go by differences on a GPU", {
  skip_if_no_gpu()
  for (d in c(1, 3, 6)) for (shape in names(wide_matrices(d))) {
    x <- wide_points(310, d)
    y <- wide_rows(x, 150, far = 30)
    H <- wide_matrices(d)[[shape]]
    want <- ref_wide_score(x, y, H)
    for (precision in names(WIDE_BOUNDS)) {
      where <- sprintf("d = %d, %s, %s", d, shape, precision)
      bound <- WIDE_BOUNDS[[precision]]
      fit <- \(estimator, backend, precision) {
        flash_kde(x, estimator, bandwidth = H, control = flash_control(backend, precision))
      }
      got <- as.matrix(predict(fit("kde", "cuda", precision), y, "score"))
      expect_rows(got, want, pmax(1, sqrt(rowSums(want^2))), 10 * bound, where)
      moved <- as.matrix(fit("sdkde", "cuda", precision)$debiased)
      by_cpu <- as.matrix(fit("sdkde", "cpu", "double")$debiased)
      expect_rows(moved, by_cpu, 1 + abs(by_cpu) * .Machine$double.eps / bound, 10 * bound, paste(where, "debiased"))
    }
  }
})

# In single precision frames serve these, and what no frame takes and the tails go in double.
test_that("sums of clusters that frames can reach are within the promise of single precision", {
  skip_if_no_gpu()
  x <- wide_points(6000, 3, c(0, 1e2, 1e4, 1e6, 1e8))
  x[5990, ] <- 2e8
  y <- wide_rows(x, 3000, far = 300)
  some <- c(1:300, seq(301, 3000, by = 29))
  for (H in wide_matrices(3)) {
    fit <- flash_kde(x, "kde", bandwidth = H, control = flash_control("cuda", "single"))
    at <- y[some, ]
    expect_promise(predict(fit, y, "log_density")[some], ref_log_kde(x, at, H), 3, "single", "log density")
    expect_score_near(predict(fit, y, "score")[some, ], ref_wide_score(x, at, H), H, "single", "score")
  }
})

test_that("what points that reach far have left on a device changes no bit of other sums", {
  skip_if_no_gpu()
  x <- wide_points(4000, 3, c(0, 1e3, 1e5))
  y <- wide_rows(x, 2000)
  fit <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cuda"))
  ask <- \(precision) predict(on_gpu(fit, precision), y, "log_density")
  first <- lapply(c("single", "double"), ask)
  again <- lapply(c("double", "single"), ask)
  expect_identical(again, rev(first))
})

# Not all of the chunks reach far, but whether sums are relative is one answer for all.
test_that("scores of clusters far apart that come by in chunks go by differences on a GPU", {
  skip_if_no_gpu()
  on.exit(kernel_sum(
    0, bandwidth = 1, tol = 0,
    control = flash_control("cuda")
  )) # a limit holds until a call has another one
  x <- wide_points(30000, 3)
  y <- wide_rows(x, 60, far = 5)
  for (H in wide_matrices(3)) for (precision in names(WIDE_BOUNDS)) {
    little <- flash_control("cuda", precision = precision, gpu_memory_limit = 1e7)
    fit <- flash_kde(x, "kde", bandwidth = H, control = little)
    want <- ref_wide_score(x, y, H)
    got <- as.matrix(predict(fit, y, "score"))
    expect_rows(got, want, pmax(1, sqrt(rowSums(want^2))), 10 * WIDE_BOUNDS[[precision]], precision)
  }
})

test_that("matrices of kernels of clusters far apart keep every digit on a GPU", {
  skip_if_no_gpu()
  for (d in c(1, 3, 6)) for (H in wide_matrices(d)) for (kernel in names(ref_kernels)) {
    x <- wide_points(150, d)
    K <- ref_kernel_matrix(x, x, H, kernel)
    sources <- sum_sources(x, NULL, t(chol(H)), check_kernel(kernel), new_plan())
    P <- new_preconditioner(sources, cuda_run(), diagonal = 1)
    expect_lt(max(abs(crossprod(factor_of(P)) - K - diag(1, 150))), 1e-12, label = paste(kernel, "d =", d))
  }
})

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()

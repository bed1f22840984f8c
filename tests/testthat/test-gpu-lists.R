# Sums on a GPU that pass over blocks that are far: points in order along a curve, and lists of what is near. For few
# points they are asked for; "all" has every block on every list.

with_lists <- function(wish, code) with_variable("FLASHKERNEL_CUDA_LISTS", wish, code)

summed_by <- function(fit, y) log_estimate(fit, y, FALSE, fit_control(fit))$stats$method

# Lists are of Hopper's kernels; an estimate says by what it was summed.
skip_if_no_lists <- function() {
  skip_if_no_gpu()
  x <- matrix(as.double(1:64))
  fit <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cuda", "single"))
  by <- with_lists("always", summed_by(fit, x))
  if (by != "wgmma, lists") skip(paste("this GPU sums by", by))
}

# Points that fill many tiles and are far from most others; n and m are no multiples of any tile. So many that frames,
# which most of these need in single precision, are not too small to be taken.
list_cases <- list(
  clusters = \() {
    set.seed(1)
    at <- 200 * matrix(stats::rnorm(3 * 5), 3)
    list(x = at[sample.int(3, 9003, TRUE), ] + matrix(stats::rnorm(9003 * 5), 9003), h = 0.8)
  },
  plane = \() list(x = 60 * matrix(spread_evenly(2 * 12001), ncol = 2), h = 0.5),
  space = \() list(x = 15 * matrix(spread_evenly(3 * 5999), ncol = 3), h = 0.4),
  line = \() list(x = matrix(c(seq(0, 250, length.out = 20001), rep(7, 200))), h = 0.3),
  heavy = \() {
    set.seed(2)
    list(x = matrix(stats::rt(4 * 4999, 3), ncol = 4), h = 0.4)
  },
  # points on a diagonal, a thousand duplicates, and a few far from everything
  thin = \() {
    diagonal <- outer(seq(0, 90, length.out = 9000), rep(1, 12))
    list(x = rbind(diagonal, matrix(3, 1000, 12), 40 * diag(12)), h = 1.5)
  }
)
spread_evenly <- function(n) (seq_len(n) * (sqrt(5) - 1) / 2 + sqrt(seq_len(n))) %% 1

list_case <- function(name) {
  case <- list_cases[[name]]()
  n <- nrow(case$x)
  d <- ncol(case$x)
  at <- case$x[rep_len(seq(1, n, by = 3), 1777), , drop = FALSE] + case$h * rep_len(c(0.3, -0.8, 1.1), 1777)
  # between the points, and far from all of them: rows in the tails
  far <- at[1:90, , drop = FALSE] + case$h * rep(c(6, 30, 1e4), c(40, 40, 10))
  c(case, list(y = rbind(at, far), d = d, weights = rep_len(c(1, 5, 0, 2, 1e-3), n)))
}

# What `ask` gives by lists has the bits that it has where all is on them.
by_lists <- function(label, ask) {
  all <- with_lists("all", ask())
  near <- with_lists("always", ask())
  testthat::expect(identical(near, all), paste0(label, ": passing over what is far changes the bits."))
  near
}

fit_of <- function(case, estimator = "kde", weights = NULL) {
  flash_kde(case$x, estimator, bandwidth = case$h, weights = weights, control = flash_control("cpu", "double"))
}

for (name in names(list_cases)) {
  test_that(paste("sums by lists are those of the CPU, and have the bits of sums over all pairs:", name), {
    skip_if_no_lists()
    case <- list_case(name)
    H <- diag(case$h^2, case$d)
    some <- unique(c(seq(1, nrow(case$y), by = 29), nrow(case$y) - 0:89))
    for (weighted in c(FALSE, TRUE)) for (estimator in if (weighted) "kde" else c("kde", "laplace", "sdkde")) {
      cpu <- fit_of(case, estimator, if (weighted) case$weights)
      type <- if (estimator == "laplace") "density" else "log_density" # of both signs
      want <- predict(cpu, case$y[some, , drop = FALSE], type = type)
      scores <- predict(cpu, case$y[some, , drop = FALSE], type = "score")
      for (precision in c("single", "fast")) {
        where <- paste(name, estimator, precision, if (weighted) "weighted")
        gpu <- on_gpu(cpu, precision)
        expect_identical(with_lists("always", summed_by(gpu, case$y)), "wgmma, lists")
        got <- by_lists(where, \() predict(gpu, case$y, type = type))
        if (estimator == "laplace") {
          size <- abs(want) + predict(fit_of(case), case$y[some, , drop = FALSE])
          expect_l2(got[some], want, l2_bound(precision, case$d), where, size)
        } else {
          expect_promise(got[some], want, case$d, precision, where)
        }
        if (precision == "fast" || estimator == "laplace") next
        got <- by_lists(where, \() predict(gpu, case$y, type = "score"))
        near <- want > -200 # scores further out are of few digits
        expect_score_near(got[some[near], , drop = FALSE], scores[near, , drop = FALSE], H, precision, where)
      }
    }
  })

  test_that(paste("by lists points leave themselves out, and columns are their own:", name), {
    skip_if_no_lists()
    case <- list_case(name)
    for (weights in list(NULL, case$weights)) {
      cpu <- fit_of(case, "kde", weights)
      want <- predict(cpu, loo = TRUE, type = "log_density")
      got <- by_lists(name, \() predict(on_gpu(cpu, "single"), loo = TRUE, type = "log_density"))
      is_number <- is.finite(want)
      expect_identical(is.finite(got), is_number)
      expect_promise(got[is_number], want[is_number], case$d, "single", name)
    }
    n <- nrow(case$x)
    b <- cbind(seq_len(n) %% 7 - 3, 1, cos(seq_len(n)), (seq_len(n) %% 1000 == 0) * 1e6)
    sums <- function(..., columns = b) kernel_sum_by(case$x, case$y, columns, bandwidth = case$h, tol = 0, ...)
    want <- sums(backend = "cpu", precision = "double")
    size <- sums(backend = "cpu", precision = "double", columns = abs(b))
    got <- by_lists(name, \() sums(backend = "cuda", precision = "single"))
    # of the last one sums have a term or two, whose rounding to halves no other takes off
    bounds <- l2_bound("single", case$d) * c(1, 1, 1, 10)
    for (k in seq_len(ncol(b))) expect_l2(got[, k], want[, k], bounds[k], paste(name, k), size[, k])
  })

  test_that(paste("points that are moved by lists go where they go on the CPU:", name), {
    skip_if_no_lists()
    case <- list_case(name)
    moved <- function(...) {
      fit <- flash_kde(case$x, "sdkde", bandwidth = case$h, control = flash_control(...))
      (fit$debiased[, ] - case$x) / case$h
    }
    want <- moved(backend = "cpu", precision = "double")
    got <- by_lists(name, \() moved(backend = "cuda", precision = "single"))
    expect_l2(got, want, 1e-4, name, pmax(1, abs(want)))
  })
}

test_that("points that are near to each other are not put in order, and to ask for it changes no more than digits", {
  skip_if_no_lists()
  x <- example_points(110000, 8)
  y <- x[seq_len(95000), ]
  fit <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cuda", "single"))
  expect_identical(summed_by(fit, y), "wgmma")
  plain <- predict(fit, y, type = "log_density")
  again <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cuda", "single"))
  expect_lt(max(abs(with_lists("always", predict(again, y, type = "log_density")) - plain)), 1e-5)
})

test_that("many points of which few are near are put in order by themselves", {
  skip_if_no_lists()
  x <- 60 * matrix(spread_evenly(2 * 120000), ncol = 2)
  y <- x[1:90000, ] + 0.1
  fit <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cuda", "single"))
  expect_identical(summed_by(fit, y), "wgmma, lists")
  expect_identical(summed_by(fit, y[1:5000, ]), "wgmma")
  some <- seq(1, 90000, by = 900)
  cpu <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cpu", "double"))
  want <- predict(cpu, y[some, ], type = "log_density")
  expect_promise(predict(fit, y, type = "log_density")[some], want, 2, "single", "120,000 points")
})

test_that("sums by lists have the same bits again, and on several devices", {
  skip_if_no_lists()
  case <- list_case("plane")
  sums_on <- function(devices) {
    fits <- lapply(c("kde", "sdkde"), \(estimator) {
      flash_kde(case$x, estimator, bandwidth = case$h, control = flash_control("cuda", "single", devices = devices))
    })
    list(predict(fits[[1]], case$y), predict(fits[[1]], loo = TRUE), fits[[2]]$debiased[, ])
  }
  first <- with_lists("always", sums_on(0))
  expect_identical(with_lists("always", sums_on(0)), first)
  if (length(gpu_info()$index) > 1) expect_identical(with_lists("always", sums_on("all")), first)
})

test_that("in chunks, which points that leave themselves out meet by their places, sums are the same", {
  skip_if_no_lists()
  case <- list_case("space")
  fit <- on_gpu(fit_of(case), "single")
  loo <- \() predict(fit, loo = TRUE, type = "log_density")
  want <- with_lists("always", loo())
  gpu_release()
  got <- with_variable("FLASHKERNEL_CUDA_MEMORY", "5e6", with_lists("always", loo()))
  expect_lt(max(abs(got - want)), 1e-5)
})

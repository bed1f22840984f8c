# Pairs that cannot matter are not computed: exactly as accurate, wherever the points are.

# Points in bandwidths, and where else to estimate; weights.
near_cases <- function(n = 300) {
  halves <- rep(c(0, 1), c(n %/% 2, n - n %/% 2))
  normal <- \(n, d = 2) matrix(stats::rnorm(n * d), n, d)
  list(
    uniform = list(x = matrix(stats::runif(3 * n, 0, 40), n)),
    one_dimension = list(x = matrix(100 * stats::rexp(n))),
    clusters = list(x = 3 * normal(n) + 20000 * rep(c(0, 1), length.out = n)),
    heavy_tails = list(x = 5 * matrix(stats::rt(2 * n, 1), n)),
    duplicates = list(x = 30 * normal(20)[rep(1:20, length.out = n), ]),
    line = list(x = outer(sort(stats::runif(n, 0, 300)), c(1, -2, 0.5))),
    isolated = list(x = rbind(normal(n - 12), 15 * cbind(1:12, (1:12)^1.5))),
    wide = list(x = normal(n) %*% diag(c(1e6, 4))),
    narrow = list(x = normal(n, 9) %*% diag(c(50, 9, 4, rep(1, 6)))),
    weights = list(x = normal(n) + cbind(12 * halves, 0), w = 10^(30 * halves)),
    decades = list(x = 20 * normal(n), w = 10^stats::runif(n, -15, 15)),
    zeros = list(x = 20 * normal(n) + 200 * halves, w = halves)
  )
}

near_targets <- function(x) {
  d <- ncol(x)
  rows <- x[seq(1, nrow(x), length.out = min(nrow(x), 60)), , drop = FALSE]
  rbind(rows + stats::rnorm(length(rows)), rep(500, d), -rep(500, d))
}

# Relative to the sum of the terms' absolute values; of a logarithm far from 0 there are no more digits.
log_sum_error <- function(got, want) {
  error <- ifelse(want$log_abs == got, 0, expm1(got - want$log_abs) * exp(want$log_abs - want$log_size))
  max(abs(error) / pmax(1, abs(want$log_size)))
}

# `sums`: a function. As accurate as over all pairs, where coordinates have few digits left for a distance.
expect_log_sums <- function(sums, want, label) {
  error <- vapply(c("pairs", "near"), \(wish) {
    local_method(wish)
    log_sum_error(sums()$log_abs, want)
  }, 0)
  expect_lte(error[["near"]], max(5e-15, 1.5 * error[["pairs"]]), label = label)
}

logs_of <- function(x, y, w, factor, loo = FALSE, control = control_list("cpu", precision = "double")) {
  log_sum(sum_sources(x, w, diag(ncol(x))), y, factor, loo, control)
}

ref_loo_log_sum <- function(x, w, ...) {
  rows <- lapply(seq_len(nrow(x)), \(i) ref_log_sum(x[-i, , drop = FALSE], x[i, , drop = FALSE], diag(ncol(x)), w[-i], ...))
  list(log_abs = vapply(rows, `[[`, 0, "log_abs"), log_size = vapply(rows, `[[`, 0, "log_size"))
}

test_that("logarithms of sums are those over all pairs, of all points, without the own, and elsewhere", {
  set.seed(1)
  for (n in c(49, 193, 300)) for (name in names(near_cases())) {
    case <- near_cases(n)[[name]]
    x <- case$x
    y <- near_targets(x)
    H <- diag(ncol(x))
    for (factor in list(c(1, 0, 0), c(1 + ncol(x) / 2, -1, 0))) {
      of_q <- \(q) factor[1] + factor[2] * q / 2
      label <- paste(name, n, if (factor[2] < 0) "Laplace")
      expect_log_sums(\() logs_of(x, NULL, case$w, factor), ref_log_sum(x, x, H, case$w, of_q), label)
      expect_log_sums(\() logs_of(x, y, case$w, factor), ref_log_sum(x, y, H, case$w, of_q), paste(label, "elsewhere"))
      expect_log_sums(\() logs_of(x, NULL, case$w, factor, TRUE), ref_loo_log_sum(x, case$w, of_q), paste(label, "loo"))
    }
  }
})

# Blocks of 48 points, each at one place on a line; what each adds to the sums at the first is known.
test_that("a far block is left out only where all that is left out cannot reach the last bit", {
  local_method("near")
  at <- function(places, w, b = NULL) {
    x <- cbind(rep(places, each = 48), 0)
    if (is.null(b)) return(exp(logs_of(x, NULL, rep(w, each = 48), c(1, 0, 0))$log_abs[1]))
    plain(kernel_sum(
      x, NULL, apply(b, 2, rep, each = 48), bandwidth = 1, tol = 0,
      control = flash_control(precision = "double", backend = "cpu")
    ))[1, ]
  }
  # 100 blocks at one distance add 2^-44 of the own together, the more the heavier they are
  distance <- \(share) sqrt(-2 * log(share))
  for (heavy in c(1, 1e10, 1e30)) {
    places <- c(0, rep(distance(2^-44 / 100 / heavy), 100))
    expect_within(at(places, c(1, rep(heavy, 100))) / 48, 1 + 2^-44, 2^-48, paste("weights of", heavy))
  }
  # a column without a number near by, and small ones before a large one
  got <- at(c(0, 8, 11), NULL, cbind(1, c(0, 1e-30, 1)))
  expect_within(got[2] / (48 * exp(-60.5)), 1, 1e-13)
})

test_that("of sums with a factor all terms count by their sizes", {
  # without its own, each point of a lattice has a negative sum, of neighbours at 3 bandwidths
  lattice <- 3 * as.matrix(expand.grid(0:3, 0:3, 0:2))
  x <- rbind(lattice, matrix(c(4.5, 4.5, 18), 48, 3, byrow = TRUE))
  w <- rep(c(1, 1e32), each = 48)
  of_q <- \(q) 2.5 - q / 2
  expect_log_sums(\() logs_of(x, NULL, w, c(2.5, -1, 0), TRUE), ref_loo_log_sum(x, w, of_q), "lattice")
})

test_that("one point and a block of points are summed as any others", {
  for (n in c(1, 2, 47, 48)) {
    x <- matrix(seq_len(2 * n) * 1.7, n)
    expect_log_sums(\() logs_of(x, NULL, NULL, c(1, 0, 0)), ref_log_sum(x, x, diag(2)), paste("n =", n))
  }
  local_method("near")
  expect_identical(logs_of(matrix(1, 1, 2), NULL, NULL, c(1, 0, 0), TRUE)$log_abs, -Inf)
})

test_that("scores and debiased points are those over all pairs", {
  local_method("near")
  set.seed(2)
  for (name in c("uniform", "clusters", "heavy_tails", "weights", "decades")) {
    case <- near_cases()[[name]]
    H <- diag(ncol(case$x))
    fit <- \(estimator) flash_kde(case$x, estimator, bandwidth = H, weights = case$w, control = flash_control(backend = "cpu"))
    y <- near_targets(case$x)
    expect_within(predict(fit("kde"), y, type = "score"), ref_score(case$x, y, H, case$w), 1e-9, name)
    expect_within(fit("sdkde")$debiased, ref_debias(case$x, H, weights = case$w), 1e-9, name)
  }
})

# Rows whose sums underflow, of one term, of some, of more than a row keeps, and of terms that cancel.
test_that("rows in the tails are those over all pairs, whatever their largest terms are", {
  set.seed(8)
  far <- cbind(50 + 0.1 * stats::rnorm(400), 0)
  crowd <- 1e-3 * matrix(stats::rnorm(6000), ncol = 2)
  lattice <- unname(as.matrix(expand.grid(1:12, 1:12))) + 0
  spread <- 1000 * matrix(stats::rnorm(1000), ncol = 2)
  decades <- 10^stats::runif(400, -300, 300)
  cases <- list(
    crowd = list(x = crowd, y = far), spread = list(x = spread, y = far), lattice = list(x = lattice, y = far),
    decades = list(x = spread[1:400, ], y = far, w = decades),
    zeros = list(x = rbind(far, lattice), y = far, w = rep(c(0, 1), c(400, 144)))
  )
  for (name in names(cases)) for (factor in list(c(1, 0, 0), c(2, -1, 0))) {
    case <- cases[[name]]
    want <- ref_log_sum(case$x, case$y, diag(2), case$w, \(q) factor[1] + factor[2] * q / 2)
    expect_log_sums(\() logs_of(case$x, case$y, case$w, factor), want, name)
    expect_gt(logs_of(case$x, case$y, case$w, factor)$stats$tail_rows, if (name == "decades") 100 else 300)
  }
  loo <- \(wish) {
    local_method(wish)
    logs_of(spread, NULL, NULL, c(1, 0, 0), TRUE)$log_abs
  }
  expect_lt(max(abs(loo("near") / loo("pairs") - 1)), 5e-14) # of a distance between coordinates in the thousands
  scores <- \(wish) {
    local_method(wish)
    score_sum(sum_sources(lattice, NULL, diag(2)), far, ESTIMATORS$laplace$factor(2), FALSE, NULL, control_list("cpu"))$score
  }
  expect_within(scores("near"), scores("pairs"), 1e-12 * 50)
  pairs <- rbind(lattice, lattice)
  b <- rep(c(1e300, -1e300, 1e-300), c(144, 143, 1))
  sums <- \(wish) {
    local_method(wish)
    plain(kernel_sum(
      pairs, far, b, bandwidth = 1, tol = 0,
      control = flash_control(precision = "double", backend = "cpu")
    ))
  }
  expect_within(sums("near"), sums("pairs"), 1e-13 * max(abs(sums("pairs"))))
})

test_that("signed columns have the accuracy of each column's own terms, with every kernel that decays", {
  local_method("near")
  set.seed(3)
  n <- 500
  x <- matrix(stats::runif(2 * n, 0, 60), n)
  block <- order(x[, 1]) <= n / 2
  b <- cbind(
    one = 1, signed = stats::rnorm(n), cancel = rep_len(c(1, -1), n), half = ifelse(block, 0, 1),
    wide = stats::rnorm(n) * 10^stats::runif(n, -15, 15), zero = 0
  )
  y <- rbind(x[1:50, ] + 0.2, c(-300, 0))
  sums <- \(b, at, kernel) {
    vapply(c("pairs", "near"), \(wish) {
      local_method(wish)
      plain(kernel_sum(
        x, at, b, bandwidth = 1, kernel = kernel, tol = 0,
        control = flash_control(precision = "double", backend = "cpu")
      ))
    }, matrix(0, NROW(if (is.null(at)) x else at), ncol(b)))
  }
  for (kernel in c("gaussian", "laplacian", "matern32", "matern52")) for (at in list(NULL, y)) {
    K <- ref_kernel_matrix(x, if (is.null(at)) x else at, diag(2), kernel)
    size <- K %*% abs(b)
    # of a logarithm far from 0 there are no more digits
    error <- \(got, size, want) max(ifelse(size > 1e-290, abs(got - want) / size / pmax(1, -log(size)), abs(got - want)))
    got <- sums(b, at, kernel)
    expect_lt(error(got[, , "near"], size, K %*% b), 1e-13, label = kernel)
    expect_lt(error(got[, , "near"], size, got[, , "pairs"]), 5e-15, label = paste(kernel, "both ways"))
    one <- sums(b[, "wide", drop = FALSE], at, kernel)
    expect_lt(error(one[, , "near"], size[, 5], one[, , "pairs"]), 5e-15, label = paste(kernel, "one column"))
  }
})

test_that("single precision leaves out no more than it rounds", {
  local_method("near")
  set.seed(4)
  in_single <- control_list("cpu", precision = "single")
  for (name in c("uniform", "line", "duplicates", "narrow")) {
    case <- near_cases()[[name]]
    want <- ref_log_sum(case$x, case$x, diag(ncol(case$x)))
    sums <- logs_of(case$x, NULL, NULL, c(1, 0, 0), control = in_single)
    expect_lt(max(abs(sums$log_abs - want$log_abs)), 3e-5, label = name)
  }
})

test_that("results have the same bits for any number of threads, and whether the blocks are kept or not", {
  local_method("near")
  set.seed(5)
  x <- near_cases(3000)$heavy_tails$x
  y <- near_targets(x)
  runs <- list(
    \(fit) predict(fit, loo = TRUE, type = "log_density"), \(fit) predict(fit, type = "score"), \(fit) predict(fit, y)
  )
  fit <- \(threads) flash_kde(x, "kde", bandwidth = diag(2), control = flash_control(backend = "cpu", threads = threads))
  stays <- fit(2)
  for (run in runs) {
    first <- run(stays)
    expect_identical(run(fit(1)), first)
    expect_identical(run(stays), first)
  }
})

test_that("pairs are left out where that pays, and nothing changes where all is near", {
  set.seed(6)
  far <- matrix(stats::rnorm(24000), ncol = 2) + 1000 * sample(8, 12000, TRUE)
  sums <- logs_of(far, NULL, NULL, c(1, 0, 0), TRUE)
  expect_gt(sums$stats$skipped / sums$stats$pairs, 0.8)
  elsewhere <- logs_of(far, far + 0.1, NULL, c(1, 0, 0))
  expect_gt(elsewhere$stats$skipped / elsewhere$stats$pairs, 0.8)
  near <- matrix(stats::rnorm(24000), ncol = 2)
  sums <- logs_of(near, NULL, NULL, c(1, 0, 0), TRUE)
  expect_identical(sums$stats$skipped, 0)
  local_method("pairs")
  expect_identical(logs_of(far, NULL, NULL, c(1, 0, 0), TRUE)$stats$skipped, 0)
  expect_identical(logs_of(near, NULL, NULL, c(1, 0, 0), TRUE)$log_abs, sums$log_abs)
})

test_that("diagnostics tell the share of the pairs that was computed", {
  set.seed(7)
  x <- matrix(stats::rnorm(24000), ncol = 2) + 1000 * sample(8, 12000, TRUE)
  fit <- flash_kde(x, "sdkde", bandwidth = matrix(c(1, 0.3, 0.3, 1), 2), control = flash_control(backend = "cpu"))
  stages <- diagnostics(fit)$stages
  expect_lt(stages$kept[stages$stage == "debias"], 0.2)
  expect_output(print(diagnostics(fit)), "kept")
  sums <- kernel_sum(x, b = rep(1, 12000), bandwidth = 1, control = flash_control(backend = "cpu"), tol = 0)
  expect_lt(diagnostics(sums)$kept, 0.2)
  expect_output(print(diagnostics(sums)), "of which 0.1.* kept")
  expect_identical(diagnostics(kernel_sum(x[1:9, ], bandwidth = 1, control = flash_control(backend = "cpu")))$kept, 1)
})
